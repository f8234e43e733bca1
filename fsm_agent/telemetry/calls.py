"""Model calls: the SDK's own span gets what only the engine reads from the stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from contextvars import ContextVar
from time import perf_counter
from typing import Any

from attrs import define
from opentelemetry import trace
from opentelemetry.metrics import Histogram
from opentelemetry.trace import Span, Status, StatusCode

from ..core.effects import CallModel
from ..core.events import StreamCompleted, StreamFailed, StreamStarted
from ..core.outputs import TextDelta, ThinkingDelta
from ..core.usage import ModelUsage
from ..runtime.hooks.runner import RUN_FIELDS
from ..runtime.ports import Model, ModelItem


@define(eq=False)
class _Cell:
    """Where the SDK's span of the call at hand is put."""

    span: Span | None = None


_CELL: ContextVar[_Cell | None] = ContextVar("fsm_agent_call_span", default=None)


async def note_span(request: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
    """Keep the span that the SDK made for this call; it runs inside it."""
    cell = _CELL.get()
    if cell is not None:
        span = trace.get_current_span()
        cell.span = span if span.is_recording() else None
        session = RUN_FIELDS.get().get("session_id")
        if cell.span is not None and session:
            cell.span.set_attribute("gen_ai.conversation.id", str(session))
    return await call_next(request)


class TracedModel:
    """Records model calls. Implements :class:`~fsm_agent.runtime.ports.Model`.

    Args:
        inner: performs the calls.
        duration: takes seconds of calls.
        tokens: takes tokens of calls.
        first: takes seconds to the first piece.
    """

    def __init__(self, inner: Model, *, duration: Histogram, tokens: Histogram, first: Histogram) -> None:
        self._inner = inner
        self._duration = duration
        self._tokens = tokens
        self._first = first

    async def stream(self, effect: CallModel) -> AsyncGenerator[ModelItem, None]:
        """Perform one attempt, and look on."""
        cell = _Cell()
        _CELL.set(cell)
        begun = perf_counter()
        started = True
        labels = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "anthropic",
            "gen_ai.request.model": effect.request.model,
        }
        try:
            async with aclosing(self._inner.stream(effect)) as items:
                async for item in items:
                    if isinstance(item, StreamStarted):
                        _set(cell.span, {"gen_ai.response.id": item.message_id, "gen_ai.response.model": item.model})
                    elif started and isinstance(item, TextDelta | ThinkingDelta):
                        started = False
                        waited = perf_counter() - begun
                        _set(cell.span, {"gen_ai.response.time_to_first_chunk": waited})
                        self._first.record(waited, labels)
                    elif isinstance(item, StreamCompleted):
                        _completed(cell.span, item)
                        self._count(item.usage, labels)
                    elif isinstance(item, StreamFailed):
                        labels["error.type"] = item.failure.kind.value
                        _failed(cell.span, item)
                        self._count(item.usage, labels)
                    yield item
        finally:
            self._duration.record(perf_counter() - begun, labels)

    def _count(self, usage: tuple[ModelUsage, ...], labels: dict[str, str]) -> None:
        for used in usage:
            shared = {**labels, "gen_ai.response.model": used.model}
            self._tokens.record(input_tokens(used), {**shared, "gen_ai.token.type": "input"})
            self._tokens.record(used.output_tokens, {**shared, "gen_ai.token.type": "output"})


def input_tokens(used: ModelUsage) -> int:
    """Give the input tokens as the conventions count them: those of the cache among them."""
    return used.input_tokens + used.cache_creation_tokens + used.cache_read_tokens


def usage_attributes(usage: tuple[ModelUsage, ...]) -> dict[str, int]:
    """Give the usage attributes of a span."""
    if not usage:
        return {}
    return {
        "gen_ai.usage.input_tokens": sum(map(input_tokens, usage)),
        "gen_ai.usage.output_tokens": sum(used.output_tokens for used in usage),
        "gen_ai.usage.cache_read.input_tokens": sum(used.cache_read_tokens for used in usage),
        "gen_ai.usage.cache_creation.input_tokens": sum(used.cache_creation_tokens for used in usage),
    }


def _completed(span: Span | None, item: StreamCompleted) -> None:
    _set(span, {**usage_attributes(item.usage), "gen_ai.response.finish_reasons": (item.stop_reason or "none",)})
    if span is not None and span.is_recording():
        span.set_status(Status(StatusCode.OK))


def _failed(span: Span | None, item: StreamFailed) -> None:
    _set(span, {**usage_attributes(item.usage), "error.type": item.failure.kind.value})
    if span is not None and span.is_recording():
        span.set_status(Status(StatusCode.ERROR, item.failure.kind.value))


def _set(span: Span | None, attributes: dict[str, Any]) -> None:
    if span is not None and span.is_recording():  # the SDK closed it already where the API answered with an error
        span.set_attributes(attributes)
