"""Search in Python, for machines without ripgrep; the same meaning for the basics."""

from __future__ import annotations

import os
import re

from attrs import frozen

from .base import ToolContext, ToolError
from .bounded import decode
from .files import read_bytes
from .paths import PathProblem
from .walk import glob_pattern, walk

MAX_FILE = 10_000_000
"""Larger files are left out, in bytes."""
MAX_HITS = 20_000
MAX_LINE = 500


@frozen
class Hit:
    """One line of the answer: a match, or a line around one."""

    path: str
    line: int
    text: str
    is_match: bool


@frozen
class Query:
    """What is searched, as both engines take it.

    Attributes:
        pattern: the regular expression.
        path: real file or directory.
        globs: names to take, all if empty.
        ignore_case: capital and small letters are the same.
        multiline: a match may span lines.
        before: lines of context before a match.
        after: lines of context after a match.
    """

    pattern: str
    path: str
    globs: tuple[str, ...] = ()
    ignore_case: bool = False
    multiline: bool = False
    before: int = 0
    after: int = 0


def search(query: Query, context: ToolContext) -> tuple[list[Hit], bool]:
    """Search a file or a directory.

    Returns:
        The hits in the order of paths and lines, and whether there were too many.

    Raises:
        ToolError: if the pattern or the glob is malformed.
    """
    flags = re.IGNORECASE if query.ignore_case else 0
    try:
        wanted = re.compile(query.pattern, flags | re.MULTILINE | (re.DOTALL if query.multiline else 0))
        globs = [glob_pattern(glob) for glob in query.globs]
    except (re.error, ValueError) as bad:
        raise ToolError(f"The search failed: {bad}") from None
    hits: list[Hit] = []
    single = os.path.isfile(query.path)
    for path in [query.path] if single else walk(query.path, context.readable):
        relative = os.path.relpath(path, query.path)
        if not single and globs and not any(glob.match(relative) for glob in globs):
            continue
        hits += _in_file(path, wanted, query)
        if len(hits) > MAX_HITS:
            return hits[:MAX_HITS], True
    return hits, False


def _in_file(path: str, wanted: re.Pattern[str], query: Query) -> list[Hit]:
    try:
        data = read_bytes(path, MAX_FILE)
    except (OSError, PathProblem):
        return []
    if b"\0" in data[:8_192]:
        return []
    text = decode(data)
    lines = text.split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    if query.multiline:
        matched: set[int] = set()
        for found in wanted.finditer(text):
            first = text.count("\n", 0, found.start())
            last = text.count("\n", 0, max(found.start(), found.end() - 1))
            matched.update(range(first, last + 1))
    else:
        matched = {index for index, line in enumerate(lines) if wanted.search(line.rstrip("\r"))}
    shown = sorted(
        {near for index in matched for near in range(max(0, index - query.before), min(len(lines), index + query.after + 1))}
    )
    return [Hit(path, index + 1, lines[index].rstrip("\r")[:MAX_LINE], index in matched) for index in shown]
