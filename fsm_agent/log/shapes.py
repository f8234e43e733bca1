"""Shapes: what the type hints of the contract's classes say about their text. Encoders and decoders are made from them."""

from __future__ import annotations

import re
import types
import typing
from enum import StrEnum
from typing import Any

import attrs
from attrs import frozen

from ..core.events import EVENT_KINDS

TAG = "is"
"""Key that names the class of a value in a tagged union."""


@frozen
class Text:
    """A string."""


@frozen
class Whole:
    """An integer."""


@frozen
class Flag:
    """True or false."""


@frozen
class Raw:
    """Bytes: text where they are UTF-8, else base64 in an object."""


@frozen
class Word:
    """A member of a closed set of words."""

    words: type[StrEnum]


@frozen
class Many:
    """A tuple of any length with items of one shape; ``unordered`` ones are frozen sets, written in sorted order."""

    item: Shape
    unordered: bool = False


@frozen
class Fixed:
    """A tuple of a fixed length."""

    items: tuple[Shape, ...]


@frozen
class Maybe:
    """A value, or None."""

    item: Shape


@frozen
class Record:
    """A frozen attrs class."""

    cls: type[Any]


@frozen
class Choice:
    """A tagged union of frozen attrs classes."""

    classes: tuple[type[Any], ...]


Shape = Text | Whole | Flag | Raw | Word | Many | Fixed | Maybe | Record | Choice

_SCALARS: dict[Any, Shape] = {str: Text(), int: Whole(), bool: Flag(), bytes: Raw()}


@frozen
class FieldShape:
    """One field of a class.

    Attributes:
        name: its name, which is its key.
        shape: what it holds.
        default: its default, ``attrs.NOTHING`` if it has none.
    """

    name: str
    shape: Shape
    default: Any

    @property
    def required(self) -> bool:
        """True if the field has no default."""
        return self.default is attrs.NOTHING


def shape_of(hint: Any) -> Shape:
    """Give the shape that a resolved type hint describes.

    Raises:
        TypeError: for a hint that no shape covers; add one before using it in the contract.
    """
    scalar = _SCALARS.get(hint)
    if scalar is not None:
        return scalar
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return Word(hint)
    if isinstance(hint, type) and attrs.has(hint):
        return Record(hint)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
        return Many(shape_of(args[0]))
    if origin is frozenset:
        return Many(shape_of(args[0]), unordered=True)
    if origin is tuple:
        return Fixed(tuple(shape_of(arg) for arg in args))
    if origin in (types.UnionType, typing.Union):
        some = tuple(arg for arg in args if arg is not types.NoneType)
        inner = shape_of(some[0]) if len(some) == 1 else _choice(some)
        return inner if len(some) == len(args) else Maybe(inner)
    raise TypeError(f"no shape for {hint!r}")


def _choice(classes: tuple[Any, ...]) -> Choice:
    tags = [tag_of(cls) for cls in classes if attrs.has(cls)]
    if len(set(tags)) != len(classes):
        raise TypeError(f"a union needs attrs classes with distinct tags: {classes!r}")
    return Choice(classes)


_FIELDS: dict[type[Any], tuple[FieldShape, ...]] = {}


def fields_of(cls: type[Any]) -> tuple[FieldShape, ...]:
    """Give the fields of an attrs class, in order.

    Raises:
        TypeError: for a field without a shape, with a computed default, or named like the tag.
    """
    if cls in _FIELDS:
        return _FIELDS[cls]
    hints = typing.get_type_hints(cls)
    fields: list[FieldShape] = []
    for attribute in attrs.fields(cls):
        if attribute.name == TAG or isinstance(attribute.default, attrs.Factory):  # type: ignore[arg-type]
            raise TypeError(f"{cls.__name__}.{attribute.name} can have no text")
        fields.append(FieldShape(attribute.name, shape_of(hints[attribute.name]), attribute.default))
    _FIELDS[cls] = tuple(fields)
    return _FIELDS[cls]


_TAGS: dict[type[Any], str] = {cls: kind.value for cls, kind in EVENT_KINDS.items()}


def tag_of(cls: type[Any]) -> str:
    """Give the short name of a class in a tagged union: an event's kind, else its name in snake case without ``Output``."""
    tag = _TAGS.get(cls)
    if tag is None:
        tag = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__.removesuffix("Output")).lower()
        _TAGS[cls] = tag
    return tag
