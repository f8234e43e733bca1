"""Spans: when each effect was asked for, began and ended, by the wall clock of the log."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from attrs import evolve, frozen

from ..core.effects import (
    CallModel,
    Cancel,
    Compact,
    Effect,
    EffectKind,
    GatherAttachments,
    RunStopHooks,
    RunTool,
    StageCollapse,
    StartPrefetch,
    StartTimer,
    SummarizeToolUse,
)
from ..core.events import (
    BlockCompleted,
    CollapseFailed,
    CompactionFailed,
    EffectFailed,
    EffectLost,
    Event,
    StreamCompleted,
    StreamFailed,
    StreamStarted,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
)
from ..core.failures import ModelFailure
from ..core.usage import ModelUsage
from .story import Told


class How(StrEnum):
    """How a span ended."""

    OK = "ok"
    ERROR = "error"
    """It ran, and reports a failure."""
    FAILED = "failed"
    """It could not be performed."""
    CANCELLED = "cancelled"
    OPEN = "open"
    """The log ends before it did."""


@frozen
class Span:
    """One effect over time. Times are milliseconds since 1970, ``*_seq`` are sequence numbers of records.

    Attributes:
        id: the effect's id.
        kind: the kind of effect.
        name: the tool, the model, or the kind of compaction; empty for others.
        call: tool_use id of a tool.
        issued: when it was asked for.
        issued_seq: the record that asked for it.
        started: when the body of a tool, or the stream of a call, began; None if it did not.
        started_seq: the record that says so, 0 if there is none.
        ended: when its answer came, or it was cancelled; None if the log ends before.
        ended_seq: the record that says so, 0 if there is none.
        how: how it ended.
        detail: the stop reason, or the failure.
        usage: what it used.
    """

    id: str
    kind: EffectKind
    name: str
    call: str
    issued: int
    issued_seq: int
    started: int | None = None
    started_seq: int = 0
    ended: int | None = None
    ended_seq: int = 0
    how: How = How.OPEN
    detail: str = ""
    usage: tuple[ModelUsage, ...] = ()


class SpanBook:
    """Collects spans from a story."""

    def __init__(self) -> None:
        self._spans: dict[str, Span] = {}

    @property
    def spans(self) -> tuple[Span, ...]:
        """All spans so far, in the order in which they were asked for."""
        return tuple(self._spans.values())

    def find(self, identity: str) -> Span | None:
        """Give the span of an effect, None if it is not known."""
        return self._spans.get(identity)

    def add(self, told: Told) -> None:
        """Take one step of the story."""
        self._answer(told.record.event, told.at, told.record.seq)
        for effect in () if told.step is None else told.step.effects:
            if isinstance(effect, Cancel):
                self._end(effect.id, told, How.CANCELLED, "")
                continue
            opened = _opened(effect, told.at, told.record.seq)
            if opened is not None:
                self._spans[opened.id] = opened

    def _end(self, identity: str, told: Told, how: How, detail: str, usage: tuple[ModelUsage, ...] = ()) -> None:
        self._finish(identity, told.at, told.record.seq, how, detail, usage)

    def _finish(self, identity: str, at: int, seq: int, how: How, detail: str, usage: tuple[ModelUsage, ...] = ()) -> None:
        span = self._spans.get(identity)
        if span is not None and span.ended is None:
            self._spans[identity] = evolve(span, ended=at, ended_seq=seq, how=how, detail=detail, usage=usage)

    def _answer(self, event: Event, at: int, seq: int) -> None:
        identity = getattr(event, "id", "")
        if not identity:
            return
        usage: tuple[ModelUsage, ...] = getattr(event, "usage", ())
        match event:
            case StreamStarted() | ToolStarted():
                self._begin(event, at, seq)
            case BlockCompleted() | ToolProgressed():
                pass
            case StreamCompleted(stop_reason=reason):
                self._finish(identity, at, seq, How.OK, reason or "", usage)
            case ToolFinished(outcome=outcome):
                self._finish(identity, at, seq, How(outcome.value), "", usage)
            case StreamFailed(failure=failure):
                self._finish(identity, at, seq, How.ERROR, _words(failure), usage)
            case CompactionFailed(failure=failure) | CollapseFailed(failure=failure) | EffectFailed(failure=failure):
                self._finish(identity, at, seq, How.FAILED, _words(failure), usage)
            case EffectLost():
                self._finish(identity, at, seq, How.FAILED, "the process ended while this was in flight")
            case _:
                self._finish(identity, at, seq, How.OK, "", usage)

    def _begin(self, event: StreamStarted | ToolStarted, at: int, seq: int) -> None:
        span = self._spans.get(event.id)
        if span is None:
            # Without the fold the effect itself is not known, only that it began.
            kind = EffectKind.TOOL if isinstance(event, ToolStarted) else EffectKind.CALL
            name = event.model if isinstance(event, StreamStarted) else ""
            span = Span(event.id, kind, name, "", at, seq)
        self._spans[event.id] = evolve(span, started=at, started_seq=seq)


def collect_spans(story: Iterable[Told]) -> tuple[Span, ...]:
    """Give the spans of a whole story."""
    book = SpanBook()
    for told in story:
        book.add(told)
    return book.spans


def _words(failure: ModelFailure) -> str:
    return f"{failure.kind.value}: {failure.message}" if failure.message else failure.kind.value


def _opened(effect: Effect, at: int, seq: int) -> Span | None:
    match effect:
        case CallModel(request=request):
            return Span(effect.id, EffectKind.CALL, request.model, "", at, seq)
        case RunTool():
            return Span(effect.id, EffectKind.TOOL, effect.name, effect.tool_use_id, at, seq)
        case Compact():
            return Span(effect.id, EffectKind.COMPACT, effect.kind.value, "", at, seq)
        case StageCollapse():
            return Span(effect.id, EffectKind.COLLAPSE, effect.span.rpartition("/")[2], "", at, seq)
        case GatherAttachments():
            return Span(effect.id, EffectKind.ATTACHMENTS, "", "", at, seq)
        case StartPrefetch():
            return Span(effect.id, EffectKind(effect.kind.value), "", "", at, seq)
        case SummarizeToolUse():
            return Span(effect.id, EffectKind.SUMMARY, "", "", at, seq)
        case RunStopHooks():
            return Span(effect.id, EffectKind.HOOKS, "", "", at, seq)
        case StartTimer():
            return Span(effect.id, EffectKind.TIMER, f"{effect.delay_ms} ms", "", at, seq)
        case _:
            return None
