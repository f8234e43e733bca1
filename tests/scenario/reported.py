"""Plays the scenarios of ``reports/`` three ways, and shows what their requests held.

The bare reducer has a scripted compactor; the interpreter has the real one over a scripted summariser; over HTTP everything
that asks a model is real.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import anyio
import trio
import trio.testing
from attrs import define, evolve, field, frozen

from fsm_agent.core.effects import CallModel
from fsm_agent.core.events import BlockCompleted, StreamCompleted, StreamFailed
from fsm_agent.core.failures import ErrorKind
from fsm_agent.core.outputs import Boundary
from fsm_agent.core.request.encode import body_of
from fsm_agent.core.state import LoopState
from fsm_agent.runtime.compact_text import SUMMARY_SYSTEM
from fsm_agent.runtime.compactor import ModelCompactor
from fsm_agent.runtime.model_caller import ModelCaller
from fsm_agent.runtime.ports import ModelItem
from fsm_agent.scenario import Scenario, load
from fsm_agent.scenario.answering import summary_blocks, summary_stop
from fsm_agent.scenario.answers import Failing
from fsm_agent.scenario.checking import Played, differences
from fsm_agent.scenario.drive import drive
from fsm_agent.scenario.faults import failure_of
from fsm_agent.scenario.format import Way
from fsm_agent.scenario.play import play
from fsm_agent.scenario.scripted import ScriptedCompactor, World, scripted_deps
from fsm_agent.server.app import LoopbackServer
from fsm_agent.server.from_scenario import server_script
from fsm_agent.server.over_http import compactor_over, play_over_http
from fsm_agent.server.wire_checker import check_request, decode_body
from fsm_agent.session.compacting import ByHand, compact_by_hand

FOLDER = Path(__file__).parent / "reports"
WAYS = list(Way)


def report(name: str, values: dict[str, str] | None = None) -> Scenario:
    """Load a scenario of the folder."""
    return load(FOLDER / f"{name}.yaml", values)


def no_jitter() -> float:
    """Give the least jitter."""
    return 0.0


@define
class SummaryModel:
    """The summariser as a scripted model: the scenario's summaries, and its limits of the input."""

    scenario: Scenario
    asked: list[CallModel] = field(factory=list)
    answered: int = 0

    async def stream(self, effect: CallModel) -> AsyncGenerator[ModelItem, None]:
        """Answer one call of the compactor."""
        self.asked.append(effect)
        spec = self.scenario.compactor[self.answered]
        over = effect.request.estimate - spec.fits if spec.fits else 0
        if over > 0:
            failing = Failing(ErrorKind.PROMPT_TOO_LONG, over_tokens=over)
            yield StreamFailed(id=effect.id, failure=failure_of(failing))
            return
        self.answered += 1
        if spec.failure is not None:
            yield StreamFailed(id=effect.id, failure=failure_of(spec.failure))
            return
        for index, block in enumerate(summary_blocks(spec)):
            yield BlockCompleted(id=effect.id, index=index, block=block)
        yield StreamCompleted(id=effect.id, stop_reason=summary_stop(spec), usage=(), context_tokens=0)


@frozen
class Shown:
    """How a scenario went one way.

    Attributes:
        state: the last state.
        played: rows, outputs, compactions.
        bodies: decoded bodies of the requests of the run, in order.
        asked: those of the summariser; none where it has no model.
    """

    state: LoopState
    played: Played
    bodies: tuple[dict[str, Any], ...]
    asked: tuple[dict[str, Any], ...] = ()

    @property
    def boundaries(self) -> list[Boundary]:
        """The boundaries that were shown."""
        return [output for output in self.played.outputs if isinstance(output, Boundary)]


def checked(scenario: Scenario, calls: list[CallModel]) -> tuple[dict[str, Any], ...]:
    """Decode the bodies of calls; none breaks a rule of the API."""
    bodies = tuple(decode_body(body_of(call.request)) for call in calls)
    for call, body in zip(calls, bodies, strict=True):
        request = call.request
        assert check_request(body, scenario.config.info(request.model), request.betas) == ()
    return bodies


def run_id(state: LoopState | None) -> str:
    """Give the first run of a conversation another id than a later one."""
    return "run" if state is None else "again"


def by_reducer(scenario: Scenario, state: LoopState | None = None) -> Shown:
    """Play on the bare reducer."""
    driven = drive(scenario, run_id(state), state)
    calls = [effect for effect in driven.effects if isinstance(effect, CallModel)]
    return Shown(driven.state, driven.played, checked(scenario, calls))


def by_interpreter(scenario: Scenario, state: LoopState | None = None) -> Shown:
    """Play on the interpreter, in virtual time, with the real compactor over a scripted summariser."""
    model = SummaryModel(scenario)

    async def main() -> Any:
        world = World()
        deps = evolve(scripted_deps(scenario, world=world), compactor=compactor_over(model, scenario))
        return await play(scenario, deps, world=world, run_id=run_id(state), state=state, jitter=no_jitter)

    run = trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    calls = [effect for _, made in run.steps for effect in made.effects if isinstance(effect, CallModel)]
    return Shown(run.state, run.played, checked(scenario, calls), checked(scenario, model.asked))


def by_http(scenario: Scenario, state: LoopState | None = None) -> Shown:
    """Play over real HTTP; the server refuses what breaks a rule."""

    async def main() -> Any:
        return await play_over_http(scenario, run_id=run_id(state), state=state)

    over = anyio.run(main)
    assert over.breaches == ()
    summaries = tuple(body for body in over.bodies if body.get("system") == SUMMARY_SYSTEM)
    rest = tuple(body for body in over.bodies if body.get("system") != SUMMARY_SYSTEM)
    return Shown(over.run.state, over.run.played, rest, summaries)


BY: dict[Way, Callable[..., Shown]] = {Way.REDUCER: by_reducer, Way.INTERPRETER: by_interpreter, Way.HTTP: by_http}


def shown(scenario: Scenario, way: Way) -> Shown:
    """Play one way; it goes as the scenario expects, by the rows of the reducer."""
    made = BY[way](scenario)
    assert differences(scenario.expect, made.played) == ()
    if way is not Way.REDUCER:
        assert made.played.taken == drive(scenario).taken
    return made


def user_texts(body: dict[str, Any]) -> list[str]:
    """Give the user's texts of a request, results aside."""
    return [
        block["text"]
        for message in body["messages"]
        if message["role"] == "user"
        for block in message["content"]
        if block["type"] == "text"
    ]


def summary_inputs(made: Shown) -> list[int]:
    """Give the length of what each request of the summariser held."""
    return [len(body["messages"][0]["content"][0]["text"]) for body in made.asked]


async def by_hand(scenario: Scenario, state: LoopState, way: Way) -> tuple[ByHand, int]:
    """Compact at rest, as ``/compact`` does; gives what came of it and the number of requests that were made."""
    if way is Way.HTTP:
        models = scenario.config.models
        with LoopbackServer(server_script(scenario), models=models) as server:
            async with ModelCaller(base_url=server.base_url, api_key="scenario", models=models) as caller:
                done = await ask_by_hand(scenario, state, compactor_over(caller, scenario))
            assert server.breaches == []
            return done, len(server.messages)
    if way is Way.INTERPRETER:
        model = SummaryModel(scenario)
        return await ask_by_hand(scenario, state, compactor_over(model, scenario)), len(model.asked)
    return await ask_by_hand(scenario, state, ScriptedCompactor(scenario, World())), 1


async def ask_by_hand(scenario: Scenario, state: LoopState, compactor: ModelCompactor | ScriptedCompactor) -> ByHand:
    """Compact a conversation at rest."""
    config = scenario.config
    return await compact_by_hand(state, config, compactor, key="session", model=config.model, instructions="Keep the numbers.")
