"""The reducer: one event in, the next state and its effects out (spec 01, section 1). The core ends with this file."""

from __future__ import annotations

from itertools import groupby

from .config import LoopConfig
from .context.collapse import without_unfinished
from .control import Control, Run
from .effects import Effect, EffectKind
from .events import EVENT_KINDS, USER_KINDS, EffectFailed, EffectLost, Event, EventKind
from .evolving import evolve
from .frozen import maker
from .guards.within import WITHIN, Predicate
from .moves.common import find
from .phases import Phase
from .rebuild import with_phase
from .rows import STALE, TABLE
from .state import Data, Inbox, Iteration, LoopState, Rejection, Step, call_ids, initial
from .table import Ignore, Move, Reject, Row, Table
from .translate import ANSWERS, failed, lost
from .usage import add_usage

Ways = tuple[tuple[Predicate | None, tuple[Row, ...]], ...]
"""Rows in order; those beside each other that need the same condition are together behind it."""


def _need(row: Row) -> Predicate | None:
    return None if row.guard is None else WITHIN.get(row.guard.holds)


class Lookup:
    """A declared table, ready to be looked up in constant time. Immutable after it was made."""

    def __init__(self, table: Table) -> None:
        cells: dict[Phase, dict[EventKind, tuple[Row, ...] | Ignore | Reject]] = {phase: {} for phase in Phase}
        for row in table.rows:
            known = cells[row.source].get(row.event, ())
            assert isinstance(known, tuple)
            cells[row.source][row.event] = (*known, row)
        for ignore in table.ignores:
            cells[ignore.source][ignore.event] = ignore
        for reject in table.rejects:
            cells[reject.source][reject.event] = reject
        self.cells = cells
        self.auto: dict[Phase, tuple[Row, ...]] = {}
        self.ways: dict[Phase, Ways] = {}
        for phase, by_event in cells.items():
            auto = by_event.get(EventKind.AUTO, ())
            assert isinstance(auto, tuple)
            self.auto[phase] = auto
            self.ways[phase] = tuple([(need, tuple(rows)) for need, rows in groupby(auto, _need)])
        self.entries: dict[Phase, Move] = {entry.phase: entry.move for entry in table.entries}


LOOKUP = Lookup(TABLE)
_state, _step = maker(LoopState), maker(Step)


def step(state: LoopState, event: Event, config: LoopConfig, lookup: Lookup = LOOKUP) -> Step:
    """Take one event.

    Args:
        state: where the run stands.
        event: what happened. Input from outside is data: what does not fit is ignored or rejected, by name.
        config: the run's configuration.
        lookup: the table; another one than the declared is for tests of the table.

    Returns:
        The next state, the effects to perform in order, the rows taken, and why the event was refused, if it was.

    Raises:
        TypeError: for a value that is no event.
    """
    kind = EVENT_KINDS.get(type(event))
    if kind is None:
        raise TypeError(f"{type(event).__name__} is no event")
    control = state.control
    if kind not in USER_KINDS:
        flight = find(control.flight, event.id)  # type: ignore[union-attr]  # every answer has an id
        if flight is None:
            return _unknown_answer(state, event, kind)
        if kind not in ANSWERS[flight.kind]:
            if isinstance(event, EffectFailed):
                event = failed(event, flight)
            elif isinstance(event, EffectLost):
                event = lost(event, flight, control, config)
            else:
                return _refused(state, kind, f"it does not answer {flight.kind} effects")
            kind = EVENT_KINDS[type(event)]
    cell = lookup.cells[control.phase][kind]
    if not isinstance(cell, tuple):
        if isinstance(cell, Reject):
            return _refused(state, kind, cell.because)
        return Step(state=state, effects=(), taken=(cell.name,), rejected=None)
    row = cell[0] if cell[0].guard is None else _choose(cell, control, event, config)
    assert row is not None
    target = row.target
    if target is row.source and not lookup.auto[target]:
        after, effects = row.move.act(state, event, config)
        return _step(after, effects, (row.name,), None)
    return _run(state, row, event, config, lookup)


def _choose(rows: tuple[Row, ...], control: Control, event: Event, config: LoopConfig) -> Row | None:
    """Give the first row whose guard holds; the order makes the guards a partition."""
    for row in rows:
        guard = row.guard
        if guard is None or guard.holds(control, event, config):
            return row
    return None


def _next(ways: Ways, control: Control, event: Event, config: LoopConfig) -> Row | None:
    """Give the ``auto`` row that follows, None where the step comes to rest."""
    for need, rows in ways:
        row = _choose(rows, control, event, config) if need is None or need(control, event, config) else None
        if row is not None:
            return row
    return None


def _run(state: LoopState, first: Row, event: Event, config: LoopConfig, lookup: Lookup) -> Step:
    """Take a row and all ``auto`` rows that follow from it."""
    row: Row | None = first
    effects: tuple[Effect, ...] = ()
    taken: tuple[str, ...] = ()
    while row is not None:
        state, more = row.move.act(state, event, config)
        effects = effects + more if effects else more
        taken += (row.name,)
        target = row.target
        if target is not row.source:
            state = _state(with_phase(state.control, target), state.data)  # the only place where a phase changes
            if target in lookup.entries:
                state, more = lookup.entries[target].act(state, event, config)
                effects += more
        ways = lookup.ways[target]
        row = _next(ways, state.control, event, config) if ways else None
    return _step(state, effects, taken, None)


def _refused(state: LoopState, kind: EventKind, because: str) -> Step:
    rejection = Rejection(event=kind, phase=state.control.phase, because=because)
    return Step(state=state, effects=(), taken=(), rejected=rejection)


def _unknown_answer(state: LoopState, event: Event, kind: EventKind) -> Step:
    """An answer whose effect is not in flight: stale if it was issued earlier, else refused."""
    effect_id: str = event.id  # type: ignore[union-attr]  # every answer has an id
    if _was_issued(state.control.run, effect_id, kind):
        return Step(state=state, effects=(), taken=(STALE,), rejected=None)
    return _refused(state, kind, f"no effect {effect_id!r} was ever issued")


def _was_issued(run: Run, effect_id: str, kind: EventKind) -> bool:
    prefix = f"{run.id}/"
    if not run.id or not effect_id.startswith(prefix):
        return False
    word, _, number = effect_id[len(prefix) :].rpartition("-")
    if not (number.isascii() and number.isdigit()) or number[0] == "0" or len(number) > len(str(run.issued)):
        return False
    if int(number) > run.issued:
        return False
    if kind in (EventKind.EFFECT_FAILED, EventKind.EFFECT_LOST):
        return word in ANSWERS
    return word in ANSWERS and kind in ANSWERS[EffectKind(word)]


def next_run(state: LoopState, config: LoopConfig) -> LoopState:
    """Give the state from which a session's next run starts (spec 01, section 3).

    Kept: messages, collapse store, decisions of the result budget, token base, the breaker's count, session usage,
    a pending compaction request or model switch. All else starts anew.
    """
    fresh = initial(config)
    old = state.control
    control = evolve(
        fresh.control,
        queue=evolve(fresh.control.queue, compact=old.queue.compact, switch=old.queue.switch),
        context=evolve(fresh.control.context, tracking=old.context.tracking, staged=old.context.staged),
    )
    data = Data(
        messages=state.data.messages,
        iteration=Iteration(),
        context=without_unfinished(state.data.context),
        inbox=Inbox(instructions=state.data.inbox.instructions),
        usage=(),
        session_usage=add_usage(state.data.session_usage, state.data.usage),
        terminal=None,
        call_ids=call_ids(state.data.messages),
    )
    return LoopState(control=control, data=data)


__all__ = ["LOOKUP", "Lookup", "initial", "next_run", "step"]
