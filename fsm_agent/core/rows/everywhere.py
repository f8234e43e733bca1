"""Rows of events that may come in any waiting phase: what the user does, and answers that nothing waits for."""

from __future__ import annotations

from ..events import EventKind
from ..guards.budget import always
from ..guards.tools import has_started
from ..moves import abort, inbox
from ..phases import WAITING, Cause, Phase, TerminalReason
from ..table import Row
from .cells import ends, first_match, internal

ABORTS = (Cause.INTERRUPT, Cause.SUBMIT, Cause.CONSUMER_CLOSED)

_BESIDE = (
    ("command_queued", EventKind.COMMAND_QUEUED, inbox.queue_command, "The user typed: keep it until the next safe place."),
    ("compact_requested", EventKind.COMPACT_REQUESTED, inbox.request_compaction, "The user wants a compaction: next pass."),
    ("model_switched", EventKind.MODEL_SWITCHED, inbox.switch_model, "The user chose another model: next pass."),
    ("collapse_staged", EventKind.COLLAPSE_STAGED, inbox.stage_collapse, "A span of old rounds has its summary."),
    ("collapse_failed", EventKind.COLLAPSE_FAILED, inbox.drop_collapse, "A span could not be summarised."),
    (
        "prefetch_finished",
        EventKind.PREFETCH_FINISHED,
        inbox.take_prefetch,
        "A prefetch arrived: inject it when it is safe.",
    ),
    ("summary_ready", EventKind.TOOL_USE_SUMMARY_READY, inbox.show_summary, "A round of tools was summed up: show it."),
)
_USER = 3
"""The first entries are what the user does; they may come in ``ready`` too."""


def _beside(phase: Phase, count: int) -> tuple[Row, ...]:
    return tuple(
        internal(f"{name}.{phase.value}", phase, event, None, phase, move, text) for name, event, move, text in _BESIDE[:count]
    )


def _aborts(phase: Phase) -> tuple[Row, ...]:
    event = EventKind.ABORT_REQUESTED
    streaming = ends(
        f"aborted.{phase.value}",
        phase,
        event,
        always if phase is Phase.CALLING_MODEL else None,
        TerminalReason.ABORTED_STREAMING,
        ABORTS,
        abort.abort_ready if phase is Phase.READY else abort.abort_streaming,
        "The run was ended from outside.",
    )
    tools = ends(
        f"aborted_tools.{phase.value}",
        phase,
        event,
        has_started if phase is Phase.CALLING_MODEL else None,
        TerminalReason.ABORTED_TOOLS,
        ABORTS,
        abort.abort_tools,
        "The run was ended from outside while tools ran.",
    )
    if phase is Phase.CALLING_MODEL:
        return first_match(tools, streaming)
    if phase in (Phase.RUNNING_TOOLS, Phase.GATHERING_ATTACHMENTS):
        return (tools,)
    return (streaming,)


EVERYWHERE: tuple[Row, ...] = (
    *_beside(Phase.READY, _USER),
    *_aborts(Phase.READY),
    *(row for phase in WAITING for row in (*_beside(phase, len(_BESIDE)), *_aborts(phase))),
)
