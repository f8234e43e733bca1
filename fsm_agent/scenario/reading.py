"""Strict reading of decoded YAML: every value is checked, every complaint names its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, TypeVar

from .format import ScenarioError

E = TypeVar("E", bound=StrEnum)

REQUIRED: Any = object()
"""Default of a key that must be there."""


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def fail(place: str, words: str) -> ScenarioError:
    """Make the error for one place."""
    return ScenarioError(f"{place}: {words}")


def need_text(value: Any, place: str) -> str:
    """Require a string."""
    if not isinstance(value, str):
        raise fail(place, f"must be a text, not {_shown(value)}")
    return value


def need_whole(value: Any, place: str, least: int = 0) -> int:
    """Require a whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise fail(place, f"must be a whole number of at least {least}, not {_shown(value)}")
    return value


def need_flag(value: Any, place: str) -> bool:
    """Require true or false."""
    if not isinstance(value, bool):
        raise fail(place, f"must be true or false, not {_shown(value)}")
    return value


def need_choice(value: Any, kind: type[E], place: str) -> E:
    """Require one word of a closed list."""
    try:
        return kind(value)
    except ValueError:
        words = [str(word) for word in kind]
        near = get_close_matches(str(value), words, 1)
        hint = f"did you mean {near[0]!r}?" if near else "one of " + ", ".join(words)
        raise fail(place, f"unknown word {_shown(value)}; {hint}") from None


def need_list(value: Any, place: str) -> Iterator[tuple[Any, str]]:
    """Require a list; yields each element with its place."""
    if not isinstance(value, list):
        raise fail(place, f"must be a list, not {_shown(value)}")
    for index, element in enumerate(value):
        yield element, f"{place}[{index}]"


def need_mapping(value: Any, place: str) -> Mapping[str, Any]:
    """Require a mapping with text keys."""
    if not isinstance(value, Mapping):
        raise fail(place, f"must be a mapping, not {_shown(value)}")
    for key in value:
        if not isinstance(key, str):
            raise fail(place, f"keys must be texts, not {_shown(key)}")
    return value


class Fields:
    """One mapping, read key by key; :meth:`done` refuses what was not read."""

    def __init__(self, value: Any, place: str) -> None:
        self.place = place
        self._value = need_mapping(value, place)
        self._known: list[str] = []

    def __contains__(self, key: str) -> bool:
        return key in self._value

    def at(self, key: str) -> str:
        """Name the place of a key; at the top, after the file's name, without a dot."""
        return f"{self.place} {key}" if self.place.endswith(",") else f"{self.place}.{key}"

    def take(self, key: str, default: Any = REQUIRED) -> Any:
        """Give the raw value of a key.

        Raises:
            ScenarioError: if the key is missing and has no default.
        """
        self._known.append(key)
        if key not in self._value:
            if default is REQUIRED:
                raise fail(self.place.rstrip(","), f"{key!r} is missing")
            return default
        return self._value[key]

    def text(self, key: str, default: Any = REQUIRED) -> Any:
        """Give a text, or the default as it is."""
        value = self.take(key, default)
        return default if key not in self._value else need_text(value, self.at(key))

    def whole(self, key: str, default: Any = REQUIRED, least: int = 0) -> Any:
        """Give a whole number of at least ``least``, or the default as it is."""
        value = self.take(key, default)
        return default if key not in self._value else need_whole(value, self.at(key), least)

    def flag(self, key: str, default: bool = False) -> bool:
        """Give true or false."""
        return need_flag(self.take(key, default), self.at(key))

    def choice(self, key: str, kind: type[E], default: Any = REQUIRED) -> Any:
        """Give a word of a closed list, or the default as it is."""
        value = self.take(key, default)
        return default if key not in self._value else need_choice(value, kind, self.at(key))

    def each(self, key: str) -> Iterator[tuple[Any, str]]:
        """Yield the elements of a list with their places; none if the key is missing."""
        yield from need_list(self.take(key, []), self.at(key))

    def done(self) -> None:
        """Refuse keys that nobody asked for."""
        for key in self._value:
            if key not in self._known:
                near = get_close_matches(key, self._known, 1)
                hint = f"; did you mean {near[0]!r}?" if near else "; known: " + ", ".join(sorted(set(self._known)))
                raise fail(self.place.rstrip(","), f"unknown key {key!r}{hint}")
