"""A log read and folded some records at a time."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING

from ..core.config import LoopConfig
from ..core.effects import CallModel
from ..core.events import Event
from ..core.state import LoopState, Step
from .agreement import reads_as
from .digest import StateDigests
from .errors import LogError
from .format import Gap, Place
from .lines import Line

if TYPE_CHECKING:
    from .reader import LogFile

AHEAD = 32
"""Lines that are read at a time."""

Reducer = Callable[[LoopState, Event, LoopConfig], Step]


class Ahead:
    """The lines of a log, some read at a time, and their steps compared some at a time.

    A processor that verifies and decodes many lines, folds many and then compares many does each in less time than one
    that goes to and fro. What is wrong with a line is told when its turn comes, so a difference before it is told first.
    """

    def __init__(self, log: LogFile, place: Place | None, until: int | None, *, events: bool) -> None:
        self._lines = log.lines(place, events=events)
        self._until = until
        self._wrong: LogError | OSError | None = None
        self._batch: list[Line | Gap] = []
        self._at = 0

    def next(self) -> Line | Gap | None:
        """Give the next line, None behind the last one."""
        if self._at == len(self._batch):
            if self._wrong is not None:
                raise self._wrong
            self._batch, self._at = [], 0
            try:
                for line in islice(self._lines, AHEAD):
                    self._batch.append(line)
            except (LogError, OSError) as error:
                self._wrong = error
                return self.next()
            if not self._batch:
                return None
        self._at += 1
        return self._batch[self._at - 1]

    def agreeing(
        self, line: Line, state: LoopState, config: LoopConfig, reducer: Reducer, states: StateDigests
    ) -> tuple[int, LoopState, Line]:
        """Fold the line just given and those behind it, as far as their steps read as they are written.

        Returns:
            How many they are, the state behind the last of them, and that one; 0 if the line just given cannot be judged so
            quickly. The next line is the one behind them.
        """
        made: list[Step] = []
        behind: list[bytes] = []
        now = state
        for one in self._batch[self._at - 1 :]:
            written = one.written
            if written is None or (self._until is not None and one.seq > self._until):
                break
            try:
                step = reducer(now, written[0], config)
            except Exception:  # raised again when the turn of this line comes
                break
            now = step.state
            made.append(step)
            behind.append(written[1])
            if step.effects and step.effects[-1].__class__ is CallModel:
                break  # a request is long, so the steps that hold one are not many
        count = 0
        while count < len(made) and reads_as(made[count], behind[count], states):
            count += 1
        if count == 0:
            return 0, state, line
        self._at += count - 1
        last = self._batch[self._at - 1]
        assert isinstance(last, Line)
        return count, made[count - 1].state, last
