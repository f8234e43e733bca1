"""The continuous matrix, explored once for all tests of a process, with every witness."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from fsm_agent.diagram import Ink, Paint
from fsm_agent.diagram.agreement import Agreement
from fsm_agent.diagram.dot import write_dot
from fsm_agent.diagram.model import picture
from fsm_agent.explorer.explore import Explored
from fsm_agent.explorer.matrix import CI, Case
from fsm_agent.explorer.side_by_side import explore_all

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "reference" / "explored.md"
PICTURE = REPOSITORY / "diagrams" / "coverage.dot"


@cache
def explored() -> tuple[tuple[Case, Explored], ...]:
    """Explore every case of the continuous matrix, as many at once as there are cores."""
    return tuple(zip(CI, explore_all(CI, jobs=os.cpu_count() or 1, oracle=Agreement()), strict=True))


def counts(found: Explored) -> dict[str, int]:
    """Give what is pinned of an exploration."""
    return {
        "states": found.states,
        "pairs": found.pairs,
        "edges": found.edges,
        "depth": found.depth,
        "rows": len(found.rows),
        "calls": found.longest_call_run,
        "valuations": len(found.valuations),
    }


def paint(found: tuple[tuple[Case, Explored], ...]) -> Paint:
    """Add up how often each row was taken."""
    taken: dict[str, int] = {}
    for _, one in found:
        for name, count in one.rows.items():
            taken[name] = taken.get(name, 0) + count
    return Paint(Ink.WEIGHT, taken)


def coverage_dot(found: tuple[tuple[Case, Explored], ...]) -> str:
    """Draw the machine with each row weighted by how often it was taken."""
    return write_dot(picture(), paint(found))
