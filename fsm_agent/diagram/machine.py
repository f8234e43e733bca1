"""The declared table as a ``transitions`` machine: an independent oracle of what the reducer takes (spec 04).

This is the only module that imports ``transitions``. The machine is stricter than the reducer's lookup: the rows of a cell
are added in reverse order, each with its guard as a condition and the guards of the rows before it as exclusions, so the
two agree only where the guards are a partition. One machine is shared; each shot has its own throwaway model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from attrs import frozen
from transitions import EventData, Machine

from ..core.config import LoopConfig
from ..core.control import Control
from ..core.events import Event, EventKind
from ..core.phases import Phase
from ..core.rows import TABLE
from ..core.table import Guard, Row, Table

Predicate = Callable[[Control, Event, LoopConfig], bool]


@frozen(order=True)
class Edge:
    """One transition of the machine, in words.

    Attributes:
        row: name of the row.
        source: the phase it leaves.
        trigger: the kind of event, or ``auto``.
        target: the phase it enters.
        guard: name of its condition, empty if it has none.
    """

    row: str
    source: str
    trigger: str
    target: str
    guard: str


@frozen
class Fired:
    """What the machine took: the row and the phase in which it landed."""

    row: str
    target: str


class _Shot:
    """A throwaway model: one phase, one event, what guards read, and the row that was taken."""

    __slots__ = ("config", "control", "event", "row", "state")

    def __init__(self, phase: Phase, control: Control, event: Event, config: LoopConfig) -> None:
        self.state: str = phase.value
        self.control = control
        self.event = event
        self.config = config
        self.row = ""


class TableMachine:
    """A machine of the ``transitions`` library, built from a declared table."""

    def __init__(self, table: Table = TABLE) -> None:
        """Build the machine.

        Args:
            table: the declaration; another one than the engine's is for tests of the table.
        """
        self._machine = Machine(
            model=None,
            states=[phase.value for phase in Phase],
            initial=Phase.READY.value,
            auto_transitions=False,
            queued=False,
            send_event=True,
        )
        cells: dict[tuple[Phase, EventKind], list[Row]] = {}
        for row in table.rows:
            cells.setdefault((row.source, row.event), []).append(row)
        self._edges: list[Edge] = []
        for rows in cells.values():
            guards = {row.guard.name: row.guard.holds for row in rows if row.guard is not None}
            for row in reversed(rows):
                self._add(row, guards)
        self._filled = frozenset(cells)

    def _add(self, row: Row, guards: dict[str, Predicate]) -> None:
        guard = row.guard
        # A guard that no row of the cell owns cannot exclude anything; ``compare`` reports it.
        earlier = () if guard is None else tuple(guards[name] for name in guard.earlier if name in guards)
        self._machine.add_transition(
            trigger=row.event.value,
            source=row.source.value,
            dest=row.target.value,
            conditions=[] if guard is None else [_condition(guard.holds)],
            unless=[_condition(holds) for holds in earlier],
            after=_note(row.name),
        )
        name = "" if guard is None else guard.name
        self._edges.append(Edge(row.name, row.source.value, row.event.value, row.target.value, name))

    @property
    def edges(self) -> tuple[Edge, ...]:
        """The transitions of the machine, sorted."""
        return tuple(sorted(self._edges))

    def fire(self, phase: Phase, kind: EventKind, control: Control, event: Event, config: LoopConfig) -> Fired | None:
        """Let the machine take one event.

        Args:
            phase: where it stands.
            kind: the trigger; ``auto`` for a row that needs no event.
            control: what guards read.
            event: the event in hand.
            config: the run's configuration.

        Returns:
            The row taken and where it landed, or None if no transition of the machine holds.
        """
        if (phase, kind) not in self._filled:
            return None
        shot = _Shot(phase, control, event, config)
        if not self._machine.events[kind.value].trigger(shot):
            return None
        return Fired(row=shot.row, target=shot.state)


def _condition(holds: Predicate) -> Callable[[EventData], bool]:
    def condition(data: EventData) -> bool:
        shot = cast(_Shot, data.model)
        return holds(shot.control, shot.event, shot.config)

    return condition


def _note(row: str) -> Callable[[EventData], None]:
    def note(data: EventData) -> None:
        cast(_Shot, data.model).row = row

    return note


def compare(table: Table, declared: Table = TABLE) -> tuple[str, ...]:
    """Compare the machine of a table with that of the declaration, as graphs.

    Args:
        table: the table to look at.
        declared: what it should be.

    Returns:
        One sentence for each row that was removed, added or changed; none if the two machines are equal.
    """
    wanted = {edge.row: edge for edge in TableMachine(declared).edges}
    found = {edge.row: edge for edge in TableMachine(table).edges}
    differences = [f"row {name!r} was removed" for name in sorted(wanted.keys() - found.keys())]
    differences += [f"row {name!r} was added" for name in sorted(found.keys() - wanted.keys())]
    for name in sorted(wanted.keys() & found.keys()):
        old, new = wanted[name], found[name]
        for word in ("source", "trigger", "target", "guard"):
            before, after = getattr(old, word), getattr(new, word)
            if before != after:
                differences.append(f"row {name!r}: {word} is {after or 'none'}, declared is {before or 'none'}")
    differences += _orphans(table)
    return tuple(differences)


def _orphans(table: Table) -> list[str]:
    """Exclusions by a guard that no row of the cell has."""
    owners: dict[tuple[Phase, EventKind], set[str]] = {}
    for row in table.rows:
        owners.setdefault((row.source, row.event), set()).add(_name(row.guard))
    return [
        f"row {row.name!r} excludes guard {name!r}, which no row of its cell has"
        for row in table.rows
        if row.guard is not None
        for name in row.guard.earlier
        if name not in owners[row.source, row.event]
    ]


def _name(guard: Guard | None) -> str:
    return "" if guard is None else guard.name
