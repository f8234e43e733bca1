"""Files of a log: made for their owner only, written whole, and put on disk with the names that lead to them."""

from __future__ import annotations

import contextlib
import errno
import os
from enum import StrEnum
from pathlib import Path

_CLOEXEC = getattr(os, "O_CLOEXEC", 0)


class SyncPolicy(StrEnum):
    """When records are forced to disk. In every case a record is handed to the system before its effects are performed."""

    ALWAYS = "always"
    """Each record: nothing is lost when the machine stops."""
    TOOLS = "tools"
    """Before a tool's body runs, and at the end of the run: no tool can run twice when the machine stops."""
    NEVER = "never"
    """The system decides; a process that is killed loses nothing all the same."""


def real_file(path: str | os.PathLike[str]) -> Path:
    """Give the file that the name of a log leads to.

    What belongs to a log (blobs, lock, torn ends) lies beside the log itself, not beside a link to it.
    """
    return Path(os.path.realpath(path)) if os.path.islink(path) else Path(path)


def make_private(directory: Path, *, sync: bool) -> None:
    """Create a directory and its missing parents, open to their owner only.

    Args:
        directory: the directory.
        sync: the new names are on disk when the call returns.

    Raises:
        OSError: if it cannot be made.
    """
    if directory.is_dir():
        return
    make_private(directory.parent, sync=sync)
    directory.mkdir(mode=0o700, exist_ok=True)
    if sync:
        sync_directory(directory.parent)


def sync_directory(directory: Path) -> None:
    """Put the names in a directory on disk."""
    descriptor = os.open(directory, os.O_RDONLY | _CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some file systems know no sync of directories
            raise
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def write_new(path: Path, data: bytes, *, sync: bool) -> None:
    """Write a file that must not exist; it is whole, or not there.

    Raises:
        FileExistsError: if it exists.
        OSError: if it cannot be written; no partial file stays.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _CLOEXEC, 0o600)
    try:
        try:
            write_all(descriptor, data)
            if sync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except BaseException:
        with contextlib.suppress(OSError):
            path.unlink()
        raise


def set_aside(path: Path, word: str, data: bytes) -> Path:
    """Keep bytes of a log beside it, in the first of ``<log>.<word>-1``, ``-2``, ... that is free.

    Returns:
        The file; it is on disk.

    Raises:
        OSError: if it cannot be written.
    """
    number = 1
    while True:
        place = path.with_name(f"{path.name}.{word}-{number}")
        try:
            write_new(place, data, sync=True)
        except FileExistsError:
            number += 1
            continue
        sync_directory(path.parent)
        return place
