"""The matrix of the continuous check: no law broken, every row reached, all witnesses agree, counts as pinned."""

from __future__ import annotations

import json

import pytest

from fsm_agent.core.phases import CAUSES, ContinueReason, TerminalReason
from fsm_agent.core.rank import calls_bound
from fsm_agent.core.rows import TABLE
from fsm_agent.diagram.agreement import Agreement
from fsm_agent.diagram.render import carried_digest, digest
from fsm_agent.explorer.environment import NextRun
from fsm_agent.explorer.explore import Explored
from fsm_agent.explorer.matrix import CI, RELEASE
from fsm_agent.explorer.pages import budget_of, explored_page, shortest, shortest_rows
from fsm_agent.explorer.report import summary
from fsm_agent.explorer.side_by_side import explore_all
from fsm_agent.laws.runs import edges_of

from .matrix_run import PAGE, PICTURE, counts, coverage_dot, explored
from .regenerate import GOLDENS, RELEASED

PINNED = json.loads(GOLDENS.read_text())


def found_of(name: str) -> Explored:
    """Give what was found in a case."""
    return next(one for case, one in explored() if case.name == name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [case.name for case in CI])
def test_a_case_keeps_every_law(name: str) -> None:
    """The whole space of the case was visited, no law is broken, the witnesses agree, the counts are the pinned ones."""
    found = found_of(name)
    assert found.complete
    assert not found.violations, summary(name, found)
    assert counts(found) == PINNED[name]


@pytest.mark.slow
def test_the_matrix_is_large_and_reaches_every_row() -> None:
    """At least 25,000 states and 750,000 pairs; each declared row, each reason and each cause is reached."""
    cases = [one for _, one in explored()]
    assert sum(found.states for found in cases) >= 25_000
    assert sum(found.pairs for found in cases) >= 750_000
    reached = {name for found in cases for name in found.rows}
    assert [row.name for row in TABLE.rows if row.name not in reached] == []
    ends = {name for found in cases for name in found.reasons}
    assert [f"{reason}/{cause}" for reason in CAUSES for cause in CAUSES[reason] if f"{reason}/{cause}" not in ends] == []


@pytest.mark.slow
def test_every_edge_of_the_committed_graph_was_seen() -> None:
    """No edge of the committed graph is one that the explorer never takes, and the machine was fired for each of them."""
    reached = {name for _, found in explored() for name in found.rows}
    assert {edge.row for edge in Agreement().edges} == reached
    assert len(frozenset().union(*(found.valuations for _, found in explored()))) > len(TABLE.rows)


@pytest.mark.slow
def test_calls_stay_within_the_bound_of_the_ranking() -> None:
    """In no case are there more calls between two exempt ones than B(config), also where nothing else bounds them."""
    for case, found in explored():
        assert 0 < found.longest_call_run <= calls_bound(case.config, budget_of(case)), case.name
    assert (
        found_of("calls").longest_call_run < 1_000 <= next(case for case in CI if case.name == "calls").config.max_model_calls
    )


@pytest.mark.slow
def test_each_row_and_reason_has_its_shortest_path() -> None:
    """The path to each of 148 rows and 17 reasons, taken again from its start, takes it with its last event."""
    rows, reasons = shortest_rows(explored()), shortest(explored())
    assert len(reasons) == len(ContinueReason) + len(TerminalReason) == 17
    for name, (_, path) in rows.items():
        events = [event for event in path.events if not isinstance(event, NextRun)]
        assert len(events) == len(path.events)
        edges = edges_of(path.start, events, path.config)
        assert name in edges[-1].taken
        assert all(name not in edge.taken for edge in edges[:-1])
    assert set(rows) == {row.name for row in TABLE.rows}


@pytest.mark.slow
def test_page_and_picture_are_fresh() -> None:
    """The page of paths and the picture of coverage are those of this exploration."""
    assert PAGE.read_text(encoding="utf-8") == explored_page(explored()), "run python -m tests.explorer.regenerate"
    dot = coverage_dot(explored())
    assert PICTURE.read_text(encoding="utf-8") == dot
    for suffix in (".svg", ".png"):
        assert carried_digest(PICTURE.with_suffix(suffix).read_bytes()) == digest(dot)
    assert f"{len(TABLE.rows)} of {len(TABLE.rows)} rows covered (100 %)" in dot


def test_cases_have_names_of_their_own() -> None:
    """No two cases share a name, each says what it is about, and each is pinned."""
    names = [case.name for case in (*CI, *RELEASE)]
    assert len(set(names)) == len(names)
    assert all(case.text for case in (*CI, *RELEASE))
    assert {case.name for case in CI} | {"tiny"} == set(PINNED)


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_the_release_matrix() -> None:
    """At least six million pairs with every witness: no law is broken, and the counts are the pinned ones."""
    found = explore_all(RELEASE, jobs=2, oracle=Agreement())
    assert [fault for one in found for fault in one.violations] == []
    pinned = json.loads(RELEASED.read_text())
    assert {case.name: counts(one) for case, one in zip(RELEASE, found, strict=True)} == pinned
    assert sum(one.pairs for one in found) >= 6_000_000
