"""The log of a run that is made with its first record, so that a run which never begins leaves no file."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

from ..core.events import Event
from ..core.state import LoopState, Step
from ..log.files import SyncPolicy
from ..log.format import Parent
from ..log.journal import Journal
from ..log.resume import Standing, reopen
from ..runtime.notices import warn
from ..runtime.tools.orphans import end_orphans


class LazyJournal:
    """A recorder that opens its log when the first step is recorded.

    Attributes:
        path: where the log is, or will be; one that is made may get another name beside it.
        session_id: the session that the run belongs to.
    """

    def __init__(self, path: str | os.PathLike[str], create: Callable[[Path], Journal], *, session_id: str = "") -> None:
        self.path = Path(path).absolute()
        self.session_id = session_id
        self._create = create
        self._journal: Journal | None = None

    def append(self, event: Event, step: Step, *, sync: bool) -> None:
        """Append one record; the first one makes the file.

        Raises:
            OSError: if it could not be written, or the file exists already.
        """
        self.open()
        assert self._journal is not None
        self._journal.append(event, step, sync=sync)

    def open(self) -> None:
        """Open the log now, so that no other process can write it.

        Raises:
            OSError: if it cannot be opened, or exists already and is not gone on with.
            LogError: if another process writes it.
        """
        if self._journal is None:
            self._journal = self._create(self.path)
            self.path = self._journal.path

    def as_parent(self, child: str | os.PathLike[str]) -> Parent | None:
        """Describe the log as the parent of another one; None if there is no log.

        Args:
            child: the other log's file.
        """
        return None if self._journal is None else self._journal.as_parent(child)

    def close(self, state: LoopState) -> None:
        """Write the closing record and release the file, if there is one."""
        if self._journal is not None:
            self._journal.close(state)


def first_free(create: Callable[[Path], Journal], path: Path) -> Journal:
    """Create a log in the first of ``path`` and its :func:`numbered` names that is free.

    What stands there already is of a run that was begun from the same record before: of a fork that is gone, or of a caller
    whose last record was lost with the machine.
    """
    for place in numbered(path):
        with contextlib.suppress(FileExistsError):
            return create(place)
    raise AssertionError("names never end")


def numbered(path: Path) -> Iterator[Path]:
    """Give the names that a log may have: ``<name>``, ``<name>-2``, ``<name>-3``, ..."""
    yield path
    for number in count(2):
        yield path.with_name(f"{path.stem}-{number}{path.suffix}")


def reopened(standing: Standing, policy: str, path: Path) -> Journal:
    """Open the log of an interrupted run again, and end what its engine left behind.

    With the log's lock it is known that no engine goes on with this log; one may drive a fork of it, with the same ids. See
    :func:`fsm_agent.log.resume.reopen`.
    """
    journal = reopen(standing, policy=SyncPolicy(policy))
    if words := str(end_orphans(standing.state.control.run.id)):
        warn(words)
    return journal
