"""Where people put files for agents, in the user's home and in a project, and how they are listed safely."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from attrs import frozen

from ..runtime.tools.paths import is_inside

FOLDERS = (".claude", ".fsm-agent")
"""Folders with agents, skills and the like; the later one is the stronger."""
MAX_FILES = 500
"""Files that are looked at in one folder."""


@frozen
class Place:
    """A folder of one kind of file.

    Attributes:
        path: the folder, which need not exist.
        root: what its files must lie in, links resolved.
        project: it belongs to a project, not to the user.
    """

    path: Path
    root: Path
    project: bool


def places(kind: str, cwd: Path, home: Path | None) -> tuple[Place, ...]:
    """Give the folders of one kind, such as ``agents``, the weakest first.

    Args:
        kind: name of the folder.
        cwd: the project.
        home: the user's home; None to leave it out.
    """
    found = [Place(home / folder / kind, home, False) for folder in FOLDERS] if home is not None else []
    if home is not None and os.path.realpath(home) == os.path.realpath(cwd):
        return tuple(found)  # in the home directory the files are the user's own
    return (*found, *(Place(cwd / folder / kind, cwd, True) for folder in FOLDERS))


def files_in(place: Place, pattern: str) -> Iterator[Path]:
    """Give the files of a place that match a pattern, sorted by name.

    A link that leads out of the place's root is passed over: a project must not show the model files from elsewhere, nor
    have everything that lies elsewhere searched.
    """
    root = os.path.realpath(place.root)
    if not is_inside(os.path.realpath(place.path), root):
        return
    try:
        names = sorted(place.path.glob(pattern))[:MAX_FILES]
    except OSError:
        return
    for path in names:
        if os.path.isfile(path) and is_inside(os.path.realpath(path), root):
            yield path
