"""Output bounded while it is read, and bytes decoded safely (field reports 80 and 82)."""

from __future__ import annotations

import re

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f\ufffe\uffff]")


class Bounded:
    """Keeps the first ``head`` and the last ``tail`` bytes of a stream, and counts what it dropped between them.

    Feeding costs time proportional to what is fed, and memory never exceeds ``head + 3 * tail`` bytes.
    """

    def __init__(self, head: int = 20_000, tail: int = 10_000) -> None:
        self._head_limit = head
        self._tail_limit = tail
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def feed(self, data: bytes) -> None:
        """Take the next piece of the stream."""
        self.total += len(data)
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data and self._tail_limit:
            self._tail += data[-self._tail_limit :]
            # Trimmed only when it has doubled, so that many small pieces cost linear time.
            if len(self._tail) > 2 * self._tail_limit:
                del self._tail[: -self._tail_limit]

    @property
    def dropped(self) -> int:
        """Bytes that were dropped."""
        return self.total - len(self._head) - min(len(self._tail), self._tail_limit)

    @property
    def head(self) -> bytes:
        """The first bytes; all of them if nothing was dropped and they fit."""
        return bytes(self._head)

    @property
    def tail(self) -> bytes:
        """The last bytes of what did not fit into the head."""
        return bytes(self._tail[-self._tail_limit :]) if self._tail_limit else b""

    def text(self) -> str:
        """Give head and tail as text, with a line between them that counts the dropped bytes."""
        dropped = self.dropped
        if not dropped:
            return decode(self.head + self.tail)
        head, tail = decode(self.head, cut_end=True), decode(self.tail, cut_start=True)
        return f"{head}\n... [{dropped} bytes dropped] ...\n{tail}"


def decode(data: bytes, *, cut_start: bool = False, cut_end: bool = False) -> str:
    r"""Decode to text that any request can hold: invalid UTF-8 and control characters become U+FFFD.

    Args:
        data: bytes in UTF-8 or not.
        cut_start: the first character may be torn; its rest is dropped.
        cut_end: the last character may be torn; its beginning is dropped.

    Returns:
        Text without NULs, lone surrogates and control characters other than ``\t``, ``\n``, ``\r`` and ESC.
    """
    if cut_start:
        start = 0
        while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
            start += 1
        data = data[start:]
    if cut_end:
        data = data[: len(data) - _torn(data)]
    return _CONTROL.sub("\ufffd", data.decode("utf-8", "replace"))


def _torn(data: bytes) -> int:
    """How many bytes at the end are the beginning of a character that is not there as a whole."""
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        need = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return back if need > back else 0
    return 0


def clip(text: str, limit: int, note: str = "") -> str:
    """Shorten ``text`` to about ``limit`` characters: two thirds from its head, one third from its tail.

    Args:
        text: any text.
        limit: characters to keep.
        note: words about where the rest is.

    Returns:
        ``text`` itself if it fits, else head, a line that counts what is missing, and tail.
    """
    if len(text) <= limit:
        return text
    head = max(1, limit * 2 // 3)
    tail = max(0, limit - head)
    missing = len(text) - head - tail
    ending = text[len(text) - tail :] if tail else ""
    return f"{text[:head]}\n... [{missing} characters left out{'; ' + note if note else ''}] ...\n{ending}"
