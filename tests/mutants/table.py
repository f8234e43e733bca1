"""Mutants of the declaration: rows deleted, led elsewhere, added, their guards negated and swapped, their effects dropped.

A mutant is put in place of the declared table in every part of the process that reads it, the laws included: what finds
it must find it wrong, not different.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from attrs import evolve, frozen

from fsm_agent.core import step as step_module
from fsm_agent.core.config import LoopConfig
from fsm_agent.core.control import Control
from fsm_agent.core.effects import Effect, Emit
from fsm_agent.core.events import Event, EventKind
from fsm_agent.core.phases import Phase
from fsm_agent.core.rows import TABLE
from fsm_agent.core.state import LoopState
from fsm_agent.core.table import Guard, Move, Row, RowKind, Table
from fsm_agent.laws import law as law_module
from fsm_agent.laws import micro


@frozen
class TableMutant:
    """One change of the declaration: ``what`` is done to ``row``, with ``value``."""

    what: str
    row: str
    value: str = ""

    @property
    def name(self) -> str:
        """A name that stays the same as long as the declaration does."""
        return f"table {self.what} {self.row} {self.value}".rstrip()


def table_mutants(emitted: Mapping[str, list[str]]) -> Iterator[TableMutant]:
    """Give every mutant of the declaration.

    Args:
        emitted: for each row, the kinds of effects that its move was seen to give.
    """
    cells: dict[tuple[Phase, EventKind], list[Row]] = {}
    for row in TABLE.rows:
        cells.setdefault((row.source, row.event), []).append(row)
    for row in TABLE.rows:
        yield TableMutant("delete", row.name)
        for phase in Phase:
            if phase is not row.target:
                yield TableMutant("retarget", row.name, phase.value)
        if row.guard is not None:
            yield TableMutant("negate", row.name)
        for kind in emitted.get(row.name, []):
            yield TableMutant("drop", row.name, kind)
    for rows in cells.values():
        for one, other in pairwise(rows):
            yield TableMutant("swap", one.name, other.name)
    for blank in (*TABLE.ignores, *TABLE.rejects):
        yield TableMutant("add", blank.name, blank.source.value)
        target = next((row.target for row in TABLE.rows if row.source is blank.source), None)
        if target is not None and target is not blank.source:
            yield TableMutant("add", blank.name, target.value)


def kind_of(effect: Effect) -> str:
    """Name the kind of an effect; outputs by their own."""
    return type(effect.output).__name__ if isinstance(effect, Emit) else type(effect).__name__


def _dropping(row: Row, kind: str) -> Row:
    def act(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
        after, effects = row.move.act(state, event, config)
        return after, tuple(effect for effect in effects if kind_of(effect) != kind)

    return evolve(row, move=Move(row.move.name, act))


def _negated(row: Row) -> Row:
    guard = row.guard
    assert guard is not None

    def holds(control: Control, event: Event, config: LoopConfig) -> bool:
        return not guard.holds(control, event, config)

    return evolve(row, guard=evolve(guard, holds=holds))


def _nothing(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    return state, ()


def _chained(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """Declare each cell's rows as first-match lists again, as the constructors would."""
    earlier: dict[tuple[Phase, EventKind], tuple[str, ...]] = {}
    made = []
    for row in rows:
        cell = (row.source, row.event)
        if row.guard is not None:
            known = earlier.get(cell, ())
            earlier[cell] = (*known, row.guard.name)
            row = evolve(row, guard=Guard(row.guard.name, row.guard.holds, known))
        made.append(row)
    return tuple(made)


def mutated(mutant: TableMutant) -> Table:
    """Make the table of a mutant."""
    rows = list(TABLE.rows)
    place = next((place for place, row in enumerate(rows) if row.name == mutant.row), -1)
    ignores, rejects = TABLE.ignores, TABLE.rejects
    match mutant.what:
        case "delete":
            del rows[place]
        case "retarget":
            rows[place] = evolve(rows[place], target=Phase(mutant.value))
        case "negate":
            rows[place] = _negated(rows[place])
        case "drop":
            rows[place] = _dropping(rows[place], mutant.value)
        case "swap":
            other = next(place for place, row in enumerate(rows) if row.name == mutant.value)
            rows[place], rows[other] = rows[other], rows[place]
        case "add":
            blank = next(one for one in (*ignores, *rejects) if one.name == mutant.row)
            ignores = tuple(one for one in ignores if one is not blank)
            rejects = tuple(one for one in rejects if one is not blank)
            rows.append(
                Row(
                    name="added",
                    source=blank.source,
                    event=blank.event,
                    guard=None,
                    target=Phase(mutant.value),
                    move=Move("nothing", _nothing),
                    kind=RowKind.INTERNAL,
                    text="A mutant.",
                )
            )
    return Table(_chained(tuple(rows)), ignores, rejects, TABLE.entries)


def install(mutant: TableMutant) -> Table:
    """Put the table of a mutant in place of the declared one, everywhere in this process."""
    table = mutated(mutant)
    object.__setattr__(TABLE, "rows", table.rows)
    object.__setattr__(TABLE, "ignores", table.ignores)
    object.__setattr__(TABLE, "rejects", table.rejects)
    step_module.LOOKUP.__init__(table)  # type: ignore[misc]
    law_module.ROWS.clear()
    law_module.ROWS.update({row.name: row for row in table.rows})
    law_module.IGNORES.clear()
    law_module.IGNORES.update({ignore.name: ignore for ignore in table.ignores})
    micro.retrace_with(table)
    return TABLE
