"""Logs as the command line meets them: opened with clear errors, and summed up without reading them whole."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from ..core.blocks import block_text
from ..core.events import RunStarted
from ..core.outputs import Terminal
from ..core.usage import total_cost
from ..log.codec import LENIENT, decode_value
from ..log.errors import CodecError, LogDamaged, LogError, LogUnreadable, ReplayDiverged
from ..log.format import is_whole
from ..log.reader import LogFile, read_log
from .problems import LOG, USAGE, Problem

_TAIL = 65_536
"""Bytes at the end of a file in which its closing record is looked for; it is small."""


@contextmanager
def log_problems(path: Path) -> Iterator[None]:
    """Turn what can be wrong with a log into one line: 3 for a log that is damaged or diverges, 2 for one that is not there."""
    try:
        yield
    except (LogDamaged, LogUnreadable, ReplayDiverged) as error:
        raise Problem(str(error), LOG) from None
    except LogError as error:
        raise Problem(str(error), USAGE) from None
    except OSError as error:
        raise Problem(f"{error.filename or path}: {error.strerror}", USAGE) from None


@frozen
class Summary:
    """One log in brief.

    Attributes:
        path: the file.
        session: session id.
        run: run id.
        created: milliseconds since 1970.
        prompt: the text of the prompt.
        terminal: how the run ended, None if its log has no end.
        problem: why it cannot be read, empty if it can.
    """

    path: Path
    session: str = ""
    run: str = ""
    created: int = 0
    prompt: str = ""
    terminal: Terminal | None = None
    problem: str = ""

    @property
    def cost(self) -> int:
        """What the run cost, in micro-dollars."""
        return 0 if self.terminal is None else total_cost(self.terminal.usage)


def find_logs(folder: Path) -> list[Path]:
    """Find the logs in a folder and the folders in it.

    Raises:
        OSError: if the folder cannot be read.
    """
    found: list[Path] = []
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_dir():
            found.extend(sorted(Path(entry.path).glob("*.jsonl")))
        elif entry.name.endswith(".jsonl"):
            found.append(Path(entry.path))
    return found


def summarise(path: Path) -> Summary:
    """Sum up a log from its header, its first record and its last line; a log that cannot be read says why."""
    try:
        log = read_log(path)
        header = log.header
        return Summary(path, header.session, header.run, log.created, _prompt(log), _ending(path))
    except (LogError, OSError) as error:
        return Summary(path, problem=str(error).removeprefix(f"{path}: "))


def _prompt(log: LogFile) -> str:
    records = log.records()
    for record in records:
        if isinstance(record.event, RunStarted):
            return " ".join(block_text(block) for message in record.event.messages for block in message.blocks)
        if record.seq > 50:  # a user may act before the start, but hardly so often
            break
    return ""


def _ending(path: Path) -> Terminal | None:
    """Read the closing record. It is checked by itself; ``replay`` is there to check the whole log."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL))
        line = file.read().splitlines(keepends=True)[-1]
    if not is_whole(line):
        return None
    try:
        value = json.loads(line)
        if "end" not in value:
            return None
        terminal: Terminal = decode_value(LENIENT.record(Terminal), value["end"]["terminal"])
        return terminal
    except (ValueError, KeyError, TypeError, CodecError):
        return None
