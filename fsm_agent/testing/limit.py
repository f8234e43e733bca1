"""The limit of a trial: real time after which its run is ended, with the name of what did not end by itself."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import anyio.lowlevel

GRACE = 2.0
"""Seconds within which the event loop has to answer once the limit has come."""
_SIGNAL = signal.SIGUSR2
_LASTING: list[threading.Event] = []
"""One for each limit of the main thread, set when its block is over; the handler of the signal stands while there is one."""
_BEFORE: list[Any] = []
"""The handler that was there before."""


class HeldUp(TimeoutError):
    """Code that never gave the event loop back is broken off where it stands."""


@contextmanager
def limited(seconds: float, late: Callable[[], Callable[[], None]]) -> Iterator[None]:
    """Give a block of an event loop a limit of real time.

    What holds the event loop itself is broken off by a signal, which only the main thread can get; what takes no notice of
    its cancellation is told on standard error, since nothing can end it.

    Args:
        seconds: the limit.
        late: called on another thread when it has come, and tells what then is to be called in the event loop.
    """
    token: Any = anyio.lowlevel.current_token().native_token
    into_loop: Callable[..., Any] = getattr(token, "call_soon_threadsafe", None) or token.run_sync_soon
    over = threading.Event()
    main = threading.current_thread() is threading.main_thread()

    def watch() -> None:
        if over.wait(seconds):
            return
        answered = threading.Event()
        act = late()

        def here() -> None:
            answered.set()
            if not over.is_set():
                act()

        into_loop(here)
        while main and not answered.wait(GRACE) and not over.is_set():
            signal.pthread_kill(threading.main_thread().ident or 0, _SIGNAL)
        if not over.wait(5 * GRACE):
            print(f"a trial cannot be ended after its limit of {seconds:g} s: what runs takes no notice", file=sys.stderr)

    thread = threading.Thread(target=watch, name="fsm-agent trial limit", daemon=True)
    if main:
        _arm(over)
    thread.start()
    try:
        yield
    finally:
        over.set()
        if main:
            thread.join()  # a signal that is under way must find its handler
            _disarm(over)


def _arm(over: threading.Event) -> None:
    if not _LASTING:
        _BEFORE.append(signal.signal(_SIGNAL, _break_off))
    _LASTING.append(over)


def _disarm(over: threading.Event) -> None:
    _LASTING.remove(over)
    if not _LASTING:
        before = _BEFORE.pop()
        signal.signal(_SIGNAL, signal.SIG_DFL if before is None else before)


def _break_off(number: int, frame: FrameType | None) -> None:
    if not all(over.is_set() for over in _LASTING):
        raise HeldUp("it held the event loop until the limit of the trial")
