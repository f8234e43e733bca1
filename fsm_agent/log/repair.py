"""Repair: damaged records are taken out of a log, and a gap says so in their place; never a silent cut (field report 113)."""

from __future__ import annotations

import json
import os
from pathlib import Path

from attrs import frozen

from ..core.blocks import dumps
from .files import set_aside, sync_directory, write_new
from .format import chain_of, is_whole, seal, stated_chain
from .lock import acquire
from .reader import read_log

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
        lost: what was taken out, in order; empty for a log that was whole.
        kept: the log as it was, None if nothing was changed.
        torn: bytes of a torn tail that were cut off.
    """

    lost: tuple[Lost, ...]
    kept: Path | None
    torn: int


def repair(path: str | os.PathLike[str]) -> Repaired:
    """Take what is damaged out of a log. The log as it was is kept in ``<log>.damaged-N``.

    Each line behind the damage is kept as it is if its own checksum is right and it continues the line before it.

    Args:
        path: the log.

    Raises:
        LogLocked: another process writes it.
        LogUnreadable, LogDamaged: if its header is damaged: without it nothing can be replayed.
        OSError: if it cannot be read or written.
    """
    place = Path(path).absolute()
    log = read_log(place)
    descriptor = os.open(place, os.O_RDWR | os.O_APPEND | getattr(os, "O_CLOEXEC", 0))
    try:
        lock = acquire(place, descriptor)
        try:
            data = place.read_bytes()
            lines, torn = _split(data)
            sieve = _Sieve(log.header.salt.encode())
            for line in lines:
                sieve.take(line)
            sieve.end()
            if b"".join(sieve.lines) == data:
                return Repaired((), None, 0)
            kept = set_aside(place, "damaged", data)
            lost = tuple(sieve.gaps.values())
            sieve.fill_in(kept.name)
            draft = place.with_name(f".{place.name}.{os.getpid()}")
            draft.unlink(missing_ok=True)
            write_new(draft, b"".join(sieve.lines), sync=True)
            os.replace(draft, place)
            sync_directory(place.parent)
            return Repaired(lost, kept, len(torn))
        finally:
            lock.release()
    finally:
        os.close(descriptor)


class _Sieve:
    """Goes through the lines of a log: what stays, and what is missing between."""

    def __init__(self, salt: bytes) -> None:
        self.lines: list[bytes] = []
        self.gaps: dict[int, Lost] = {}
        self._salt = salt
        self._chain = b""
        self._pin = ""
        self._next = 0
        self._bad = 0

    def take(self, line: bytes) -> None:
        """Judge one line; its newline may be what was damaged."""
        found = _read(line)
        if found is None or found.seq < self._next or not self._follows(line, found):
            self._bad += 1
            return
        if found.seq > self._next:
            self._leave_gap(found.seq - 1)
        self._bad = 0
        self.lines.append(line)
        self._chain, self._next, self._pin = stated_chain(line), found.last + 1, found.pin

    def end(self) -> None:
        """Behind the last line that stays there is nothing to count by: each bad line is taken for a record."""
        if self._bad:
            self._leave_gap(self._next + self._bad - 1)

    def fill_in(self, kept: str) -> None:
        """Write the gaps, now that it is known where the damaged log is kept."""
        for place, lost in self.gaps.items():
            behind = stated_chain(self.lines[place + 1]).decode() if place + 1 < len(self.lines) else ""
            fields = f'"to":{lost.to},"because":{dumps(lost.because)},"kept":{dumps(kept)},"next":"{behind}"'
            core = f'"seq":{lost.seq},"gap":{{{fields}}}'.encode()
            self.lines[place] = seal(core, 0, stated_chain(self.lines[place - 1]), self._salt)[0]

    def _follows(self, line: bytes, found: _Found) -> bool:
        """What stands behind missing records cannot be checked against them; all else must continue the line before."""
        if found.seq > self._next:
            return True
        if self._pin:
            return stated_chain(line) == self._pin.encode()
        return chain_of(line, self._chain, self._salt) is not None

    def _leave_gap(self, to: int) -> None:
        because = "its checksum does not match" if self._bad else "it was not there"
        self.gaps[len(self.lines)] = Lost(self._next, to, because)
        self.lines.append(b"")
        self._next = to + 1


@frozen
class _Found:
    """What a whole line says of itself: its first and last number, and for a gap the chain of the line behind it."""

    seq: int
    last: int
    pin: str = ""


def _read(line: bytes) -> _Found | None:
    if not is_whole(line):
        return None
    try:
        value, _ = _JSON.raw_decode(line.decode())
        if "seq" not in value:
            return _Found(0, 0)  # the header
        gap = value.get("gap")
        if gap is None:
            return _Found(int(value["seq"]), int(value["seq"]))
        return _Found(int(value["seq"]), int(gap["to"]), str(gap["next"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _split(data: bytes) -> tuple[list[bytes], bytes]:
    """Give the lines, each with a newline, and what stands behind the last of them."""
    *parts, rest = data.split(b"\n")
    lines = [part + b"\n" for part in parts]
    if rest and is_whole(rest + b"\n"):  # only its newline was damaged
        return [*lines, rest + b"\n"], b""
    return lines, rest
