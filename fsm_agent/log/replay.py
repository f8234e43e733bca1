"""Replay: fold the reducer over a log and compare, record by record, what it gives with what was recorded (law I15)."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..core.config import LoopConfig
from ..core.state import LoopState, Step
from .agreement import agrees
from .ahead import Ahead, Reducer
from .behaviour import check_present
from .difference import Divergence, difference, end_difference
from .digest import StateDigests, state_digest
from .errors import CodecError, LogDamaged, LogError, LogGap, ReplayDiverged
from .format import Gap, Header, Place, Record
from .reader import LogFile, read_log
from .replayed import Replayed, Skipped
from .snapshots import unpack

__all__ = ["Divergence", "Replayed", "Skipped", "begin_state", "fold", "next_state", "records_before", "replay", "stored_state"]

Each = Callable[[Record, Step], None]


def replay(
    path: str | os.PathLike[str],
    until: int | None = None,
    *,
    config: LoopConfig | None = None,
    check_table: bool = True,
    reducer: Reducer | None = None,
    each: Each | None = None,
) -> Replayed:
    """Replay a log without tools, network or key.

    Args:
        path: the log.
        until: stop behind this record; 0 gives the initial state. By default the whole log is replayed.
        config: take this configuration in place of the recorded one.
        check_table: refuse a log that was written under another transition table, or by another version of the reducer.
        reducer: fold this function, by default ``step``.
        each: called with each record that agreed and its step.

    Returns:
        The state reached and the first difference, if there is one.

    Raises:
        TableChanged, ReducerChanged: if the table, or what its rows do, is not what it was.
        LogUnreadable, LogDamaged: if the log cannot be read that far.
        ReplayDiverged: if a log that this one continues does not fold back into its run.
        LogGap: if the state at ``until`` is not known because of a gap.
        LogError: if the log has no record ``until``.
        OSError: if the file cannot be read.
    """
    log = read_log(path)
    if check_table:
        check_present(path, log.header)
    if until is not None and until < 0:
        raise LogError(f"{path}: there is no record {until}; records are counted from 1, 0 is the state before them")
    begin = begin_state(log, reducer)
    found = fold(log, begin, until, config=config, reducer=reducer, each=each)
    if until is not None and found.divergence is None and (found.seq < until or not found.known):
        last = found.tail.records if found.tail is not None else until
        if until <= last and found.skipped:
            gap = found.skipped[-1].gap
            raise LogGap(path, gap.seq, f"the state at record {until} is not known: {gap.words}")
        raise LogError(f"{path}: there is no record {until}; the last one is {last}")
    return found


def fold(
    log: LogFile,
    state: LoopState,
    until: int | None = None,
    *,
    config: LoopConfig | None = None,
    reducer: Reducer | None = None,
    each: Each | None = None,
    place: Place | None = None,
    states: StateDigests | None = None,
) -> Replayed:
    """Fold a log from a state on, and compare; see :func:`replay`.

    Behind a gap nothing is folded until a record that has its state stored. With ``place`` the state is that behind this
    record, and what stands before it is not looked at. ``states`` have seen the state.
    """
    with collector_at_rest():
        return _fold(log, state, until, config, reducer, each, place, StateDigests() if states is None else states)


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """A fold makes many records and no cycle among them, so looking for cycles is time lost."""
    runs = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if runs:
            if gc.get_freeze_count() == 0:  # what was made is put among the old at once, not gone through for that
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def _fold(
    log: LogFile,
    state: LoopState,
    until: int | None,
    config: LoopConfig | None,
    reducer: Reducer | None,
    each: Each | None,
    place: Place | None,
    states: StateDigests,
) -> Replayed:
    config = log.header.config if config is None else config
    reducer = _step() if reducer is None else reducer
    steps = 0
    seq, chain = (0, log.chain) if place is None else (place.seq, place.chain.decode())
    skipped: tuple[Skipped, ...] = ()
    lost = False
    if until == 0:
        return Replayed(log.header, state, 0, None, None, 0, chain)
    ahead = Ahead(log, place, until, events=each is None)
    while (line := ahead.next()) is not None:
        if isinstance(line, Gap):
            skipped += (Skipped(line, 0),)
            lost = True
            if until is not None and line.to >= until:
                break
            continue
        if lost:
            record = line.record()
            stored = stored_state(log, record, states)
            if stored is None:
                if record.seq == until:
                    break
                continue
            state, lost = stored, False
            skipped = (*skipped[:-1], Skipped(skipped[-1].gap, record.seq))
        else:
            count, state, line = ahead.agreeing(line, state, config, reducer, states)
            if count == 0:
                record = line.record()
                step = reducer(state, record.event, config)
                if not agrees(record, step, states):
                    return Replayed(log.header, state, steps, difference(record, step), None, seq, chain, skipped)
                if each is not None:
                    each(record, step)
                count, state = 1, step.state
            steps += count
        seq, chain = line.seq, line.chain.decode()
        if seq == until:
            return Replayed(log.header, state, steps, None, None, seq, chain, skipped)
    if until is not None and lost:
        return Replayed(log.header, state, steps, None, None, seq, chain, skipped)
    tail = log.tail
    divergence = None if tail.end is None or lost else end_difference(tail.end, state, states)
    return Replayed(log.header, state, steps, divergence, tail, seq, chain, skipped)


def begin_state(log: LogFile, reducer: Reducer | None = None) -> LoopState:
    """Give the state before the first record of a log.

    Args:
        log: the log; one that continues others is begun by folding those.
        reducer: fold this function, by default ``step``.

    Raises:
        LogDamaged: if the header's own state is missing or another one than it says.
        LogUnreadable: if a parent cannot be read.
        ReplayDiverged: if a parent does not fold back into its run.
        LogError: if a parent is missing, or is not the log that was continued.
    """
    later: list[LogFile] = []
    state = _own_state(log)
    while state is None:
        later.append(log)
        if len(later) > 1 and any(log.path == other.path for other in later[:-1]):
            raise LogError(f"{log.path}: the log continues itself")
        log = _parent_of(log)
        state = _own_state(log)
    while later:
        child = later.pop()
        state = _continued(log, state, child, reducer)
        log = child
    return state


def _own_state(log: LogFile) -> LoopState | None:
    header = log.header
    if header.state is not None:
        return header.state
    if header.parent is None:
        raise LogDamaged(log.path, 0, "says neither where the run begins nor what it continues")
    if header.snapshot:
        try:
            state = unpack(log.blobs.get(header.snapshot, 0))
        except CodecError:
            return None  # of another version: the parents say it too
        return state if state_digest(state) == header.begin else None
    return None


def _parent_of(log: LogFile) -> LogFile:
    parent = log.header.parent
    assert parent is not None
    place = Path(os.path.normpath(log.path.parent / parent.log))
    try:
        return read_log(place)
    except OSError as error:
        words = f"{log.path}: continues the log {place}, which cannot be read: {error.strerror}"
        raise LogError(words + _stored_in_vain(log)) from None


def _stored_in_vain(log: LogFile) -> str:
    """Say why the state that a header stores does not help; empty where it stores none."""
    if not log.header.snapshot:
        return ""
    try:
        unpack(log.blobs.get(log.header.snapshot, 0))
    except CodecError as error:
        return f"; and the state that it stores cannot be used: {error}"
    return "; and the state that it stores is another one than it says"


def _continued(log: LogFile, state: LoopState, child: LogFile, reducer: Reducer | None) -> LoopState:
    """Fold a parent up to where its child goes on, and give the state in which that one begins."""
    parent = child.header.parent
    assert parent is not None
    found = fold(log, state, parent.seq, reducer=reducer)
    if found.divergence is not None:
        raise ReplayDiverged(log.path, found.divergence.seq, str(found.divergence))
    if found.seq != parent.seq or found.chain != parent.chain or not found.known:
        raise LogError(f"{child.path}: continues {log.path} behind record {parent.seq}, which is another one there now")
    state = next_state(found.state, child.header.config)
    if child.header.begin and state_digest(state) != child.header.begin:
        raise ReplayDiverged(child.path, 0, "The state in which it begins does not follow from the log that it continues")
    return state


def next_state(state: LoopState, config: LoopConfig) -> LoopState:
    """Give the state from which a log goes on: a run that is not over goes on itself, behind its end the next one begins."""
    if state.terminal is None:
        return state
    # Late, so that reading logs does not load the table.
    from ..core.step import next_run

    return next_run(state, config)


def records_before(header: Header) -> int:
    """Count the records of its parents that are folded to begin a log."""
    own = header.state is not None or bool(header.snapshot)
    return 0 if own or header.parent is None else header.parent.behind


def stored_state(log: LogFile, record: Record, states: StateDigests | None = None) -> LoopState | None:
    """Give the state stored with a record, None if there is none that this version can read."""
    if not record.snapshot:
        return None
    try:
        state = unpack(log.blobs.get(record.snapshot, record.seq))
    except (CodecError, LogDamaged):
        return None
    return state if (states or StateDigests()).of(state) == record.state else None


def _step() -> Reducer:
    from ..core.step import step

    return step
