"""Permission modes: what is allowed without a rule (spec 03, Permissions)."""

from __future__ import annotations

from enum import StrEnum


class Mode(StrEnum):
    """How much a session allows by itself. Deny and ask rules hold in every mode."""

    DEFAULT = "default"
    """Reading inside the workspace is allowed, everything else is asked."""
    ACCEPT_EDITS = "acceptEdits"
    """Also writing inside the workspace."""
    PLAN = "plan"
    """Reading only: what changes anything is denied, whatever an allow rule says."""
    DONT_ASK = "dontAsk"
    """As default, but what would be asked is denied."""
    BYPASS = "bypassPermissions"
    """All is allowed that no deny or ask rule names, inside the workspace."""


def mode_of(word: str) -> Mode:
    """Read a mode's word.

    Raises:
        ValueError: for an unknown word, naming the known ones.
    """
    try:
        return Mode(word)
    except ValueError:
        raise ValueError(f"unknown permission mode {word!r}; known: {', '.join(mode.value for mode in Mode)}") from None
