"""The log of a run that is made with its first record, so that a run which never begins leaves no file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from ..core.events import Event
from ..core.state import LoopState, Step
from ..log.journal import Journal


class LazyJournal:
    """A recorder that opens its log when the first step is recorded.

    Attributes:
        path: where the log is, or will be.
    """

    def __init__(self, path: str | os.PathLike[str], create: Callable[[Path], Journal]) -> None:
        self.path = Path(path).absolute()
        self._create = create
        self._journal: Journal | None = None

    def append(self, event: Event, step: Step, *, sync: bool) -> None:
        """Append one record; the first one makes the file.

        Raises:
            OSError: if it could not be written, or the file exists already.
        """
        if self._journal is None:
            self._journal = self._create(self.path)
        self._journal.append(event, step, sync=sync)

    def close(self, state: LoopState) -> None:
        """Write the closing record and release the file, if there is one."""
        if self._journal is not None:
            self._journal.close(state)
