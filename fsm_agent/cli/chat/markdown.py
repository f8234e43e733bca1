"""Markdown that comes in pieces: what is complete can be laid out, the rest is shown as it is until then."""

from __future__ import annotations

import re
from io import StringIO

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_BARE = re.compile(r"\x1b\[[0-9;]*m")
_LOOSE = re.compile(r"\s*([-*+]|\d+[.)])\s|\s{2,}\S|\s*\|")


class Pieces:
    """Collects text and gives the parts that later text cannot change: paragraphs, whole lists, whole code blocks."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._open = ""
        self._fence = ""

    @property
    def tail(self) -> str:
        """What is not given yet."""
        return "\n".join([*self._lines, self._open])

    def feed(self, text: str) -> str:
        """Take text; gives what is complete now, empty if nothing is."""
        *lines, self._open = (self._open + text).split("\n")
        done: list[str] = []
        for line in lines:
            if self._ends_before(line):
                done += self._lines
                self._lines = []
            self._lines.append(line)
            if self._take_fence(line):
                done += self._lines
                self._lines = []
        return "\n".join(done) if any(line.strip() for line in done) else ""

    def finish(self) -> str:
        """Give the rest."""
        rest, self._lines, self._open, self._fence = self.tail, [], "", ""
        return rest

    def _ends_before(self, line: str) -> bool:
        """A blank line ends a paragraph as soon as what follows it is no part of the same list or table."""
        if self._fence or not self._lines or self._lines[-1].strip() or not line.strip():
            return False
        first = next((kept for kept in self._lines if kept.strip()), "")
        return not (_LOOSE.match(first) and _LOOSE.match(line))

    def _take_fence(self, line: str) -> bool:
        """Follow code blocks; True if one ends with this line."""
        found = _FENCE.match(line)
        if found is None:
            return False
        if not self._fence:
            self._fence = found[1]
            return False
        if found[1].startswith(self._fence) and not line.strip().strip(found[1][0]):
            self._fence = ""
            return True
        return False


def lay_out(text: str, *, width: int, colours: bool) -> str:
    """Lay out Markdown for a terminal.

    Args:
        text: Markdown without control characters.
        width: columns.
        colours: use them.

    Returns:
        Lines, without blank ones around them.
    """
    from rich.console import Console

    from .headings import LeftMarkdown

    out = StringIO()
    console = Console(
        file=out,
        width=max(20, width),
        force_terminal=colours,
        no_color=not colours,
        color_system="standard" if colours else None,
        legacy_windows=False,
        highlight=False,
    )
    console.print(LeftMarkdown(text, hyperlinks=False, code_theme="ansi_dark"))
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    while lines and not _BARE.sub("", lines[0]).strip():
        del lines[0]
    while lines and not _BARE.sub("", lines[-1]).strip():
        del lines[-1]
    return "".join(f"{line}\n" for line in lines)
