"""Several explorations at once, each whole in a process of its own: nothing has to wait for a level of another's."""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import cast

from ..laws import LAWS, Law
from .explore import Explored, Pace, explore
from .matrix import Case
from .oracle import Oracle
from .relay import Failure, begin, lost

CasePace = Callable[[str, Pace], None]
"""Called with the name of a case and how far it is."""


def explore_all(
    cases: Sequence[Case],
    laws: Sequence[Law] = LAWS,
    jobs: int = 1,
    progress: CasePace | None = None,
    done: Callable[[str, Explored], None] | None = None,
    oracle: Oracle | None = None,
) -> list[Explored]:
    """Explore cases, so many at once; they are begun in their order, so the largest should stand first.

    Args:
        cases: what to explore.
        laws: the laws.
        jobs: processes; a single case divides its frontier among them.
        progress: told how far each case is, after each level.
        done: told of each case that is finished, as soon as it is.
        oracle: judges every step too. Each process has its own copy.

    Returns:
        What was found, in the order of the cases. It does not depend on ``jobs``.
    """
    if jobs > 1 and len(cases) > 1:
        return _Crew(cases, laws, progress, done, oracle).run(min(jobs, len(cases)))
    found: list[Explored] = []
    for case in cases:
        found.append(_one(case, laws, jobs, progress, oracle))
        if done is not None:
            done(case.name, found[-1])
    return found


def _one(case: Case, laws: Sequence[Law], jobs: int, progress: CasePace | None, oracle: Oracle | None) -> Explored:
    told = None if progress is None else lambda pace: progress(case.name, pace)
    return explore(case.config, case.bounds, laws, jobs, told, oracle=oracle, sample=case.sample, twins=case.twins)


class _Crew:
    """The processes, and what each of them has in hand."""

    def __init__(
        self,
        cases: Sequence[Case],
        laws: Sequence[Law],
        progress: CasePace | None,
        done: Callable[[str, Explored], None] | None,
        oracle: Oracle | None,
    ) -> None:
        self.cases = cases
        self.laws = laws
        self.progress = progress
        self.done = done
        self.oracle = oracle

    def run(self, count: int) -> list[Explored]:
        """Explore all cases in ``count`` processes."""
        context = multiprocessing.get_context("fork")
        processes: list[BaseProcess] = []
        pipes: list[Connection] = []
        found: dict[int, Explored] = {}
        waiting = iter(range(len(self.cases)))
        try:
            for _ in range(count):
                here, there = context.Pipe()
                pipes.append(here)
                process: BaseProcess = context.Process(target=self._serve, args=(there, tuple(pipes)), daemon=True)
                process.start()
                there.close()
                processes.append(process)
                here.send(next(waiting))
            while len(found) < len(self.cases):
                for ready in wait(pipes):
                    pipe = cast(Connection, ready)
                    try:
                        self._hear(pipe, waiting, found)
                    except (EOFError, BrokenPipeError, ConnectionResetError):
                        raise lost(processes[pipes.index(pipe)]) from None
        finally:
            for pipe in pipes:
                pipe.close()
            for process in processes:
                process.terminate()
                process.join()
        return [found[number] for number in range(len(self.cases))]

    def _hear(self, pipe: Connection, waiting: Iterator[int], found: dict[int, Explored]) -> None:
        number, news = pipe.recv()
        name = self.cases[number].name
        if isinstance(news, Pace):
            if self.progress is not None:
                self.progress(name, news)
            return
        if isinstance(news, Failure):
            raise news.error()
        found[number] = news
        if self.done is not None:
            self.done(name, news)
        following = next(waiting, None)
        if following is not None:
            pipe.send(following)

    def _serve(self, pipe: Connection, inherited: tuple[Connection, ...]) -> None:
        """Run in a process: explore one case after the other, as told; the end of the pipe is the end."""
        begin(inherited)
        gc.disable()  # states are trees: nothing of a search is garbage that only a collector finds
        try:
            while True:
                number = pipe.recv()
                pipe.send((number, self._explore(number, pipe)))
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return

    def _explore(self, number: int, pipe: Connection) -> Explored | Failure:
        try:
            return _one(self.cases[number], self.laws, 1, lambda _, pace: pipe.send((number, pace)), self.oracle)
        except (BrokenPipeError, ConnectionResetError):
            raise
        except BaseException as error:
            return Failure.of(error)
