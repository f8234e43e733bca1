"""Whether a log was written by the reducer that would read it: under its table, and by its version."""

from __future__ import annotations

import os

from ..core.behaviour import REDUCER
from .digest import table_digest
from .errors import ReducerChanged, TableChanged
from .format import Header


def foreign(header: Header) -> str:
    """Say in words what a log was written by that is not present; empty if its table and its reducer are the present ones."""
    if header.table != table_digest():
        return "under another transition table"
    return "" if header.reducer == REDUCER else f"by version {header.reducer} of the reducer, not {REDUCER}"


def check_present(path: str | os.PathLike[str], header: Header) -> None:
    """Check that a log was written by the present reducer.

    Raises:
        TableChanged: if its table is another one.
        ReducerChanged: if its table is the same, but what the rows did is not.
    """
    if header.table != (current := table_digest()):
        raise TableChanged(path, header.table, current)
    if header.reducer != REDUCER:
        raise ReducerChanged(path, header.reducer, REDUCER)
