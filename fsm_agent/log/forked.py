"""Work on logs in forked processes, each heard through a pipe."""

from __future__ import annotations

import gc
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, Pipe
from typing import NoReturn

Task = Callable[[Connection], None]


def can_fork() -> bool:
    """Say whether this process can part: a program with several threads cannot do so safely."""
    return hasattr(os, "fork") and threading.active_count() == 1


@contextmanager
def forked(tasks: Sequence[Task]) -> Iterator[list[Connection]]:
    """Run each task in a process of its own, until the block is left.

    Args:
        tasks: each says what it has to say through the pipe that it is given.

    Yields:
        For each task the end of the pipe to hear it; a task that ended gives EOFError.
    """
    from ..core import step as _loaded  # noqa: F401 - once, before the processes part

    pipes: list[Connection] = []
    workers: list[int] = []
    gc.freeze()
    try:
        for task in tasks:
            here, there = Pipe(duplex=False)
            pipes.append(here)
            worker = os.fork()
            if worker == 0:
                _run(task, there, tuple(pipes))
            workers.append(worker)
            there.close()
        yield pipes
    finally:
        gc.unfreeze()
        for pipe in pipes:
            pipe.close()
        for worker in workers:
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
        for worker in workers:
            with suppress(ChildProcessError):  # somebody else has collected it
                os.waitpid(worker, 0)


def _run(task: Task, pipe: Connection, inherited: tuple[Connection, ...]) -> NoReturn:
    code = 1
    gc.disable()  # what it makes is gone with it
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the program's own handlers came along with the fork
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for end in inherited:
            end.close()  # else a task would wait for somebody to hear it when the program is gone
        with suppress(OSError):
            task(pipe)
        pipe.close()
        code = 0
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(code)  # what the program does at its end is not for a part of it
