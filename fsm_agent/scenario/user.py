"""What the user does, and when: counted on steps, so that every way of playing acts at the same place."""

from __future__ import annotations

from ..core.blocks import text_block
from ..core.events import AbortRequested, CommandQueued, CompactRequested, EventKind, ModelSwitched
from ..core.messages import MessageKind, message
from ..core.phases import AbortReason, Phase
from .format import UserSpec, UserWord

UserAction = CommandQueued | CompactRequested | ModelSwitched | AbortRequested

_ABORTS = {
    UserWord.INTERRUPT: AbortReason.INTERRUPT,
    UserWord.SUBMIT: AbortReason.SUBMIT,
    UserWord.CLOSE: AbortReason.CLOSE,
}


def action_event(spec: UserSpec, number: int) -> UserAction:
    """Make the event of the ``number``-th action (from 1)."""
    if spec.word is UserWord.QUEUE:
        identity = f"command-{number}"
        content = message(identity, "user", MessageKind.COMMAND, (text_block(spec.text),))
        return CommandQueued(command_id=identity, message=content)
    if spec.word is UserWord.COMPACT:
        return CompactRequested(instructions=spec.text)
    if spec.word is UserWord.SWITCH:
        return ModelSwitched(model=spec.text)
    return AbortRequested(reason=_ABORTS[spec.word])


class UserScript:
    """Counts events and phases, and says which actions are due."""

    def __init__(self, specs: tuple[UserSpec, ...]) -> None:
        self._specs = specs
        self._events: dict[EventKind, int] = {}
        self._phases: dict[Phase, int] = {}
        self._phase: Phase | None = None
        self._done = 0

    def after(self, event: EventKind | None, phase: Phase) -> tuple[UserAction, ...]:
        """Tell it of one step.

        Args:
            event: the kind of the event that was stepped; None before the first.
            phase: where the run rests after it.

        Returns:
            What the user does right now, in order.
        """
        if event is not None:
            self._events[event] = self._events.get(event, 0) + 1
        entered = phase is not self._phase
        self._phase = phase
        if entered:
            self._phases[phase] = self._phases.get(phase, 0) + 1
        due = [spec for spec in self._specs if self._is_due(spec, event, phase if entered else None)]
        actions = tuple(action_event(spec, self._done + place + 1) for place, spec in enumerate(due))
        self._done += len(due)
        return actions

    def _is_due(self, spec: UserSpec, event: EventKind | None, entered: Phase | None) -> bool:
        if spec.event is not None:
            return spec.event is event and self._events.get(spec.event, 0) == spec.nth
        return spec.phase is entered and entered is not None and self._phases[entered] == spec.nth
