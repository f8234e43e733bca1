"""A reducer that looks at every guard of every cell it passes: exactly one must hold (spec 04, law I4)."""

from __future__ import annotations

from ..core.config import LoopConfig
from ..core.control import Control
from ..core.events import Event, EventKind
from ..core.phases import TRANSIENT
from ..core.rows import TABLE
from ..core.state import LoopState, Step
from ..core.step import LOOKUP, Lookup, step
from ..core.table import Row, Table

__all__ = ["Watch", "holding"]


def holding(rows: tuple[Row, ...], control: Control, event: Event, config: LoopConfig) -> tuple[Row, ...]:
    """Give the rows of a cell whose condition holds while none that is declared before it does.

    This reads the declaration (``guard.earlier``) and not the order in which ``step`` looks, so it is a second opinion.
    """
    truth: dict[str, bool] = {}
    for row in rows:
        if row.guard is not None:
            truth[row.guard.name] = row.guard.holds(control, event, config)
    return tuple(
        row
        for row in rows
        if row.guard is None or (truth[row.guard.name] and not any(truth[name] for name in row.guard.earlier))
    )


class _Cell(tuple[Row, ...]):
    """Rows of one cell; a tuple, so that the reducer takes it for one."""

    __slots__ = ()


class Watch:
    """Takes steps and remembers whether a cell was no partition.

    Attributes:
        fault: what was wrong in the last step, empty if nothing was.
    """

    def __init__(self, config: LoopConfig, table: Table = TABLE) -> None:
        self.config = config
        self.fault = ""
        self._lookup = LOOKUP if table is TABLE else Lookup(table)

    def step(self, state: LoopState, event: Event) -> Step:
        """Take one event, like ``step``."""
        self.fault = ""
        return step(state, event, self.config, self._lookup)


def must_move(phase_rows: tuple[Row, ...]) -> bool:
    """Tell whether one row of this cell must be taken: all cells but ``auto`` of a waiting phase."""
    first = phase_rows[0]
    return first.event is not EventKind.AUTO or first.source in TRANSIENT
