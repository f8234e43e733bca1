"""Walk a directory for the searching tools: no link followed, ignored files left out, bounded."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator

import pathspec

MAX_FILES = 200_000
"""Files looked at in one walk."""
_SKIPPED = frozenset({".git", ".hg", ".svn", ".jj"})


def walk(root: str, readable: Callable[[str], bool], *, limit: int = MAX_FILES) -> Iterator[str]:
    """Give the regular files below ``root`` in the order of their names.

    Directories of version control, what ``.gitignore`` files name, links, and what ``readable`` refuses are left out.

    Args:
        root: a real directory.
        readable: says of a real path whether it may be read.
        limit: how many files are looked at.

    Yields:
        Real paths.
    """
    left = limit
    stack: list[tuple[str, tuple[tuple[str, pathspec.GitIgnoreSpec], ...]]] = [(root, _inherited(root))]
    while stack:
        folder, specs = stack.pop()
        own = _ignore_file(folder)
        if own is not None:
            specs = (*specs, (folder, own))
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        inner: list[str] = []
        for entry in entries:
            if left <= 0:
                return
            try:
                is_directory, is_file = entry.is_dir(follow_symlinks=False), entry.is_file(follow_symlinks=False)
            except OSError:
                continue
            if is_directory:
                if entry.name not in _SKIPPED and not _ignored(entry.path, True, specs):
                    inner.append(entry.path)
            elif is_file:
                left -= 1
                if not _ignored(entry.path, False, specs) and readable(entry.path):
                    yield entry.path
        stack.extend((path, specs) for path in reversed(inner))


def _ignore_file(folder: str) -> pathspec.GitIgnoreSpec | None:
    try:
        with open(os.path.join(folder, ".gitignore"), encoding="utf-8", errors="replace") as file:
            return pathspec.GitIgnoreSpec.from_lines(file.read(100_000).splitlines())
    except (OSError, ValueError):
        return None


def _inherited(root: str) -> tuple[tuple[str, pathspec.GitIgnoreSpec], ...]:
    """Ignore files above ``root``, up to the top of its repository."""
    found: list[tuple[str, pathspec.GitIgnoreSpec]] = []
    folder = root
    chain = []
    while not os.path.isdir(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return ()
        folder = parent
        chain.append(folder)
    for above in reversed(chain):
        spec = _ignore_file(above)
        if spec is not None:
            found.append((above, spec))
    return tuple(found)


def _ignored(path: str, is_directory: bool, specs: tuple[tuple[str, pathspec.GitIgnoreSpec], ...]) -> bool:
    # The nearest file that says anything about the path decides, as git does it.
    for base, spec in reversed(specs):
        relative = os.path.relpath(path, base) + ("/" if is_directory else "")
        verdict = spec.check_file(relative).include
        if verdict is not None:
            return verdict
    return False


def glob_pattern(pattern: str) -> re.Pattern[str]:
    """Translate a glob to a pattern for relative paths with ``/``.

    ``*`` and ``?`` stop at ``/``, ``**`` crosses it, ``[...]`` and ``{a,b}`` are known; a pattern without ``/`` matches
    in every directory.

    Raises:
        ValueError: if the pattern is malformed.
    """
    text = pattern.removeprefix("./")
    if "/" not in text:
        text = "**/" + text
    out: list[str] = []
    at, depth = 0, 0
    while at < len(text):
        if text.startswith("**/", at) and (at == 0 or text[at - 1] == "/"):
            out.append("(?:[^/]+/)*")
            at += 3
            continue
        if text.startswith("**", at):
            out.append(".*")
            at += 2
            continue
        char = text[at]
        at += 1
        if char == "*":
            out.append("[^/]*")
        elif char == "?":
            out.append("[^/]")
        elif char == "[":
            end = text.find("]", at + 1)
            if end < 0:
                raise ValueError(f"'[' without ']' in {pattern!r}")
            inside = text[at:end].replace("\\", "\\\\")
            out.append("[" + ("^" + inside[1:] if inside[0] in "!^" else inside) + "]")
            at = end + 1
        elif char == "{":
            out.append("(?:")
            depth += 1
        elif char == "}" and depth:
            out.append(")")
            depth -= 1
        elif char == "," and depth:
            out.append("|")
        else:
            out.append(re.escape(char))
    if depth:
        raise ValueError(f"'{{' without '}}' in {pattern!r}")
    try:
        return re.compile("".join(out) + r"\Z", re.DOTALL)
    except re.error as bad:
        raise ValueError(f"{pattern!r} is no glob: {bad}") from None
