"""What ends a command before its work is done, and the exit codes of spec 05."""

from __future__ import annotations

OK = 0
FAILED = 1
USAGE = 2
LOG = 3
API = 6
INTERRUPTED = 130
HANGUP = 129
TERMINATED = 143


class Problem(Exception):
    """Something that the user can mend; shown as one line.

    Attributes:
        message: one plain sentence.
        code: the exit code.
    """

    def __init__(self, message: str, code: int = USAGE) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class Stopped(BaseException):
    """A signal ended the command; not an ``Exception``, so that nothing on the way takes it for a failure.

    Attributes:
        code: the exit code.
    """

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code
