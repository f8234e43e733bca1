"""Plays a retold field report: on the reducer and the interpreter, with the laws and both checkers; star ones with faults."""

from __future__ import annotations

import anyio
import trio
import trio.testing

from fsm_agent.core.blocks import block_value
from fsm_agent.core.effects import CallModel
from fsm_agent.core.events import ToolStarted
from fsm_agent.core.request.encode import body_of
from fsm_agent.laws import LAWS, Over
from fsm_agent.laws.runs import RUN_LAWS
from fsm_agent.scenario import Scenario, loads
from fsm_agent.scenario.checking import differences
from fsm_agent.scenario.drive import Driven, drive
from fsm_agent.scenario.format import Way
from fsm_agent.scenario.play import PlayedRun, play
from fsm_agent.server.wire_checker import decode_body
from fsm_agent.testing import Evidence, Fault, inject, inject_played
from fsm_agent.testing.injection import goes_on, judged

CHEAP = (*[law for law in LAWS if law.over is not Over.RUN and not law.costly], *RUN_LAWS)
COMPLETED = "{reason: completed, cause: end_turn}"


def story(text: str, expect: str = COMPLETED) -> Scenario:
    """Read a report's scenario; title, prompt and the usual ending need not be said."""
    return loads(f"title: A report.\nprompt: Do the work.\nexpect: {expect}\n{text}")


def holds(scenario: Scenario, *, after: bool = True, interpreter: bool = True) -> Driven:
    """Play a report and judge it: as it expects, all laws, both checkers, and the session goes on afterwards.

    Args:
        scenario: the report.
        after: another prompt must go through.
        interpreter: it is played on the interpreter too.

    Returns:
        The run of the reducer.
    """
    run = drive(scenario)
    assert differences(scenario.expect, run.played) == ()
    assert judged(Evidence(scenario.config, run.steps), CHEAP) == ()
    if after:
        more = goes_on(run.state, scenario.config)
        from fsm_agent.core.step import next_run

        assert judged(Evidence(scenario.config, more, next_run(run.state, scenario.config)), CHEAP) == ()
        assert any(isinstance(effect, CallModel) for _, made in more for effect in made.effects)
    if interpreter:
        played = virtually(scenario)
        assert differences(scenario.expect, played.played) == ()
        assert judged(Evidence(scenario.config, played.steps), CHEAP) == ()
    return run


def virtually(scenario: Scenario) -> PlayedRun:
    """Play on the interpreter, on trio in virtual time."""

    async def main() -> PlayedRun:
        return await play(scenario, jitter=lambda: 0.0)

    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def at_every_event(scenario: Scenario, fault: Fault) -> None:
    """Inject a fault at every event: on the reducer everywhere, on the interpreter at every third place."""
    found = [(one.at, one.problems) for one in inject(scenario, fault) if one.problems]
    assert found == []
    if fault is Fault.KILL:
        return

    async def main() -> list[tuple[int, tuple[str, ...]]]:
        runs = await inject_played(scenario, fault, every=3, jitter=lambda: 0.0)
        return [(one.staged.at, one.problems) for one in runs if one.problems]

    assert trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0)) == []


def over_http_at_every_event(scenario: Scenario, fault: Fault) -> None:
    """Inject a fault behind every event of a run over real HTTP, with the strict server as wire checker."""

    async def main() -> list[tuple[int, tuple[str, ...]]]:
        runs = await inject_played(scenario, fault, way=Way.HTTP)
        return [(one.staged.at, one.problems) for one in runs if one.problems]

    assert anyio.run(main) == []


def bodies(run: Driven) -> list[dict[str, object]]:
    """Give the decoded requests of a run."""
    return [decode_body(body_of(effect.request)) for effect in run.effects if isinstance(effect, CallModel)]


def begun(run: Driven) -> int:
    """Count the calls whose bodies ran."""
    return sum(isinstance(event, ToolStarted) for event in run.events)


def results(run: Driven) -> dict[str, str]:
    """Give the results in the history: call id and text of the whole block."""
    return {
        block.id: str(block_value(block)) for item in run.state.messages for block in item.blocks if block.type == "tool_result"
    }
