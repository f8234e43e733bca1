"""Finds full texts of old tool results in the logs of a session, for results that the toolbox no longer keeps."""

from __future__ import annotations

from pathlib import Path

from ..core.events import ToolFinished
from ..log.errors import LogError
from ..log.reader import read_log
from ..runtime.tools.stored import result_text


def find_in_logs(folder: Path, tool_use_id: str) -> str | None:
    """Look for a result in the logs of a folder, the newest log first.

    Args:
        folder: where the runs of one session have their logs.
        tool_use_id: the call.

    Returns:
        The text of its result; None if no log that can be read has it. A log that is damaged is read up to the damage.
    """
    for path in sorted(folder.glob("*.jsonl"), key=_age, reverse=True):
        found = _find(path, tool_use_id)
        if found is not None:
            return found
    return None


def _age(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _find(path: Path, tool_use_id: str) -> str | None:
    found: str | None = None
    try:
        for record in read_log(path).records():
            event = record.event
            if isinstance(event, ToolFinished) and event.result.id == tool_use_id:
                found = result_text(event.result)
    except (LogError, OSError):
        pass
    return found
