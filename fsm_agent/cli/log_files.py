"""Logs as the command line meets them: opened with clear errors, and summed up without reading them whole."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import frozen

from ..core.outputs import Terminal
from ..core.usage import total_cost
from ..log.errors import LogDamaged, LogError, LogGap, LogUnreadable, ReplayDiverged
from ..log.files import real_file
from ..log.reader import read_log
from .problems import LOG, USAGE, Problem
from .prompts import worked_in

if TYPE_CHECKING:
    from ..log.glance import Continued


@contextmanager
def log_problems(path: Path) -> Iterator[None]:
    """Turn what can be wrong with a log into one line that says what to do.

    The code is 3 for a log that is damaged, has a gap in the way or diverges, 2 for one that is not there.
    """
    try:
        yield
    except (LogDamaged, LogUnreadable, LogGap, ReplayDiverged) as error:
        raise Problem(f"{_said(error)}{remedy(error)}", LOG) from None
    except LogError as error:
        raise Problem(str(error), USAGE) from None
    except OSError as error:
        raise Problem(f"{error.filename or path}: {error.strerror}", USAGE) from None


def _said(error: LogError) -> str:
    """Give the text of an error without its own advice, where a command is better."""
    return str(error) if isinstance(error, LogDamaged | LogUnreadable) else str(error).rpartition("; fork it ")[0] or str(error)


def remedy(error: LogError) -> str:
    """Say which command helps, as the end of a sentence; empty if none does."""
    if not isinstance(error, LogDamaged | LogGap | ReplayDiverged):
        return ""
    if error.seq == 0:
        return "; without its header it cannot be read: is there a copy?" if isinstance(error, LogDamaged) else ""
    log = shlex.quote(os.fspath(error.path))
    fork = f"fsm-agent fork {log} --at {error.seq - 1}"
    if isinstance(error, LogDamaged):
        blobs = "; its folder .blobs belongs beside it" if "needs the blob" in error.what else ""
        go_on = "" if "behind the end" in error.what else f"; or go on before that: {fork}"
        return f"{blobs}; mend it: fsm-agent replay {log} --repair{go_on}"
    return f"; to go on before that: {fork}"


@frozen
class Summary:
    """One log in brief.

    Attributes:
        path: the file.
        session: session id.
        run: run id.
        created: milliseconds since 1970.
        prompt: the text of the prompt.
        terminal: how the run ended, None if it did not.
        problem: why it cannot be read, empty if it can.
        damage: what is damaged in it, of what was looked at; empty if nothing is.
        torn: its last line is torn.
        gap: records are missing in the part that was looked at.
        empty: it holds no record yet.
        continues: the log that it continues.
        forked: it goes on in the middle of that one, and has no prompt of its own.
        nested: the run is that of a sub-agent, and goes on within its caller's.
        folder: where the run worked, empty if its log does not say.
    """

    path: Path
    session: str = ""
    run: str = ""
    created: int = 0
    prompt: str = ""
    terminal: Terminal | None = None
    problem: str = ""
    damage: str = ""
    torn: bool = False
    gap: bool = False
    empty: bool = False
    continues: Continued | None = None
    forked: bool = False
    nested: bool = False
    folder: str = ""

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
    """Sum up a log from its header, its first records and its end; a log that cannot be read says why."""
    try:
        return _summary(path)
    except Exception as error:  # one log must not hide all others, whatever is in it
        return Summary(path, problem=f"{type(error).__name__}: {error}")


def _summary(path: Path) -> Summary:
    from ..log.glance import Glance, continued, glance, prompt_of

    try:
        log = read_log(path)
    except (LogError, OSError) as error:
        return Summary(path, problem=_without(path, error))
    header, prompt, forked = log.header, "", False
    try:
        seen = glance(log)
        prompt, own = prompt_of(log)
        forked = not own
    except LogDamaged as error:
        seen = Glance(None, damage=error)
    except (LogError, OSError) as error:
        return Summary(path, problem=_without(path, error))
    damage = "" if seen.damage is None else _without(path, seen.damage)
    return Summary(
        path,
        header.session,
        header.run,
        log.created,
        prompt,
        seen.terminal,
        damage=damage,
        torn=seen.torn,
        gap=seen.gap,
        empty=seen.empty,
        continues=continued(log),
        forked=forked,
        nested=bool(header.caller),
        folder=worked_in(header.config.system_context),
    )


def _without(path: Path, error: Exception) -> str:
    return str(error).removeprefix(f"{path}: ").removeprefix(f"{real_file(path)}: ")
