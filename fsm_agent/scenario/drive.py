"""The pure driver: a scenario against the bare reducer, without clock, task or I/O (spec 04, testing kit).

The user acts right after the step that is named; the order of all else is that of :mod:`.simulation`.
"""

from __future__ import annotations

from attrs import frozen

from ..core.effects import (
    Compact,
    Effect,
    Emit,
)
from ..core.events import (
    EVENT_KINDS,
    Event,
)
from ..core.outputs import Output
from ..core.phases import TERMINAL_SET, CompactKind
from ..core.state import LoopState, Step
from ..core.step import step
from .checking import Played
from .format import Scenario, ScenarioError
from .playing import first_state, run_started
from .simulation import Environment
from .user import UserScript

MAX_STEPS = 20_000


@frozen
class Driven:
    """A run of the bare reducer.

    Attributes:
        state: where it came to rest.
        steps: every event with the step that took it.
    """

    state: LoopState
    steps: tuple[tuple[Event, Step], ...]

    @property
    def events(self) -> tuple[Event, ...]:
        """The events, in order."""
        return tuple(event for event, _ in self.steps)

    @property
    def taken(self) -> tuple[str, ...]:
        """Names of the rows taken, in order."""
        return tuple(name for _, made in self.steps for name in made.taken)

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The effects asked for, in order."""
        return tuple(effect for _, made in self.steps for effect in made.effects)

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The outputs emitted, in order."""
        return tuple(effect.output for effect in self.effects if isinstance(effect, Emit))

    @property
    def compactions(self) -> tuple[CompactKind, ...]:
        """Kinds of compaction asked for, in order."""
        return tuple(effect.kind for effect in self.effects if isinstance(effect, Compact))

    @property
    def played(self) -> Played:
        """What :func:`.checking.differences` compares."""
        return Played(self.state.terminal, self.taken, self.outputs, self.compactions)


def drive(scenario: Scenario, run_id: str = "run", state: LoopState | None = None) -> Driven:
    """Play a scenario against the bare reducer.

    Args:
        scenario: what happens.
        run_id: prefix of all ids.
        state: where to start; None for where the scenario starts.

    Returns:
        Every event with its step; the state is terminal, or one in which nothing more happens by itself.

    Raises:
        ScenarioError: if the run does not come to rest within a bounded number of steps.
    """
    config = scenario.config
    state = first_state(scenario) if state is None else state
    environment = Environment(scenario)
    user = UserScript(scenario.user)
    steps: list[tuple[Event, Step]] = []
    inbox: list[Event] = [*user.after(None, state.phase), run_started(scenario, run_id)]
    while len(steps) < MAX_STEPS:
        event = inbox.pop(0) if inbox else environment.next()
        if event is None:
            return Driven(state, tuple(steps))
        made = step(state, event, config)
        steps.append((event, made))
        state = made.state
        environment.take(made.effects)
        if state.phase in TERMINAL_SET:
            return Driven(state, tuple(steps))
        inbox.extend(user.after(EVENT_KINDS[type(event)], state.phase))
    raise ScenarioError(f"scenario {scenario.name}: more than {MAX_STEPS} steps; the last rows: {steps[-1][1].taken}")
