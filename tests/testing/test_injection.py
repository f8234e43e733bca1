"""Fault injection: every fault at every event of rich scenarios, with the laws and both checkers on."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from fsm_agent.core.events import AbortRequested, EffectLost
from fsm_agent.core.phases import Cause
from fsm_agent.laws import Edge, edge_law
from fsm_agent.scenario import catalog, load
from fsm_agent.scenario.drive import drive
from fsm_agent.testing import Fault, Injected, inject, inject_played, staged
from fsm_agent.testing.played import PlayedFault

RICH = ("next-turn", "early-start", "salvage", "reactive-compact", "queued-command", "tool-summary")


def problems(found: tuple[Injected, ...]) -> list[str]:
    """Give what is wrong, with its place."""
    return [f"{one.fault} at {one.at}: {words}" for one in found for words in one.problems]


@pytest.mark.parametrize("fault", list(Fault))
@pytest.mark.parametrize("name", RICH)
def test_every_event_of_rich_runs(name: str, fault: Fault) -> None:
    """Whatever comes at whichever event, the laws hold, requests are legal, and the conversation goes on afterwards."""
    found = inject(load(name), fault)
    assert len(found) > 5
    assert problems(found) == []


@pytest.mark.long
@pytest.mark.parametrize("fault", list(Fault))
@pytest.mark.parametrize("name", [name for name in catalog() if name not in RICH])
def test_every_event_of_the_catalog(name: str, fault: Fault) -> None:
    """The same for every packaged scenario."""
    assert problems(inject(load(name), fault)) == []


def test_one_place() -> None:
    """One place may be chosen; an interrupt there ends the run, and a kill loses what is in flight."""
    (one,) = inject(load("next-turn"), "interrupt", 4)
    first = next(made.state for _, made in one.steps if made.state.terminal is not None)
    assert first.terminal is not None
    assert first.terminal.cause is Cause.INTERRUPT
    (one,) = inject(load("next-turn"), Fault.KILL, 4)
    assert any(isinstance(event, EffectLost) for event, _ in one.steps)


@pytest.mark.parametrize("at", [-1, 10**9, "x", True, 2.0])
def test_a_place_where_nothing_is(at: Any) -> None:
    """Nothing could be injected there, so it is refused, with the places that there are."""
    with pytest.raises(ValueError, match=rf"at={at!r}: the run of next-turn has (\d+) events; write a number from 0 to \1"):
        inject(load("next-turn"), "interrupt", at)


def test_every_place_is_a_place() -> None:
    """At each number that is not refused the fault is there."""
    events = len(inject(load("hello"), "interrupt")) - 1
    for at in range(events + 1):
        (one,) = inject(load("hello"), "interrupt", at)
        assert sum(isinstance(event, AbortRequested) for event, _ in one.steps) == 1
    with pytest.raises(ValueError, match=f"from 0 to {events}$"):
        inject(load("hello"), "interrupt", events + 1)


def test_what_is_no_fault_and_no_scenario() -> None:
    """Both are told in a line, with what was probably meant."""
    with pytest.raises(ValueError, match="there is no fault 'interupt'; did you mean 'interrupt'"):
        inject(load("hello"), "interupt")
    with pytest.raises(ValueError, match="there is no fault 'nosuch'; there are interrupt, submit, "):
        staged(load("hello"), "nosuch")
    for ask in (inject, staged):
        with pytest.raises(TypeError, match=r"'hello' is no scenario; write load\('hello'\)"):
            ask("hello", "cut")  # type: ignore[arg-type]
    options: list[dict[str, int]] = [{"first": 99}, {"first": -1}, {"every": 0}]
    for wrong in options:
        with pytest.raises(ValueError, match=r"hello has \d+ places for cut, the first is 0"):
            on_trio("hello", Fault.CUT, **wrong)


@edge_law()
def never_aborted(edge: Edge) -> str:
    """A law of a user that an injection breaks."""
    return "aborted" if edge.new.tool_use_context.abort is not None else ""


def test_a_broken_law_is_told_with_its_place() -> None:
    """What is wrong names the law and the event."""
    found = inject(load("hello"), Fault.CLOSE, 2, (never_aborted,))
    assert any(words.startswith("never_aborted at event 2") for words in found[0].problems)


def test_staged_scenarios_are_scenarios() -> None:
    """A fault at an event becomes a scenario; each plays on the reducer, and not all of them alike."""
    for fault in Fault:
        if fault is Fault.KILL:
            with pytest.raises(ValueError, match="prefix"):
                staged(load("next-turn"), fault)
            continue
        runs = [drive(one.scenario).taken for one in staged(load("next-turn"), fault)]
        assert len(runs) >= 4
        assert len(set(runs)) > 2


def on_trio(name: str, fault: Fault, **options: Any) -> tuple[PlayedFault, ...]:
    """Inject on the interpreter, on trio in virtual time."""

    async def main() -> tuple[PlayedFault, ...]:
        return await inject_played(load(name), fault, jitter=lambda: 0.0, **options)

    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.KILL])
@pytest.mark.parametrize("name", ["next-turn", "salvage"])
def test_the_interpreter_stands_it_too(name: str, fault: Fault) -> None:
    """The interpreter with scripted parts keeps the laws and both checkers, and leaves nothing of its own behind."""
    found = on_trio(name, fault, every=2)
    assert len(found) > 2
    assert [(one.staged.at, one.problems) for one in found if one.problems] == []
