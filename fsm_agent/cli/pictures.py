"""Pictures by the name of their file: which formats there are, and whether they can be drawn here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from .problems import Problem

ENDINGS = {"svg": "svg", "png": "png", "dot": "dot", "gv": "dot", "mmd": "mermaid", "mermaid": "mermaid", "scxml": "scxml"}
"""Ends of file names, and the formats that they stand for."""
DRAWN = ("svg", "png", "dot", "mermaid", "scxml")
PAINTED = ("svg", "png", "dot", "mermaid")
"""Formats that can show counts."""


def endings(formats: Sequence[str]) -> str:
    """List the ends of file names that stand for some formats."""
    return ", ".join(f".{end}" for end, fmt in ENDINGS.items() if fmt in formats)


def format_of(place: Path | None, formats: Sequence[str], option: str, hint: str = "") -> str:
    """Give the format that the name of a file stands for; SVG for no file, or a name without an end.

    Args:
        place: the file.
        formats: those that there are.
        option: how the complaint names it.
        hint: what else can be done.

    Raises:
        click.UsageError: for the end of no format.
    """
    suffix = "" if place is None else place.suffix.lower().removeprefix(".")
    found = ENDINGS.get(suffix or "svg")
    if found is not None and found in formats:
        return found
    raise click.UsageError(f"{option} {place}: there is no format {suffix!r} here; there are {endings(formats)}{hint}")


def check_drawable(fmt: str) -> None:
    """See whether a format can be drawn on this system.

    Raises:
        Problem: if Graphviz is needed and missing.
    """
    from ..diagram import DiagramError, need_program

    try:
        need_program(fmt)
    except DiagramError as error:
        raise Problem(str(error)) from None
