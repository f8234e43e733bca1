"""Fields of a line that no decoder is made for: each is what it must be, or the line is damaged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .errors import CodecError
from .format import LARGEST

WRONG = (ValueError, KeyError, TypeError, RecursionError)
"""What comes out of decoding a value of another kind, or one that is nested without end."""


def whole(fields: Mapping[str, Any], key: str, least: int = 0) -> int:
    """Give a whole number.

    Raises:
        CodecError: if it is none, or none that a log can hold.
        KeyError: if it is not there.
    """
    value = fields[key]
    if value.__class__ is not int or not least <= value < LARGEST:
        raise CodecError(f"{key!r} is no whole number from {least} to {LARGEST - 1}")
    return value


def text(fields: Mapping[str, Any], key: str, missing: str | None = "") -> str:
    """Give a text; ``missing`` if it is not there.

    Raises:
        CodecError: if it is none, or is not there and has to be.
    """
    value = fields.get(key, missing)
    if value.__class__ is not str:
        raise CodecError(f"{key!r} is no text")
    return value


def texts(fields: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """Give a list of texts, an empty one if it is not there.

    Raises:
        CodecError: if it is none.
    """
    value = fields.get(key, [])
    if value.__class__ is not list or any(item.__class__ is not str for item in value):
        raise CodecError(f"{key!r} is no list of texts")
    return tuple(value)


def why(error: Exception) -> str:
    """Say in a few words what is wrong with a value that was decoded."""
    if isinstance(error, KeyError):
        return f"it lacks its field {error}"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return str(error)
