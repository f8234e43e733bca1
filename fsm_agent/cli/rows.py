"""The path of a run through the table, for people."""

from __future__ import annotations

from collections.abc import Iterable

from ..core.events import EventKind
from ..core.phases import Phase
from ..core.rows import TABLE
from ..core.table import Row, RowKind
from .console import Paint

_COLOURS = {RowKind.CONTINUE: "green", RowKind.TERMINAL: "magenta", RowKind.INTERNAL: None}


def by_name() -> dict[str, Row]:
    """Give the rows of the table by name."""
    return {row.name: row for row in TABLE.rows}


def path_lines(taken: Iterable[str], paint: Paint, *, arrow: str = "→") -> list[str]:
    """Give one line for each pass of the loop: the phases that it went through, and the row that ended it.

    Args:
        taken: names of rows, in order; names of ignored cells among them are passed over.
        paint: colours.
        arrow: between two phases.
    """
    rows = by_name()
    lines: list[str] = []
    phases: list[str] = []
    for row in (rows[name] for name in taken if name in rows):
        if not phases:
            phases.append(row.source.value)
        if row.kind is RowKind.INTERNAL:
            if row.target is not row.source:
                phases.append(row.target.value)
            continue
        if row.kind is RowKind.TERMINAL:
            phases.append(row.target.value)
        lines.append(_line(len(lines) + 1, phases, arrow, paint(row.name, _COLOURS[row.kind], bold=True)))
        phases = []
    if phases:
        lines.append(_line(len(lines) + 1, phases, arrow, ""))
    return lines


def recoveries(taken: Iterable[str]) -> list[str]:
    """Name the rows by which a run got over a failure within a pass, such as ``retry`` and ``fallback``, in order.

    They are no reasons to go on: the loop makes another attempt at the same pass.
    """
    rows = by_name()
    return [name for name in taken if name in rows and _recovers(rows[name])]


def _recovers(row: Row) -> bool:
    plain = row.target is Phase.RUNNING_STOP_HOOKS or row.name == "run_tools"
    return row.kind is RowKind.INTERNAL and row.source is Phase.DECIDING and row.event is EventKind.AUTO and not plain


def _line(number: int, phases: list[str], arrow: str, ending: str) -> str:
    return f"  {number:>3}  {f' {arrow} '.join(phases)}  {ending}".rstrip()
