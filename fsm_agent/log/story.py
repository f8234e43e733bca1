"""A log told step by step, for people: each record with the states around it; what cannot be folded is told all the same."""

from __future__ import annotations

import os
from collections.abc import Iterator

from attrs import frozen

from ..core.outputs import Terminal
from ..core.state import LoopState, Step
from .agreement import agrees
from .behaviour import foreign
from .digest import StateDigests
from .errors import LogDamaged, LogError
from .format import End, Gap, Header, Record
from .glance import prompt_of
from .reader import LogFile, read_log
from .replay import begin_state, stored_state


@frozen
class Told:
    """One record and what the reducer makes of it.

    Attributes:
        record: as the log has it.
        at: its wall time in milliseconds since 1970, never before that of the record before it.
        before: the state that it met, None where the log cannot be folded.
        step: what the reducer gave, None where the log cannot be folded.
    """

    record: Record
    at: int
    before: LoopState | None
    step: Step | None


class Story:
    """Reads a log and folds it as far as possible.

    A log of another table or reducer is not folded; behind a gap, and behind a record at which the fold takes other rows,
    nothing is folded until the next stored state. A fold that takes the same rows and gives something else goes on. Damage
    ends the story; what stands before it is told. :attr:`problems` says all that after the reading.

    Attributes:
        header: the log's header.
        created: when the log was made, in milliseconds since 1970.
        begin: the state before the first record, None if it is not known.
        end: the closing record, once the log was read to its end.
        terminal: how the run ended, once the log was read to its end; it is known without the closing record too.
        torn: the last record is torn.
        problems: why the story is not whole, one sentence each.
        damage: what is damaged in the log, None if nothing is.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open a log.

        Raises:
            LogUnreadable, LogDamaged: if its header cannot be read.
            OSError: if the file cannot be read.
        """
        self._log: LogFile = read_log(path)
        self.header: Header = self._log.header
        self.created = self._log.created
        self.begin: LoopState | None = None
        self.end: End | None = None
        self.terminal: Terminal | None = None
        self.torn = False
        self.problems: list[str] = []
        self.damage: LogDamaged | None = None
        strange = foreign(self.header)
        self._folds = not strange
        if strange:
            self.problems.append(f"The log was written {strange}; its states and effects are not shown.")
            return
        try:
            self.begin = begin_state(self._log)
        except LogError as error:
            self.problems.append(f"The state in which the run begins is not known. {error}")

    def inherited_prompt(self) -> str:
        """Give the prompt of the run that a fork goes on with; empty where none is known."""
        try:
            return prompt_of(self._log)[0]
        except (LogError, OSError):
            return ""

    def steps(self) -> Iterator[Told]:
        """Tell the records in order.

        Raises:
            OSError: if the file cannot be read.
        """
        from ..core.step import step

        state, latest, digests, differs = self.begin, self.created, StateDigests(), False
        try:
            for item in self._log.items():
                if isinstance(item, Gap):
                    state = None
                    self.problems.append(f"{item.words.capitalize()}: {item.because}.")
                    continue
                latest = max(latest, item.at)
                if state is None:
                    state = stored_state(self._log, item) if self._folds else None
                    yield Told(item, latest, None, None)
                    continue
                made = step(state, item.event, self.header.config)
                if made.taken != item.taken or made.rejected != item.rejected:
                    self.problems.append(f"The replay diverges at record {item.seq}; what it gives from there is not shown.")
                    state = None
                    yield Told(item, latest, None, None)
                    continue
                if not differs and not agrees(item, made, digests):
                    differs = True
                    self.problems.append(
                        f"From record {item.seq} on, states and effects are those that this version of fsm_agent gives; the "
                        "recorded run took the same rows, but what it gave differs in something."
                    )
                yield Told(item, latest, state, made)
                state = made.state
            tail = self._log.tail
            self.end, self.torn = tail.end, tail.torn
            if tail.end is not None:
                self.terminal = tail.end.terminal
            elif state is not None:
                self.terminal = state.terminal
        except LogDamaged as error:
            self.damage = error
            self.problems.append(f"The log is damaged: {error}.")
