"""Sessions of the past, found by their logs: the newest log of each, and how it began."""

from __future__ import annotations

import os
import time
from pathlib import Path

from attrs import frozen

from ..core.blocks import block_text, clean_text
from ..core.events import RunStarted
from ..log.reader import read_log

MAX_SESSIONS = 200
"""Sessions that are looked at, the newest."""
_LOOKED = 50
_PROMPT = 80


@frozen
class PastSession:
    """One session.

    Attributes:
        session: its id.
        log: the log of its newest run.
        changed: when that was written last, in seconds since 1970.
        prompt: how the prompt of that run began, on one line.
    """

    session: str
    log: Path
    changed: float
    prompt: str = ""

    @property
    def when(self) -> str:
        """When it was written last, for people."""
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(self.changed))


def find_sessions(logs: Path) -> tuple[PastSession, ...]:
    """Find the sessions in a folder of logs, the newest first; what is no log is passed over.

    Args:
        logs: the folder, with one folder a session in it.
    """
    newest: list[tuple[float, list[Path]]] = []
    try:
        with os.scandir(logs) as entries:
            folders = [Path(entry.path) for entry in entries if entry.is_dir()]
    except OSError:
        return ()
    for folder in folders:
        stamped = [(stamp, path) for path in folder.glob("*.jsonl") if (stamp := _stamp(path)) is not None]
        if stamped:
            stamped.sort(reverse=True)
            newest.append((stamped[0][0], [path for _, path in stamped]))
    newest.sort(reverse=True)
    found = (_read(stamp, paths) for stamp, paths in newest[:MAX_SESSIONS])
    return tuple(past for past in found if past is not None)


def _stamp(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None


def _read(stamp: float, paths: list[Path]) -> PastSession | None:
    for path in paths:
        try:
            header = read_log(path).header
            if header.caller or header.session != path.parent.name:  # of a sub-agent, or put there by hand
                continue
            return PastSession(header.session, path, stamp, _prompt(path))
        except Exception:  # whatever is in it, one log must not hide the others
            continue
    return None


def _prompt(path: Path) -> str:
    for record in read_log(path).records():
        if isinstance(record.event, RunStarted):
            said = record.event.messages[0].blocks if record.event.messages else ()
            line = clean_text(" ".join(" ".join(map(block_text, said)).split()))
            return line if len(line) <= _PROMPT else line[: _PROMPT - 1] + "…"
        if record.seq > _LOOKED:
            break
    return ""
