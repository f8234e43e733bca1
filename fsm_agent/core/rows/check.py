"""Import-time checks of a declared table: a table that is not total and consistent is refused (spec 04)."""

from __future__ import annotations

from ..events import EVENT_KINDS, EventKind
from ..phases import CAUSES, TERMINAL_SET, TRANSIENT, ContinueReason, Phase, TerminalReason
from ..table import Ignore, Reject, Row, RowKind, Table


class TableError(ValueError):
    """A declaration that cannot be a machine; the text names the rows at fault."""


def check(table: Table) -> None:
    """Refuse a table with a blank cell, a duplicate, an unreachable row or reasons that are not exactly the declared ones.

    Raises:
        TableError: with the first fault found.
    """
    _names(table)
    _cells(table)
    for row in table.rows:
        _row(row)
    _reasons(table)
    _reachable(table)


def _names(table: Table) -> None:
    seen: set[str] = set()
    entries: list[Row | Ignore | Reject] = [*table.rows, *table.ignores, *table.rejects]
    for entry in entries:
        if entry.name in seen:
            raise TableError(f"the name {entry.name!r} is used twice")
        seen.add(entry.name)
        because = entry.text if isinstance(entry, Row) else entry.because
        if not because.strip():
            raise TableError(f"{entry.name!r} does not say why")


def _cells(table: Table) -> None:
    rows: dict[tuple[Phase, EventKind], list[Row]] = {}
    for row in table.rows:
        rows.setdefault((row.source, row.event), []).append(row)
    blanks = [(entry.source, entry.event) for entry in table.ignores]
    blanks += [(entry.source, entry.event) for entry in table.rejects]
    if len(set(blanks)) != len(blanks):
        raise TableError("a cell is ignored or rejected twice")
    for cell in blanks:
        if cell in rows:
            raise TableError(f"cell {cell[0]}, {cell[1]} has rows and is ignored or rejected too")
    for phase in Phase:
        kinds = (EventKind.AUTO,) if phase in TRANSIENT else tuple(EVENT_KINDS.values())
        for kind in kinds:
            if (phase, kind) not in rows and (phase, kind) not in blanks:
                raise TableError(f"cell {phase}, {kind} is blank")
    for cell, members in rows.items():
        _partition(cell, members)


def _partition(cell: tuple[Phase, EventKind], members: list[Row]) -> None:
    if len(members) == 1 and members[0].guard is None:
        return
    earlier: tuple[str, ...] = ()
    for row in members:
        if row.guard is None:
            raise TableError(f"row {row.name!r} shares its cell and has no guard")
        if row.guard.earlier != earlier:
            raise TableError(f"row {row.name!r} is not declared as 'its condition and no earlier one'")
        if row.guard.name in earlier:
            raise TableError(f"guard {row.guard.name!r} stands twice in cell {cell[0]}, {cell[1]}: {row.name!r} is unreachable")
        earlier = (*earlier, row.guard.name)
    must_move = cell[1] is not EventKind.AUTO or cell[0] in TRANSIENT
    if must_move and members[-1].guard is not None and members[-1].guard.name != "always":
        raise TableError(f"the last row of cell {cell[0]}, {cell[1]} does not always hold")


def _row(row: Row) -> None:
    if row.source in TERMINAL_SET:
        raise TableError(f"row {row.name!r} leaves a terminal phase")
    match row.kind:
        case RowKind.CONTINUE:
            sound = isinstance(row.reason, ContinueReason) and row.target is Phase.PREPARING and not row.causes
        case RowKind.TERMINAL:
            sound = (
                isinstance(row.reason, TerminalReason)
                and row.target.value == row.reason.value
                and bool(row.causes)
                and all(cause in CAUSES[row.reason] for cause in row.causes)
            )
        case RowKind.INTERNAL:
            sound = row.reason is None and row.target not in TERMINAL_SET and not row.causes
    if not sound:
        raise TableError(f"kind, reason, causes and target of row {row.name!r} do not fit together")


def _reasons(table: Table) -> None:
    for reasons in (ContinueReason, TerminalReason):
        used = {row.reason for row in table.rows if isinstance(row.reason, reasons)}
        missing = [reason.value for reason in reasons if reason not in used]
        if missing:
            raise TableError(f"no row has the reason {', '.join(missing)}")
    for reason, causes in CAUSES.items():
        used_causes = {cause for row in table.rows if row.reason is reason for cause in row.causes}
        if used_causes != set(causes):
            raise TableError(f"the rows of {reason} do not use exactly its causes")


def _reachable(table: Table) -> None:
    reached = {Phase.READY}
    grown = True
    while grown:
        before = len(reached)
        reached |= {row.target for row in table.rows if row.source in reached}
        grown = len(reached) > before
    unreachable = [row.name for row in table.rows if row.source not in reached]
    if unreachable:
        raise TableError(f"no path leads to row {unreachable[0]!r}")
    missing = [phase.value for phase in Phase if phase not in reached]
    if missing:
        raise TableError(f"no row leads to phase {missing[0]}")
