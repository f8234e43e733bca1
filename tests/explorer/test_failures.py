"""What goes wrong in an exploration is told: laws that cannot judge, workers that die, a program that is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import evolve

from fsm_agent.core.config import LoopConfig
from fsm_agent.core.state import LoopState, initial
from fsm_agent.explorer.explore import explore
from fsm_agent.explorer.relay import WorkerLost
from fsm_agent.explorer.side_by_side import explore_all
from fsm_agent.laws import Edge, Law, LawError, edge_law, judge_run, run_law, state_law
from fsm_agent.laws.runs import edges_of
from fsm_agent.testing import drive, load

from .small import TINY

PARENT = os.getpid()
JOBS = pytest.mark.parametrize("jobs", [1, 2])


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide a frontier at once."""
    monkeypatch.setattr("fsm_agent.explorer.teams.FEW", 4)


class Odd(Exception):
    """An error that does not survive a pipe."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"odd {one} {two}")


@state_law()
def divides(state: LoopState, config: LoopConfig) -> str:
    """Raise at the second call."""
    return str(1 // (2 - state.control.guards.model_calls))[9:]


@edge_law()
def raises_oddly(edge: Edge) -> str:
    """Raise in a worker what cannot be sent; in this process nothing."""
    if os.getpid() != PARENT:
        raise Odd(1, 2)
    return ""


@edge_law()
def says_true(edge: Edge) -> str:
    """Answer like a question."""
    return edge.ended  # type: ignore[return-value]


@edge_law()
def says_nothing(edge: Edge) -> str:  # type: ignore[empty-body]
    """Forget to return."""


@JOBS
def test_a_law_that_raises_is_named_with_its_state(jobs: int) -> None:
    """It ends the exploration; the path to the state is told, and what was raised is the cause."""
    with pytest.raises(LawError, match=r"^the law divides raised ZeroDivisionError: .* behind \S+, \S+") as told:
        explore(TINY.config, TINY.bounds, (divides,), jobs)
    assert isinstance(told.value.__cause__, ZeroDivisionError)
    assert (told.value.law, told.value.ordinal) == ("divides", -1)
    assert told.value.state > 0


def test_what_cannot_be_sent_is_told_in_words() -> None:
    """An error of a worker that no pipe takes arrives with its traceback."""
    with pytest.raises(LawError, match="the law raises_oddly raised Odd: odd 1 2, behind") as told:
        explore(TINY.config, TINY.bounds, (raises_oddly,), 2)
    assert isinstance(told.value.__cause__, WorkerLost)
    assert "in raises_oddly" in str(told.value.__cause__)


@JOBS
@pytest.mark.parametrize(("law", "gave"), [(says_true, "False"), (says_nothing, "None")])
def test_a_law_that_gives_no_text_is_named(law: Law, gave: str, jobs: int) -> None:
    """Whatever it gives, and be it nothing, is said with what a law gives: it would never be heard."""
    with pytest.raises(LawError, match=f"the law {law.name} gave {gave}; a law gives a text: .*, behind"):
        explore(TINY.config, TINY.bounds, (law,), jobs)


def test_a_run_is_judged_by_laws_that_can_judge() -> None:
    """The same over a recorded run: the law is named, with the event."""
    scenario = load("hello")
    edges = edges_of(initial(scenario.config), [event for event, _ in drive(scenario).steps], scenario.config)
    with pytest.raises(LawError, match=r"the law says_true gave False; .*, at event 0"):
        judge_run(edges, scenario.config, [says_true])

    @run_law()
    def whole(edges: tuple[Edge, ...], config: LoopConfig) -> str:
        """Raise."""
        raise KeyError("x")

    with pytest.raises(LawError, match="the law whole raised KeyError: 'x', over the whole run"):
        judge_run(edges, scenario.config, [whole])


@run_law()
def never_content(edges: tuple[Edge, ...], config: LoopConfig) -> str:
    """Find fault with every run."""
    return "always wrong"


@JOBS
def test_a_law_over_runs_is_refused(jobs: int) -> None:
    """An exploration has no runs; a law that it could never ask must not seem to hold."""
    with pytest.raises(TypeError, match=r"never_content: an exploration sees states and edges.*judge_run"):
        explore_all([TINY, evolve(TINY, name="again")], (never_content,), jobs)


@state_law()
def kills_its_worker(state: LoopState, config: LoopConfig) -> str:
    """Die as one dies for lack of memory."""
    if os.getpid() != PARENT:
        os.kill(os.getpid(), signal.SIGKILL)
    return ""


@pytest.mark.parametrize("cases", [1, 2])
def test_a_worker_that_dies_is_told(cases: int) -> None:
    """Nobody waits for its word, whether it has a case of its own or a part of one."""
    with pytest.raises(WorkerLost, match="ended by signal 9 before it was done"):
        explore_all([TINY, evolve(TINY, name="again")][:cases], (kills_its_worker,), jobs=2)


SLOW = """
import time
from fsm_agent.explorer import teams
from fsm_agent.explorer.matrix import CI
from fsm_agent.explorer.side_by_side import explore_all
from fsm_agent.laws import state_law

teams.FEW = 4

@state_law()
def slow(state, config):
    time.sleep(0.02)
    return ""

explore_all(CI[:{cases}], (slow,), jobs=2)
"""


@pytest.mark.parametrize("cases", [1, 2])
def test_workers_do_not_outlive_the_program(cases: int) -> None:
    """A program that is killed leaves no process behind that waits for its word."""
    program = subprocess.Popen([sys.executable, "-c", SLOW.format(cases=cases)])
    try:
        children = _wait(lambda: found if len(found := _children(program.pid)) == 2 else [])
    finally:
        program.kill()
        program.wait()
    assert len(children) == 2
    assert _wait(lambda: not any(map(_runs, children)))


def _wait(found: Callable[[], object], seconds: float = 60.0) -> list[int]:
    """Wait for what is true; gives the last answer."""
    until = time.monotonic() + seconds
    while not (answer := found()) and time.monotonic() < until:
        time.sleep(0.05)
    return answer  # type: ignore[return-value]


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _runs(pid: int) -> bool:
    """Tell whether a process is there, and not only its exit code, which nobody may have asked for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
