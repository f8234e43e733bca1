"""Processes that an engine left behind when it was killed: found by the run's id in their mark, and ended (field report 78)."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterable

from attrs import frozen

from .survivors import Leftover, all_marked, life_of, parents_of

_GRACE = 0.5
"""Seconds between TERM and KILL."""


@frozen
class Orphans:
    """What was found: processes that were ended, and those that could not be."""

    ended: tuple[Leftover, ...] = ()
    survivors: tuple[Leftover, ...] = ()

    def __str__(self) -> str:
        """Say it in words; empty if there was nothing."""
        parts = []
        if self.ended:
            parts.append("processes of the interrupted run were still there and were ended: " + ", ".join(map(str, self.ended)))
        if self.survivors:
            parts.append("processes of the interrupted run cannot be ended: " + ", ".join(map(str, self.survivors)))
        return "; ".join(parts)


def run_mark(run_id: str, token: str) -> str:
    """Make the mark of a process that a run starts.

    Args:
        run_id: the run; empty for none.
        token: a random text that names the process.
    """
    return f"run-{run_id}.{token}_{life_of(os.getpid())}" if run_id else token


def find_orphans(run_id: str) -> tuple[Leftover, ...]:
    """Find processes that a run, or a sub-agent of it, started, and that outlived the engine which drove it.

    What belongs to an engine that lives is no orphan: a fork has the id of the run that it continues. This process and
    those above it are never among them: it may have been started by a command of that run itself.
    """
    # The ids of a sub-agent's runs begin with that of its caller.
    of_run = re.compile(rf"\.run-{re.escape(run_id)}(?:-tool-[^.]*)?\.[^._]*_(\d+)-(\d+)")

    def orphaned(mark: str) -> bool:
        return not any(life_of(int(pid)) == f"{pid}-{start}" for pid, start in of_run.findall(mark))

    found = all_marked((f".run-{run_id}.", f".run-{run_id}-tool-"), orphaned)
    spared = {os.getpid(), *parents_of(os.getpid())}
    return tuple(item for item in found if item.pid not in spared)


def end_orphans(run_id: str) -> Orphans:
    """End what a run left behind, with TERM and then KILL. The caller has made sure that no other engine writes its log.

    Blocks for at most about a second, and only if there is something to end.
    """
    found = find_orphans(run_id)
    if not found:
        return Orphans()
    everything = {item.pid: item for item in found}
    for number, patience in ((signal.SIGTERM, _GRACE), (signal.SIGKILL, _GRACE)):
        left = find_orphans(run_id)
        everything.update({item.pid: item for item in left})
        _send(left, number)
        end = time.monotonic() + patience
        while (left := find_orphans(run_id)) and time.monotonic() < end:
            time.sleep(0.01)
        if not left:
            break
    stay = {item.pid for item in left}
    return Orphans(
        tuple(item for pid, item in sorted(everything.items()) if pid not in stay),
        tuple(item for pid, item in sorted(everything.items()) if pid in stay),
    )


def _send(items: Iterable[Leftover], number: signal.Signals) -> None:
    for item in items:
        try:
            os.kill(item.pid, number)
        except (ProcessLookupError, PermissionError):
            continue
