"""Where a log stands, and how it is opened again to go on (spec 04; spec 01, section 6)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from attrs import frozen

from ..core.events import CommandQueued, EffectLost
from ..core.phases import Phase
from ..core.state import LoopState, Step
from .ahead import Reducer
from .errors import LogError, LogGap, ReplayDiverged
from .files import SyncPolicy, real_file, set_aside
from .format import Header, Record
from .framing import stated_chain
from .journal import Journal
from .lock import acquire
from .replay import Skipped, records_before, replay

_CLOEXEC = getattr(os, "O_CLOEXEC", 0)


@frozen
class Standing:
    """Where a log stands: what a fold over it found.

    Attributes:
        path: the file itself, where a link was opened.
        header: its header.
        state: the state behind the last record.
        seq: number of the last record.
        chain: chain of that record.
        ended: the closing record is there.
        whole: bytes of the whole lines.
        torn: bytes behind them: a record that was cut off while it was written.
        lines: number of the last line.
        line_chain: chain of the last line.
        rows: names of the rows taken so far.
        commands: how many commands the user queued so far.
        waiting: those of them that no model has seen.
        skipped: gaps that a repair left.
    """

    path: Path
    header: Header
    state: LoopState
    seq: int
    chain: str
    ended: bool
    whole: int
    torn: int
    lines: int
    line_chain: str
    rows: tuple[str, ...]
    commands: int
    waiting: tuple[CommandQueued, ...]
    skipped: tuple[Skipped, ...]

    @property
    def finished(self) -> bool:
        """The run reached its terminal."""
        return self.state.terminal is not None

    @property
    def begun(self) -> bool:
        """The run took its prompt."""
        return self.state.phase is not Phase.READY

    @property
    def lost(self) -> tuple[EffectLost, ...]:
        """What a resume feeds: an ``EffectLost`` for each effect without an answer, in the order of their ids."""
        return lost_in(self.state)

    @property
    def behind(self) -> int:
        """Records that are folded to get there, those of the parents included."""
        return records_before(self.header) + self.seq


def lost_in(state: LoopState) -> tuple[EffectLost, ...]:
    """Give what a resume feeds in a state: an ``EffectLost`` for each effect without an answer, in the order of their ids."""
    ids = [flight.id for flight in state.control.flight]
    return tuple(EffectLost(effect_id) for effect_id in sorted(ids, key=_number))


def _number(effect_id: str) -> int:
    number = effect_id.rpartition("-")[2]
    return int(number) if number.isdigit() else 0


def stand(path: str | os.PathLike[str], *, reducer: Reducer | None = None, check_table: bool = True) -> Standing:
    """Fold a log to its end, and say where it stands. Nothing is changed.

    Args:
        path: the log.
        reducer: fold this function, by default ``step``.
        check_table: refuse a log that was written under another transition table, or by another version of the reducer.

    Raises:
        TableChanged, ReducerChanged: if the table, or what its rows do, is not what it was; a fork goes on.
        ReplayDiverged: if the log does not fold back into its run.
        LogUnreadable, LogDamaged: if it cannot be read.
        LogGap: if its state is not known because of a gap.
        OSError: if the file cannot be read.
    """
    place = real_file(path).absolute()
    rows: list[str] = []
    queued: dict[str, CommandQueued] = {}

    def each(record: Record, made: Step) -> None:
        rows.extend(made.taken)
        if isinstance(record.event, CommandQueued) and made.rejected is None:
            queued[record.event.command_id] = record.event

    found = replay(place, check_table=check_table, reducer=reducer, each=each)
    if found.divergence is not None:
        raise ReplayDiverged(place, found.divergence.seq, str(found.divergence))
    if not found.known:
        gap = found.skipped[-1].gap
        raise LogGap(place, gap.seq, gap.words)
    tail = found.tail
    assert tail is not None
    return Standing(
        path=place,
        header=found.header,
        state=found.state,
        seq=found.seq,
        chain=found.chain,
        ended=tail.end is not None,
        whole=tail.offset,
        torn=place.stat().st_size - tail.offset if tail.torn else 0,
        lines=tail.records + (tail.end is not None),
        line_chain=tail.chain,
        rows=tuple(rows),
        commands=len(queued),
        waiting=tuple(queued[name] for name in found.state.control.queue.commands if name in queued),
        skipped=found.skipped,
    )


def check_free(path: str | os.PathLike[str]) -> None:
    """Check that a log could be written now.

    Raises:
        LogLocked: another process writes it.
        OSError: if it cannot be opened for writing.
    """
    place = real_file(path).absolute()
    descriptor = os.open(place, os.O_WRONLY | os.O_APPEND | _CLOEXEC)
    try:
        acquire(place, descriptor).release()
    finally:
        os.close(descriptor)


def reopen(
    standing: Standing,
    *,
    policy: SyncPolicy = SyncPolicy.TOOLS,
    now: Callable[[], int] | None = None,
) -> Journal:
    """Open a log for appending where it stands. A torn tail is kept in ``<log>.torn-N``, and cut off.

    Args:
        standing: where it stands.
        policy: when records are forced to disk.
        now: wall time in milliseconds since 1970.

    Raises:
        LogLocked: another process writes it.
        LogError: if it has its end, or was changed since it was folded.
        OSError: if it cannot be written.
    """
    path = standing.path
    if standing.ended:
        raise LogError(f"{path}: the run has ended; a new prompt goes on in a log of its own")
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | _CLOEXEC)
    try:
        lock = acquire(path, descriptor)
        try:
            _check_unchanged(standing, descriptor)
            if standing.torn:
                set_aside(path, "torn", os.pread(descriptor, standing.torn, standing.whole))
                os.ftruncate(descriptor, standing.whole)
                os.fsync(descriptor)
        except BaseException:
            lock.release()
            raise
    except BaseException:
        os.close(descriptor)
        raise
    return Journal(
        path,
        descriptor,
        lock,
        standing.header.salt,
        policy=policy,
        now=_wall if now is None else now,
        seq=standing.lines,
        chain=standing.line_chain,
        last=(standing.seq, standing.chain),
        size=standing.whole,
        base=records_before(standing.header),
    )


def _check_unchanged(standing: Standing, descriptor: int) -> None:
    """Two processes may fold one log, and then open it one after the other: the second would not know what the first did."""
    found = os.fstat(descriptor)
    named = os.stat(standing.path)
    end = os.pread(descriptor, 128, max(0, standing.whole - 128))
    same = (
        found.st_size == standing.whole + standing.torn and stated_chain(end).decode("ascii", "replace") == standing.line_chain
    )
    if not same or (found.st_ino, found.st_dev) != (named.st_ino, named.st_dev):
        raise LogError(f"{standing.path}: another process wrote to this log since it was read; resume it anew")


def _wall() -> int:
    return time.time_ns() // 1_000_000
