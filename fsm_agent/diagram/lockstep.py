"""Drive the ``transitions`` machine beside the reducer, microstep by microstep (spec 04)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attrs import evolve, frozen

from ..core.config import LoopConfig
from ..core.control import Control
from ..core.effects import Effect
from ..core.events import EVENT_KINDS, USER_KINDS, Event, EventKind
from ..core.moves.common import find
from ..core.rows import TABLE
from ..core.state import LoopState, Step
from ..core.step import Lookup, step
from ..core.table import Move, Row, Table
from ..core.translate import ANSWERS
from .machine import Fired, TableMachine

Act = Callable[[LoopState, Event, LoopConfig], tuple[LoopState, tuple[Effect, ...]]]


@frozen
class Microstep:
    """One row as the reducer took it.

    Attributes:
        row: the row.
        control: what its guard read, before the row was taken.
        event: the event in hand; a failed or lost effect is there as the answer that it stands for.
    """

    row: Row
    control: Control
    event: Event


@frozen
class Disagreement:
    """Where the machine and the reducer part.

    Attributes:
        number: of the step, from 1, among those checked.
        place: of the row within the step, from 0.
        event: kind of the event.
        expected: row and target of the reducer, in words.
        got: row and target of the machine, in words.
    """

    number: int
    place: int
    event: str
    expected: str
    got: str

    def __str__(self) -> str:
        """Say it in one line."""
        return f"step {self.number}, row {self.place}, {self.event}: the reducer {self.expected}, the machine {self.got}"


class Retracer:
    """The reducer over a table whose moves note when they are called; its results are those of ``step``."""

    def __init__(self, table: Table = TABLE) -> None:
        self._seen: list[Microstep] = []
        rows = tuple(evolve(row, move=Move(row.move.name, self._noting(row))) for row in table.rows)
        self._lookup = Lookup(evolve(table, rows=rows))

    def _noting(self, row: Row) -> Act:
        def act(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
            self._seen.append(Microstep(row, state.control, event))
            return row.move.act(state, event, config)

        return act

    def retrace(self, state: LoopState, event: Event, config: LoopConfig) -> tuple[Step, tuple[Microstep, ...]]:
        """Take a step and give its microsteps too.

        Args:
            state: where the run stands.
            event: what happened.
            config: the run's configuration.

        Returns:
            The step, and each row of it with the control that its guard read.
        """
        self._seen = []
        made = step(state, event, config, self._lookup)
        return made, tuple(self._seen)


class Lockstep:
    """Checks the steps of a run against the machine; reports where they part."""

    def __init__(self, config: LoopConfig, machine: TableMachine | None = None, table: Table = TABLE) -> None:
        """Prepare the comparison.

        Args:
            config: the run's configuration.
            machine: the machine; None builds it from the declared table.
            table: what the reducer runs on.
        """
        self._config = config
        self._machine = TableMachine() if machine is None else machine
        self._retracer = Retracer(table)
        self.steps = 0
        self.rows = 0

    def check(self, before: LoopState, event: Event, made: Step) -> Disagreement | None:
        """Compare one step of a run.

        Args:
            before: the state in which the event came.
            event: the event.
            made: what the run recorded for it.

        Returns:
            The first disagreement, None if machine and reducer agree.
        """
        self.steps += 1
        again, micro = self._retracer.retrace(before, event, self._config)
        if again != made:
            return self._part(0, EVENT_KINDS[type(event)], f"took {_rows(again)}", f"was given a record of {_rows(made)}")
        if not micro:
            return self._untaken(before.control, event)
        for place, one in enumerate(micro):
            landed = micro[place + 1].control.phase if place + 1 < len(micro) else made.state.control.phase
            kind = EventKind.AUTO if place else EVENT_KINDS[type(one.event)]
            fired = self._fire(one.control, kind, one.event)
            if fired != Fired(one.row.name, landed.value):
                return self._part(place, kind, f"takes {one.row.name} to {landed}", _words(fired))
            self.rows += 1
        rest = self._fire(made.state.control, EventKind.AUTO, micro[-1].event)
        if rest is not None:
            return self._part(len(micro), EventKind.AUTO, f"rests in {made.state.control.phase}", _words(rest))
        return None

    def check_all(self, before: LoopState, steps: Iterable[tuple[Event, Step]]) -> Disagreement | None:
        """Compare a whole run.

        Args:
            before: the state in which it began.
            steps: its events, each with the step that took it.

        Returns:
            The first disagreement, None if there is none.
        """
        for event, made in steps:
            found = self.check(before, event, made)
            if found is not None:
                return found
            before = made.state
        return None

    def _untaken(self, control: Control, event: Event) -> Disagreement | None:
        """No row was taken: the machine must have none either, unless the event was classed by its id."""
        kind = EVENT_KINDS[type(event)]
        if kind not in USER_KINDS:
            flight = find(control.flight, event.id)  # type: ignore[union-attr]  # every answer has an id
            if flight is None or kind not in ANSWERS[flight.kind]:
                return None
        fired = self._fire(control, kind, event)
        return None if fired is None else self._part(0, kind, "takes no row", _words(fired))

    def _fire(self, control: Control, kind: EventKind, event: Event) -> Fired | None:
        return self._machine.fire(control.phase, kind, control, event, self._config)

    def _part(self, place: int, kind: EventKind, expected: str, got: str) -> Disagreement:
        return Disagreement(self.steps, place, kind.value, expected, got)


def _words(fired: Fired | None) -> str:
    return "takes no row" if fired is None else f"takes {fired.row} to {fired.target}"


def _rows(made: Step) -> str:
    if made.rejected is not None:
        return f"nothing ({made.rejected.because})"
    return ", ".join(made.taken) or "nothing"
