"""Words of closed lists, as users write them: each is found, or refused with the nearest one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from enum import StrEnum
from typing import TypeVar

E = TypeVar("E", bound=StrEnum)
_FEW = 20
"""So many words are listed where none is near."""


def unknown(what: str, given: object, known: Iterable[object]) -> str:
    """Say that there is no such word, and which one was probably meant."""
    words = [str(word) for word in known]
    near = get_close_matches(str(given), words, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(words)}" if len(words) <= _FEW else ""
    return f"there is no {what} {given!r}" + (f"; {hint}" if hint else "")


def need_word(kind: type[E], given: object, what: str) -> E:
    """Give the member of a closed list that a word names.

    Raises:
        ValueError: if there is none.
    """
    for member in kind:
        if member == given:
            return member
    raise ValueError(unknown(what, given, kind))
