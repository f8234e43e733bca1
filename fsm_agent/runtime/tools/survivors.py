"""Find what a process has left behind: by session, by a mark in the environment, by pipes that it holds (field report 75).

A child that starts a session of its own is in no group of ours any more, and one whose parent has died has no parent
of ours. The mark is inherited by both; the pipe is held by those that cleared their environment. Where the system
shows no ``/proc``, nothing but the process group can be ended, and nothing is named.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from attrs import frozen

from .bounded import decode

MARK = "FSM_AGENT_PROCESS"
"""Name of the variable that marks all descendants of one process."""


@frozen
class Leftover:
    """A process that is still there: its id and its command line, shortened."""

    pid: int
    command: str

    def __str__(self) -> str:
        return f"{self.pid} ({self.command})" if self.command else str(self.pid)


def _processes() -> Iterator[int]:
    try:
        names = os.listdir("/proc")
    except OSError:
        return
    for name in names:
        if name.isdigit():
            yield int(name)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(262_144)
    except OSError:
        return b""


def _family(pid: int) -> tuple[int, int] | None:
    """Parent and session of a living process; None for one that is gone or only waits to be reaped."""
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    if len(fields) < 4 or fields[0] in (b"Z", b"X"):
        return None
    return int(fields[1]), int(fields[3])


def _holds(pid: int, pipes: frozenset[int]) -> bool:
    wanted = {f"pipe:[{inode}]" for inode in pipes}
    try:
        with os.scandir(f"/proc/{pid}/fd") as entries:
            for entry in entries:
                try:
                    if os.readlink(entry.path) in wanted:
                        return True
                except OSError:
                    continue
    except OSError:
        return False
    return False


def find_leftovers(session: int, mark: str, pipes: frozenset[int]) -> tuple[Leftover, ...]:
    """Find the living processes of one tree.

    Args:
        session: session id of the process that was started.
        mark: a random text in the value of its mark.
        pipes: inodes of pipes that it was given and that are still open on its side.

    Returns:
        The processes, the started one included, in order of their ids.
    """
    needle = mark.encode()
    found = []
    me = os.getpid()
    for pid in sorted(_processes()):
        if pid == me:
            continue
        family = _family(pid)
        if family is None:
            continue
        parent, own = family
        # A child of this very process that holds the pipe is another call's, caught between fork and exec.
        held = bool(pipes) and parent != me
        if own == session or needle in _read(f"/proc/{pid}/environ") or (held and _holds(pid, pipes)):
            words = decode(_read(f"/proc/{pid}/cmdline").replace(b"\0", b" ")).strip()
            found.append(Leftover(pid=pid, command=words[:80]))
    return tuple(found)


def all_marked(marks: tuple[str, ...], counts: Callable[[str], bool] = lambda mark: True) -> tuple[Leftover, ...]:
    """Find the living processes whose mark holds one of these texts, in order of their ids.

    Args:
        marks: the texts.
        counts: says of the whole mark of such a process whether it is one that is looked for.
    """
    needles = tuple(mark.encode() for mark in marks)
    found = []
    for pid in sorted(_processes()):
        variables = _read(f"/proc/{pid}/environ").split(b"\0")
        marked = [item for item in variables if item.startswith(MARK.encode() + b"=")]
        if not any(needle in item and counts(decode(item)) for item in marked for needle in needles):
            continue
        if _family(pid) is not None:
            words = decode(_read(f"/proc/{pid}/cmdline").replace(b"\0", b" ")).strip()
            found.append(Leftover(pid=pid, command=words[:80]))
    return tuple(found)


def life_of(pid: int) -> str:
    """Name a living process so that no later one can be taken for it; empty if it is gone or only waits to be reaped."""
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return "" if len(fields) < 20 or fields[0] in (b"Z", b"X") else f"{pid}-{int(fields[19])}"


def parents_of(pid: int) -> tuple[int, ...]:
    """Give the processes above one, the nearest first."""
    found: list[int] = []
    family = _family(pid)
    while family is not None and family[0] > 0 and family[0] not in found:
        found.append(family[0])
        family = _family(family[0])
    return tuple(found)
