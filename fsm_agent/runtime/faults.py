"""Errors that the runtime raises to its user. Failures of models, tools and hooks are data and never come as one of these."""

from __future__ import annotations

import sys

import anyio


class RunError(RuntimeError):
    """A run could not go on, or was used in a way that it cannot serve."""


class LogWriteError(RunError):
    """The log could not be written. The run stopped before it performed what it could not record."""


class EngineFault(RunError):
    """The engine broke a rule of its own; the run was stopped, and everything in flight cancelled."""


class RunEnded(RunError):
    """An input came after the run had ended; it stays with its sender."""


class NoSuchAddress(RunError):
    """A message for an agent that does not run; it stays with its sender."""


class RunBusy(RunError):
    """Two tasks read one run at the same time."""


MESSAGE_CHARS = 2_000
"""Longest text of an exception that is passed on."""


def describe(error: BaseException) -> str:
    """Name an exception in one bounded line; some have no text of their own."""
    if isinstance(error, BaseExceptionGroup):
        return (f"{type(error).__name__}: " + "; ".join(describe(inner) for inner in error.exceptions))[:MESSAGE_CHARS]
    try:
        text = str(error).strip()
    except Exception:
        text = ""
    return f"{type(error).__name__}: {text[:MESSAGE_CHARS]}" if text else type(error).__name__


def natively_cancelled() -> bool:
    """Say whether somebody cancelled this very task by asyncio's own means, such as a loop that shuts down.

    A part may raise ``CancelledError`` all by itself, and then it has merely failed. Only the task knows the difference,
    and anyio has no word for it. Under trio a task cannot be cancelled in this way.
    """
    asyncio = sys.modules.get("asyncio")
    if asyncio is None or anyio.get_cancelled_exc_class() is not asyncio.CancelledError:
        return False
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
