"""Many logs replayed at once: each release can replay all logs that there are."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from attrs import frozen

from .errors import BehaviourChanged, LogError, LogUnreadable
from .forked import can_fork, forked
from .replay import replay

__all__ = ["Verdict", "replay_many"]


@frozen
class Verdict:
    """What the replay of one log found.

    Attributes:
        path: the log.
        records: records that agree.
        problem: the first difference, or why the log cannot be replayed to its end; empty if all agree.
        other: it was not replayed: it was written under another table or reducer, or is no log at all.
        torn: its last line is torn; all before it agree.
    """

    path: Path
    records: int = 0
    problem: str = ""
    other: bool = False
    torn: bool = False


def replay_many(paths: Sequence[Path], jobs: int, *, check_table: bool = True) -> Iterator[Verdict]:
    """Replay logs side by side.

    Args:
        paths: the logs.
        jobs: processes; with one, or one log, everything happens in this process.
        check_table: do not replay a log that was written under another table or reducer.

    Yields:
        A verdict for each, in order. What is wrong with one log stops none of the others.
    """
    count = min(jobs, len(paths)) if can_fork() else 1
    if count < 2:
        for path in paths:
            yield _judge(path, check_table)
        return
    with forked([partial(_judge_all, paths[number::count], check_table) for number in range(count)]) as pipes:
        for number, path in enumerate(paths):
            yield _heard(pipes[number % count], path)


def _heard(pipe: Connection, path: Path) -> Verdict:
    try:
        verdict: Verdict = pipe.recv()
    except (EOFError, OSError):
        return Verdict(path, problem="the process that replayed it ended before it was done; was there memory enough?")
    return verdict


def _judge_all(paths: Sequence[Path], check_table: bool, pipe: Connection) -> None:
    for path in paths:
        pipe.send(_judge(path, check_table))


def _judge(path: Path, check_table: bool) -> Verdict:
    try:
        found = replay(path, check_table=check_table)
    except (BehaviourChanged, LogUnreadable) as error:
        return Verdict(path, problem=_brief(path, error), other=True)
    except LogError as error:
        return Verdict(path, problem=_brief(path, error))
    except OSError as error:
        return Verdict(path, problem=f"cannot be read: {error.strerror}")
    if found.divergence is not None:
        return Verdict(path, found.steps, f"diverges: {found.divergence}")
    if not found.known:
        return Verdict(path, found.steps, f"stops at a gap: {found.skipped[-1].gap.words}")
    return Verdict(path, found.steps, torn=found.tail is not None and found.tail.torn)


def _brief(path: Path, error: LogError) -> str:
    return str(error).removeprefix(f"{os.fspath(path)}: ").partition("; ")[0]
