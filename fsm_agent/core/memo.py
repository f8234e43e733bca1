"""Remember results by the identity of a value: configurations are large, and asked about many times a pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, TypeVarTuple

S = TypeVar("S")
T = TypeVar("T")
Rest = TypeVarTuple("Rest")

_MOST = 64
"""Results that one function remembers; when there are more, it begins anew."""


def by_identity(function: Callable[[S], T]) -> Callable[[S], T]:
    """Remember the last results of a pure function of one frozen value.

    The value is kept beside its result, so its identity is never that of another one.
    """
    results: dict[int, tuple[S, T]] = {}

    def ask(value: S) -> T:
        known = results.get(id(value))
        if known is not None and known[0] is value:
            return known[1]
        made = function(value)
        if len(results) >= _MOST:
            results.clear()
        results[id(value)] = (value, made)
        return made

    ask.__doc__ = function.__doc__
    ask.__name__ = function.__name__
    return ask


def by_identity_and(function: Callable[[S, *Rest], T]) -> Callable[[S, *Rest], T]:
    """Remember likewise a function that also takes small values; those are compared as such."""
    results: dict[int, tuple[S, dict[tuple[Any, ...], T]]] = {}

    def ask(value: S, *rest: *Rest) -> T:
        known = results.get(id(value))
        if known is not None and known[0] is value:
            made = known[1].get(rest)
            if made is not None:
                return made
        else:
            if len(results) >= _MOST:
                results.clear()
            known = results[id(value)] = (value, {})
        if len(known[1]) >= _MOST:
            known[1].clear()
        return known[1].setdefault(rest, function(value, *rest))

    ask.__doc__ = function.__doc__
    ask.__name__ = function.__name__
    return ask
