"""Repair: damaged records are taken out of a log, and a gap says so in their place; never a silent cut (field report 113)."""

from __future__ import annotations

import json
import os
from bisect import bisect
from pathlib import Path

from attrs import frozen

from ..core.blocks import dumps
from .errors import LogDamaged
from .files import real_file, set_aside, sync_directory, write_new
from .format import Record
from .framing import chain_of, is_whole, seal, stated_chain
from .glance import ends_run
from .lock import acquire
from .reader import LogFile, read_log

_JSON = json.JSONDecoder()


@frozen
class Lost:
    """Records that a repair took out.

    Attributes:
        seq: the first.
        to: the last.
        because: what was wrong with it, in words.
    """

    seq: int
    to: int
    because: str


@frozen
class Repaired:
    """What a repair did.

    Attributes:
        lost: what was taken out or was not there, in order; empty for a log that was whole.
        kept: the log as it was, None if nothing was changed.
        torn: bytes of a torn tail that were cut off.
        moved: lines that stood in another place and were put back into theirs.
        dropped: lines that have no place in the log, such as a line of another one.
    """

    lost: tuple[Lost, ...]
    kept: Path | None
    torn: int
    moved: int = 0
    dropped: int = 0


def repair(path: str | os.PathLike[str]) -> Repaired:
    """Take what is damaged out of a log. The log as it was is kept in ``<log>.damaged-N``.

    A line stays if its own checksum is right, it can be read, and it continues the line before it, wherever it stood. Where
    records are missing, because they were damaged, removed or replaced, a gap says so. Afterwards the log can be read to its
    end.

    Args:
        path: the log.

    Raises:
        LogLocked: another process writes it.
        LogUnreadable, LogDamaged: if its header is damaged: without it nothing can be replayed.
        OSError: if it cannot be read or written.
    """
    place = real_file(path).absolute()
    log = read_log(place)
    descriptor = os.open(place, os.O_RDWR | os.O_APPEND | getattr(os, "O_CLOEXEC", 0))
    try:
        lock = acquire(place, descriptor)
        try:
            data = place.read_bytes()
            lines, torn = _split(data)
            sieve = _Sieve(log, lines)
            sieve.run()
            if not sieve.gaps and b"".join(sieve.lines) == data:
                return Repaired((), None, 0)
            kept = set_aside(place, "damaged", data)
            lost = tuple(sieve.gaps.values())
            sieve.fill_in(kept.name)
            draft = place.with_name(f".{place.name}.{os.getpid()}")
            draft.unlink(missing_ok=True)
            write_new(draft, b"".join(sieve.lines), sync=True)
            os.replace(draft, place)
            sync_directory(place.parent)
            return Repaired(lost, kept, len(torn), sieve.moved, sieve.dropped)
        finally:
            lock.release()
    finally:
        os.close(descriptor)


@frozen
class _Found:
    """A whole line, and what it says of itself.

    Attributes:
        place: where it stands among the lines.
        line: the line.
        seq: its first number.
        last: its last number.
        pin: for a gap, the chain of the line behind it.
        end: it is the end of the run.
    """

    place: int
    line: bytes
    seq: int
    last: int
    pin: str = ""
    end: bool = False


class _Sieve:
    """Puts the lines of a log in their order: what stays, and what is missing between.

    Attributes:
        lines: the lines that stay; an empty one stands for a gap.
        gaps: what is missing, by its place in ``lines``.
        moved: lines that stood in another place.
        dropped: lines that are not missed.
    """

    def __init__(self, log: LogFile, lines: list[bytes]) -> None:
        self.lines: list[bytes] = []
        self.gaps: dict[int, Lost] = {}
        self.moved = 0
        self.dropped = 0
        self._log = log
        self._salt = log.header.salt.encode()
        self._given = lines
        self._wrong: dict[int, str] = {}
        self._by_number: dict[int, list[_Found]] = {}
        for place, line in enumerate(lines):
            found = _read(place, line)
            if isinstance(found, str):
                self._wrong[place] = found
            else:
                self._by_number.setdefault(found.seq, []).append(found)
        self._numbers = sorted(self._by_number)

    def run(self) -> None:
        """Go from line to line by their numbers and chains."""
        last = self._by_number.pop(0)[0]
        self.lines.append(last.line)
        taken = {last.place}
        while not last.end:
            number = last.last + 1
            found = next((one for one in self._by_number.get(number, ()) if self._may_follow(one, last)), None)
            if found is None:
                found = self._next_behind(number)
                if found is None:
                    break
                self._leave_gap(number, found.seq - 1, last.place, found.place)
            self.moved += found.place < max(taken)
            self.lines.append(found.line)
            taken.add(found.place)
            last = found
        if not last.end and not self._ended(last):
            # Behind the last line that stays there is nothing to count by: each bad line is taken for a record.
            same = set(self.lines)
            bad = sum(line not in same for line in self._given[last.place + 1 :])
            if bad:
                self._leave_gap(last.last + 1, last.last + bad, last.place, len(self._given))
        missing = sum(lost.to - lost.seq + 1 for lost in self.gaps.values())
        self.dropped = max(0, len(self._given) - len(taken) - missing)

    def _ended(self, last: _Found) -> bool:
        """Behind the step that ended the run stands its closing line only, which says nothing more."""
        item = self._log.item(last.seq, last.line) if last.seq else None
        return isinstance(item, Record) and ends_run(item)

    def fill_in(self, kept: str) -> None:
        """Write the gaps, now that it is known where the damaged log is kept."""
        for place, lost in self.gaps.items():
            behind = stated_chain(self.lines[place + 1]).decode() if place + 1 < len(self.lines) else ""
            fields = f'"to":{lost.to},"because":{dumps(lost.because)},"kept":{dumps(kept)},"next":"{behind}"'
            core = f'"seq":{lost.seq},"gap":{{{fields}}}'.encode()
            self.lines[place] = seal(core, 0, stated_chain(self.lines[place - 1]), self._salt)[0]

    def _may_follow(self, found: _Found, last: _Found) -> bool:
        if not self._continues(found, last):
            self._wrong.setdefault(found.place, "it does not continue the one before it")
            return False
        return self._readable(found)

    def _continues(self, found: _Found, last: _Found) -> bool:
        if last.pin:
            return stated_chain(found.line) == last.pin.encode()
        return chain_of(found.line, stated_chain(last.line), self._salt) is not None

    def _readable(self, found: _Found) -> bool:
        """The reader has the last word: what it could not read would be damage again."""
        try:
            self._log.item(found.seq, found.line)
        except LogDamaged as error:
            self._wrong.setdefault(found.place, f"it {error.what}")
            return False
        return True

    def _next_behind(self, number: int) -> _Found | None:
        """Find the first line behind missing ones. It cannot be checked against them, but others may continue it."""
        for seq in self._numbers[bisect(self._numbers, number) :]:
            good = [one for one in self._by_number[seq] if self._readable(one)]
            if good:
                return next((one for one in good if self._is_continued(one)), good[0])
        return None

    def _is_continued(self, found: _Found) -> bool:
        return any(self._continues(one, found) for one in self._by_number.get(found.last + 1, ()))

    def _leave_gap(self, seq: int, to: int, before: int, behind: int) -> None:
        between = (self._wrong[place] for place in range(before + 1, behind) if place in self._wrong)
        self.gaps[len(self.lines)] = Lost(seq, to, next(between, "it was not there"))
        self.lines.append(b"")


def _read(place: int, line: bytes) -> _Found | str:
    """Read what a line says of itself, or say what is wrong with it."""
    if not is_whole(line):
        return "its checksum does not match"
    try:
        value, _ = _JSON.raw_decode(line.decode())
        if "seq" not in value:
            return _Found(place, line, 0, 0) if place == 0 else "it is a second header"
        seq, gap = int(value["seq"]), value.get("gap")
        if seq < 1:
            return "it has no number that a record can have"
        if gap is None:
            return _Found(place, line, seq, seq, end="end" in value)
        return _Found(place, line, seq, int(gap["to"]), str(gap["next"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        return "it cannot be read"


def _split(data: bytes) -> tuple[list[bytes], bytes]:
    """Give the lines, each with a newline, and what stands behind the last of them."""
    *parts, rest = data.split(b"\n")
    lines = [part + b"\n" for part in parts]
    if rest and is_whole(rest + b"\n"):  # only its newline was damaged
        return [*lines, rest + b"\n"], b""
    return lines, rest
