"""Files that commands write: looked at before any work, written in one place, and told of."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from .problems import Problem


class OutputFile(click.Path):
    """A file to be written. What is wrong with its place is said at once, not when the work is done.

    With ``dash`` a ``-`` is let through, for standard output; without, it is none, rather than a file of that name.
    """

    def __init__(self, *, dash: bool = False) -> None:
        super().__init__(path_type=Path, allow_dash=dash)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Give the path.

        Raises:
            Problem: if no file can be written there.
        """
        place = Path(str(super().convert(value, param, ctx)))
        option = "" if param is None else param.opts[-1]
        if str(place) != "-":
            check_place(place, option)
        elif not self.allow_dash:
            raise Problem(f"{option} -: this does not go to standard output; name a file")
        return place


def is_file(place: Path | None) -> bool:
    """Say whether a file is named, and neither nothing nor standard output."""
    return place is not None and str(place) != "-"


def check_place(place: Path, option: str = "") -> None:
    """See whether a file can be written.

    Args:
        place: the file; it need not exist.
        option: how the complaint names it.

    Raises:
        Problem: if it cannot.
    """
    folder, why = place.parent, ""
    if place.is_dir():
        why = "it is a folder"
    elif place.exists():
        why = "" if os.access(place, os.W_OK) else "the file is not writable"
    elif not folder.exists():
        why = f"there is no folder {folder}"
    elif not folder.is_dir():
        why = f"{folder} is no folder"
    elif not os.access(folder, os.W_OK | os.X_OK):
        why = f"the folder {folder} is not writable"
    if why:
        raise Problem(f"{option} {place}: {why}".strip())


def write_file(place: Path, content: bytes) -> None:
    """Write a file.

    Raises:
        Problem: if the system refuses.
    """
    try:
        place.write_bytes(content)
    except OSError as error:
        raise Problem(f"{place}: {error.strerror}") from None


def tell_written(place: Path, what: str) -> None:
    """Say that a file was written, and what it holds."""
    click.echo(f"{place}  ({what})")
