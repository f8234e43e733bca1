"""One log replayed in parts at once, each from a state that is stored in it.

A part ends with the record whose state the next one begins with. It is folded up to there, and compared with the digest
that the record holds of that state, like every record; so the parts together show what one fold shows. Whatever is not
plainly right in one of them is left to a fold of the whole, which names the first difference.
"""

from __future__ import annotations

import mmap
import os
import re
from functools import partial
from multiprocessing.connection import Connection

from attrs import evolve, frozen

from .behaviour import check_present
from .digest import StateDigests
from .errors import LogError
from .forked import can_fork, forked
from .format import Place, Record
from .framing import is_whole, stated_chain
from .lines import BUFFER, Line
from .reader import LogFile, read_log
from .replay import Replayed, begin_state, collector_at_rest, fold, replay, stored_state

__all__ = ["LARGE", "replay_in_parts"]

LARGE = 500_000
"""Bytes of a log from which on parts are worth their while."""
_WORD = b',"snapshot":"'
_SEQ = re.compile(rb',"seq":(\d{1,18}),')
_UNPACKING = 0.08
"""Part of a fold that it takes to unpack the state in its middle: so much shorter is a part that begins with one."""


@frozen
class _Cut:
    """Where one part ends and the next begins."""

    place: Place
    record: Record


def replay_in_parts(path: str | os.PathLike[str], jobs: int, *, check_table: bool = True) -> Replayed:
    """Replay a log like :func:`fsm_agent.log.replay.replay`, in several processes where that can be done.

    Small logs, logs without stored states, and programs with several threads, which cannot part safely, are replayed in
    one piece.

    Args:
        path: the log.
        jobs: processes.
        check_table: refuse a log that was written under another transition table, or by another version of the reducer.

    Returns:
        What the replay of the whole log gives.

    Raises:
        LogError: as ``replay`` does.
        OSError: if the file cannot be read.
    """
    if jobs > 1 and os.stat(path).st_size >= LARGE and can_fork():
        log = read_log(path)
        if check_table:
            check_present(path, log.header)
        with collector_at_rest():
            cuts = _cuts(log, jobs)
            found = _together(log, cuts) if cuts else None
        if found is not None:
            return found
    return replay(path, check_table=check_table)


def _cuts(log: LogFile, jobs: int) -> list[_Cut]:
    """Find records with stored states that part the log into about equal pieces."""
    found: list[_Cut] = []
    with log.path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        size = len(text)
        for number in range(1, jobs):
            share = number / jobs
            cut = _near(log, text, int(size * (share + _UNPACKING / jobs)))
            if cut is not None and (not found or cut.place.seq > found[-1].place.seq):
                found.append(cut)
    return found


def _near(log: LogFile, text: mmap.mmap, target: int) -> _Cut | None:
    """Give the record with a stored state that is nearest to an offset."""
    ahead, behind = text.find(_WORD, target), text.rfind(_WORD, 0, target)
    for at in sorted((one for one in (ahead, behind) if one >= 0), key=lambda one: abs(one - target)):
        start, stop = text.rfind(b"\n", 0, at) + 1, text.find(b"\n", at) + 1
        line = text[start:stop]
        if start == 0 or not is_whole(line):
            continue
        said = _SEQ.search(line)
        seq = int(said[1]) if said is not None else 0
        try:
            record = Line(log, seq, line, stated_chain(line)).record()
        except LogError:
            continue
        if record.snapshot and record.state:
            return _Cut(Place(seq, stop, stated_chain(line)), record)
    return None


def _together(log: LogFile, cuts: list[_Cut]) -> Replayed | None:
    """Fold all parts at once, the last one in this process; None if one of them is not plainly right."""
    before = [None, *cuts]
    with forked([partial(_fold_part, log, one, to) for one, to in zip(before, cuts, strict=False)]) as pipes:
        last = _folded(log, cuts[-1], None)
        counts = [_heard(pipe) for pipe in pipes]
    if last is None or any(count is None for count in counts):
        return None
    return evolve(last, steps=last.steps + sum(count or 0 for count in counts))


def _heard(pipe: Connection) -> int | None:
    try:
        count: int | None = pipe.recv()
    except (EOFError, OSError):
        return None
    return count


def _fold_part(log: LogFile, before: _Cut | None, to: _Cut, pipe: Connection) -> None:
    found = _folded(log, before, to)
    pipe.send(None if found is None else found.steps)


def _folded(log: LogFile, begin: _Cut | None, to: _Cut | None) -> Replayed | None:
    """Fold one part; None unless all of it agrees, and it ends where it should."""
    states = StateDigests()
    try:
        state = begin_state(log) if begin is None else stored_state(log, begin.record, states)
        if state is None:
            return None
        place = None if begin is None else begin.place
        found = fold(log, state, None if to is None else to.place.seq, place=place, states=states)
    except (LogError, OSError):
        return None
    if found.divergence is not None or found.skipped:
        return None
    if to is not None and (found.seq, found.chain) != (to.place.seq, to.place.chain.decode()):
        return None
    return found if to is None or _lines(log, begin) + found.steps == _lines(log, to) else None


def _lines(log: LogFile, cut: _Cut | None) -> int:
    """Count the lines up to a cut: a copy of its line further behind would be taken for it, and what is between left out."""
    if cut is None:
        return 1
    count, left = 0, cut.place.offset
    with log.path.open("rb", buffering=0) as file:
        while left > 0 and (piece := file.read(min(left, BUFFER))):
            count += piece.count(b"\n")
            left -= len(piece)
    return count
