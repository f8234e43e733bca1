"""Cells without rows: each ignores or rejects its event, and says why."""

from __future__ import annotations

from ..events import EVENT_KINDS, USER_KINDS, EventKind
from ..phases import TERMINAL_SET, TRANSIENT, Phase
from ..table import Ignore, Reject, Row

STALE = "stale"
"""Name of the ignore that an answer takes whose effect was issued earlier and is no longer in flight."""

_WAITS_FOR = {
    EventKind.STREAM_STARTED: "a model call",
    EventKind.BLOCK_COMPLETED: "a model call",
    EventKind.STREAM_COMPLETED: "a model call",
    EventKind.STREAM_FAILED: "a model call",
    EventKind.TOOL_STARTED: "a tool",
    EventKind.TOOL_PROGRESSED: "a tool",
    EventKind.TOOL_FINISHED: "a tool",
    EventKind.COMPACTION_FINISHED: "a compaction",
    EventKind.COMPACTION_FAILED: "a compaction",
    EventKind.COLLAPSE_STAGED: "a collapse",
    EventKind.COLLAPSE_FAILED: "a collapse",
    EventKind.STOP_HOOKS_FINISHED: "stop hooks",
    EventKind.ATTACHMENTS_GATHERED: "attachments",
    EventKind.PREFETCH_FINISHED: "a prefetch",
    EventKind.TOOL_USE_SUMMARY_READY: "a summary of tools",
    EventKind.TIMER_FIRED: "a timer",
}


def _because(phase: Phase, event: EventKind) -> str:
    if event is EventKind.EFFECT_FAILED:
        return "it is read as the failing answer of its effect before the lookup"
    if phase in TERMINAL_SET:
        if event is EventKind.COMMAND_QUEUED:
            return "the run is over; the command stays with its sender"
        if event in USER_KINDS:
            return "the run is over"
        return "the run is over and nothing is in flight"
    if event is EventKind.RUN_STARTED:
        return "a run is on; queue a command, or abort it first"
    if event is EventKind.EFFECT_LOST:
        return "every effect that can be lost here is read as an answer before the lookup"
    if phase is Phase.READY:
        return "nothing was asked for yet"
    return f"no answer to {_WAITS_FOR[event]} can be in flight here"


def blanks(rows: tuple[Row, ...]) -> tuple[tuple[Ignore, ...], tuple[Reject, ...]]:
    """Fill every cell of (phase that may be returned, event) that has no row.

    Returns:
        The ignores (none: a stale answer is known by its id, before any lookup) and the rejects.
    """
    filled = {(row.source, row.event) for row in rows}
    rejects = tuple(
        Reject(name=f"no_{event.value}.{phase.value}", source=phase, event=event, because=_because(phase, event))
        for phase in Phase
        if phase not in TRANSIENT
        for event in EVENT_KINDS.values()
        if (phase, event) not in filled
    )
    return (), rejects
