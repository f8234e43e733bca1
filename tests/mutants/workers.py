"""Each mutant in a process of its own, forked from one that has imported everything and computed nothing."""

from __future__ import annotations

import json
import os
import selectors
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from attrs import frozen


@frozen
class Done:
    """One finished process: its task, what it gave (None if it was killed), seconds it took."""

    task: Any
    value: Any
    seconds: float


def forked(tasks: Iterable[Any], work: Callable[[Any], Any], jobs: int, seconds: float) -> Iterator[Done]:
    """Do each task in a forked process; a process that takes too long is killed.

    Args:
        tasks: what is done.
        work: does one; its value goes through JSON.
        jobs: processes at a time.
        seconds: most processor seconds for one, and four times as many by the clock.
    """
    waiting = iter(tasks)
    running: dict[int, tuple[Any, int, float, bytearray]] = {}
    with selectors.DefaultSelector() as selector:

        def launch() -> bool:
            try:
                task = next(waiting)
            except StopIteration:
                return False
            here, there = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.close(here)
                _child(there, work, task, seconds)
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
                os.waitpid(pid, 0)
                del running[descriptor]
                yield Done(task, json.loads(data) if data else None, time.monotonic() - began)
                launch()
            for _, pid, began, _ in list(running.values()):
                if time.monotonic() - began > 4 * seconds:
                    os.kill(pid, signal.SIGKILL)


def _child(there: int, work: Callable[[Any], Any], task: Any, seconds: float) -> None:
    """Do one task and leave, in whatever way: nothing of the parent's may run here."""
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
        with os.fdopen(there, "wb") as pipe:
            pipe.write(json.dumps(work(task)).encode())
    finally:
        os._exit(0)
