"""Each mutant in a process of its own, forked from one that has imported everything and computed nothing."""

from __future__ import annotations

import json
import os
import selectors
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from attrs import frozen


@frozen
class Done:
    """One finished process.

    Attributes:
        task: its task.
        value: what it gave; None if it was too slow, or died.
        seconds: how long it took by the clock.
        late: it was killed since it took too long.
        died: how it ended otherwise without a value, in words; empty if it did not.
    """

    task: Any
    value: Any
    seconds: float
    late: bool = False
    died: str = ""


def forked(tasks: Iterable[Any], work: Callable[[Any], Any], jobs: int, seconds: float) -> Iterator[Done]:
    """Do each task in a forked process; a process that takes too long is killed.

    Args:
        tasks: what is done.
        work: does one; its value goes through JSON.
        jobs: processes at a time.
        seconds: most processor seconds for one, and four times as many by the clock.

    Raises:
        ValueError: for no processes at all, which would do nothing.
    """
    if jobs < 1:
        raise ValueError(f"jobs={jobs}: at least one process is needed")
    waiting = iter(tasks)
    running: dict[int, tuple[Any, int, float, bytearray]] = {}
    killed: set[int] = set()
    with selectors.DefaultSelector() as selector, _leaving(running):

        def launch() -> bool:
            try:
                task = next(waiting)
            except StopIteration:
                return False
            here, there = os.pipe()
            pid = os.fork()
            if pid == 0:
                _child(here, there, work, task, seconds)
            os.close(there)
            running[here] = (task, pid, time.monotonic(), bytearray())
            selector.register(here, selectors.EVENT_READ)
            return True

        while len(running) < jobs and launch():
            pass
        while running:
            for key, _ in selector.select(1.0):
                descriptor = int(key.fd)
                task, pid, began, data = running[descriptor]
                piece = os.read(descriptor, 65_536)
                data.extend(piece)
                if piece:
                    continue
                selector.unregister(descriptor)
                os.close(descriptor)
                _, status = os.waitpid(pid, 0)
                del running[descriptor]
                yield _done(task, data, time.monotonic() - began, os.waitstatus_to_exitcode(status), pid in killed)
                launch()
            for _, pid, began, _ in list(running.values()):
                if time.monotonic() - began > 4 * seconds:
                    killed.add(pid)
                    os.kill(pid, signal.SIGKILL)


@contextmanager
def _leaving(running: dict[int, tuple[Any, int, float, bytearray]]) -> Iterator[None]:
    """Leave no process behind, however the work ends."""
    try:
        yield
    finally:
        for _, pid, _, _ in running.values():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _done(task: Any, data: bytearray, seconds: float, code: int, killed: bool) -> Done:
    """Say how a process ended; only time that ran out is the task's own doing, and any other death says nothing of it."""
    if code == 0 and data:
        return Done(task, json.loads(data), seconds)
    if killed or code == -signal.SIGVTALRM:
        return Done(task, None, seconds, late=True)
    if code == RAISED:
        return Done(task, None, seconds, died=data.decode("utf-8", "replace") or "it raised")
    return Done(task, None, seconds, died=f"ended by signal {-code}" if code < 0 else f"ended with code {code}")


RAISED = 71
"""Exit code of a process whose task raised; the traceback is what it gave."""


def _child(here: int, there: int, work: Callable[[Any], Any], task: Any, seconds: float) -> None:
    """Do one task and leave, in whatever way: nothing of the parent's may run here."""
    code = RAISED
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it, and ends its processes
        signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        os.close(here)
        with os.fdopen(there, "wb") as pipe:
            try:
                words, ended = json.dumps(work(task)).encode(), 0
            except BaseException:
                words, ended = traceback.format_exc().encode("utf-8", "replace"), RAISED
            pipe.write(words)
        code = ended
    finally:
        os._exit(code)
