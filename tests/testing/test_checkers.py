"""The run checker and the wire checker: silent on good runs, and each point speaks when what it is about goes wrong."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from attrs import evolve

from fsm_agent import testing
from fsm_agent.core.effects import CallModel, Emit, NotifyCommand
from fsm_agent.core.events import StreamCompleted, StreamFailed, ToolStarted
from fsm_agent.core.failures import ErrorKind, ModelFailure
from fsm_agent.core.outputs import TerminalOutput
from fsm_agent.core.state import initial
from fsm_agent.core.usage import ModelUsage
from fsm_agent.log.journal import Journal
from fsm_agent.scenario import load
from fsm_agent.scenario.drive import drive
from fsm_agent.testing import RUN_CHECKS, Evidence, check_requests, check_run, law, laws
from fsm_agent.testing.run_checker import Alive, nothing_is_left


def evidence(name: str) -> Evidence:
    """Play a packaged scenario on the reducer."""
    scenario = load(name)
    return Evidence(scenario.config, drive(scenario).steps)


def broken(words: tuple[str, ...]) -> set[str]:
    """Give the names of the points that do not hold."""
    return {word.partition(":")[0] for word in words}


@pytest.mark.parametrize("name", ["repair", "salvage", "queued-command", "fallback", "token-budget", "interrupt-tools"])
def test_good_runs_pass(name: str) -> None:
    """Both checkers are silent on runs of the catalog."""
    run = evidence(name)
    assert check_run(run) == ()
    assert check_requests(run.steps, run.config) == ()


def test_the_seven_points_have_names() -> None:
    """There is one function for each point of the field reports, and each says what it is about."""
    assert len(RUN_CHECKS) == 7
    assert [(check.__doc__ or "")[:2] for check in RUN_CHECKS] == [f"{number}." for number in range(1, 8)]


def test_too_many_calls() -> None:
    """1: a count of calls above the bound is named."""
    run = evidence("retry")
    found = check_run(evolve(run, config=evolve(run.config, max_model_calls=1)))
    assert broken(found) == {"calls_are_bounded"}


def test_two_endings_and_none() -> None:
    """2: an ending that is shown twice or not at all, and an exit code that does not agree."""
    run = evidence("hello")
    assert "it_ends_once" in broken(check_run(evolve(run, steps=run.steps[:-1])))
    event, made = run.steps[-1]
    ends = tuple(one for one in made.effects if isinstance(one, Emit) and isinstance(one.output, TerminalOutput))
    twice = (*run.steps[:-1], (event, evolve(made, effects=(*made.effects, *ends))))
    assert broken(check_run(evolve(run, steps=twice))) == {"it_ends_once"}
    assert broken(check_run(evolve(run, exit_code=1))) == {"it_ends_once"}
    assert check_run(evolve(run, exit_code=0)) == ()
    assert check_run(evolve(evidence("refusal"), exit_code=5)) == ()
    assert broken(check_run(evolve(evidence("refusal"), exit_code=0))) == {"it_ends_once"}


def test_a_call_that_ran_twice() -> None:
    """3: a body that ran twice, or without having begun, and a call that began twice."""
    run = evidence("next-turn")
    (started,) = [step for step in run.steps if isinstance(step[0], ToolStarted)]
    place = run.steps.index(started)
    twice = (*run.steps[: place + 1], started, *run.steps[place + 1 :])
    assert "calls_run_once" in broken(check_run(evolve(run, steps=twice)))
    name = run.steps[place - 1][1].state.control.tools.calls[0].id
    assert check_run(evolve(run, executed=(name,))) == ()
    assert broken(check_run(evolve(run, executed=(name, name)))) == {"calls_run_once"}
    assert broken(check_run(evolve(run, executed=(name, "another")))) == {"calls_run_once"}


def test_a_lost_input() -> None:
    """4: a command that is neither taken up nor handed back."""
    run = evidence("queued-command")
    steps = tuple(
        (event, evolve(made, effects=tuple(one for one in made.effects if not isinstance(one, NotifyCommand))))
        for event, made in run.steps
    )
    assert broken(check_run(evolve(run, steps=steps))) == {"inputs_are_not_lost"}


def test_what_is_left_behind() -> None:
    """5: a thread and a pipe that outlive a run."""
    run = evidence("hello")
    before = Alive.now()
    done = threading.Event()
    thread = threading.Thread(target=done.wait, name="left over")
    thread.start()
    here, there = os.pipe()
    try:
        words = nothing_is_left(evolve(run, before=before, after=Alive.now()))
    finally:
        done.set()
        thread.join()
        os.close(here)
        os.close(there)
    assert "left over" in words
    assert "pipe:" in words or not Path("/proc/self/fd").exists()
    assert nothing_is_left(evolve(run, before=before, after=Alive.now())) == ""


def test_its_log(tmp_path: Path) -> None:
    """6: a log that folds back into the run passes, and that of another run does not."""
    run = evidence("salvage")
    log = tmp_path / "run.jsonl"
    journal = Journal.create(log, run.config, initial(run.config), "session", "run")
    for event, made in run.steps:
        journal.append(event, made, sync=False)
    journal.close(run.state)
    assert check_run(evolve(run, log=log)) == ()
    assert "its_log_replays" in broken(check_run(evolve(evidence("hello"), log=log)))


def test_usage_that_was_forgotten() -> None:
    """7: an answer whose usage is not in the sum."""
    run = evidence("hello")
    more = (ModelUsage("another", 1, 1, cost=1),)
    steps = tuple(
        (evolve(event, usage=(*event.usage, *more)) if isinstance(event, StreamCompleted) else event, made)
        for event, made in run.steps
    )
    assert broken(check_run(evolve(run, steps=steps))) == {"usage_adds_up"}


def test_a_refused_body_that_is_sent_again() -> None:
    """Wire checker 9: the same body after a 400 is named."""
    run = evidence("hello")
    place = next(place for place, (_, made) in enumerate(run.steps) if any(isinstance(one, CallModel) for one in made.effects))
    call = next(one for one in run.steps[place][1].effects if isinstance(one, CallModel))
    refused = StreamFailed(id=call.id, failure=ModelFailure(kind=ErrorKind.INVALID_REQUEST))
    steps = (*run.steps[: place + 1], (refused, run.steps[place][1]))
    assert check_requests(steps, run.config) == ("request 2: it is equal to one that was refused",)


def test_laws_by_name() -> None:
    """A law is found by its name, a group by its number; a wrong name names the nearest."""
    assert law("unsafe_calls_run_alone").group == "I12"
    assert {one.group for one in laws("I6")} == {"I6"}
    assert len(laws()) > 45
    with pytest.raises(KeyError, match="did you mean 'one_end'"):
        law("one_ends")
    with pytest.raises(KeyError, match="the groups are"):
        laws("I99")


def test_every_name_of_the_kit_is_there() -> None:
    """Each public name can be had; an unknown one is an error."""
    for name in testing.__all__:
        assert getattr(testing, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        _ = testing.nonsense
