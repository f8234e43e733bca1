"""Markdown files with frontmatter: commands, skills and agents are written so (api-facts C5, C6)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

MAX_FILE = 1_000_000
"""Bytes of one such file."""
_FRONT = re.compile(r"\A---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)


class MarkdownError(ValueError):
    """A file that cannot be read as Markdown with frontmatter; the text names it and says why."""


@frozen
class Markdown:
    """One file.

    Attributes:
        meta: the frontmatter; empty without one.
        body: what follows it.
    """

    meta: Mapping[str, Any] = field(factory=dict)
    body: str = ""

    def text(self, key: str) -> str:
        """Give a field as text, empty if it is missing; numbers and booleans are spelled as in YAML."""
        value = self.meta.get(key)
        if value is None or isinstance(value, list | dict):
            return ""
        return str(value).lower() if isinstance(value, bool) else str(value).strip()

    def flag(self, key: str, default: bool = False) -> bool:
        """Give a field that is true or false."""
        value = self.meta.get(key, default)
        return value if isinstance(value, bool) else str(value).strip().lower() in ("true", "yes", "on", "1")

    def words(self, key: str) -> tuple[str, ...]:
        """Give a field that is a list, or a text of items between commas or spaces; parentheses hold together."""
        value = self.meta.get(key)
        if isinstance(value, list):
            return tuple(str(item).strip() for item in value if str(item).strip())
        return split_words(self.text(key))

    @property
    def summary(self) -> str:
        """The first paragraph of the body on one line, headings without their marks."""
        for part in re.split(r"\n\s*\n", self.body.strip()):
            line = " ".join(part.split()).lstrip("# ").strip()
            if line:
                return line
        return ""


def split_words(text: str) -> tuple[str, ...]:
    """Split at commas and spaces outside parentheses: ``Bash(git add:*), Read`` has two words."""
    words: list[str] = []
    word, depth = "", 0
    for char in text:
        depth += (char == "(") - (char == ")" and depth > 0)
        if depth == 0 and (char == "," or char.isspace()):
            words.append(word)
            word = ""
        else:
            word += char
    return tuple(item for item in (*words, word) if item)


def parse_markdown(text: str, where: str) -> Markdown:
    """Split a text into frontmatter and body.

    Args:
        text: the file's text.
        where: how complaints name it.

    Raises:
        MarkdownError: if there is a frontmatter that is no YAML mapping.
    """
    text = text.replace("\r\n", "\n")
    found = _FRONT.match(text)
    if found is None:
        return Markdown(body=text)
    import yaml

    try:
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(found[1])):
            # A few aliases make a small text into a huge value; nothing here needs them.
            raise MarkdownError(f"{where}: the frontmatter must not use YAML aliases")
        meta = yaml.safe_load(found[1])
    except MarkdownError:
        raise
    except (yaml.YAMLError, ValueError, RecursionError):
        meta = _plain(found[1], where)
    if meta is None:
        meta = {}
    if not isinstance(meta, dict):
        raise MarkdownError(f"{where}: the frontmatter is no list of 'key: value' lines")
    return Markdown(meta={str(key): value for key, value in meta.items()}, body=text[found.end() :])


def _plain(text: str, where: str) -> dict[str, str]:
    """Read ``key: value`` lines that are no strict YAML, as people write them: ``description: Use it: often``."""
    meta: dict[str, str] = {}
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, colon, value = line.partition(":")
        if not colon or not re.fullmatch(r"[A-Za-z][\w-]*", key.strip()):
            raise MarkdownError(f"{where}: the frontmatter cannot be read at {line.strip()[:60]!r}")
        meta[key.strip()] = value.strip().strip("\"'")
    return meta


def read_markdown(path: Path) -> Markdown:
    """Read one file.

    Raises:
        MarkdownError: if it is too large, no UTF-8 text, or its frontmatter cannot be read.
        OSError: if it cannot be read.
    """
    with path.open("rb") as file:
        raw = file.read(MAX_FILE + 1)
    if len(raw) > MAX_FILE:
        raise MarkdownError(f"{path}: larger than {MAX_FILE} bytes")
    try:
        return parse_markdown(raw.decode("utf-8-sig"), str(path))
    except UnicodeDecodeError:
        raise MarkdownError(f"{path}: is no UTF-8 text") from None
