"""Markdown files that people write for agents: a head of settings in YAML, then text (api-facts C5, C6)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

from ..core.blocks import clean_text

MAX_BYTES = 1_000_000
"""Bytes of a file; larger ones are refused, not cut: half an instruction can say the opposite."""
_MAX_HEAD = 64_000


class DocumentProblem(ValueError):
    """A file that cannot be used; the text says which and why."""


@frozen
class Document:
    """One file.

    Attributes:
        path: where it is.
        fields: the settings of its head, empty without one.
        body: the text behind the head.
    """

    path: Path
    fields: Mapping[str, Any] = field(factory=dict)
    body: str = ""

    def text(self, name: str) -> str:
        """Give a setting as text, empty if it is missing.

        Raises:
            DocumentProblem: if it is a list or a mapping.
        """
        value = self.fields.get(name)
        if value is None:
            return ""
        if isinstance(value, Mapping | list):
            raise DocumentProblem(f"{self.path}: {name} must be a text")
        return str(value).strip()

    def words(self, name: str, separator: str | None = ",") -> tuple[str, ...] | None:
        """Give a setting that is a list, or a text of items; None if it is missing.

        Args:
            name: the setting.
            separator: between the items of a text, None for white space.

        Raises:
            DocumentProblem: if it is neither, or holds what is no text.
        """
        value = self.fields.get(name)
        if value is None:
            return None
        items = value.split(separator) if isinstance(value, str) else value
        if not isinstance(items, list) or any(isinstance(item, Mapping | list) for item in items):
            raise DocumentProblem(f"{self.path}: {name} must be a list of texts")
        return tuple(text for text in (str(item).strip() for item in items) if text)

    def flag(self, name: str, default: bool = False) -> bool:
        """Give a setting that is true or false.

        Raises:
            DocumentProblem: if it is anything else.
        """
        value = self.fields.get(name, default)
        if not isinstance(value, bool):
            raise DocumentProblem(f"{self.path}: {name} must be true or false")
        return value


def read_text(path: Path, limit: int = MAX_BYTES) -> str:
    """Read a file of instructions: UTF-8, with or without a byte order mark; other bytes become U+FFFD.

    Raises:
        DocumentProblem: if it is missing, no regular file, too large or unreadable.
    """
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except (OSError, ValueError) as problem:
        raise DocumentProblem(f"{path} cannot be read: {getattr(problem, 'strerror', None) or problem}") from None
    with os.fdopen(handle, "rb") as file:
        try:
            data = b"" if not _regular(handle) else file.read(limit + 1)
        except OSError as problem:
            raise DocumentProblem(f"{path} cannot be read: {problem.strerror or problem}") from None
        if not _regular(handle):
            raise DocumentProblem(f"{path} is no regular file")
    if len(data) > limit:
        raise DocumentProblem(f"{path} is larger than {limit} bytes")
    return clean_text(data.decode("utf-8-sig", "replace").replace("\0", "\ufffd").replace("\r\n", "\n"))


def _regular(handle: int) -> bool:
    import stat

    return stat.S_ISREG(os.fstat(handle).st_mode)


def read_document(path: Path) -> Document:
    """Read a file with or without a head.

    Raises:
        DocumentProblem: if it cannot be read, or its head is no YAML mapping.
    """
    return parse_document(read_text(path), path)


def parse_document(text: str, path: Path) -> Document:
    """Split a text into its head and its body.

    Raises:
        DocumentProblem: if the head is not closed, too long, or no YAML mapping.
    """
    lines = text.split("\n")
    if lines[0].rstrip() != "---":
        return Document(path, {}, text)
    ends = [number for number, line in enumerate(lines[1:], 1) if line.rstrip() in ("---", "...")]
    if not ends:
        raise DocumentProblem(f"{path}: the head that begins with --- has no end")
    head, body = "\n".join(lines[1 : ends[0]]), "\n".join(lines[ends[0] + 1 :])
    if len(head) > _MAX_HEAD:
        raise DocumentProblem(f"{path}: the head is longer than {_MAX_HEAD} characters")
    return Document(path, _mapping(head, path), body.lstrip("\n"))


def _mapping(head: str, path: Path) -> Mapping[str, Any]:
    import yaml  # slow to load, needed only where such files are

    try:
        # Aliases can make a small text into a huge value; nothing here needs them.
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(head)):
            raise DocumentProblem(f"{path}: the head must not use YAML aliases")
        value = yaml.safe_load(head)
    except (yaml.YAMLError, ValueError, RecursionError) as problem:
        if isinstance(problem, DocumentProblem):
            raise
        fields = _lines(head)
        if fields is None:
            raise DocumentProblem(f"{path}: the head is no YAML: {str(problem).splitlines()[0]}") from None
        return fields
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise DocumentProblem(f"{path}: the head must be a list of settings 'name: value'")
    return {clean_text(str(name)): _clean(item) for name, item in value.items()}


def _clean(value: Any) -> Any:
    """YAML can write half a surrogate pair by an escape; such a text could be neither sent nor kept."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return {_clean(key): _clean(item) for key, item in value.items()} if isinstance(value, Mapping) else value


def _lines(head: str) -> Mapping[str, Any] | None:
    """Read plain ``name: text`` lines: people write ``description: Use it when: ...``, which strict YAML refuses."""
    fields: dict[str, Any] = {}
    for line in head.split("\n"):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, colon, value = line.partition(":")
        if not colon or name != name.strip() or not name.replace("-", "").replace("_", "").isalnum():
            return None
        fields[name] = _value(value.strip())
    return fields


def _value(text: str) -> Any:
    """Read one value: what YAML takes for a list, a number or the like, else the text as it stands."""
    import yaml

    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return text
    return text if value is None or isinstance(value, Mapping) else _clean(value)
