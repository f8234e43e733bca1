"""The lines of a log, verified one by one: a torn tail is told from damage inside, and nothing is kept in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jiter import from_json

from ..core.events import Event
from .errors import LogDamaged
from .format import End, Gap, Place, Record, Tail
from .framing import chain_of, follows, is_whole, stated_chain

if TYPE_CHECKING:
    from .reader import LogFile


BUFFER = 65_536
"""Bytes that are read from a log at a time."""


class Line:
    """One verified record, as it is written.

    Attributes:
        seq: sequence number by its place.
        chain: its chain, in hex.
        written: its event, decoded, and the text of the record behind it, up to its chain; None if that was not asked
            for, or if the record needs more than that.
    """

    __slots__ = ("_line", "_log", "chain", "seq", "written")

    def __init__(self, log: LogFile, seq: int, line: bytes, chain: bytes, written: tuple[Event, bytes] | None = None) -> None:
        """Use :meth:`LogFile.lines`."""
        self.seq = seq
        self.chain = chain
        self.written = written
        self._log = log
        self._line = line

    def record(self) -> Record:
        """Decode the whole record.

        Raises:
            LogDamaged: if it cannot be read.
        """
        return self._log.record_of(self.seq, self._line, self.chain)


def lines_of(log: LogFile, place: Place | None, *, events: bool) -> Iterator[Line | Gap]:
    """Read the lines behind a place, or all; see :meth:`LogFile.lines`. At the end the log is told how it ends."""
    path, first, event_of = log.path, log.first, log.event_of
    salt = log.header.salt.encode()
    chain = chain_of(first, b"", salt) or b""
    seq, offset, torn, gap = 0, 0, False, ""
    end: End | None = None
    with path.open("rb", buffering=BUFFER) as file:
        if place is not None:
            seq, offset, chain = place.seq + 1, file.seek(place.offset), place.chain
        for line in file:
            if not line.endswith(b"\n"):
                _check_torn(path, seq, line)
                torn = True
                break
            if seq == 0 and line != first:
                raise LogDamaged(path, 0, "changed while the log was read")
            found = follows(line, seq, chain + salt) if seq and not gap and end is None else None
            if found is not None:
                chain, core, start = found
                yield Line(log, seq, line, chain, _written(core, start, event_of) if events else None)
            elif seq:
                chain = _verify_behind(path, seq, line, gap) if gap else _verify(path, seq, line, chain, salt, end)
                gap = ""
                if line.find(b',"event":', 20, 80) > 0:
                    yield Line(log, seq, line, chain)
                else:
                    missing = log.end_or_gap(seq, line, chain)
                    if isinstance(missing, End):
                        end = missing
                    else:
                        seq, gap = missing.to, missing.next
                        yield missing
            seq += 1
            offset += len(line)
    log.ends(Tail(seq - 1 - (end is not None), torn, offset, end, chain.decode()))


def _written(core: bytes, start: int, event_of: Callable[[Any], Event]) -> tuple[Event, bytes] | None:
    # No text of the event can hold this: there its quotes would be escaped.
    stop = core.rfind(b'},"taken":[') + 1
    behind = core[stop:]
    if stop <= start or b'"blobs":[' in behind:
        return None
    try:
        return event_of(from_json(core[start:stop])), behind
    except ValueError:  # the whole record says better what is wrong with it
        return None


def _check_torn(path: Path, seq: int, rest: bytes) -> None:
    """A line without its newline is torn, unless all of it is there and only the newline was changed."""
    if is_whole(rest):
        raise LogDamaged(path, seq, "has lost the end of its line")


def _verify(path: Path, seq: int, line: bytes, chain: bytes, salt: bytes, end: End | None) -> bytes:
    if not is_whole(line):
        raise LogDamaged(path, seq, "is damaged: its checksum does not match")
    if end is not None:
        raise LogDamaged(path, seq, "stands behind the end of the run")
    found = chain_of(line, chain, salt)
    if found is None:
        raise LogDamaged(path, seq, "does not continue the one before it: a record was removed, moved or replaced")
    return found


def _verify_behind(path: Path, seq: int, line: bytes, gap: str) -> bytes:
    """The record behind a gap cannot be checked against what is missing; the gap says which one it is."""
    if not is_whole(line):
        raise LogDamaged(path, seq, "is damaged: its checksum does not match")
    chain = stated_chain(line)
    if chain != gap.encode():
        raise LogDamaged(path, seq, "is not the one that follows the gap before it")
    return chain
