"""What people see: colour only where it is wanted, no control characters, tables, lines on standard error."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import IO, Literal

import click

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
WIDEST = 10_000
"""Columns of a table that goes to no terminal: nothing is cut."""
VERBOSE = "fsm_agent.verbose"
"""Key under which the context of the command line keeps ``--verbose``."""


def is_verbose() -> bool:
    """True if ``--verbose`` was given."""
    ctx = click.get_current_context(silent=True)
    return ctx is not None and bool(ctx.find_root().meta.get(VERBOSE))


def is_terminal(stream: IO[str] | None) -> bool:
    """True if a person looks at this stream."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def coloured(stream: IO[str] | None) -> bool:
    """True if colour may go there: a terminal that can, and ``NO_COLOR`` is not set."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def clean(text: str) -> str:
    """Show control characters instead of sending them: words of a model or a tool must not steer the terminal."""
    return _CONTROLS.sub(_shown, text)


def _shown(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def one_line(text: str, limit: int = 100) -> str:
    """Give the text on one line, without control characters, cut to ``limit`` characters."""
    line = clean(" ".join(text[: 8 * limit].split()))
    return line if len(line) <= limit else line[: limit - 1] + "…"


def visible(text: str) -> str:
    """Give a name or a path whole on one line: control characters are shown, those that begin a line too."""
    return clean(text).replace("\n", "\\x0a").replace("\t", "\\x09")


def local_time(milliseconds: int, timespec: str = "seconds") -> str:
    """Give a time since 1970 by the clock of this place, in milliseconds where no calendar goes so far."""
    from datetime import datetime

    try:
        return datetime.fromtimestamp(milliseconds / 1000).isoformat(sep=" ", timespec=timespec)
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms"


def say(text: str) -> None:
    """Write one line to standard error, after ``fsm-agent:``."""
    click.echo(f"fsm-agent: {clean(' '.join(text.split()))}", err=True)


def warn(text: str) -> None:
    """Write one warning to standard error."""
    say(f"warning: {text}")


class Paint:
    """Colours text, or leaves it as it is.

    Attributes:
        on: colours are used.
    """

    def __init__(self, on: bool) -> None:
        self.on = on

    def __call__(self, text: str, colour: str | None = None, *, bold: bool = False, dim: bool = False) -> str:
        """Give the text in a colour of the terminal's palette."""
        return click.style(text, fg=colour, bold=bold or None, dim=dim or None) if self.on else text


def width_of(stream: IO[str] | None) -> int:
    """Give the columns of a stream: those of its own terminal, or as many as anybody wants where it is none."""
    if stream is None or not is_terminal(stream):
        return WIDEST
    try:
        # COLUMNS may be that of another terminal: what runs there may have exported it.
        found = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        found = 0
    asked = os.environ.get("COLUMNS", "")
    return found or (int(asked) if asked.isdecimal() else 0) or 80


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    stream: IO[str] | None = None,
    right: Sequence[int] = (),
    whole: Sequence[int] = (),
) -> str:
    """Lay out a table.

    Args:
        head: the titles of the columns.
        rows: the cells; control characters are shown, not sent.
        stream: where it goes, by default standard output; on a terminal it is folded to the width.
        right: columns that are set to the right.
        whole: columns whose cells are not broken as long as others can be: names that are copied.

    Returns:
        The lines, each with its newline.
    """
    from io import StringIO

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    stream = sys.stdout if stream is None else stream
    colours = coloured(stream)
    made = Table(box=None, pad_edge=False, header_style="bold" if colours else "none")
    for place, title in enumerate(head):
        side: Literal["right", "left"] = "right" if place in right else "left"
        made.add_column(title, justify=side, overflow="fold", no_wrap=place in whole)
    for row in rows:
        made.add_row(*(Text(visible(cell)) for cell in row))
    text = StringIO()
    Console(
        file=text,
        width=width_of(stream),
        height=25,  # without one a dumb terminal would be taken for one of 80 columns
        force_terminal=colours,
        color_system="standard" if colours else None,
        legacy_windows=False,
    ).print(made)
    return "".join(line.rstrip() + "\n" for line in text.getvalue().splitlines())
