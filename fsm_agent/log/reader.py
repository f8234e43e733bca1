"""A log, opened for reading: its header, and what its verified lines say."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any

from ..core.events import Event
from ..core.outputs import Terminal
from ..core.state import Rejection
from .blobs import BlobStore
from .codec import EVENTS, LENIENT, STRICT
from .decode import Decoders
from .errors import CodecError, LogDamaged, LogUnreadable
from .fields import WRONG, text, texts, whole, why
from .files import real_file
from .format import LARGEST, MAGIC, MAJOR, MINOR, End, Gap, Header, Parent, Place, Record, Tail
from .framing import START, chain_of, is_digest, is_whole, stated_chain
from .lines import Line, lines_of

_LOOK = 256
"""Bytes at the beginning of a log that hold its magic word."""
_JSON = json.JSONDecoder()
_FRAME = ("crc", "at", "seq", "blobs", "chain")
_RECORD_KEYS = frozenset((*_FRAME, "event", "taken", "rejected", "effects", "sketch", "state", "snapshot"))
_END_KEYS = frozenset((*_FRAME, "end"))
_GAP_KEYS = frozenset((*_FRAME, "gap"))


class LogFile:
    """One log, opened for reading. Each iteration over :meth:`records` reads the file anew.

    Attributes:
        path: the file itself, where a link was opened.
        header: its header.
        created: when it was made, in milliseconds since 1970.
        blobs: its large content.
        first: its first line.
        event_of: makes an event of its decoded JSON.
    """

    def __init__(self, path: Path, header: Header, created: int, first: bytes) -> None:
        """Use :func:`read_log`."""
        self.path = path
        self.header = header
        self.created = created
        self.blobs = BlobStore(path)
        self.first = first
        self._tail: Tail | None = None
        self._decoders: Decoders = LENIENT if header.minor > MINOR else STRICT
        self.event_of: Callable[[Any], Event] = self._decoders.choice(EVENTS)

    def records(self) -> Iterator[Record]:
        """Read, verify and give the records in order; gaps are passed over.

        Raises:
            LogDamaged: at the first line that is not what was written; a torn tail is no error (see :attr:`tail`).
            OSError: if the file cannot be read.
        """
        for item in self.items():
            if item.__class__ is Record:
                yield item

    def items(self) -> Iterator[Record | Gap]:
        """Read, verify and give the records and gaps in order.

        Raises:
            LogDamaged: at the first line that is not what was written; a torn tail is no error (see :attr:`tail`).
            OSError: if the file cannot be read.
        """
        for line in self.lines():
            yield line if isinstance(line, Gap) else line.record()

    def lines(self, place: Place | None = None, *, events: bool = False) -> Iterator[Line | Gap]:
        """Read and verify like :meth:`items`, but leave the records as they are written, for who needs a part of them.

        Args:
            place: begin behind this record.
            events: decode the events.
        """
        return lines_of(self, place, events=events)

    def item(self, seq: int, line: bytes) -> Record | Gap | End:
        """Decode one whole line, whatever stands before it.

        Raises:
            LogDamaged: if it cannot be read.
        """
        value, chain = self._parse(seq, line), stated_chain(line)
        return self._record(seq, value, chain) if "event" in value else self._other(seq, value, chain)

    @property
    def chain(self) -> str:
        """Chain of the header, in hex."""
        return stated_chain(self.first).decode()

    @property
    def tail(self) -> Tail:
        """How the log ends, as of the last whole reading; reads the log if it was not read to its end yet.

        Raises:
            LogDamaged: as :meth:`records`.
        """
        if self._tail is None:
            for _ in self.records():
                pass
        assert self._tail is not None
        return self._tail

    def ends(self, tail: Tail) -> None:
        """Take how the log ends from who has read it to its end."""
        self._tail = tail

    def record_of(self, seq: int, line: bytes, chain: bytes) -> Record:
        """Decode a record.

        Raises:
            LogDamaged: if it cannot be read.
        """
        return self._record(seq, self._parse(seq, line), chain)

    def end_or_gap(self, seq: int, line: bytes, chain: bytes) -> End | Gap:
        """Decode a line that is no record.

        Raises:
            LogDamaged: if it cannot be read.
        """
        return self._other(seq, self._parse(seq, line), chain)

    def _parse(self, seq: int, line: bytes) -> dict[str, Any]:
        try:
            value, _ = _JSON.raw_decode(line.decode())
        except (ValueError, RecursionError) as error:
            raise LogDamaged(self.path, seq, f"is no JSON: {error}") from error
        if value.get("seq") != seq:
            raise LogDamaged(self.path, seq, "has another number than its place")
        known = _RECORD_KEYS if "event" in value else _END_KEYS if "end" in value else _GAP_KEYS
        if not known.issuperset(value) and self._decoders is STRICT:
            raise LogDamaged(self.path, seq, f"has unknown fields: {', '.join(sorted(value.keys() - known))}")
        if "blobs" in value:
            value = self.blobs.restore(value, seq)
        return value  # type: ignore[no-any-return]

    def _record(self, seq: int, value: dict[str, Any], chain: bytes) -> Record:
        try:
            rejected = value.get("rejected")
            return Record(
                seq,
                whole(value, "at"),
                self.event_of(value["event"]),
                texts(value, "taken"),
                None if rejected is None else self._decoders.record(Rejection)(rejected),
                text(value, "effects"),
                texts(value, "sketch"),
                text(value, "state"),
                chain.decode(),
                text(value, "snapshot"),
            )
        except WRONG as error:
            raise LogDamaged(self.path, seq, f"cannot be read: {why(error)}") from error

    def _other(self, seq: int, value: dict[str, Any], chain: bytes) -> End | Gap:
        return self._end(seq, value) if "end" in value else self._gap(seq, value, chain)

    def _gap(self, seq: int, value: dict[str, Any], chain: bytes) -> Gap:
        fields = value.get("gap")
        if not isinstance(fields, dict):
            raise LogDamaged(self.path, seq, "is neither a record nor a gap")
        try:
            to, behind = whole(fields, "to", seq), text(fields, "next")
            if behind and not is_digest(behind):
                raise CodecError("'next' is no chain")
            return Gap(seq, to, text(fields, "because", None), text(fields, "kept", None), behind, chain.decode())
        except WRONG as error:
            raise LogDamaged(self.path, seq, f"is a gap that cannot be read: {why(error)}") from None

    def _end(self, seq: int, value: dict[str, Any]) -> End:
        try:
            terminal = self._decoders.record(Terminal)(value["end"]["terminal"])
            return End(seq, whole(value, "at"), terminal, text(value["end"], "state", None))
        except WRONG as error:
            raise LogDamaged(self.path, seq, f"cannot be read: {why(error)}") from error


def read_log(path: str | os.PathLike[str]) -> LogFile:
    """Open a log and read its header.

    Args:
        path: the file.

    Returns:
        The log; its records are read by iterating over them.

    Raises:
        LogUnreadable: if the file is empty, no log, cut within its header, or of a newer format.
        LogDamaged: if the header is damaged (sequence number 0).
        OSError: if the file cannot be read.
    """
    place = real_file(path)
    kind = place.stat().st_mode
    if not (S_ISREG(kind) or S_ISDIR(kind)):  # a pipe could be waited for without end; to open a folder says what it is
        raise LogUnreadable(path, "this is not a log of fsm_agent but a pipe or a device")
    with place.open("rb") as file:
        # A foreign file may be one endless line: look at its beginning first.
        start = file.read(_LOOK)
        if start and not start.startswith(START) and f'"magic":"{MAGIC}"'.encode() not in start:
            raise LogUnreadable(path, "this is not a log of fsm_agent")
        first = start + file.readline() if b"\n" not in start else start[: start.index(b"\n") + 1]
    if not first:
        raise LogUnreadable(path, "the file is empty")
    if not first.endswith(b"\n"):
        if is_whole(first):
            raise LogDamaged(path, 0, "has lost the end of its line")
        raise LogUnreadable(path, "the log was cut off within its header, so it holds no record")
    if not is_whole(first):
        raise LogDamaged(path, 0, "is damaged: its checksum does not match")
    try:
        value = _JSON.raw_decode(first.decode())[0]
    except (ValueError, RecursionError) as error:
        raise LogDamaged(path, 0, f"is no JSON: {error}") from error
    if isinstance(value, dict) and "blobs" in value:
        value = BlobStore(place).restore(value, 0)
    header, created = _header(path, value)
    if chain_of(first, b"", header.salt.encode()) is None:
        raise LogDamaged(path, 0, "is damaged: its digest does not match")
    return LogFile(place, header, created, first)


def _header(path: str | os.PathLike[str], value: Any) -> tuple[Header, int]:
    if not isinstance(value, dict) or value.get("magic") != MAGIC:
        raise LogUnreadable(path, "this is not a log of fsm_agent")
    major = value.get("major")
    if not isinstance(major, int) or major > MAJOR:
        writer = value.get("package")
        raise LogUnreadable(path, f"format {major}, written by fsm_agent {writer}, is newer than {MAJOR}: upgrade fsm_agent")
    minor = value.get("minor")
    decoders = LENIENT if isinstance(minor, int) and minor > MINOR else STRICT
    fields = {key: part for key, part in value.items() if key not in ("crc", "at", "blobs", "chain")}
    try:
        header: Header = decoders.record(Header)(fields)
        header.salt.encode()
        whole(value if "reducer" in value else {"reducer": 1}, "reducer")
        if header.parent is not None:
            _check_parent(header.parent)
        return header, whole(value, "at")
    except WRONG as error:
        raise LogDamaged(path, 0, f"cannot be read: {why(error)}") from error


def _check_parent(parent: Parent) -> None:
    """Check that a parent can be one; whether it is there, and the right one, is seen when it is needed."""
    try:
        named = bool(parent.log) and b"\0" not in os.fsencode(parent.log)
    except ValueError:
        named = False
    if not named:
        raise CodecError(f"no file can have the name of its parent, {parent.log[:80]!r}")
    if not (0 <= parent.seq < LARGEST and 0 <= parent.behind < LARGEST):
        raise CodecError("its parent has a number that no record can have")
