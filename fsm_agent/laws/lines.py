"""I9: what each row does to each field of the control. A field that a row's line does not name stays as it is.

The lines of the continue reasons are those of the table in spec 01, section 4; the others restate sections 6, 7, 10, 11
and 14. ``ANY`` stands where another law says what becomes of the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve

from ..core.config import why_not
from ..core.control import AutoCompactTracking, Budget, Call, Fault, Guards, ToolUseContext
from ..core.events import CollapseStaged, ModelSwitched, RunStarted, StreamCompleted, StreamFailed
from ..core.failures import ErrorKind
from ..core.phases import CompactKind, ContinueReason
from ..core.table import RowKind
from .fields import (
    ALWAYS,
    ANY,
    CALLS,
    DROPPED,
    ENDED,
    FRESH,
    ISSUED_AGAIN,
    KEPT,
    LANDED,
    NEW_PASS,
    NEXT_PASS,
    NEXT_TURN,
    NO_CALLS,
    NO_WAIT,
    PAID,
    ROUND,
    SALVAGE,
    SALVAGED_BY_FALLBACK,
    SWITCHED,
    asked,
    compacts,
    here,
    hooks,
    if_due,
    more,
    streak,
    values,
    whole,
)
from .law import Edge, edge_law
from .limits import breaker_open
from .micro import Micro, micros


def _start(one: Micro) -> RunStarted:
    assert isinstance(one.event, RunStarted)
    return one.event


def _began(one: Micro) -> ToolUseContext:
    event = _start(one)
    return ToolUseContext(
        one.old.queue.switch or one.config.model, event.permission_mode, None, event.depth, event.source, fallbacks=0
    )


def _spread(record: str, kind: type, made: Any) -> dict[str, Any]:
    """Name every field of a record that a function of the microstep makes."""

    def field(name: str) -> Any:
        return lambda one: getattr(made(one), name)

    return {f"{record}.{item.name}": field(item.name) for item in kind.__attrs_attrs__}  # type: ignore[attr-defined]


def _closed_breaker(one: Micro) -> AutoCompactTracking:
    """A new prompt closes the breaker; a count below it stays."""
    tracking = one.old.context.tracking
    return evolve(tracking, failures=0, opened_at=0) if tracking.opened_at else tracking


def _reopened(one: Micro) -> AutoCompactTracking:
    """Growth by a tenth of the window closes the breaker, and then the count starts anew."""
    tracking = one.old.context.tracking
    grown = tracking.opened_at > 0 and not breaker_open(one.old, one.config)
    return AutoCompactTracking(tracking.compacted, tracking.turns_since) if grown else tracking


def _after_nudge(one: Micro) -> Budget:
    old = one.old.budget
    return evolve(
        old,
        continuations=old.continuations + 1,
        spent_at_check=old.output_tokens,
        last_delta=old.output_tokens - old.spent_at_check,
    )


def _whole_prompt(one: Micro) -> Fault | None:
    """Section 7, 4: a window that was full before anything was said is a prompt that is too long."""
    event = one.event
    assert isinstance(event, StreamCompleted)
    full = event.stop_reason == "model_context_window_exceeded"
    said = one.new.call.usable or any(call.whole for call in one.new.tools.calls)
    return Fault(ErrorKind.PROMPT_TOO_LONG) if full and not said else None


def _failure(one: Micro) -> Fault:
    assert isinstance(one.event, StreamFailed)
    return Fault(one.event.failure.kind, one.event.failure.retry_after_ms)


def _ended_call(name: str) -> Any:
    def value(one: Micro) -> Any:
        assert isinstance(one.event, StreamCompleted)
        return getattr(one.event, name)

    return value


def _next_switch(one: Micro) -> str:
    assert isinstance(one.event, ModelSwitched)
    return one.old.queue.switch if why_not(one.config, one.event.model) else one.event.model


def _staged(one: Micro) -> int:
    assert isinstance(one.event, CollapseStaged)
    return sum(span.summary is not None and not span.committed for span in one.after.data.context.spans)


def _summary(one: Micro) -> str:
    waits = one.old.queue.pending_tool_use_summary
    return "" if waits == getattr(one.event, "id", "") else waits


LINES: dict[str, Mapping[str, Any]] = {
    "run_started": {
        **whole("guards", Guards()),
        **_spread("tool_use_context", ToolUseContext, _began),
        **_spread("budget", Budget, lambda one: Budget(token_budget=_start(one).token_budget, cost_before=_start(one).spent)),
        "run.id": lambda one: _start(one).run_id,
        "run.turn_count": 1,
        "run.transition": None,
        "queue.switch": "",
        "context.tracking": _closed_breaker,
        "context.tried": (),
        "context.compact_off": False,
        "context.compacted_in_pass": False,
    },
    "compact_forced": {**compacts(CompactKind.FORCED), "queue.forced": False},
    "compact_manual": {**compacts(CompactKind.MANUAL), "queue.compact": False},
    "compact_auto": {**compacts(CompactKind.AUTO), "context.tracking": _reopened},
    "salvage_backoff": NO_WAIT,
    "call_model": {
        **NO_CALLS,
        **NO_WAIT,
        **whole("call", Call()),
        **more("call.attempt"),
        "call.id": ANY,
        "call.overloads": lambda one: one.old.call.overloads,
        "call.streaming": True,
        **more("guards.model_calls"),
        "salvage": None,
    },
    "compaction_applied": {**LANDED, "context.tracking": ANY, "context.compacted_in_pass": True},
    "compaction_without_progress": {**LANDED, "context.tracking": ANY, "context.compacted_in_pass": True},
    "compaction_refused": {**LANDED, "context.tracking": ANY},
    "compaction_failed": {**LANDED, "context.tracking": ANY},
    "compaction_reissued": ISSUED_AGAIN,
    "reactive_reissued": ISSUED_AGAIN,
    "timer_armed_again": ISSUED_AGAIN,
    "attachments_reissued": ISSUED_AGAIN,
    "stop_hooks_reissued": ISSUED_AGAIN,
    "early_tool_reissued": {**CALLS, **more("wait.resumes")},
    "tool_reissued": {**CALLS, **more("wait.resumes")},
    "timer_fired": {"salvage": None},
    "stream_started": {},
    "block_completed": {"tools.calls": ANY, "tools.yielded": ANY, "call.usable": ANY},
    "stream_completed": {
        "call.overloads": 0,
        "call.streaming": False,
        "call.usable": ANY,
        "call.stop_reason": _ended_call("stop_reason"),
        "call.unresolved": _ended_call("unresolved"),
        "call.fault": _whole_prompt,
        "tools.calls": ANY,
    },
    "stream_failed": {"call.overloads": streak, "call.streaming": False, "call.fault": _failure},
    "early_tool_started": {"tools.calls": ANY},
    "tool_started": {"tools.calls": ANY},
    "early_tool_progressed": {},
    "tool_progressed": {},
    "early_tool_finished": {**CALLS, "tools.after_stream": lambda one: one.old.tools.after_stream},
    "tool_finished": {**ROUND, "tools.after_stream": lambda one: one.old.tools.after_stream},
    "salvage": {**SALVAGE, **more("guards.salvages"), **{path: if_due(path) for path in SALVAGED_BY_FALLBACK}},
    "salvage_and_end": SALVAGE,
    "reactive_compact": {
        **DROPPED,
        **compacts(CompactKind.REACTIVE),
        "wait.resumes": lambda one: one.old.wait.resumes,
        "guards.has_attempted_reactive_compact": True,
    },
    "thinking_dropped": {**FRESH, "guards.thinking_dropped": True},
    "fallback": {**FRESH, **SWITCHED},
    "refusal_fallback": {**FRESH, **SWITCHED, "guards.refusal_fallback": True},
    "retry": {**DROPPED, **NO_WAIT},
    "run_tools": {**ROUND, **KEPT, "guards.malformed": 0, "tools.after_stream": True},
    "malformed_answered": {**ROUND, **KEPT, **more("guards.malformed"), "tools.after_stream": True},
    "empty_retry": {**FRESH, "guards.empty_retried": True},
    "pause_resume": {**FRESH, **KEPT, **more("guards.pauses")},
    "ask_stop_hooks": {**NO_WAIT, **KEPT, "tools.yielded": ANY, "wait.answered": lambda one: not one.config.stop_hooks},
    "round_done": {
        **NO_WAIT,
        "wait.answered": lambda one: not one.config.attachments or one.old.call.unresolved,
    },
    "attachments_gathered": {"wait.answered": True, "wait.blocking": 0, "wait.prevented": None},
    "stop_hooks_finished": {
        "wait.answered": True,
        "wait.blocking": hooks("blocking"),
        "wait.prevented": hooks("prevented"),
    },
    "command_queued": {"queue.commands": here},
    "compact_requested": {"queue.compact": True, "context.tried": asked},
    "model_switched": {"queue.switch": _next_switch},
    "collapse_staged": {"context.staged": _staged},
    "collapse_failed": {},
    "prefetch_finished": {},
    "summary_ready": {"queue.pending_tool_use_summary": _summary},
    "next_turn": {
        **NEXT_TURN,
        **PAID,
        "guards.max_output_tokens_recovery_count": 0,
        "guards.has_attempted_reactive_compact": False,
        "guards.blocks_in_row": 0,
        "guards.model_calls": 0,
    },
    "next_turn_salvaged": {
        **NEXT_TURN,
        "guards.max_output_tokens_override": lambda one: one.old.guards.max_output_tokens_override,
        "call.overloads": lambda one: one.old.call.overloads if one.new.salvage is not None else 0,
        "salvage": lambda one: one.old.salvage if one.old.salvage is not None and one.old.salvage.delay_ms else None,
    },
    "collapse_drain_retry": {
        **NEXT_PASS,
        "run.transition": ContinueReason.COLLAPSE_DRAIN_RETRY,
        "guards.max_output_tokens_override": lambda one: one.old.guards.max_output_tokens_override,
    },
    "reactive_compact_retry": {
        **NEXT_PASS,
        "run.transition": ContinueReason.REACTIVE_COMPACT_RETRY,
        "guards.has_attempted_reactive_compact": True,
        "context.tracking": lambda one: evolve(one.old.context.tracking, compacted=True, turns_since=0),
        "context.compact_off": True,
        "context.compacted_in_pass": True,
    },
    "max_output_tokens_escalate": {
        **NEXT_PASS,
        "run.transition": ContinueReason.MAX_OUTPUT_TOKENS_ESCALATE,
        "guards.max_output_tokens_override": lambda one: one.config.escalated_max_output_tokens,
    },
    "max_output_tokens_recovery": {
        **NEW_PASS,
        **KEPT,
        **more("guards.max_output_tokens_recovery_count"),
        "run.transition": ContinueReason.MAX_OUTPUT_TOKENS_RECOVERY,
    },
    "window_recovery": {
        **NEW_PASS,
        **KEPT,
        **more("guards.max_output_tokens_recovery_count"),
        "run.transition": ContinueReason.MAX_OUTPUT_TOKENS_RECOVERY,
        "queue.forced": True,
    },
    "stop_hook_blocking": {
        **NEW_PASS,
        **PAID,
        **more("guards.blocks_in_row"),
        **more("guards.blocks_in_run"),
        "run.transition": ContinueReason.STOP_HOOK_BLOCKING,
        "guards.max_output_tokens_recovery_count": 0,
        "guards.stop_hook_active": True,
    },
    "token_budget_continuation": {
        **NEW_PASS,
        **PAID,
        **_spread("budget", Budget, _after_nudge),
        "run.transition": ContinueReason.TOKEN_BUDGET_CONTINUATION,
        "guards.max_output_tokens_recovery_count": 0,
        "guards.has_attempted_reactive_compact": False,
    },
}


def line_of(one: Micro) -> Mapping[str, Any]:
    """Give the line of a row; the rows that end a run have one in common."""
    return ENDED if one.row.kind is RowKind.TERMINAL else LINES.get(one.name, {})


@edge_law("I9", costly=True)
def rows_do_what_their_lines_say(edge: Edge) -> str:
    """Each row sets the fields that its line names, to what the line says, and leaves every other field alone."""
    for one in micros(edge):
        line, before, after = line_of(one), values(one.old), values(one.new)
        for path, was in before.items():
            expected = line.get(path, was)
            if path in ALWAYS or expected is ANY:
                continue
            if callable(expected):
                expected = expected(one)
            if after[path] != expected:
                return f"{one.row.name}: {path} is {after[path]!r}, not {expected!r}"
    return ""
