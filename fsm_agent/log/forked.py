"""Work on logs in forked processes, each heard through a pipe."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

Task = Callable[[Connection], None]


def can_fork() -> bool:
    """Say whether this process can part: a program with several threads cannot do so safely."""
    return "fork" in multiprocessing.get_all_start_methods() and threading.active_count() == 1


@contextmanager
def forked(tasks: Sequence[Task]) -> Iterator[list[Connection]]:
    """Run each task in a process of its own, until the block is left.

    Args:
        tasks: each says what it has to say through the pipe that it is given.

    Yields:
        For each task the end of the pipe to hear it; a task that ended gives EOFError.
    """
    from ..core import step as _loaded  # noqa: F401 - once, before the processes part

    context = multiprocessing.get_context("fork")
    pipes: list[Connection] = []
    processes: list[BaseProcess] = []
    gc.freeze()
    try:
        for task in tasks:
            here, there = context.Pipe(duplex=False)
            pipes.append(here)
            process: BaseProcess = context.Process(target=_run, args=(task, there, tuple(pipes)), daemon=True)
            process.start()
            there.close()
            processes.append(process)
        yield pipes
    finally:
        gc.unfreeze()
        for pipe in pipes:
            pipe.close()
        for process in processes:
            process.terminate()
            process.join()


def _run(task: Task, pipe: Connection, inherited: tuple[Connection, ...]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the program's own handlers came along with the fork
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for end in inherited:
        end.close()  # else a task would wait for somebody to hear it when the program is gone
    with suppress(OSError):
        task(pipe)
    pipe.close()
    os._exit(0)  # what the program does at its end is not for a part of it
