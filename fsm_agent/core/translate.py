"""Failed and lost effects, read as the answer of their kind before the lookup (spec 01, section 6)."""

from __future__ import annotations

from . import texts
from .blocks import tool_result
from .config import LoopConfig
from .control import Control, Flight
from .effects import EffectKind
from .events import (
    AttachmentsGathered,
    CollapseFailed,
    CompactionFailed,
    EffectFailed,
    EffectLost,
    Event,
    EventKind,
    Outcome,
    PrefetchFinished,
    StopHooksFinished,
    StreamFailed,
    TimerFired,
    ToolFinished,
    ToolUseSummaryReady,
)
from .failures import ErrorKind, ModelFailure

ANSWERS: dict[EffectKind, frozenset[EventKind]] = {
    EffectKind.CALL: frozenset(
        {EventKind.STREAM_STARTED, EventKind.BLOCK_COMPLETED, EventKind.STREAM_COMPLETED, EventKind.STREAM_FAILED}
    ),
    EffectKind.TOOL: frozenset({EventKind.TOOL_STARTED, EventKind.TOOL_PROGRESSED, EventKind.TOOL_FINISHED}),
    EffectKind.COMPACT: frozenset({EventKind.COMPACTION_FINISHED, EventKind.COMPACTION_FAILED}),
    EffectKind.COLLAPSE: frozenset({EventKind.COLLAPSE_STAGED, EventKind.COLLAPSE_FAILED}),
    EffectKind.ATTACHMENTS: frozenset({EventKind.ATTACHMENTS_GATHERED}),
    EffectKind.MEMORY: frozenset({EventKind.PREFETCH_FINISHED}),
    EffectKind.SKILLS: frozenset({EventKind.PREFETCH_FINISHED}),
    EffectKind.SUMMARY: frozenset({EventKind.TOOL_USE_SUMMARY_READY}),
    EffectKind.HOOKS: frozenset({EventKind.STOP_HOOKS_FINISHED}),
    EffectKind.TIMER: frozenset({EventKind.TIMER_FIRED}),
}
"""Which events answer an effect; a failed or lost one answers any."""

LOST = ModelFailure(kind=ErrorKind.CONNECTION_LOST, message="the process ended while this was in flight")


def failed(event: EffectFailed, flight: Flight) -> Event:
    """Read a failed effect as the failing answer of its kind."""
    words = event.failure.message or event.failure.kind.value
    match flight.kind:
        case EffectKind.CALL:
            kind = ErrorKind.ENGINE_ERROR
            return StreamFailed(id=event.id, failure=ModelFailure(kind=kind, message=words), usage=event.usage)
        case EffectKind.TOOL:
            block = tool_result(flight.call, f"The tool could not be run: {words}", is_error=True)
            return ToolFinished(id=event.id, outcome=Outcome.FAILED, result=block, usage=event.usage)
        case EffectKind.COMPACT:
            return CompactionFailed(id=event.id, failure=event.failure, usage=event.usage)
        case EffectKind.COLLAPSE:
            return CollapseFailed(id=event.id, failure=event.failure, usage=event.usage)
        case EffectKind.ATTACHMENTS:
            return AttachmentsGathered(id=event.id, warnings=(f"Attachments could not be gathered: {words}",))
        case EffectKind.MEMORY | EffectKind.SKILLS:
            return PrefetchFinished(id=event.id, usage=event.usage)
        case EffectKind.SUMMARY:
            return ToolUseSummaryReady(id=event.id, usage=event.usage)
        case EffectKind.HOOKS:
            return StopHooksFinished(id=event.id, warnings=(f"Stop hooks could not be run: {words}",), usage=event.usage)
        case EffectKind.TIMER:
            return TimerFired(id=event.id)


def lost(event: EffectLost, flight: Flight, control: Control, config: LoopConfig) -> Event:
    """Read a lost effect as an answer, where the table has no row that issues it again.

    A call to the model is a lost connection; a tool that had begun has an unknown outcome; background work is
    dropped; what a crash keeps killing is given up after ``max_resumes`` re-issues.
    """
    match flight.kind:
        case EffectKind.CALL:
            return StreamFailed(id=event.id, failure=LOST)
        case EffectKind.TOOL:
            started = any(call.started for call in control.tools.calls if call.effect == event.id)
            if started:
                block = tool_result(flight.call, texts.UNKNOWN_CRASH, is_error=True)
                return ToolFinished(id=event.id, outcome=Outcome.FAILED, result=block)
        case EffectKind.COLLAPSE | EffectKind.MEMORY | EffectKind.SKILLS | EffectKind.SUMMARY:
            return failed(EffectFailed(id=event.id, failure=LOST), flight)
        case EffectKind.COMPACT | EffectKind.ATTACHMENTS | EffectKind.HOOKS | EffectKind.TIMER:
            pass
    if control.wait.resumes >= config.max_resumes:
        return failed(EffectFailed(id=event.id, failure=LOST), flight)
    return event
