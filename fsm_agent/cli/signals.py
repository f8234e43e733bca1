"""Signals outside of a run: the process leaves through its own cleaning up, with the exit code of the signal."""

from __future__ import annotations

import signal
from types import FrameType

from .problems import HANGUP, INTERRUPTED, TERMINATED, Stopped

CODES: dict[int, int] = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED}
if hasattr(signal, "SIGHUP"):
    CODES[signal.SIGHUP] = HANGUP


def _stop(number: int, frame: FrameType | None) -> None:
    raise Stopped(CODES[number])


def install() -> None:
    """Let signals end the process through its own cleaning up. Signals that are ignored stay ignored."""
    for number in CODES:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _stop)
