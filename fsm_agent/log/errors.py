"""What can be wrong with a log or with a value that is to enter one."""

from __future__ import annotations

from os import PathLike


class CodecError(ValueError):
    """A value that has no canonical text, or a text that is no value of the kind asked for."""


class StateTooLarge(CodecError):
    """A state that is not stored, or what was stored for one is larger than any can be."""


class LogError(Exception):
    """A log that cannot be used; the text is one clear sentence that names the file."""


class LogUnreadable(LogError):
    """The file is empty, no log, or of a format newer than this package.

    Attributes:
        path: the file.
        what: what is wrong, in words.
    """

    def __init__(self, path: str | PathLike[str], what: str) -> None:
        super().__init__(f"{path}: {what}")
        self.path = path
        self.what = what


class LogDamaged(LogError):
    """A record inside the log is damaged; nothing behind it can be trusted to follow from it.

    Attributes:
        path: the file.
        seq: sequence number of the record, 0 for the header.
        what: what is wrong, in words.
    """

    def __init__(self, path: str | PathLike[str], seq: int, what: str) -> None:
        super().__init__(f"{path}: {'the header' if seq == 0 else f'record {seq}'} {what}")
        self.path = path
        self.seq = seq
        self.what = what


class LogGap(LogError):
    """What was asked for lies behind records that are missing, and no state was stored behind them.

    Attributes:
        path: the file.
        seq: the first record that is missing.
        what: which are, in words.
    """

    def __init__(self, path: str | PathLike[str], seq: int, what: str) -> None:
        super().__init__(f"{path}: {what}, and no state was stored behind; fork it at record {seq - 1} to go on from there")
        self.path = path
        self.seq = seq
        self.what = what


class BehaviourChanged(LogError):
    """The log was written by a reducer that may act otherwise than the present one.

    Attributes:
        path: the file.
        recorded: what the log says of its writer.
        current: the same of the one in use.
    """

    def __init__(self, path: str | PathLike[str], what: str, recorded: str | int, current: str | int) -> None:
        super().__init__(
            f"{path}: written {what}; replay it with the table check off to see where the run would go differently"
        )
        self.path = path
        self.recorded = recorded
        self.current = current


class TableChanged(BehaviourChanged):
    """The log was written under another transition table than the one of this package; both are named by their digests."""

    def __init__(self, path: str | PathLike[str], recorded: str, current: str) -> None:
        what = f"under another transition table (log {recorded[:12]}, here {current[:12]})"
        super().__init__(path, what, recorded, current)


class ReducerChanged(BehaviourChanged):
    """The log was written under the same transition table, but by another version of what its rows do."""

    def __init__(self, path: str | PathLike[str], recorded: int, current: int) -> None:
        super().__init__(path, f"by version {recorded} of the reducer, here is version {current}", recorded, current)


class LogLocked(LogError):
    """Another process writes the log.

    Attributes:
        path: the file.
        pid: the process, 0 if it cannot be found out.
    """

    def __init__(self, path: str | PathLike[str], pid: int) -> None:
        who = f"process {pid}" if pid else "another process"
        super().__init__(f"{path}: {who} is writing this log; wait for it, or fork the log into one of its own")
        self.path = path
        self.pid = pid


class ReplayDiverged(LogError):
    """A log does not fold back into the run that it records, so nothing can go on from it.

    Attributes:
        path: the file.
        seq: the first record that differs.
        what: what differs, in words.
    """

    def __init__(self, path: str | PathLike[str], seq: int, what: str) -> None:
        before = "; fork it before that record" if seq else ""
        super().__init__(f"{path}: this version takes another way than the recorded one. {what}{before}")
        self.path = path
        self.seq = seq
        self.what = what
