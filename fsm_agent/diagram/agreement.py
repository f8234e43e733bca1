"""Three witnesses of one machine: the reducer's ``step``, the ``transitions`` machine, the committed graph (spec 04).

The reducer runs on a table whose guards are watched: where it looks at a cell, each guard of the cell is asked, and the
answers, the *valuation*, are noted. What the ``transitions`` machine does depends on phase, trigger and valuation alone, so
it is fired once for each such triple, with the very control and event that gave it, and every later step of the same
triples is compared with what it did then. A step agrees if each of its rows is the one that the machine takes, leads where
the machine lands, stands in the committed graph as just that edge, and if nothing more can be taken where the step rests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attrs import evolve, frozen

from ..core.config import LoopConfig
from ..core.control import Control
from ..core.events import EVENT_KINDS, USER_KINDS, EffectFailed, EffectLost, Event, EventKind
from ..core.moves.common import find
from ..core.phases import TRANSIENT, Phase
from ..core.rows import TABLE
from ..core.state import LoopState, Step
from ..core.step import Lookup
from ..core.table import Guard, Row, Table
from ..core.translate import ANSWERS, failed, lost
from .golden import golden_edges
from .machine import Edge, Fired, TableMachine

Holds = Callable[[Control, Event, LoopConfig], bool]
_SHIFT = 40
"""Bits of a valuation; a cell has fewer guards than that. The number of the cell stands above them."""


@frozen
class _Cell:
    """One filled cell: its number, where it is, and its guards by name in the order of the rows."""

    number: int
    phase: Phase
    trigger: EventKind
    rows: tuple[Row, ...]
    guarded: bool


class Agreement:
    """Judges steps by the three witnesses; remembers what it has seen, so that it costs little."""

    def __init__(self, table: Table = TABLE, machine: TableMachine | None = None, golden: Iterable[Edge] | None = None) -> None:
        """Prepare the witnesses.

        Args:
            table: what the reducer runs on.
            machine: the ``transitions`` machine; by default that of the declared table.
            golden: the edges of the committed graph; by default those of the file.
        """
        self._machine = TableMachine() if machine is None else machine
        self._golden = {edge.row: edge for edge in (golden_edges() if golden is None else golden)}
        self._cells = {(cell.phase, cell.trigger): cell for cell in _cells(table)}
        self._names = {row.name for row in table.rows}
        self._codes: list[int] = []
        self._held: list[tuple[Control, Event]] = []
        self._fired: dict[int, tuple[Fired | None, str]] = {}
        self._verdicts: dict[object, tuple[str, tuple[int, ...]]] = {}
        self._here: dict[object, str] = {}
        self._seen: set[int] = set()
        self._news: list[int] = []
        self.lookup = Lookup(self._watched(table))

    @property
    def edges(self) -> tuple[Edge, ...]:
        """The edges of the committed graph."""
        return tuple(self._golden.values())

    def begin(self) -> None:
        """Begin another exploration: what it sees is counted anew."""
        self._codes.clear()
        self._held.clear()
        self._here = {}
        self._seen = set()
        self._news = []

    def news(self) -> tuple[int, ...]:
        """Give the (phase, trigger, valuation) triples that were seen for the first time since the last call."""
        found = tuple(self._news)
        self._news.clear()
        return found

    def forget(self) -> None:
        """Drop what was noted of steps that are not judged."""
        self._codes.clear()
        self._held.clear()

    def judge(self, before: LoopState, event: Event, made: Step, config: LoopConfig) -> str:
        """Judge the step that was just taken with ``lookup``.

        Args:
            before: the state in which the event came.
            event: the event.
            made: what ``step`` made of it.
            config: the run's configuration.

        Returns:
            Where the witnesses part, in words; empty if they agree.
        """
        codes = tuple(self._codes)
        kind, taken, after = type(event), made.taken, made.state.control
        answered = None
        if after is before.control and EVENT_KINDS[kind] not in USER_KINDS:
            flight = find(before.control.flight, event.id)  # type: ignore[union-attr]  # every answer has an id
            answered = None if flight is None else flight.kind
        key = (before.control.phase, kind, answered, codes, taken, after.phase, made.rejected is None)
        words = self._here.get(key)
        if words is None:
            verdict = self._verdicts.get(key)
            if verdict is None:
                verdict = self._verdicts[key] = self._compare(before, event, made, config)
            words, met = verdict
            self._here[key] = words
            for code in met:
                if code not in self._seen:
                    self._seen.add(code)
                    self._news.append(code)
        if codes:
            self._codes.clear()
            self._held.clear()
        return words

    def _compare(self, before: LoopState, event: Event, made: Step, config: LoopConfig) -> tuple[str, tuple[int, ...]]:
        asked = list(zip(self._codes, self._held, strict=True))
        met: list[int] = []
        here, control = before.control.phase, before.control
        if not made.taken or made.taken[0] not in self._names:
            return self._untaken(before, event, made, config), ()
        event = _translated(event, control, config)
        for place, name in enumerate(made.taken):
            trigger = EventKind.AUTO if place else EVENT_KINDS[type(event)]
            cell = self._cells.get((here, trigger))
            if cell is None:
                return f"{name} was taken in {here} for {trigger}, where the table has no row", ()
            code = cell.number << _SHIFT
            if cell.guarded:
                if not asked:
                    return f"{name} was taken and its guard never asked", ()
                code, (control, event) = asked.pop(0)
                if control.phase is not here or code >> _SHIFT != cell.number:
                    return f"{name} was expected in {here}, the reducer was in {control.phase}", ()
            met.append(code)
            edge = self._golden.get(name)
            fired, fault = self._fire(cell, code, control, event, config)
            if fault:
                return fault, ()
            if edge is None or (edge.source, edge.trigger) != (here.value, trigger.value) or fired != _as_fired(edge):
                return (
                    f"in {here} for {trigger} the reducer takes {name}, the machine {_words(fired)}, "
                    f"the committed graph says {_said(edge)}"
                ), ()
            here = Phase(edge.target)
        if here is not made.state.control.phase:
            return f"{made.taken[-1]} leads to {here}, and the reducer is in {made.state.control.phase}", ()
        rest = self._cells.get((here, EventKind.AUTO))
        if rest is None:
            fired, fault = self._machine.fire(here, EventKind.AUTO, made.state.control, event, config), ""
        else:
            code, (control, event) = asked.pop(0) if asked else (rest.number << _SHIFT, (made.state.control, event))
            met.append(code)
            fired, fault = self._fire(rest, code, control, event, config)
        if fault or fired is not None:
            return fault or f"the reducer rests in {here}, the machine {_words(fired)}", ()
        return ("guards were asked that no row needed" if asked else ""), tuple(met)

    def _untaken(self, before: LoopState, event: Event, made: Step, config: LoopConfig) -> str:
        """No row was taken: the machine must have none either, unless the event was classed by its id."""
        control, kind = before.control, EVENT_KINDS[type(event)]
        if kind not in USER_KINDS:
            flight = find(control.flight, event.id)  # type: ignore[union-attr]  # every answer has an id
            if flight is None:
                return ""
            event = _translated(event, control, config)
            kind = EVENT_KINDS[type(event)]
            if kind not in ANSWERS[flight.kind] and kind not in (EventKind.EFFECT_FAILED, EventKind.EFFECT_LOST):
                return ""
        fired = self._machine.fire(control.phase, kind, control, event, config)
        if fired is not None:
            return f"in {control.phase} the reducer takes no row for {kind}, the machine {_words(fired)}"
        edges = [edge.row for edge in self._golden.values() if (edge.source, edge.trigger) == (control.phase, kind)]
        return f"in {control.phase} the reducer takes no row for {kind}, the committed graph has {edges}" if edges else ""

    def _fire(self, cell: _Cell, code: int, control: Control, event: Event, config: LoopConfig) -> tuple[Fired | None, str]:
        """Fire the machine, once for each triple, and see that the guards are a partition there."""
        found = self._fired.get(code)
        if found is None:
            fired = self._machine.fire(cell.phase, cell.trigger, control, event, config)
            found = self._fired[code] = (fired, _partition(cell, code) if cell.guarded else "")
        return found

    def _watched(self, table: Table) -> Table:
        rows: dict[str, Row] = {}
        for cell in self._cells.values():
            if cell.guarded:
                for row, holds in zip(cell.rows, self._watch(cell), strict=True):
                    assert row.guard is not None
                    rows[row.name] = evolve(row, guard=Guard(row.guard.name, holds, row.guard.earlier))
        return evolve(table, rows=tuple(rows.get(row.name, row) for row in table.rows))

    def _watch(self, cell: _Cell) -> list[Holds]:
        """Make the guards of a cell into ones that are all asked when the first is; the rest then know the answer."""
        asked = tuple([(1 << place, row.guard.holds) for place, row in enumerate(cell.rows) if row.guard is not None])
        base, codes, held = cell.number << _SHIFT, self._codes, self._held
        last = [0]

        def first(control: Control, event: Event, config: LoopConfig) -> bool:
            bits = 0
            for bit, holds in asked:
                if holds(control, event, config):
                    bits |= bit
            last[0] = bits
            codes.append(base + bits)
            held.append((control, event))
            return bool(bits & 1)

        def later(bit: int) -> Holds:
            return lambda control, event, config: bool(last[0] & bit)

        return [first, *(later(bit) for bit, _ in asked[1:])]


def _cells(table: Table) -> list[_Cell]:
    found: dict[tuple[Phase, EventKind], list[Row]] = {}
    for row in table.rows:
        found.setdefault((row.source, row.event), []).append(row)
    return [
        _Cell(number, phase, trigger, tuple(rows), all(row.guard is not None for row in rows))
        for number, ((phase, trigger), rows) in enumerate(found.items(), 1)
    ]


def _partition(cell: _Cell, code: int) -> str:
    """See that one row of the cell holds, and where a phase may rest, at most one; read from the declaration."""
    truth = {row.guard.name: bool(code >> place & 1) for place, row in enumerate(cell.rows) if row.guard is not None}
    holding = [
        row.name
        for row in cell.rows
        if row.guard is not None and truth[row.guard.name] and not any(truth.get(name, False) for name in row.guard.earlier)
    ]
    rests = cell.trigger is EventKind.AUTO and cell.phase not in TRANSIENT
    if len(holding) == 1 or (rests and not holding):
        return ""
    return f"in {cell.phase} for {cell.trigger} the guards are no partition: {holding or 'none'} holds"


def _translated(event: Event, control: Control, config: LoopConfig) -> Event:
    """Read a failed or lost effect as the answer that it stands for."""
    if not isinstance(event, EffectFailed | EffectLost):
        return event
    flight = find(control.flight, event.id)
    if flight is None:
        return event
    return failed(event, flight) if isinstance(event, EffectFailed) else lost(event, flight, control, config)


def _as_fired(edge: Edge) -> Fired:
    return Fired(edge.row, edge.target)


def _words(fired: Fired | None) -> str:
    return "takes no row" if fired is None else f"takes {fired.row} to {fired.target}"


def _said(edge: Edge | None) -> str:
    return "nothing of it" if edge is None else f"{edge.source} -> {edge.target} for {edge.trigger}"
