"""Errors that the runtime raises to its user. Failures of models, tools and hooks are data and never come as one of these."""

from __future__ import annotations


class RunError(RuntimeError):
    """A run could not go on, or was used in a way that it cannot serve."""


class LogWriteError(RunError):
    """The log could not be written. The run stopped before it performed what it could not record."""


class EngineFault(RunError):
    """The engine broke a rule of its own; the run was stopped, and everything in flight cancelled."""


class RunEnded(RunError):
    """An input came after the run had ended; it stays with its sender."""


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
