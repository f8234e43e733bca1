"""Microsteps: a step taken again row by row, so that a law may judge each row on its own.

An edge shows what a whole step did. Which row was chosen at which control, and what its move alone made, is lost in it
where a step passes through several rows. Here the step is taken again with a table whose moves note what they are given
and what they give.
"""

from __future__ import annotations

from attrs import evolve, frozen

from ..core.config import LoopConfig
from ..core.control import Control
from ..core.effects import Effect
from ..core.events import Event
from ..core.rows import TABLE
from ..core.state import LoopState
from ..core.step import Lookup, step
from ..core.table import Move, Row, Table
from .law import Edge


@frozen(eq=False)
class Micro:
    """One row of a step.

    Attributes:
        row: the row.
        before: the state in which it was chosen.
        event: the event as the table reads it: what failed or was lost is an answer by now, where it is one.
        after: what its move made, before the next phase is entered.
        effects: what its move asked for.
        config: the run's configuration.
    """

    row: Row
    before: LoopState
    event: Event
    after: LoopState
    effects: tuple[Effect, ...]
    config: LoopConfig

    @property
    def name(self) -> str:
        """The row's name, without the phase of rows that stand in every phase."""
        return self.row.name.partition(".")[0]

    @property
    def old(self) -> Control:
        """The control before."""
        return self.before.control

    @property
    def new(self) -> Control:
        """The control after."""
        return self.after.control


_SEEN: list[Micro] = []
"""Rows as the retraced step takes them; emptied before and after each."""


def _noting(row: Row) -> Row:
    def act(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
        after, effects = row.move.act(state, event, config)
        _SEEN.append(Micro(row, state, event, after, effects, config))
        return after, effects

    return evolve(row, move=Move(row.move.name, act))


def _noted(table: Table) -> Table:
    return evolve(table, rows=tuple(_noting(row) for row in table.rows))


_LOOKUPS = [Lookup(_noted(TABLE))]
"""The last one is in use."""
_LAST: list[tuple[Edge, tuple[Micro, ...], LoopState]] = []
"""The edge that was retraced last: several laws ask for the same one."""


def retrace_with(table: Table) -> None:
    """Retrace with another table from here on; for tests of the table."""
    _LOOKUPS[:] = [Lookup(_noted(table))]
    _LAST.clear()


def retraced(edge: Edge) -> tuple[tuple[Micro, ...], LoopState]:
    """Take a step again: its rows in order, and the state in which it came to rest."""
    if _LAST and _LAST[0][0] is edge:
        return _LAST[0][1], _LAST[0][2]
    _SEEN.clear()
    made = step(edge.before, edge.event, edge.config, _LOOKUPS[-1])
    seen = tuple(_SEEN)
    _SEEN.clear()
    _LAST[:] = [(edge, seen, made.state)]
    return seen, made.state


def micros(edge: Edge) -> tuple[Micro, ...]:
    """Give the rows of a step, each with what it was given and what it gave."""
    return retraced(edge)[0]
