"""The matrix of the continuous check: no law broken, every row reached, counts as pinned."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from fsm_agent.core.phases import CAUSES
from fsm_agent.core.rows import TABLE
from fsm_agent.explorer.explore import Explored, explore
from fsm_agent.explorer.matrix import CI, RELEASE
from fsm_agent.explorer.report import summary

GOLDENS = json.loads((Path(__file__).parent / "goldens.json").read_text())
QUICK = ("early", "limits")
"""Cases that take a few seconds; the others are marked slow."""


@cache
def explored(name: str) -> Explored:
    """Explore a case once for all tests."""
    case = next(case for case in CI if case.name == name)
    return explore(case.config, case.bounds, jobs=2)


@pytest.mark.parametrize("name", [pytest.param(case.name, marks=() if case.name in QUICK else pytest.mark.slow) for case in CI])
def test_a_case_keeps_every_law(name: str) -> None:
    """The whole space of the case was visited, no law is broken, and the counts are the pinned ones."""
    found = explored(name)
    assert found.complete
    assert not found.violations, summary(name, found)
    counts = {"states": found.states, "pairs": found.pairs, "depth": found.depth, "rows": len(found.rows)}
    assert counts == GOLDENS[name]


@pytest.mark.slow
def test_the_matrix_is_large_and_reaches_every_row() -> None:
    """At least 25,000 states and 750,000 pairs; each declared row, each reason and each cause is reached."""
    cases = [explored(case.name) for case in CI]
    assert sum(found.states for found in cases) >= 25_000
    assert sum(found.pairs for found in cases) >= 750_000
    reached = {name for found in cases for name in found.rows}
    assert [row.name for row in TABLE.rows if row.name not in reached] == []
    ends = {name for found in cases for name in found.reasons}
    assert [f"{reason}/{cause}" for reason in CAUSES for cause in CAUSES[reason] if f"{reason}/{cause}" not in ends] == []


def test_cases_have_names_of_their_own() -> None:
    """No two cases share a name, and each continuous case is pinned."""
    names = [case.name for case in (*CI, *RELEASE)]
    assert len(set(names)) == len(names)
    assert {case.name for case in CI} | {"tiny"} == set(GOLDENS)
