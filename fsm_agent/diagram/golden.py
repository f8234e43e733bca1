"""The committed graph of the machine: one line a row, written only when somebody means to change the machine.

It is the third witness beside ``step`` and the ``transitions`` machine. Both of those are made from the declared table;
this file is not read from it, so a row that is retargeted by mistake parts from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ..core.events import EventKind
from ..core.phases import Phase
from .machine import Edge, TableMachine

PATH = Path(__file__).with_name("golden_graph.tsv")
_HEAD = "row\tsource\ttrigger\ttarget\tguard"


class GoldenError(ValueError):
    """The committed graph cannot be read."""


def golden_text(edges: Iterable[Edge] | None = None) -> str:
    """Write a graph as the committed file holds it; by default that of the declared table."""
    chosen = TableMachine().edges if edges is None else edges
    lines = ["\t".join((edge.row, edge.source, edge.trigger, edge.target, edge.guard)) for edge in sorted(chosen)]
    return "\n".join([_HEAD, *lines, ""])


def golden_edges(text: str | None = None) -> tuple[Edge, ...]:
    """Read the committed graph.

    Args:
        text: what to read; by default the committed file.

    Raises:
        GoldenError: for a line that is no edge of a machine.
    """
    lines = (PATH.read_text(encoding="utf-8") if text is None else text).splitlines()
    if not lines or lines[0] != _HEAD:
        raise GoldenError(f"the first line is not {_HEAD!r}")
    found: list[Edge] = []
    phases, kinds = {phase.value for phase in Phase}, {kind.value for kind in EventKind}
    for number, line in enumerate(lines[1:], 2):
        parts = line.split("\t")
        if len(parts) != 5 or {parts[1], parts[3]} - phases or parts[2] not in kinds:
            raise GoldenError(f"line {number} is no edge: {line!r}")
        found.append(Edge(*parts))
    return tuple(found)
