"""One worker in this process, or several that were forked from it and hold a part of the frontier each."""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection

from .expand import Expansion, Worker
from .relay import Failure, begin, lost

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
        for number in range(len(self._pipes)):
            self._send(number, {state: won for state, won in self._told.items() if self._owner[state] == number})
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
        for number in range(len(self._pipes)):
            self._send(number, None)
        boxes: list[list[tuple[int, Expansion]]] = [[] for _ in self._pipes]
        for number, owner in self._owner.items():
            box = boxes[owner]
            if not box:
                box.extend(reversed(self._heard(owner)))
            at, expansion = box.pop()
            assert at == number
            yield number, expansion

    def _send(self, number: int, words: object) -> None:
        try:
            self._pipes[number].send(words)
        except OSError:
            self._heard(number)  # it may have said why
            raise lost(self._processes[number]) from None

    def _heard(self, number: int) -> list[tuple[int, Expansion]]:
        """Hear a worker; what it raised is raised."""
        try:
            batch: list[tuple[int, Expansion]] | Failure = self._pipes[number].recv()
        except (EOFError, OSError):
            raise lost(self._processes[number]) from None
        if isinstance(batch, Failure):
            raise batch.error()
        return batch

    def _fork(self) -> None:
        context = multiprocessing.get_context("fork")
        numbers = list(self.worker.frontier)
        for index in range(self.jobs):
            here, there = context.Pipe()
            self._pipes.append(here)
            mine = numbers[index :: self.jobs]
            process = context.Process(target=_serve, args=(self.worker, there, mine, tuple(self._pipes)), daemon=True)
            process.start()
            there.close()
            self._processes.append(process)
        self._owner = {number: index % self.jobs for index, number in enumerate(numbers)}
        self.worker.frontier.clear()
        self.alone = False

    def close(self) -> None:
        """Let the workers go."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.terminate()  # it may be at work yet
            process.join()


def gather(team: Team) -> Iterator[tuple[int, Expansion]]:
    """Give the expansions of the frontier in order."""
    return team.expansions()


def _serve(worker: Worker, pipe: Connection, numbers: list[int], inherited: tuple[Connection, ...]) -> None:
    """Run in a worker: expand the own part of each level, hear what was new, go on; the end of the pipe is the end."""
    begin(inherited)
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
    except BaseException as error:
        with suppress(OSError):
            pipe.send(Failure.of(error))
