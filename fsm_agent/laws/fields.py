"""What rows do to the fields of the control: pieces of the lines in :mod:`.lines`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..core.control import AutoCompactTracking, Call, Control, Tools, Wait
from ..core.effects import Emit
from ..core.events import CommandQueued, StopHooksFinished, StreamFailed
from ..core.failures import ErrorKind
from ..core.outputs import AssistantOutput
from ..core.phases import CompactKind, ContinueReason
from .choices import gives_up_model, models_left
from .micro import Micro

Value = Callable[[Micro], Any]
Line = Mapping[str, Any]

ANY = object()
"""Judged by another law."""
RECORDS = ("run", "tool_use_context", "call", "tools", "guards", "budget", "queue", "context", "wait")
ALWAYS = ("run.issued", "budget.cost", "budget.output_tokens", "flight", "phase")
"""Ids, money and what is in flight have laws of their own."""


def values(control: Control) -> dict[str, Any]:
    """Lay out a control: every field of every record by its name."""
    found: dict[str, Any] = {"salvage": control.salvage, "flight": control.flight, "phase": control.phase}
    for record in RECORDS:
        held = getattr(control, record)
        for item in type(held).__attrs_attrs__:
            found[f"{record}.{item.name}"] = getattr(held, item.name)
    return found


def whole(record: str, value: Any) -> dict[str, Any]:
    """Name every field of a record, with the value that it has in ``value``."""
    return {f"{record}.{item.name}": getattr(value, item.name) for item in type(value).__attrs_attrs__}


def more(path: str, by: int = 1) -> dict[str, Any]:
    """Count one more."""
    record, name = path.split(".")
    return {path: lambda one: getattr(getattr(one.old, record), name) + by}


CALLS: dict[str, Any] = {f"tools.{name}": ANY for name in ("calls", "yielded", "stopped", "failed", "after_stream")}
ROUND: dict[str, Any] = {**CALLS, "guards.rounds": ANY, "guards.loop_warned": ANY}
NO_CALLS = whole("tools", Tools())
NO_WAIT = whole("wait", Wait())
FRESH = {**whole("call", Call()), **NO_CALLS}
DROPPED = {"call.id": "", "call.streaming": False, "call.usable": False, "call.unresolved": False, **NO_CALLS}


def kept_reply(one: Micro) -> bool:
    """Tell whether a row keeps the reply."""
    return any(isinstance(effect, Emit) and isinstance(effect.output, AssistantOutput) for effect in one.effects)


def if_kept(path: str, value: Any) -> Value:
    """Set a field where the reply is kept; else it stays."""
    record, name = path.split(".")
    return lambda one: value if kept_reply(one) else getattr(getattr(one.old, record), name)


KEPT: dict[str, Any] = {
    "guards.empty_retried": if_kept("guards.empty_retried", False),
    "guards.malformed": if_kept("guards.malformed", 0),
}


def model_next(one: Micro) -> str:
    """Give the model of the next pass: a switch takes effect there."""
    return one.old.queue.switch or one.old.tool_use_context.model


NEXT_PASS: dict[str, Any] = {
    **FRESH,
    **NO_WAIT,
    "tool_use_context.model": model_next,
    "queue.switch": "",
    "context.compacting": None,
    "context.replacing": 0,
    "salvage": None,
    "guards.stop_hook_active": False,
    "guards.max_output_tokens_override": None,
}
"""What every continue does: another pass begins, and a switch of the model takes effect."""
NEW_PASS: dict[str, Any] = {**NEXT_PASS, "context.tried": (), "context.compact_off": False, "context.compacted_in_pass": False}
"""What those do that may compact anew."""
PAID: dict[str, Any] = {"guards.salvages": 0, "guards.pauses": 0}
NEXT_TURN: dict[str, Any] = {
    **NEW_PASS,
    **more("run.turn_count"),
    "run.transition": ContinueReason.NEXT_TURN,
    "context.tracking": lambda one: aged(one.old.context.tracking),
    "queue.commands": lambda one: one.old.queue.commands if one.old.call.unresolved else (),
    "queue.pending_tool_use_summary": ANY,
    "guards.loop_warned": ANY,
    "guards.stop_hook_active": lambda one: one.old.guards.stop_hook_active,
}


def aged(tracking: AutoCompactTracking) -> AutoCompactTracking:
    """A round has passed since the last compaction."""
    return AutoCompactTracking(tracking.compacted, tracking.turns_since + 1, tracking.failures, tracking.opened_at)


def fallback_model(one: Micro) -> str:
    """Give the model that a fallback switches to; the user's choice wins."""
    return one.old.queue.switch or models_left(one.old, one.config)[0]


def passed(one: Micro) -> int:
    """Count the fallback models that are passed with the next one."""
    model = models_left(one.old, one.config)[0]
    return one.config.fallback_models.index(model) + 1


SWITCHED: dict[str, Any] = {
    "tool_use_context.model": fallback_model,
    "tool_use_context.fallbacks": passed,
    "queue.switch": "",
}


def if_due(path: str) -> Value:
    """Give what a fallback makes of a field, where one is due; else it stays."""
    record, name = path.split(".")

    def value(one: Micro) -> Any:
        if not gives_up_model(one.old, one.config):
            return getattr(getattr(one.old, record), name)
        made = SALVAGED_BY_FALLBACK[path]
        return made(one) if callable(made) else made

    return value


SALVAGED_BY_FALLBACK: dict[str, Any] = {**SWITCHED, "call.overloads": 0}
SALVAGE: dict[str, Any] = {**ROUND, **KEPT, "call.fault": None, "tools.after_stream": True, "salvage": ANY}


def compacts(kind: CompactKind) -> dict[str, Any]:
    """Name what the start of a compaction sets."""
    return {
        **NO_WAIT,
        "context.tried": lambda one: (*one.old.context.tried, kind),
        "context.compacting": kind,
        "context.replacing": ANY,
    }


LANDED: dict[str, Any] = {**NO_WAIT, "context.compacting": None, "context.replacing": 0, "context.compact_off": True}
ISSUED_AGAIN: dict[str, Any] = {**more("wait.resumes"), "wait.answered": False}
ENDED: dict[str, Any] = {
    **CALLS,
    **NO_WAIT,
    **{f"call.{name}": ANY for name in ("id", "streaming", "usable", "unresolved", "fault")},
    "guards.rounds": ANY,
    "guards.loop_warned": ANY,
    "guards.empty_retried": ANY,
    "guards.malformed": ANY,
    "queue.pending_tool_use_summary": "",
    "salvage": None,
    "tools.calls": (),
    "context.compacting": ANY,
    "context.replacing": ANY,
    "context.compact_off": ANY,
    "tool_use_context.abort": ANY,
}


def here(one: Micro) -> Any:
    """Give the queue with a command that is for this run."""
    event = one.event
    assert isinstance(event, CommandQueued)
    mine = event.address == one.config.address
    return (*one.old.queue.commands, event.command_id) if mine else one.old.queue.commands


def asked(one: Micro) -> tuple[CompactKind, ...]:
    """A compaction that was asked for waits for the next pass."""
    tried = one.old.context.tried
    return tried if CompactKind.MANUAL in tried else (*tried, CompactKind.MANUAL)


def streak(one: Micro) -> int:
    """Count overloads in a row."""
    assert isinstance(one.event, StreamFailed)
    return one.old.call.overloads + 1 if one.event.failure.kind is ErrorKind.OVERLOADED else 0


def hooks(name: str) -> Value:
    """Give what stop hooks said."""

    def value(one: Micro) -> Any:
        event = one.event
        assert isinstance(event, StopHooksFinished)
        if name == "blocking":
            return len(event.blocking)
        return None if event.prevented is None else event.prevented_cause

    return value
