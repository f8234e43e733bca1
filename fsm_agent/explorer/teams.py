"""One worker in this process, or several that were forked from it and hold a part of the frontier each."""

from __future__ import annotations

import gc
import multiprocessing
import signal
from collections.abc import Iterator
from multiprocessing.connection import Connection

from .expand import Expansion, Worker

FEW = 256
"""A frontier smaller than this is not divided."""


class Team:
    """The workers of a search, and who holds which state."""

    def __init__(self, worker: Worker, jobs: int) -> None:
        self.worker = worker
        self.jobs = max(1, jobs)
        self.alone = True
        self._owner: dict[int, int] = {}
        self._next: dict[int, int] = {}
        self._told: dict[int, list[int]] = {}
        self._pipes: list[Connection] = []
        self._processes: list[multiprocessing.process.BaseProcess] = []

    def waiting(self) -> int:
        """Count the states that wait to be expanded."""
        return len(self.worker.frontier) if self.alone else len(self._owner)

    def turn(self) -> None:
        """Go on to the next level; divide the frontier when it has become large."""
        if self.alone:
            self.worker.turn()
            if self.jobs > 1 and len(self.worker.frontier) >= FEW:
                self._fork()
            return
        for number, pipe in enumerate(self._pipes):
            pipe.send({state: won for state, won in self._told.items() if self._owner[state] == number})
        self._told.clear()
        self._owner, self._next = dict(sorted(self._next.items())), {}

    def tell(self, number: int, won: list[int]) -> None:
        """Say which of a state's candidates are new values."""
        if self.alone:
            self.worker.settle(number, won)
            return
        self._told[number] = won
        owner = self._owner[number]
        for winner in won:
            if winner >= 0:
                self._next[winner] = owner

    def expansions(self) -> Iterator[tuple[int, Expansion]]:
        """Expand the frontier, in the order of the numbers."""
        if self.alone:
            for number in list(self.worker.frontier):
                yield number, self.worker.expand(number)
            return
        for pipe in self._pipes:
            pipe.send(None)
        boxes: list[list[tuple[int, Expansion]]] = [[] for _ in self._pipes]
        for number, owner in self._owner.items():
            box = boxes[owner]
            if not box:
                box.extend(reversed(self._pipes[owner].recv()))
            at, expansion = box.pop()
            assert at == number
            yield number, expansion

    def _fork(self) -> None:
        context = multiprocessing.get_context("fork")
        numbers = list(self.worker.frontier)
        for index in range(self.jobs):
            here, there = context.Pipe()
            process = context.Process(target=_serve, args=(self.worker, there, numbers[index :: self.jobs]), daemon=True)
            process.start()
            there.close()
            self._pipes.append(here)
            self._processes.append(process)
        self._owner = {number: index % self.jobs for index, number in enumerate(numbers)}
        self.worker.frontier.clear()
        self.alone = False

    def close(self) -> None:
        """Let the workers go."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.terminate()  # it waits for a word that will not come: other workers hold the far end of its pipe too
            process.join()


def gather(team: Team) -> Iterator[tuple[int, Expansion]]:
    """Give the expansions of the frontier in order."""
    return team.expansions()


def _serve(worker: Worker, pipe: Connection, numbers: list[int]) -> None:
    """Run in a worker: expand the own part of each level, hear what was new, go on."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the program's own handlers came along with the fork
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()  # states are trees: nothing of a search is garbage that only a collector finds
    worker.frontier = {number: worker.frontier[number] for number in numbers}
    try:
        while True:
            pipe.recv()
            batch: list[tuple[int, Expansion]] = []
            for number in list(worker.frontier):
                batch.append((number, worker.expand(number)))
                if len(batch) == 32:
                    pipe.send(batch)
                    batch = []
            if batch:
                pipe.send(batch)
            for number, won in pipe.recv().items():
                worker.settle(number, won)
            worker.turn()
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
