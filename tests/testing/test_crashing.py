"""Crash everywhere: the engine dies at every state and stage, in memory and in real logs; wrong recoveries are caught."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve
from build import looks_inside
from click.testing import CliRunner

from fsm_agent.cli.explore import command
from fsm_agent.core.config import LoopConfig
from fsm_agent.core.control import Control, Flight
from fsm_agent.core.effects import EffectKind
from fsm_agent.core.events import EffectLost, Event
from fsm_agent.core.state import LoopState, Step
from fsm_agent.explorer.bounds import Bounds
from fsm_agent.explorer.matrix import CI, SMALL, Case
from fsm_agent.explorer.paths import paths_to_row
from fsm_agent.testing import Crashed, crash_everywhere
from fsm_agent.testing.crash_files import faults_of_files
from fsm_agent.testing.crash_points import Stage, resume
from fsm_agent.testing.crashing import WIDE
from fsm_agent.testing.resuming import crashed
from tests.explorer.small import NARROW

SMALLEST = Case(
    "smallest",
    evolve(SMALL, max_turns=2, max_model_calls=2, attachments=True, stop_hooks=True, prefetch_memory=True, tool_summaries=True),
    evolve(NARROW, tools=1, kinds=("write",), stops=("end_turn", "tool_use"), outcomes=("ok",), compactions=("small",)),
)
"""A tool that changes something, hooks, attachments, a prefetch, a summary; nothing else goes wrong."""
SHALLOW = evolve(SMALLEST, bounds=evolve(SMALLEST.bounds, depth=6))
"""Its beginning, for recoveries that are wrong."""


def found(case: Case, every: int = 0) -> Crashed:
    return crash_everywhere(case.config, case.bounds, every=every)


def sound(made: Crashed) -> None:
    assert not made.explored.violations, made.explored.violations[0]
    assert made.faults == ()
    assert made.explored.complete


def test_a_small_machine_survives_every_crash() -> None:
    """Every stage of every kind of effect that there is; some states in real logs too."""
    made = found(SMALLEST, every=40)
    sound(made)
    counts = {(kind, stage): count for kind, stage, count in made.stages}
    kinds = {kind for (kind, _), count in counts.items() if count}
    assert kinds == set(EffectKind) - {EffectKind.COMPACT, EffectKind.COLLAPSE, EffectKind.SKILLS, EffectKind.TIMER}
    assert all(counts[kind, stage] for kind in kinds for stage in Stage)
    assert made.logs >= 10
    assert made.recoveries >= 5_000


@pytest.mark.slow
@pytest.mark.parametrize("name", ["early", "manual"])
def test_cases_of_the_matrix_survive_every_crash(name: str) -> None:
    """Early starts, failures, aborts and compactions, over some thousand recoveries."""
    made = found(next(case for case in CI if case.name == name), every=50)
    sound(made)
    assert made.recoveries >= 3_000


@pytest.mark.long
def test_the_whole_matrix_survives_every_crash() -> None:
    """The release form: at least 500,000 recoveries, every kind of effect at every stage."""
    cases = [crash_everywhere(case.config, case.bounds, jobs=2) for case in (*CI, WIDE)]
    for made in cases:
        assert not made.explored.violations, made.explored.violations[0]
        assert made.faults == ()
    assert sum(made.recoveries for made in cases) >= 500_000
    counts = {(kind, stage): 0 for kind in EffectKind for stage in Stage}
    for made in cases:
        for kind, stage, count in made.stages:
            counts[kind, stage] += count
    assert [key for key, count in counts.items() if not count] == []


def words_of(made: Crashed) -> str:
    return made.explored.violations[0].words


def test_a_resume_that_forgets_an_effect_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in flight at a death is told as lost, all of it."""

    def forgetful(state: LoopState) -> tuple[EffectLost, ...]:
        return tuple(EffectLost(flight.id) for flight in state.control.flight[1:])

    monkeypatch.setattr("fsm_agent.testing.crash_points.lost_in", forgetful)
    assert "not told that it is lost" in words_of(found(SHALLOW))


@looks_inside
def test_a_tool_that_is_run_again_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that had begun is not asked for again, whatever its tool."""
    from fsm_agent.core import step as reducer

    lost = reducer.lost

    def careless(event: EffectLost, flight: Flight, control: Control, config: LoopConfig) -> Event:
        begun = flight.kind is EffectKind.TOOL and any(call.started for call in control.tools.calls)
        return event if begun else lost(event, flight, control, config)

    monkeypatch.setattr(reducer, "lost", careless)
    assert "is asked for again, and it has begun" in words_of(found(SHALLOW))


@looks_inside
def test_a_wait_without_end_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a crash keeps killing is given up in the end."""
    from fsm_agent.core import step as reducer

    lost = reducer.lost

    def stubborn(event: EffectLost, flight: Flight, control: Control, config: LoopConfig) -> Event:
        return event if flight.kind is EffectKind.HOOKS else lost(event, flight, control, config)

    monkeypatch.setattr(reducer, "lost", stubborn)
    assert "times in one wait" in words_of(found(SHALLOW))


def test_a_user_message_that_is_lost_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the user said and the log holds is in the history once, or comes back."""
    from fsm_agent.testing import crash_points

    step = crash_points.step

    def dropping(state: LoopState, event: Event, config: LoopConfig) -> Step:
        made = step(state, event, config)
        if isinstance(event, EffectLost) and made.state.data.inbox.commands:
            inbox = evolve(made.state.data.inbox, commands=())
            return evolve(made, state=evolve(made.state, data=evolve(made.state.data, inbox=inbox)))
        return made

    monkeypatch.setattr(crash_points, "step", dropping)
    case = evolve(SHALLOW, bounds=evolve(SHALLOW.bounds, commands=1, depth=4))
    assert "is there 0 times" in words_of(found(case))


def test_a_log_that_folds_to_another_state_is_caught(tmp_path: Path) -> None:
    """The state behind the cut is the one that was written."""
    explored = found(SHALLOW).explored
    path = paths_to_row(explored, "tool_finished")
    assert path is not None
    state, taken = path.start, []
    for event in path.events:
        from fsm_agent.core.step import step

        made = step(state, event, path.config)
        taken.append((event, made))
        state = made.state
    assert faults_of_files(tmp_path, path.start, taken, path.config) == []
    run = evolve(taken[-1][1].state.control.run, turn_count=7)
    wrong = evolve(taken[-1][1], state=evolve(state, control=evolve(state.control, run=run)))
    words = faults_of_files(tmp_path, path.start, [*taken[:-1], (taken[-1][0], wrong)], path.config)
    assert words == ["whole: it folds to another state than the one that was written"]


def test_the_two_resumes_of_the_kit_agree() -> None:
    """What is fed from every prefix of a log is what is fed at every state."""
    path = paths_to_row(found(SHALLOW).explored, "tool_finished")
    assert path is not None
    from fsm_agent.laws.runs import edges_of

    state = edges_of(path.start, path.events, path.config)[-1].before
    assert resume(state, path.config).steps == crashed(state, path.config)


def test_the_command() -> None:
    """``explore --crash`` says how often it died, of what, and that nothing was lost."""
    options = ["manual", "--crash", "--jobs", "1", "--bound", "depth=4"]
    said = CliRunner().invoke(command, options, standalone_mode=False)
    assert said.exception is None
    assert "nothing was lost or done twice" in said.output
    assert "finished" in said.output


def test_bounds_may_be_left_out() -> None:
    """The default bounds do."""
    with pytest.raises(ValueError, match="every=-1: one state in so many, or 0 for none"):
        crash_everywhere(SMALL, Bounds(blocks=1, tools=0, depth=3), every=-1)
    made = crash_everywhere(SMALL, Bounds(blocks=1, tools=0, depth=3), every=10)
    assert made.states
    assert not made.explored.violations
