"""How a run's log is kept: what is forced to disk, and what a log that cannot be written means."""

from __future__ import annotations

from ..core.events import Event, ToolStarted
from ..core.phases import TERMINAL_SET
from ..core.state import LoopState, Step
from .faults import LogWriteError, describe
from .ports import Recorder


class LogKeeper:
    """Writes through a recorder, if there is one; any failure of it is a :class:`LogWriteError`."""

    def __init__(self, recorder: Recorder | None) -> None:
        self._recorder = recorder
        self._closed = False

    def append(self, event: Event, step: Step) -> None:
        """Append one record.

        Asked to be on disk before this returns: the start of a tool, since its body runs next, and the end of the run.

        Args:
            event: what was stepped.
            step: what it gave.

        Raises:
            LogWriteError: if it could not be written.
        """
        if self._recorder is None:
            return
        sync = isinstance(event, ToolStarted) or step.state.phase in TERMINAL_SET
        try:
            self._recorder.append(event, step, sync=sync)
        except Exception as error:
            raise LogWriteError(f"the log could not be written, so the run was stopped: {describe(error)}") from error

    def close(self, state: LoopState) -> None:
        """Close the log, once.

        Raises:
            LogWriteError: if its end could not be written.
        """
        if self._recorder is None or self._closed:
            return
        self._closed = True
        try:
            self._recorder.close(state)
        except Exception as error:
            raise LogWriteError(f"the log could not be closed: {describe(error)}") from error

    def release(self, state: LoopState, error: BaseException) -> None:
        """Close the log of a run that ``error`` stopped; a second failure becomes a note of the first."""
        try:
            self.close(state)
        except LogWriteError as second:
            error.add_note(str(second))
