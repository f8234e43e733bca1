"""Twelve seeded kinds of divergence in logs of a real run: each is caught, and the first field that differs is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from fsm_agent.core.blocks import tool_result
from fsm_agent.core.effects import CallModel, Effect, Emit, RunTool
from fsm_agent.core.events import EffectLost, Event, StreamCompleted, ToolFinished
from fsm_agent.core.phases import Cause
from fsm_agent.core.state import LoopState, Step, initial
from fsm_agent.log.difference import Divergence
from fsm_agent.log.errors import TableChanged
from fsm_agent.log.journal import Journal
from fsm_agent.log.replay import replay
from fsm_agent.scenario.drive import drive
from fsm_agent.scenario.loading import load

Steps = list[tuple[Event, Step]]
SCENARIO = load("repair")


def write(
    path: Path, change: Callable[[Steps], None] | None = None, end: Callable[[LoopState], LoopState] | None = None
) -> None:
    driven = drive(SCENARIO)
    steps = list(driven.steps)
    if change is not None:
        change(steps)
    journal = Journal.create(path, SCENARIO.config, initial(SCENARIO.config), "session", "run")
    for event, made in steps:
        journal.append(event, made, sync=False)
    journal.close(driven.state if end is None else end(driven.state))


def place_of(steps: Steps, kind: type[Any], number: int = 0) -> int:
    return [place for place, (event, _) in enumerate(steps) if isinstance(event, kind)][number]


def on_event(kind: type[Any], make: Callable[[Any], Event]) -> Callable[[Steps], None]:
    """Change what a record says that happened."""

    def change(steps: Steps) -> None:
        place = place_of(steps, kind)
        event, made = steps[place]
        steps[place] = (make(event), made)

    return change


def on_effects(kind: type[Any], make: Callable[[tuple[Effect, ...]], tuple[Effect, ...]]) -> Callable[[Steps], None]:
    """Change what a record says was to be done."""

    def change(steps: Steps) -> None:
        place = next(place for place, (_, made) in enumerate(steps) if any(isinstance(one, kind) for one in made.effects))
        event, made = steps[place]
        steps[place] = (event, evolve(made, effects=make(made.effects)))

    return change


def each_of(kind: type[Any], make: Callable[[Any], Effect]) -> Callable[[tuple[Effect, ...]], tuple[Effect, ...]]:
    return lambda effects: tuple(make(one) if isinstance(one, kind) else one for one in effects)


def swapped(steps: Steps) -> None:
    place = place_of(steps, StreamCompleted)
    steps[place - 1 : place + 1] = [(steps[place][0], steps[place - 1][1]), (steps[place - 1][0], steps[place][1])]


def dropped(steps: Steps) -> None:
    del steps[place_of(steps, ToolFinished)]


def doubled(steps: Steps) -> None:
    place = place_of(steps, ToolFinished)
    steps.insert(place, steps[place])


def other_result(event: ToolFinished) -> Event:
    return evolve(event, result=tool_result(event.result.id, "something else"))


def other_terminal(state: LoopState) -> LoopState:
    assert state.terminal is not None
    return evolve(state, data=evolve(state.data, terminal=evolve(state.terminal, cause=Cause.REFUSAL)))


CASES: dict[str, tuple[Callable[[Steps], None], str]] = {
    "argument": (on_effects(RunTool, each_of(RunTool, lambda one: evolve(one, input_json="{}"))), ".run_tool.input_json"),
    "result": (on_event(ToolFinished, other_result), ".emit.tool_result.block"),
    "order": (swapped, "taken"),
    "missing": (dropped, "taken"),
    "extra": (doubled, "taken"),
    "id": (on_effects(CallModel, each_of(CallModel, lambda one: evolve(one, id="run/call-99"))), ".call_model.id"),
    "digest": (
        on_effects(CallModel, each_of(CallModel, lambda one: evolve(one, request=evolve(one.request, head=b'{"system":"x"')))),
        ".call_model.request.head",
    ),
    "type": (on_event(ToolFinished, lambda event: EffectLost(event.id)), "effects["),
}


def found(path: Path, **options: Any) -> Divergence:
    divergence = replay(path, **options).divergence
    assert divergence is not None
    assert divergence.expected != divergence.got
    return divergence


@pytest.mark.parametrize("kind", list(CASES))
def test_a_seeded_divergence_is_named(kind: str, tmp_path: Path) -> None:
    """Argument, result, order, missing, extra, id, digest, type: caught at its record, by field."""
    change, field = CASES[kind]
    write(tmp_path / "run.log", change)
    assert field in found(tmp_path / "run.log").field


def test_another_count_of_effects(tmp_path: Path) -> None:
    """One output more than the log says is caught, and named as the effect that nothing was expected of."""
    write(tmp_path / "run.log", on_effects(Emit, lambda effects: effects[:-1]))
    divergence = found(tmp_path / "run.log")
    assert divergence.field.startswith("effects[")
    assert divergence.expected == "nothing" or divergence.expected != divergence.got


def test_another_configuration(tmp_path: Path) -> None:
    """Under another setting the first place where it matters is named."""
    write(tmp_path / "run.log")
    divergence = found(tmp_path / "run.log", config=evolve(SCENARIO.config, max_output_tokens=1_000))
    assert divergence.field == "effects[1].call_model.request.max_tokens"


def test_another_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of another transition table is refused before anything is compared."""
    write(tmp_path / "run.log")
    monkeypatch.setattr("fsm_agent.log.behaviour.table_digest", lambda: "u" * 64)
    with pytest.raises(TableChanged):
        replay(tmp_path / "run.log")


def test_another_terminal(tmp_path: Path) -> None:
    """An end that the run did not have is named as such."""
    write(tmp_path / "run.log", end=other_terminal)
    assert found(tmp_path / "run.log").field == "terminal"
