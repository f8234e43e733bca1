"""Usage: tokens by model and cost in micro-dollars. Integers only (spec 01, section 1)."""

from __future__ import annotations

from collections.abc import Iterable

from .frozen import frozen


@frozen
class ModelUsage:
    """What was used of one model.

    Attributes:
        model: the model's name.
        input_tokens: uncached prompt tokens.
        output_tokens: tokens of the reply, thinking included.
        cache_creation_tokens: prompt tokens written to the cache.
        cache_read_tokens: prompt tokens read from the cache.
        cost: micro-dollars.
    """

    model: str
    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_tokens: int = 0
    cache_read_tokens: int = 0
    cost: int = 0


def add_usage(total: tuple[ModelUsage, ...], more: Iterable[ModelUsage]) -> tuple[ModelUsage, ...]:
    """Sum two usages by model; the order is that of first appearance."""
    merged = {usage.model: usage for usage in total}
    for usage in more:
        old = merged.get(usage.model)
        merged[usage.model] = (
            usage
            if old is None
            else ModelUsage(
                usage.model,
                old.input_tokens + usage.input_tokens,
                old.output_tokens + usage.output_tokens,
                old.cache_creation_tokens + usage.cache_creation_tokens,
                old.cache_read_tokens + usage.cache_read_tokens,
                old.cost + usage.cost,
            )
        )
    return tuple(merged.values())


def total_cost(usage: Iterable[ModelUsage]) -> int:
    """Sum the cost in micro-dollars."""
    total = 0
    for item in usage:
        total += item.cost
    return total


def total_output(usage: Iterable[ModelUsage]) -> int:
    """Sum the output tokens."""
    total = 0
    for item in usage:
        total += item.output_tokens
    return total
