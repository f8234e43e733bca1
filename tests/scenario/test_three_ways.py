"""One scenario, three ways: the bare reducer, the interpreter with scripted parts, real HTTP. The rows are the same."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
import trio
import trio.testing

from fsm_agent.scenario import Scenario, catalog, load
from fsm_agent.scenario.checking import differences
from fsm_agent.scenario.drive import drive
from fsm_agent.scenario.format import Way
from fsm_agent.scenario.play import PlayedRun, play
from fsm_agent.server.over_http import play_over_http

NAMES = [name for name in catalog() if Way.INTERPRETER in load(name).ways]


def no_jitter() -> float:
    """Give the least jitter."""
    return 0.0


def on_trio(scenario: Scenario, **options: Any) -> PlayedRun:
    """Play on trio in virtual time."""

    async def main() -> PlayedRun:
        return await play(scenario, jitter=no_jitter, **options)

    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.parametrize("name", NAMES)
def test_interpreter_takes_the_rows_of_the_reducer(name: str) -> None:
    """The interpreter with scripted parts takes the reducer's rows, in virtual time, and ends as expected."""
    scenario = load(name)
    run = on_trio(scenario)
    assert run.played.taken == drive(scenario).taken
    assert differences(scenario.expect, run.played) == ()


@pytest.mark.parametrize("name", ["next-turn", "early-start", "salvage", "interrupt-tools", "retry", "reactive-compact"])
def test_asyncio_takes_the_same_rows(name: str) -> None:
    """Under asyncio, in real time, it is the same."""
    scenario = load(name)
    run = anyio.run(play, scenario)
    assert run.played.taken == drive(scenario).taken


def over_http() -> list[str]:
    """Name the scenarios that can be played over HTTP."""
    return [name for name in NAMES if Way.HTTP in load(name).ways]


@pytest.mark.parametrize("name", over_http())
def test_http_takes_the_rows_of_the_reducer(name: str) -> None:
    """Over real HTTP, with the official SDK and the real compactor, the rows are those of the reducer.

    The server refuses every request that breaks a rule of the API, so the rows also say that none did.
    """
    scenario = load(name)
    played = anyio.run(play_over_http, scenario)
    assert played.breaches == ()
    assert played.run.played.taken == drive(scenario).taken
    assert differences(scenario.expect, played.run.played) == ()
