"""The explorer: it visits what is there, once, by the shortest way, and finds what is wrong."""

from __future__ import annotations

import json
import re
from array import array
from functools import cache
from pathlib import Path

import pytest
from attrs import evolve

from fsm_agent.core.config import LoopConfig
from fsm_agent.core.phases import TERMINAL_SET, Cause, ContinueReason, TerminalReason
from fsm_agent.core.rows import TABLE
from fsm_agent.core.state import LoopState
from fsm_agent.core.step import Lookup
from fsm_agent.diagram.agreement import Agreement
from fsm_agent.explorer.bounds import Form
from fsm_agent.explorer.explore import Explored, Pace, explore
from fsm_agent.explorer.live import Graph, liveness
from fsm_agent.explorer.matrix import CI, RELEASE, SMALL
from fsm_agent.explorer.paths import all_paths, length_to, paths_to, paths_to_row
from fsm_agent.explorer.report import counterexample, summary
from fsm_agent.explorer.side_by_side import explore_all
from fsm_agent.laws import LAWS, Edge, edge_law, state_law
from fsm_agent.laws.runs import edges_of

from .matrix_run import counts
from .small import NARROW, TINY

GOLDENS = Path(__file__).parent / "goldens.json"


@cache
def tiny() -> Explored:
    """Explore the tiny case once for all tests."""
    return explore(TINY.config, TINY.bounds, oracle=Agreement())


def test_the_tiny_case_keeps_every_law() -> None:
    """No law is broken in the whole space, and every run can end."""
    assert tiny().complete
    assert summary("tiny", tiny()).count("\n") == 0, summary("tiny", tiny())


def test_counts_are_those_of_the_goldens() -> None:
    """States, pairs and depth are pinned; ``python -m tests.explorer.regenerate`` writes them anew."""
    assert json.loads(GOLDENS.read_text())["tiny"] == counts(tiny())


def test_two_jobs_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts, coverage and first paths do not depend on how many processes share the frontier."""
    monkeypatch.setattr("fsm_agent.explorer.teams.FEW", 4)
    one, two = tiny(), explore(TINY.config, TINY.bounds, jobs=2)
    assert (one.states, one.pairs, one.edges, one.depth) == (two.states, two.pairs, two.edges, two.depth)
    assert one.rows == two.rows
    assert one.reasons == two.reasons
    assert list(one.graph.parents) == list(two.graph.parents)
    assert list(one.graph.ordinals) == list(two.graph.ordinals)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["thinking", "layers", "edits", "collapse", "money", "loops", "salvage"])
def test_all_states_of_a_value_are_taken_alike(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Held against every other state of its value that is met, none takes other rows or comes to another value."""
    monkeypatch.setattr("fsm_agent.explorer.twins.LATE", 1)
    case = next(case for case in CI if case.name == name)
    found = explore(case.config, case.bounds, (), sample=1)
    assert not found.violations, summary(name, found)
    assert found.checked > 100


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("name", ["binding", "layers-wide"])
def test_all_states_of_a_wide_case_are_taken_alike(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same where layers rewrite old rounds that have summaries, and where thinking is bound to what stands before it."""
    monkeypatch.setattr("fsm_agent.explorer.twins.LATE", 1)
    case = next(case for case in RELEASE if case.name == name)
    found = explore(case.config, case.bounds, (), sample=1)
    assert not found.violations, summary(name, found)
    assert found.checked > 10_000


def test_two_calls_with_the_id_of_an_earlier_one_are_taken_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second call that comes with the id of an earlier round is a repetition only behind the first."""
    monkeypatch.setattr("fsm_agent.explorer.twins.LATE", 1)
    bounds = evolve(NARROW, tools=2, blocks=2, pieces=(), forms=(Form.WHOLE, Form.MALFORMED, Form.OLD), outcomes=("ok",))
    found = explore(evolve(SMALL, max_turns=2, max_model_calls=2), bounds, (), sample=1)
    assert not found.violations, summary("old", found)
    assert found.checked > 100


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hidden", "name", "depth"),
    [("_large", "money", 0), ("_answer", "loops", 9), ("_thoughts", "thinking", 0), ("_spans", "layers-wide", 7)],
)
def test_each_fact_behind_the_control_decides(hidden: str, name: str, depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any one of them two states of one value part, and the comparison sees it."""
    monkeypatch.setattr(f"fsm_agent.explorer.behind.{hidden}", lambda *_: 0)
    case = next(case for case in (*CI, *RELEASE) if case.name == name)
    found = explore(case.config, evolve(case.bounds, depth=depth), (), sample=1)
    assert "step_respects_abstract" in {fault.law for fault in found.violations}


def test_an_abstraction_that_hides_something_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what lies behind the control in the data, states of one value part; the comparison sees it."""
    monkeypatch.setattr("fsm_agent.explorer.twins.LATE", 1)
    monkeypatch.setattr("fsm_agent.explorer.abstract.behind", lambda state, config, loops: ())
    case = next(case for case in CI if case.name == "layers")
    found = explore(case.config, evolve(case.bounds, depth=8), (), sample=1)
    assert "step_respects_abstract" in {fault.law for fault in found.violations}


def test_a_session_goes_on_to_its_next_run() -> None:
    """With two runs every ending is gone on from: the second begins where the first left the session."""
    once = explore(SMALL, evolve(NARROW, requests=True))
    twice = explore(SMALL, evolve(NARROW, requests=True, runs=2))
    assert not twice.violations, summary("session", twice)
    assert twice.states > 2 * once.states
    assert set(twice.rows) >= set(once.rows)
    assert twice.depth > once.depth + 2


def test_a_counterexample_may_need_two_runs() -> None:
    """A law that only a second run breaks is reported as a test that goes on from the first."""

    @edge_law()
    def one_prompt(edge: Edge) -> str:
        """A session has one prompt."""
        prompts = [item for item in edge.made.state.data.messages if item.id.startswith("prompt")]
        return "two prompts" if len(prompts) > 1 else ""

    found = explore(SMALL, evolve(NARROW, runs=2), (one_prompt,))
    (fault,) = [fault for fault in found.violations if fault.law == "one_prompt"]
    assert "session.next_run" in fault.path
    text = counterexample(found, fault, (one_prompt,))
    assert "next_run(edges[-1].made.state, config)" in text
    compile(text, "counterexample", "exec")


def test_cases_side_by_side_find_the_same() -> None:
    """What is found in two processes at once is what one finds after the other, and comes in the order of the cases."""
    cases = [
        TINY,
        evolve(TINY, name="narrow", bounds=NARROW),
        evolve(TINY, name="shallow", bounds=evolve(TINY.bounds, depth=3)),
    ]
    heard: list[str] = []
    two = explore_all(cases, jobs=2, progress=lambda name, pace: heard.append(name), oracle=Agreement())
    one = explore_all(cases, jobs=1, oracle=Agreement())
    assert [counts(found) for found in one] == [counts(found) for found in two]
    assert [found.rows for found in one] == [found.rows for found in two]
    assert set(heard) == {"tiny", "narrow", "shallow"}


def test_what_goes_wrong_in_a_process_is_told() -> None:
    """A law that fails to judge ends the whole exploration with its own error, also when another process met it."""

    @state_law()
    def broken(state: LoopState, config: LoopConfig) -> str:
        """It cannot judge."""
        raise RuntimeError("no judge")

    with pytest.raises(RuntimeError, match="no judge"):
        explore_all([TINY, evolve(TINY, name="again")], (broken,), jobs=2)


def test_progress_is_told_after_each_level() -> None:
    """The callback hears of each level, with counts that only grow."""
    heard: list[Pace] = []
    found = explore(SMALL, NARROW, progress=heard.append)
    assert [pace.depth for pace in heard] == list(range(1, len(heard) + 1))
    assert [pace.states for pace in heard] == sorted(pace.states for pace in heard)
    assert heard[-1].states == found.states
    assert heard[-1].frontier == 0


def test_a_narrow_world_is_small() -> None:
    """With one text, one stop reason and no mishap there is little to see: the count can be followed by hand."""
    found = explore(SMALL, NARROW)
    # ready, calling, with a text, empty retry, with a text, five ends: completed, empty reply, three aborts; and failures.
    assert found.complete
    assert not found.violations
    assert found.states < 30


def test_limits_stop_a_search() -> None:
    """A limit on depth or states ends the search, which then says that it is not complete."""
    shallow = explore(TINY.config, evolve(TINY.bounds, depth=2))
    assert (shallow.depth, shallow.complete) == (1, False)
    few = explore(TINY.config, evolve(TINY.bounds, states=10))
    assert few.states >= 10
    assert not few.complete


def test_paths_lead_where_they_say() -> None:
    """The path to each row takes that row in its last step, and not before."""
    paths = all_paths(tiny())
    assert set(paths) == set(tiny().rows)
    for name, path in paths.items():
        edges = edges_of(path.start, path.events, path.config)
        assert name in edges[-1].made.taken
        assert all(name not in edge.made.taken for edge in edges[:-1])


def test_paths_to_reasons() -> None:
    """A terminal reason is reached at the end of its path; an unknown one has none; causes may be named."""
    path = paths_to(tiny(), TerminalReason.COMPLETED, Cause.END_TURN)
    assert path is not None
    last = edges_of(path.start, path.events, path.config)[-1].made.state
    assert last.terminal is not None
    assert last.terminal.cause is Cause.END_TURN
    assert paths_to(tiny(), TerminalReason.BLOCKING_LIMIT) is None
    escalated = paths_to(tiny(), ContinueReason.MAX_OUTPUT_TOKENS_ESCALATE)
    assert escalated is not None
    assert "max_output_tokens_escalate" in escalated.rows
    assert paths_to_row(tiny(), "collapse_drain_retry") is None


def test_paths_by_words() -> None:
    """Reasons and causes may be given as their words; what is no word of the machine is refused, not sought."""
    by_words = paths_to(tiny(), "completed", "end_turn")
    assert by_words == paths_to(tiny(), TerminalReason.COMPLETED, Cause.END_TURN)
    assert by_words is not None
    assert paths_to(tiny(), "next_turn") == paths_to(tiny(), ContinueReason.NEXT_TURN)
    for ask, said in (
        (lambda: paths_to(tiny(), "complete"), "there is no reason 'complete'; did you mean 'completed'?"),
        (lambda: paths_to(tiny(), "completed", "endturn"), "there is no cause 'endturn'; did you mean 'end_turn'?"),
        (lambda: paths_to(tiny(), "max_turns", "hook"), "max_turns never has the cause hook; its causes are max_turns"),
        (lambda: paths_to(tiny(), "next_turn", "hook"), "next_turn never has the cause hook; only terminal reasons have"),
        (lambda: paths_to_row(tiny(), "next_turns"), "there is no declared row 'next_turns'; did you mean 'next_turn'?"),
        (lambda: length_to(tiny(), "nosuch"), "there is no declared row 'nosuch'"),
    ):
        with pytest.raises(ValueError, match=re.escape(said)):
            ask()


@state_law()
def never_two_calls(state: LoopState, config: LoopConfig) -> str:
    """A law of a user that the loop does not keep."""
    return "two calls were made" if state.control.guards.model_calls == 2 else ""


@edge_law()
def never_interrupted(edge: Edge) -> str:
    """Another one, over edges."""
    terminal = edge.made.state.data.terminal
    return "interrupted" if edge.ended and terminal is not None and terminal.cause is Cause.INTERRUPT else ""


def test_a_broken_law_has_the_shortest_path() -> None:
    """A user's law that is broken is reported once, with the shortest path to a breach."""
    found = explore(TINY.config, TINY.bounds, (never_two_calls, never_interrupted))
    assert {fault.law: len(fault.path) for fault in found.violations} == {"never_interrupted": 1, "never_two_calls": 2}


def test_a_counterexample_is_a_test() -> None:
    """The report of a violation is a module with one test, which fails for the reason that it gives."""
    found = explore(TINY.config, TINY.bounds, (never_interrupted,))
    text = counterexample(found, found.violations[0], (never_interrupted,))
    space: dict[str, object] = {}
    exec(compile(text, "counterexample", "exec"), space)
    test = space["test_never_interrupted"]
    assert callable(test)
    with pytest.raises(AssertionError, match="interrupted"):
        test()


def test_a_retargeted_row_is_noticed() -> None:
    """A table whose row leads elsewhere breaks a law within a few steps."""
    rows = tuple(
        evolve(row, target=next(iter(TERMINAL_SET & {row.target}), row.source))
        if row.name == "stream_started"
        else evolve(row, target=TABLE.rows[0].source)
        if row.name == "stream_failed"
        else row
        for row in TABLE.rows
    )
    found = explore(TINY.config, evolve(TINY.bounds, depth=3), lookup=Lookup(evolve(TABLE, rows=rows)))
    assert found.violations


def _graph(links: list[list[tuple[int, bool]]], terminal: list[int]) -> Graph:
    return Graph(
        parents=array("q", [-1] + [0] * (len(links) - 1)),
        ordinals=array("q", [-1] + [0] * (len(links) - 1)),
        terminal=array("b", [number in terminal for number in range(len(links))]),
        successors=[array("q", [target * 2 + fair for target, fair in targets]) for targets in links],
    )


def test_liveness_finds_what_never_ends() -> None:
    """A state without a way to an end, one that nothing answers, and a circle of answers are each reported."""
    good = _graph([[(1, False)], [(2, True)], []], [2])
    assert liveness(good) == []
    dead = _graph([[(1, False), (2, False)], [(1, True)], []], [2])
    assert [name for name, _, _ in liveness(dead)] == ["a_terminal_is_reachable", "answers_lead_to_an_end"]
    waits = _graph([[(1, False)], [(2, False)], []], [2])
    assert [name for name, _, _ in liveness(waits)] == ["something_is_awaited"]
    circle = _graph([[(1, False)], [(2, True), (3, True)], [(1, True)], []], [3])
    assert [name for name, _, _ in liveness(circle)] == ["answers_lead_to_an_end"]


def test_every_law_is_judged() -> None:
    """The built-in laws are what an exploration judges when nothing else is said."""
    assert len(LAWS) > 40
