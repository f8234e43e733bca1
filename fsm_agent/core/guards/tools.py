"""Predicates about the calls of a reply, and how ``running_tools`` ends (spec 01, sections 5, 11)."""

from __future__ import annotations

from ..config import LoopConfig
from ..control import Control
from ..events import Event
from ..loops import repeats
from .budget import last_turn


def all_answered(control: Control) -> bool:
    """Every call of the reply has its result; results are emitted from the front as soon as they are there."""
    return control.tools.yielded == len(control.tools.calls)


def stopped_by_hook(control: Control, event: Event, config: LoopConfig) -> bool:
    """All is answered, and a tool hook ends the run."""
    return control.tools.stopped and all_answered(control)


def loop_detected(control: Control, event: Event, config: LoopConfig) -> bool:
    """All is answered, and the rounds repeat past the warning."""
    return repeats(control.guards.rounds, config.loop_rounds + 2) and all_answered(control)


def error_remembered(control: Control, event: Event, config: LoopConfig) -> bool:
    """All is answered, and the salvaged reply's error ends the run."""
    return control.salvage is not None and not control.salvage.resume and all_answered(control)


def turns_used_up(control: Control, event: Event, config: LoopConfig) -> bool:
    """All is answered, and no round is left."""
    return last_turn(control, event, config) and all_answered(control)


def round_done(control: Control, event: Event, config: LoopConfig) -> bool:
    """All is answered."""
    return all_answered(control)


def round_salvaged(control: Control, event: Event, config: LoopConfig) -> bool:
    """The attachments are in, and the round came from a salvaged reply."""
    return control.wait.answered and control.salvage is not None


def has_started(control: Control, event: Event, config: LoopConfig) -> bool:
    """A call has begun."""
    return any(call.started for call in control.tools.calls)


def salvage_wait(control: Control, event: Event, config: LoopConfig) -> bool:
    """A salvaged reply's failure asks for a wait before the next call."""
    return control.salvage is not None and control.salvage.delay_ms > 0
