"""Signals while a run is on: Ctrl-C ends it properly, a second one or SIGTERM closes it at once."""

from __future__ import annotations

import signal
from collections.abc import Callable

import anyio
from anyio import CancelScope
from anyio.abc import TaskStatus

from .signals import CODES


class Watch:
    """Watches for signals beside a run.

    Args:
        interrupt: what the first Ctrl-C does.

    Attributes:
        scope: cancelled by a signal that closes the run.
        code: exit code of that signal, 0 if there was none.
    """

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self.scope = CancelScope()
        self.code = 0
        self._interrupt = interrupt

    async def watch(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Take signals until cancelled."""
        numbers = [signal.Signals(number) for number in CODES if signal.getsignal(number) is not signal.SIG_IGN]
        asked = False
        with anyio.open_signal_receiver(*numbers) as signals:
            task_status.started()
            async for number in signals:
                if number == signal.SIGINT and not asked:
                    asked = True
                    self._interrupt()
                    continue
                self.code = CODES[number]
                self.scope.cancel()
