"""A memory of what was made last, by the identity of a value: of one step's values the same few are asked for again."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Recent(Generic[T]):
    """Remembers what was made of the last values, at least ``most`` and at most twice as many.

    Each value is kept beside what was made of it, so its identity is never that of another one.
    """

    __slots__ = ("_most", "_new", "_old")

    def __init__(self, most: int) -> None:
        self._most = most
        self._new: dict[int, tuple[Any, T]] = {}
        self._old: dict[int, tuple[Any, T]] = {}

    def get(self, value: Any) -> T | None:
        """Give what was made of ``value``, None if that is not known (any more)."""
        known = self._new.get(id(value)) or self._old.get(id(value))
        return known[1] if known is not None and known[0] is value else None

    def put(self, value: Any, made: T) -> T:
        """Remember what was made of ``value``, and give it."""
        if len(self._new) >= self._most:
            self._old, self._new = self._new, {}
        self._new[id(value)] = (value, made)
        return made

    def __len__(self) -> int:
        """Count what is remembered."""
        return len(self._new) + len(self._old)
