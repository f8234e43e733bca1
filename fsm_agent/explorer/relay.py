"""What goes wrong in a worker process, told to the one that waits for it."""

from __future__ import annotations

import pickle
import signal
import traceback
from collections.abc import Iterable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from attrs import frozen


class WorkerLost(RuntimeError):
    """A worker process ended without a word, or what it raised cannot be sent."""


@frozen
class Failure:
    """What a worker raised, in a form that goes through a pipe: each error comes with its cause."""

    errors: tuple[BaseException, ...]

    @staticmethod
    def of(error: BaseException) -> Failure:
        """Pack an error with its causes; one that cannot be sent becomes a :class:`WorkerLost` with its traceback."""
        errors: list[BaseException] = []
        at: BaseException | None = error
        while at is not None and len(errors) < 8:
            errors.append(_sendable(at))
            at = at.__cause__
        return Failure(tuple(errors))

    def error(self) -> BaseException:
        """Give the error, to be raised."""
        for error, cause in zip(self.errors, self.errors[1:], strict=False):
            error.__cause__ = cause
        return self.errors[0]


def _sendable(error: BaseException) -> BaseException:
    """Give an error as it will arrive, or one that says what it was."""
    said = "".join(traceback.format_exception(error)).strip()
    try:
        again: BaseException = pickle.loads(pickle.dumps(error))
        if type(again) is type(error):
            if error.__cause__ is None:
                again.add_note(f"in a worker process:\n{said}")
            return again
    except Exception:  # an error may be made so that it cannot be read back
        pass
    return WorkerLost(said)


def begin(inherited: Iterable[Connection]) -> None:
    """Begin as a worker: the program's own signal handlers and the far ends of pipes came along with the fork.

    A worker that kept them would keep itself and the others waiting for a word when the program is gone.

    Args:
        inherited: ends of pipes that are not this worker's.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for pipe in inherited:
        pipe.close()


def lost(process: BaseProcess) -> WorkerLost:
    """Say how a worker ended that closed its pipe without a word."""
    process.join(5)
    code = process.exitcode
    how = "is gone" if code is None else f"ended by signal {-code}" if code < 0 else f"ended with code {code}"
    return WorkerLost(f"a worker process of the exploration {how} before it was done; was there memory enough?")
