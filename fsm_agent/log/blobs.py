"""Large content beside a log: stored once, under its SHA-256, in ``<log>.blobs`` (spec 04).

A string of a record that is longer than ``LARGE`` characters is replaced by ``{"blob":"<hash>"}``, and the record names
its blobs. A log stays small, and an image that comes back in ten records is on disk once.
"""

from __future__ import annotations

import contextlib
import json
import os
from hashlib import sha256
from pathlib import Path
from stat import S_ISREG
from typing import Any

from .errors import LogDamaged
from .files import make_private, real_file, sync_directory, write_new
from .framing import is_digest

LARGE = 16_384
"""Characters from which on a string is stored beside the log."""
KEY = "blob"
MOST = 512_000_000
"""Bytes of a blob; no text of a log and no packed state is nearly as large."""


def folder_of(log: Path) -> Path:
    """Give the folder of a log's blobs; it exists if there are any."""
    place = real_file(log)
    return place.with_name(place.name + ".blobs")


class BlobStore:
    """The blobs of one log.

    Args:
        log: the log's file.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        self._folder = folder_of(log)

    def put(self, data: bytes, *, sync: bool) -> str:
        """Store bytes, unless they are there already.

        Args:
            data: the content.
            sync: it is on disk when the call returns.

        Returns:
            Their SHA-256 in hex.

        Raises:
            OSError: if they cannot be written.
        """
        name = sha256(data).hexdigest()
        place = self._folder / name
        with contextlib.suppress(OSError):
            if place.read_bytes() == data:
                return name
        make_private(self._folder, sync=sync)
        # A name that is there is whole: the content comes first, then the name.
        draft = self._folder / f".{name}.{os.getpid()}"
        with contextlib.suppress(FileNotFoundError):
            draft.unlink()
        write_new(draft, data, sync=sync)
        os.replace(draft, place)
        if sync:
            sync_directory(self._folder)
        return name

    def get(self, name: str, seq: int) -> bytes:
        """Give the bytes of a blob.

        Args:
            name: its hash.
            seq: the record that needs it.

        Raises:
            LogDamaged: if it is missing or is not what was stored.
        """
        if not is_digest(name):
            raise LogDamaged(self._log, seq, f"names a blob that can be none: {name[:80]!r}")
        place = self._folder / name
        try:
            found = place.stat()
            if not S_ISREG(found.st_mode) or found.st_size > MOST:
                raise LogDamaged(self._log, seq, f"needs the blob {name}, which is none, or larger than any")
            data = place.read_bytes()
        except OSError as error:
            raise LogDamaged(self._log, seq, f"needs the blob {name}, which cannot be read: {error.strerror}") from None
        if sha256(data).hexdigest() != name:
            raise LogDamaged(self._log, seq, f"needs the blob {name}, which is damaged")
        return data

    def shorten(self, text: str, *, sync: bool) -> tuple[str, tuple[str, ...]]:
        """Store the large strings of a JSON text.

        Args:
            text: canonical JSON text of an event.
            sync: the blobs are on disk when the call returns.

        Returns:
            The text with references in their place, and the names of the blobs; as given if it holds no large string.
        """
        if len(text) <= LARGE:
            return text, ()
        names: list[str] = []

        def shorter(value: Any) -> Any:
            if isinstance(value, str) and len(value) > LARGE:
                names.append(self.put(value.encode("utf-8", "surrogatepass"), sync=sync))
                return {KEY: names[-1]}
            if isinstance(value, list):
                return [shorter(item) for item in value]
            if isinstance(value, dict):
                return {key: shorter(item) for key, item in value.items()}
            return value

        short = shorter(json.loads(text))
        if not names:
            return text, ()
        return json.dumps(short, ensure_ascii=False, separators=(",", ":")), tuple(dict.fromkeys(names))

    def restore(self, value: Any, seq: int) -> Any:
        """Put the large strings back into a decoded value.

        Raises:
            LogDamaged: if a blob is missing or damaged, or holds no text.
        """
        try:
            return self._restored(value, seq)
        except UnicodeDecodeError:
            raise LogDamaged(self._log, seq, "needs a blob that holds no text") from None
        except RecursionError:
            raise LogDamaged(self._log, seq, "cannot be read: it is nested too deeply") from None

    def _restored(self, value: Any, seq: int) -> Any:
        if isinstance(value, list):
            return [self._restored(item, seq) for item in value]
        if not isinstance(value, dict):
            return value
        if value.keys() == {KEY} and isinstance(value[KEY], str):
            return self.get(value[KEY], seq).decode("utf-8", "surrogatepass")
        return {key: self._restored(item, seq) for key, item in value.items()}
