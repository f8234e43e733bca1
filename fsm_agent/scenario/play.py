"""Play a scenario on the real interpreter (spec 04, testing kit)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import field, frozen

from ..core.events import Event
from ..core.outputs import Output
from ..core.state import LoopState, Step
from ..runtime.ports import Deps
from ..runtime.run import Run
from .acting import ScriptedUser
from .checking import Played
from .format import Scenario
from .playing import first_state, run_started
from .scripted import World, scripted_deps


@frozen
class PlayedRun:
    """A run of the interpreter.

    Attributes:
        state: where it came to rest.
        steps: every event with the step that took it.
        outputs: what the consumer saw.
        played: what :func:`.checking.differences` compares.
    """

    # Not shown: ``asyncio.run`` makes the text of what it returns, which takes long for a whole run.
    state: LoopState = field(repr=False)
    steps: tuple[tuple[Event, Step], ...] = field(repr=False)
    outputs: tuple[Output, ...] = field(repr=False)
    played: Played = field(repr=False)


async def play(
    scenario: Scenario,
    deps: Deps | None = None,
    *,
    world: World | None = None,
    run_id: str = "run",
    state: LoopState | None = None,
    on_output: Callable[[Output], None] | None = None,
    **options: Any,
) -> PlayedRun:
    """Play a scenario on the interpreter.

    Args:
        scenario: what happens.
        deps: the parts that perform effects; None for the scripted ones.
        world: what the scripted parts among ``deps`` share.
        run_id: prefix of all ids.
        state: where to start; None for where the scenario starts.
        on_output: told of each output as it comes.
        options: further arguments of :class:`fsm_agent.runtime.run.Run`.

    Returns:
        How the run went.
    """
    user = ScriptedUser(scenario)
    world = World() if world is None else world

    def observe(event: Event, step: Step) -> None:
        world.observe(event, step)
        user.observe(event, step)

    outputs: list[Output] = []
    run = Run(
        scripted_deps(scenario, world=world) if deps is None else deps,
        scenario.config,
        first_state(scenario) if state is None else state,
        run_started(scenario, run_id),
        on_step=observe,
        **options,
    )
    async with run:
        user.attach(run)
        async for output in run:
            outputs.append(output)
            if on_output is not None:
                on_output(output)
    return PlayedRun(
        state=run.state,
        steps=tuple(user.steps),
        outputs=tuple(outputs),
        played=Played(run.terminal, user.taken, tuple(outputs), user.compactions),
    )
