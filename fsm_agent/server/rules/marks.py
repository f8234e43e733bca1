"""Rules on cache marks and on the system prompt (api-facts A11)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .base import Rule, Wire, at, rule

_MAX_MARKS = 4
_LIFETIMES = ("5m", "1h")


def _marked(wire: Wire) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Give what carries a cache mark, in the order of the cached prefix: tools, system, messages."""
    for name in ("tools", "system"):
        listed = wire.body.get(name)
        for place, item in enumerate(listed if isinstance(listed, list) else ()):
            if isinstance(item, Mapping) and item.get("cache_control") is not None:
                yield f"{name}.{place}", item
    for turn in wire.turns:
        for message, place, block in turn.blocks:
            if block.get("cache_control") is not None:
                yield at(message, place), block
            content = block.get("content") if block.get("type") == "tool_result" else None
            for deep, part in enumerate(content if isinstance(content, list) else ()):
                if isinstance(part, Mapping) and part.get("cache_control") is not None:
                    yield at(message, place, f"content.{deep}"), part
    if wire.body.get("cache_control") is not None:
        yield "", wire.body


@rule("cache_marks", "api-facts A11")
def cache_marks(wire: Wire) -> Iterator[tuple[str, str]]:
    """At most four cache marks, longer ones first, none on thinking."""
    marked = list(_marked(wire))
    if len(marked) > _MAX_MARKS:
        yield "", f"A maximum of {_MAX_MARKS} blocks with cache_control may be provided. Found {len(marked)}."
    short = ""
    for path, item in marked:
        where = f"{path}.cache_control" if path else "cache_control"
        mark = item["cache_control"]
        if not isinstance(mark, Mapping) or mark.get("type") != "ephemeral":
            yield where, "Input should be 'ephemeral'"
            continue
        ttl = mark.get("ttl", "5m")
        if ttl not in _LIFETIMES:
            yield f"{where}.ttl", "Input should be '5m' or '1h'"
        elif ttl == "1h" and short:
            yield where, f"a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block, found at {short}"
        elif ttl == "5m":
            short = where
        if item.get("type") in ("thinking", "redacted_thinking"):
            yield where, "Extra inputs are not permitted"


@rule("system", "api-facts A2")
def system(wire: Wire) -> Iterator[tuple[str, str]]:
    """The system prompt is a text or a list of text blocks."""
    prompt = wire.body.get("system")
    if prompt is None or isinstance(prompt, str):
        return
    if not isinstance(prompt, list):
        yield "system", "Input should be a valid string or a list of text blocks"
        return
    for place, block in enumerate(prompt):
        if not isinstance(block, Mapping) or block.get("type") != "text" or not isinstance(block.get("text"), str):
            yield f"system.{place}", "Input should be a text block"


RULES: tuple[Rule, ...] = (cache_marks, system)
