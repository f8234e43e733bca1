"""Usage of one reply, from the raw ``usage`` objects of its events (api-facts A6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from ..core.usage import ModelUsage, add_usage


@frozen
class Counts:
    """Tokens of one iteration, as the API counts them.

    Attributes:
        input: uncached prompt tokens.
        output: tokens of the reply, thinking included.
        cache_write: prompt tokens written to the cache.
        cache_write_hour: those of them that are kept for an hour.
        cache_read: prompt tokens read from the cache.
    """

    input: int = 0
    output: int = 0
    cache_write: int = 0
    cache_write_hour: int = 0
    cache_read: int = 0

    @property
    def total(self) -> int:
        """All tokens that stand in the context afterwards."""
        return self.input + self.output + self.cache_write + self.cache_read


Price = Callable[[str, Counts], int]
"""Cost in micro-dollars of these tokens on the model of this name."""

_LIMIT = 10**12


def natural(value: object) -> int:
    """Read a count that may be missing, null or nonsense; anything that is no natural number counts as 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0
    return int(value) if 0 < value < _LIMIT else 0


def merge_usage(old: Mapping[str, Any], new: object) -> dict[str, Any]:
    """Merge two usage objects of one stream: the last value of each field wins, null leaves it as it was."""
    merged = dict(old)
    if not isinstance(new, Mapping):
        return merged
    for key, value in new.items():
        if value is None:
            continue
        before = merged.get(key)
        merged[key] = {**before, **value} if isinstance(before, Mapping) and isinstance(value, Mapping) else value
    return merged


def read_counts(raw: Mapping[str, Any]) -> Counts:
    """Read the counts of a usage object or of one of its iterations."""
    split = raw.get("cache_creation")
    parts = split if isinstance(split, Mapping) else {}
    hour = natural(parts.get("ephemeral_1h_input_tokens"))
    short = natural(parts.get("ephemeral_5m_input_tokens"))
    write = natural(raw.get("cache_creation_input_tokens")) or hour + short
    return Counts(
        input=natural(raw.get("input_tokens")),
        output=natural(raw.get("output_tokens")),
        cache_write=write,
        cache_write_hour=min(hour, write),
        cache_read=natural(raw.get("cache_read_input_tokens")),
    )


def _iterations(raw: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    items = raw.get("iterations")
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []


def read_usage(raw: Mapping[str, Any], model: str, price: Price) -> tuple[ModelUsage, ...]:
    """Read what a call is billed for.

    Args:
        raw: the merged usage object.
        model: the model that answered, for entries that name none.
        price: what tokens cost.

    Returns:
        Usage by model: the sum of ``iterations`` where they are present, since the top level leaves compactions
        out, else the top level. Empty if nothing was counted.
    """
    entries = _iterations(raw) or [raw]
    used: tuple[ModelUsage, ...] = ()
    for entry in entries:
        counts = read_counts(entry)
        if not counts.total:
            continue
        named = entry.get("model")
        name = named if isinstance(named, str) and named else model
        usage = ModelUsage(
            model=name,
            input_tokens=counts.input,
            output_tokens=counts.output,
            cache_creation_tokens=counts.cache_write,
            cache_read_tokens=counts.cache_read,
            cost=price(name, counts),
        )
        used = add_usage(used, (usage,))
    return used


def context_tokens(raw: Mapping[str, Any]) -> int:
    """Give the size of the context after the call, in tokens; 0 if unknown.

    It is that of the last iteration that produced the reply (``message``, or ``fallback_message`` where another
    model took over), never of a compaction; without iterations, that of the top level.
    """
    replies = [item for item in _iterations(raw) if item.get("type") in ("message", "fallback_message")]
    return read_counts(replies[-1] if replies else raw).total
