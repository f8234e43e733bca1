"""Who may write a log: one process at a time, by a lock of the kernel that dies with its holder (field report 115).

The lock is taken on the open file itself, so it needs no place to be written in, and a reused process id cannot be
taken for the holder. Who holds it is noted in a small file beside the log, for people and for file systems without
such locks: there the note itself is the lock, made exclusively, and taken over when its process is gone.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from pathlib import Path
from typing import Any

from attrs import frozen

from .errors import LogLocked
from .files import real_file

try:
    import fcntl
except ImportError:  # Windows: the note is the lock
    fcntl = None  # type: ignore[assignment]

_UNSUPPORTED = frozenset((errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL))
_WITHOUT_WAITING = getattr(os, "O_NONBLOCK", 0)
"""Whatever stands in the place of a note, such as a pipe, nobody waits for it."""
_MOST = 4_096
"""Bytes of a note that are read."""
_BOOT = "/proc/sys/kernel/random/boot_id"


@frozen
class Owner:
    """A process, named so that no later one can be taken for it.

    Attributes:
        pid: its process id.
        started: when it started, in ticks since the machine did; empty where the system does not say.
        boot: id of the machine's boot; empty where the system does not say.
    """

    pid: int
    started: str = ""
    boot: str = ""

    @classmethod
    def here(cls) -> Owner:
        """Give this process."""
        pid = os.getpid()
        return cls(pid, _started(pid), _read(_BOOT))

    @property
    def alive(self) -> bool:
        """False only if the process is surely gone: it ended, another one has its id, or the machine was started anew."""
        if self.boot and self.boot != _read(_BOOT):
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except OSError:  # it exists, and belongs to somebody else
            pass
        return not self.started or _started(self.pid) == self.started


class Lock:
    """A lock that this process holds on one log.

    Attributes:
        note: the file that names the holder; it may be missing where none can be made.
    """

    def __init__(self, note: Path, *, noted: bool) -> None:
        """Use :func:`acquire`."""
        self.note = note
        self._noted = noted

    def release(self) -> None:
        """Remove the note. The lock itself goes with the closed file; call this before it is closed."""
        if self._noted:
            self._noted = False
            with contextlib.suppress(OSError):
                self.note.unlink()


def note_of(path: Path) -> Path:
    """Give the place of the note about a log's holder."""
    place = real_file(path)
    return place.with_name(place.name + ".lock")


def acquire(path: Path, descriptor: int) -> Lock:
    """Take the lock of a log for as long as ``descriptor`` is open.

    Args:
        path: the log.
        descriptor: the log, open for writing.

    Returns:
        The lock. One that a dead process left behind is taken over.

    Raises:
        LogLocked: another process writes the log; it is named.
    """
    note = note_of(path)
    if fcntl is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise LogLocked(path, _holder(note, descriptor)) from None
            if error.errno not in _UNSUPPORTED:
                raise
        else:
            return Lock(note, noted=_write_note(note))
    return _acquire_by_note(path, note)


def _acquire_by_note(path: Path, note: Path) -> Lock:
    for _ in range(2):
        try:
            descriptor = os.open(note, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            owner = _read_note(note)
            if owner is not None and owner.alive:
                raise LogLocked(path, owner.pid) from None
            with contextlib.suppress(FileNotFoundError):
                note.unlink()
            continue
        try:
            _write_owner(descriptor)
        except OSError:
            with contextlib.suppress(OSError):
                note.unlink()
            raise
        return Lock(note, noted=True)
    raise LogLocked(path, 0)


def _write_note(note: Path) -> bool:
    """Write who holds the lock, over what a dead holder left. Where nothing can be written the lock holds all the same."""
    try:
        descriptor = os.open(
            note, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _WITHOUT_WAITING | getattr(os, "O_NOFOLLOW", 0), 0o600
        )
    except OSError:
        return False
    try:
        _write_owner(descriptor)
    except OSError:
        # An empty note says nothing, and nobody would take it away.
        with contextlib.suppress(OSError):
            note.unlink()
        return False
    return True


def _write_owner(descriptor: int) -> None:
    with os.fdopen(descriptor, "w") as file:
        file.write(_text(Owner.here()))


def _text(owner: Owner) -> str:
    return json.dumps({"pid": owner.pid, "started": owner.started, "boot": owner.boot}) + "\n"


def _read_note(note: Path) -> Owner | None:
    try:
        descriptor = os.open(note, os.O_RDONLY | _WITHOUT_WAITING)
        try:
            value: Any = json.loads(os.read(descriptor, _MOST))
        finally:
            os.close(descriptor)
        return Owner(int(value["pid"]), str(value.get("started", "")), str(value.get("boot", "")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        return None


def _holder(note: Path, descriptor: int) -> int:
    """Give the process id of the holder, 0 if it cannot be found out. The kernel knows it even without a note."""
    owner = _read_note(note)
    if owner is not None and owner.alive:
        return owner.pid
    inode = f":{os.fstat(descriptor).st_ino}"
    for line in _read("/proc/locks").splitlines():
        words = line.split()
        if len(words) > 5 and words[1] == "FLOCK" and words[5].endswith(inode):
            return int(words[4])
    return 0


def _started(pid: int) -> str:
    """Give when a process started; its name may hold anything, so the fields are counted from its end."""
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 else ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
