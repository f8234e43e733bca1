"""Standard output of a run: a reader that is slow, or has gone, must neither block the run's signals nor lose a byte."""

from __future__ import annotations

import os
import stat
import sys
from typing import IO

import anyio

_CHUNK = 1_024
"""Bytes a time. A pipe that is ready takes at least 512 without blocking, on Linux 4,096."""


class Writer:
    """Writes text as UTF-8, whole, and waits without blocking while the reader is slow.

    Args:
        stream: where to; by default standard output.
    """

    def __init__(self, stream: IO[str] | None = None) -> None:
        self._stream = sys.stdout if stream is None else stream
        self._stream.flush()
        self._fd = _descriptor(self._stream)

    async def write(self, text: str) -> None:
        """Write a text.

        Raises:
            BrokenPipeError: the reader has gone.
            OSError: it cannot be written.
        """
        if self._fd is None:
            self._stream.write(text)
            return
        rest = memoryview(text.encode("utf-8", "backslashreplace"))
        waits = _can_wait(self._fd)
        while rest:
            if waits:
                await anyio.wait_writable(self._fd)
            rest = rest[os.write(self._fd, rest[:_CHUNK] if waits else rest) :]


def _descriptor(stream: IO[str]) -> int | None:
    """Give the descriptor behind a text stream, None for one that is in memory."""
    try:
        return stream.fileno()
    except (OSError, ValueError, AttributeError):
        return None


def _can_wait(descriptor: int) -> bool:
    """Files on a disk are always ready, and an event loop refuses to wait for them."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)
