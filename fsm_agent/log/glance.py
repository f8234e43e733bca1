"""A glance at a log: how it ends, as far as that can be known without reading it whole; what it continues, and for what."""

from __future__ import annotations

import os
import re
from pathlib import Path

from attrs import frozen

from ..core.blocks import block_text
from ..core.events import RunStarted
from ..core.outputs import Terminal
from .behaviour import foreign
from .errors import LogDamaged, LogError
from .format import End, Gap, Record
from .framing import chain_of, is_whole, stated_chain
from .reader import LogFile, read_log
from .replay import replay

_BEGINNING = 80
"""Bytes of a line in which its kind stands."""
WINDOW = 65_536
"""Bytes at the end of a log that are looked at."""
_NUMBER = re.compile(rb'\{"crc":"[0-9a-f]{8}","at":\d+,"seq":(\d+),')
_LOOKED = 50
"""Records in which the prompt is looked for: a user may act before the start, but hardly so often."""


@frozen
class Glance:
    """How a log ends.

    Attributes:
        terminal: how the run ended, None if it did not, or if that cannot be told.
        torn: the last line was cut off while it was written.
        damage: what is wrong in the part that was looked at, None if nothing is.
        gap: a repair left a gap in that part.
        empty: there is no record yet.
    """

    terminal: Terminal | None
    torn: bool = False
    damage: LogDamaged | None = None
    gap: bool = False
    empty: bool = False


def ends_run(record: Record) -> bool:
    """Say whether a record is that of a run's last step; its closing line may be missing all the same."""
    return any(line.startswith("emit.terminal ") for line in record.sketch)


def last_terminal(path: str | os.PathLike[str]) -> Terminal | None:
    """Fold a log, and say how its run ended; None if it did not, or if the log does not fold.

    Raises:
        OSError: if it cannot be read.
    """
    try:
        found = replay(path)
    except LogError:
        return None
    return found.state.terminal if found.divergence is None and found.known else None


def glance(log: LogFile) -> Glance:
    """Look at the end of a log. Its lines there are verified, those before are not: a replay does that.

    Where the closing line is missing although the run ended with the last record, the log is folded to say how.

    Raises:
        OSError: if it cannot be read.
    """
    with log.path.open("rb") as file:
        start = max(0, file.seek(0, os.SEEK_END) - WINDOW)
        file.seek(start)
        *lines, rest = file.read().split(b"\n")
    try:
        last = _last(log, [line + b"\n" for line in lines[1:]], b"" if start else lines[0] + b"\n")
        if rest and is_whole(rest):
            raise LogDamaged(log.path, 0 if last is None else last.seq + 1, "has lost the end of its line")
    except LogDamaged as error:
        return Glance(None, bool(rest), error)
    gap = any(b',"gap":{' in line[:_BEGINNING] for line in lines[1:])
    if isinstance(last, End):
        return Glance(last.terminal, bool(rest), gap=gap)
    ended = isinstance(last, Record) and ends_run(last) and not foreign(log.header)
    return Glance(last_terminal(log.path) if ended else None, bool(rest), gap=gap, empty=last is None and not start)


def _last(log: LogFile, lines: list[bytes], header: bytes) -> Record | Gap | End | None:
    """Verify lines that follow each other, and decode the last one.

    Args:
        log: the log.
        lines: its last lines.
        header: the line before them, if it is the header; empty if they stand somewhere in the log.

    Raises:
        LogDamaged: at the first line that is not what was written.
    """
    salt, chain, pin = log.header.salt.encode(), stated_chain(header) if header else b"", b""
    seq, last = 0 if header else _before(lines), None
    for place, line in enumerate(lines):
        number = _NUMBER.match(line)
        seq += 1
        if not is_whole(line):
            raise LogDamaged(log.path, seq, "is damaged: its checksum does not match")
        if isinstance(last, End):
            raise LogDamaged(log.path, seq, "stands behind the end of the run")
        follows = stated_chain(line) == pin if pin else not chain or chain_of(line, chain, salt) is not None
        if not follows or number is None or int(number[1]) != seq:
            words = "does not continue the one before it: a record was removed, moved or replaced"
            raise LogDamaged(log.path, seq, words)
        chain, pin, last = stated_chain(line), b"", None
        kind = line[number.end() : number.end() + 8]
        if place == len(lines) - 1 or not kind.startswith(b'"event":'):
            last = log.item(seq, line)
            if isinstance(last, Gap):
                seq, pin = last.to, last.next.encode()
    return last


def _before(lines: list[bytes]) -> int:
    """Give the number of the line before some that stand in the middle of a log."""
    numbers = ((place, number) for place, line in enumerate(lines) if (number := _NUMBER.match(line)))
    return next((int(number[1]) - place - 1 for place, number in numbers), 0)


@frozen
class Continued:
    """What a log continues.

    Attributes:
        log: the other log.
        seq: the last of its records that counts.
    """

    log: Path
    seq: int

    def __str__(self) -> str:
        """Say it in words."""
        return f"{self.log} behind record {self.seq}" if self.seq else f"{self.log} from its beginning"


def continued(log: LogFile) -> Continued | None:
    """Say what a log continues, None if it is one of its own."""
    parent = log.header.parent
    return None if parent is None else Continued(Path(os.path.normpath(log.path.parent / parent.log)), parent.seq)


def prompt_of(log: LogFile) -> tuple[str, bool]:
    """Give the prompt of a run, and whether it stands in this log; else it is that of the log that it continues.

    Raises:
        LogError: if the log cannot be read so far; what is wrong with its parents leaves the prompt empty.
        OSError: if it cannot be read.
    """
    text = _own_prompt(log)
    own, seen = text is not None, {log.path}
    while text is None and (before := continued(log)) is not None and before.log not in seen:
        seen.add(before.log)
        try:
            log = read_log(before.log)
            text = _own_prompt(log)
        except (LogError, OSError):
            break
    return text or "", own


def _own_prompt(log: LogFile) -> str | None:
    for record in log.records():
        if isinstance(record.event, RunStarted):
            return " ".join(block_text(block) for message in record.event.messages for block in message.blocks)
        if record.seq > _LOOKED:
            break
    return None
