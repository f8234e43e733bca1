"""Override fields of a configuration class from decoded data, each value checked against the field's type."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from enum import StrEnum
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import attrs

from .reading import fail, need_choice, need_flag, need_list, need_mapping, need_text, need_whole

T = TypeVar("T")


def overridden(base: T, values: Mapping[str, Any], place: str) -> T:
    """Give ``base`` with the fields of ``values`` replaced; nested configuration classes are overridden field by field.

    Args:
        base: an instance of an attrs class.
        values: field names and decoded YAML or JSON values.
        place: named in complaints.

    Raises:
        ScenarioError: for an unknown field or a value of the wrong type.
        ConfigError: for a value that the class itself refuses.
    """
    hints = get_type_hints(type(base))
    changes: dict[str, Any] = {}
    for name, value in need_mapping(values, place).items():
        if name not in hints:
            near = get_close_matches(name, list(hints), 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise fail(place, f"unknown setting {name!r}{hint}")
        changes[name] = _read(hints[name], getattr(base, name), value, f"{place}.{name}")
    return attrs.evolve(base, **changes)  # type: ignore[misc]


def _read(hint: Any, old: Any, value: Any, place: str) -> Any:
    if get_origin(hint) in (Union, UnionType):
        choices = get_args(hint)
        if value is None and type(None) in choices:
            return None
        hint = next(choice for choice in choices if choice is not type(None))
    if hint is bool:
        return need_flag(value, place)
    if hint is int:
        return need_whole(value, place)
    if hint is str:
        return need_text(value, place)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return need_choice(value, hint, place)
    if isinstance(hint, type) and attrs.has(hint):
        return overridden(old, value, place)
    if get_origin(hint) is tuple:
        return _read_tuple(get_args(hint), value, place)
    raise fail(place, "this setting cannot be given here")


def _read_tuple(inner: tuple[Any, ...], value: Any, place: str) -> tuple[Any, ...]:
    if inner == (str, ...):
        return tuple(need_text(item, where) for item, where in need_list(value, place))
    if inner == (tuple[str, str], ...):
        pairs = need_mapping(value, place)
        return tuple((key, need_text(text, f"{place}.{key}")) for key, text in pairs.items())
    raise fail(place, "this setting cannot be given here")
