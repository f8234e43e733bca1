"""What a conversation knows of files: text with its encoding and line ends, and which state of a file was read."""

from __future__ import annotations

import codecs
import hashlib
import os
from collections.abc import Iterable

from attrs import frozen

from .paths import PathProblem, open_regular

MAX_EDIT_BYTES = 16_000_000
"""Files over this size are read in parts and not edited."""

_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


@frozen
class TextFile:
    """The text of a file and how it was encoded.

    Attributes:
        text: the decoded text, line ends as they are.
        encoding: ``utf-8``, ``utf-16-le``, ``utf-16-be`` or ``latin-1``.
        bom: the byte order mark in front, if any.
    """

    text: str
    encoding: str
    bom: bytes = b""

    def encode(self, text: str) -> bytes:
        """Encode ``text`` as this file is encoded.

        Raises:
            UnicodeEncodeError: if the encoding has no form for a character.
        """
        return self.bom + text.encode(self.encoding)


def decode_file(data: bytes) -> TextFile | None:
    """Decode a file's bytes; None if they are no text."""
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            try:
                return TextFile(text=data[len(bom) :].decode(encoding), encoding=encoding, bom=bom)
            except UnicodeDecodeError:
                return None
    if b"\0" in data:
        return None
    try:
        return TextFile(text=data.decode("utf-8"), encoding="utf-8")
    except UnicodeDecodeError:
        # Latin-1 gives every byte back as it was, whatever the file's real single-byte encoding is.
        return TextFile(text=data.decode("latin-1"), encoding="latin-1")


def read_bytes(real: str, limit: int) -> bytes:
    """Read a whole regular file, following no link.

    Raises:
        PathProblem: if it is larger than ``limit`` bytes or no regular file.
        OSError: if it cannot be read.
    """
    handle = open_regular(real)
    with os.fdopen(handle, "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise PathProblem(f"{real} is larger than {limit} bytes")
    return data


@frozen
class Seen:
    """The state of a file when it was read: size in bytes, modification time in nanoseconds, SHA-256 if it was small."""

    size: int
    mtime: int
    digest: str = ""


class FileMemory:
    """Which files were read or written in this conversation, and in which state."""

    def __init__(self) -> None:
        self._seen: dict[str, Seen] = {}

    def note(self, real: str, data: bytes | None = None) -> None:
        """Remember the file as it is now; ``data`` is its whole content if that is known."""
        found = os.stat(real)
        digest = hashlib.sha256(data).hexdigest() if data is not None else ""
        self._seen[real] = Seen(size=found.st_size, mtime=found.st_mtime_ns, digest=digest)

    def was_read(self, real: str) -> bool:
        """True if the file was read or written."""
        return real in self._seen

    def problem(self, real: str, data: bytes) -> str:
        """Say why the file with content ``data`` must not be changed yet; an empty text if it may."""
        seen = self._seen.get(real)
        if seen is None:
            return "The file has not been read yet. Read it first."
        if seen.digest:
            changed = seen.digest != hashlib.sha256(data).hexdigest()
        else:
            changed = (seen.size, seen.mtime) != (len(data), os.stat(real).st_mtime_ns)
        return "The file has changed since it was read. Read it again first." if changed else ""

    def forget(self, real: str) -> None:
        """Forget one file."""
        self._seen.pop(real, None)

    def paths(self) -> tuple[str, ...]:
        """Paths that were read or written, in order of the first time."""
        return tuple(self._seen)

    def restore(self, items: Iterable[tuple[str, Seen]]) -> None:
        """Take over what an earlier part of the conversation knew."""
        self._seen.update(items)

    def items(self) -> tuple[tuple[str, Seen], ...]:
        """What is known, for a session that is stored."""
        return tuple(self._seen.items())
