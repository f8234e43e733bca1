"""THE TABLE: every state change of the loop is one of these rows (spec 01; spec 04, the declared table).

The rows are declared by the phase that they leave. ``step`` looks them up, ``transitions`` is driven by them, and
diagrams and the reference are drawn from them. Nothing else changes a phase.
"""

from __future__ import annotations

from ..moves.prepare import enter_preparing
from ..phases import Phase
from ..table import Entry, Move, Table
from .blanks import STALE, blanks
from .check import TableError, check
from .deciding import DECIDING
from .everywhere import EVERYWHERE
from .preparing import BACKING_OFF, COMPACTING, PREPARING, REACTIVE, READY
from .waiting import CALLING, GATHERING, RUNNING_TOOLS, STOP_HOOKS

ROWS = (
    *READY,
    *PREPARING,
    *COMPACTING,
    *CALLING,
    *BACKING_OFF,
    *DECIDING,
    *REACTIVE,
    *RUNNING_TOOLS,
    *GATHERING,
    *STOP_HOOKS,
    *EVERYWHERE,
)
_ignores, _rejects = blanks(ROWS)
ENTRIES = (
    Entry(
        phase=Phase.PREPARING,
        move=Move(name=enter_preparing.__name__, act=enter_preparing),
        text="Run the context layers and build the request.",
    ),
)
TABLE = Table(rows=ROWS, ignores=_ignores, rejects=_rejects, entries=ENTRIES)
check(TABLE)

__all__ = ["ENTRIES", "ROWS", "STALE", "TABLE", "TableError", "check"]
