"""Laws by name, and by their numbers in spec 04."""

from __future__ import annotations

from difflib import get_close_matches

from ..laws import LAWS, Law
from ..laws.runs import RUN_LAWS
from .log_laws import LOG_LAWS

_ALL = (*LAWS, *RUN_LAWS, *LOG_LAWS)


def law(name: str) -> Law:
    """Give the law of this name.

    Raises:
        KeyError: if there is none; the nearest name is told.
    """
    for found in _ALL:
        if found.name == name:
            return found
    near = get_close_matches(name, [found.name for found in _ALL], 1)
    raise KeyError(f"there is no law {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))


def laws(group: str = "") -> tuple[Law, ...]:
    """Give the laws of a group such as ``I6``; all for an empty one.

    Raises:
        KeyError: if no law is part of the group.
    """
    found = tuple(law for law in _ALL if group in ("", law.group))
    if not found:
        raise KeyError(f"no law is part of {group!r}; the groups are {', '.join(sorted({law.group for law in _ALL}))}")
    return found
