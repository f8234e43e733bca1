"""The scenario's user on a real run."""

from __future__ import annotations

from typing import assert_never

from ..core.blocks import block_text
from ..core.effects import (
    Compact,
)
from ..core.events import (
    EVENT_KINDS,
    AbortRequested,
    CommandQueued,
    CompactRequested,
    Event,
    ModelSwitched,
)
from ..core.phases import CompactKind
from ..core.state import Step
from ..runtime.run import Run
from .format import Scenario
from .user import UserAction, UserScript


class ScriptedUser:
    """Acts on a run as the scenario's user, right after the step that is named.

    Give :meth:`observe` to the run as its ``on_step``, then tell it of the run with :meth:`attach`.

    Attributes:
        steps: every event with its step.
    """

    def __init__(self, scenario: Scenario) -> None:
        self._script = UserScript(scenario.user)
        self._run: Run | None = None
        self.steps: list[tuple[Event, Step]] = []

    def attach(self, run: Run) -> None:
        """Take the run on which to act; what the user does before its start is done now."""
        self._run = run
        self._act(self._script.after(None, run.state.phase))

    def observe(self, event: Event, step: Step) -> None:
        """Look at one step, and act."""
        self.steps.append((event, step))
        self._act(self._script.after(EVENT_KINDS[type(event)], step.state.phase))

    @property
    def taken(self) -> tuple[str, ...]:
        """Names of the rows taken so far."""
        return tuple(name for _, step in self.steps for name in step.taken)

    @property
    def compactions(self) -> tuple[CompactKind, ...]:
        """Kinds of compaction asked for so far."""
        return tuple(effect.kind for _, step in self.steps for effect in step.effects if isinstance(effect, Compact))

    def _act(self, actions: tuple[UserAction, ...]) -> None:
        run = self._run
        if run is None:
            return
        for action in actions:
            match action:
                case AbortRequested(reason=reason):
                    run.abort(reason)
                case CommandQueued(message=message):
                    run.queue("".join(block_text(block) for block in message.blocks))
                case CompactRequested(instructions=instructions):
                    run.compact(instructions)
                case ModelSwitched(model=model):
                    run.switch_model(model)
                case _:
                    assert_never(action)
