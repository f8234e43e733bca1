"""Decoders, generated once per class: from parsed JSON to values, with every field checked."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from enum import StrEnum
from typing import Any, NoReturn, assert_never

from ..core.frozen import maker
from .errors import CodecError
from .shapes import (
    TAG,
    Choice,
    FieldShape,
    Fixed,
    Flag,
    Many,
    Maybe,
    Raw,
    Record,
    Shape,
    Text,
    Whole,
    Word,
    fields_of,
    tag_of,
)

Decoder = Callable[[Any], Any]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _wrong(wanted: str, value: Any) -> NoReturn:
    raise CodecError(f"expected {wanted}, not {_short(value)}")


def _exact(kind: type[Any], wanted: str) -> Decoder:
    def decode(value: Any) -> Any:
        return value if value.__class__ is kind else _wrong(wanted, value)

    return decode


_SCALARS: dict[type[Any], tuple[type[Any], str]] = {
    Text: (str, "text"),
    Whole: (int, "a whole number"),
    Flag: (bool, "true or false"),
}


def _raw(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8")
    if isinstance(value, dict) and value.keys() == {"base64"}:
        coded = value["base64"]
        return b64decode(coded, validate=True) if coded.__class__ is str else _wrong("base64", coded)
    _wrong("text or base64", value)


def _word(words: type[StrEnum], place: str) -> Decoder:
    table = {word.value: word for word in words}

    def decode(value: Any) -> Any:
        word = table.get(value) if value.__class__ is str else None
        return word if word is not None else _wrong(f"one of {', '.join(table)}{place}", value)

    return decode


def _many(item: Decoder, place: str, made: type[Any]) -> Decoder:
    def decode(value: Any) -> Any:
        return made([item(part) for part in value]) if value.__class__ is list else _wrong(f"a list{place}", value)

    return decode


def _fixed(items: tuple[Decoder, ...], place: str) -> Decoder:
    def decode(value: Any) -> Any:
        if value.__class__ is not list or len(value) != len(items):
            _wrong(f"a list of {len(items)}{place}", value)
        return tuple([item(part) for item, part in zip(items, value, strict=True)])

    return decode


def _maybe(item: Decoder) -> Decoder:
    return lambda value: None if value is None else item(value)


def _refuse(cls: type[Any], value: Any, known: AbstractSet[str]) -> NoReturn:
    """Say what is wrong with an object, once it is known that something is."""
    if value.__class__ is not dict:
        _wrong(f"an object ({tag_of(cls)})", value)
    unknown = sorted(value.keys() - known)
    if unknown:
        raise CodecError(f"{tag_of(cls)} has no field {', '.join(map(repr, unknown))}")
    missing = [field.name for field in fields_of(cls) if field.required and field.name not in value]
    raise CodecError(f"{tag_of(cls)} lacks its field {', '.join(map(repr, missing))}")


class Decoders:
    """A family of decoders.

    A missing field gets its default. An unknown one is an error, or is passed over by a lenient family, which reads
    what a newer minor version of the format wrote.
    """

    def __init__(
        self,
        *,
        lenient: bool = False,
        instead: Mapping[type[Any], Decoder] | None = None,
        many: Mapping[type[Any], Decoder] | None = None,
    ) -> None:
        """Make a family.

        Args:
            lenient: pass over unknown fields.
            instead: decoders that take the place of the generated ones, by class.
            many: decoders of whole lists of a class.
        """
        self._lenient = lenient
        self._instead = dict(instead or {})
        self._many = dict(many or {})
        self._made: dict[tuple[str, Any], Decoder] = {}

    def record(self, cls: type[Any], *, tagged: bool = False) -> Decoder:
        """Give the decoder of one class; with ``tagged`` its object also has the tag, which is not looked at."""
        key = ("tagged" if tagged else "record", cls)
        if cls in self._instead and not tagged:
            return self._instead[cls]
        if key not in self._made:
            self._made[key] = self._build(cls, tagged)
        return self._made[key]

    def choice(self, classes: tuple[type[Any], ...]) -> Decoder:
        """Give the decoder of a tagged union."""
        key = ("choice", classes)
        if key not in self._made:
            table = {tag_of(cls): self.record(cls, tagged=True) for cls in classes}

            def decode(value: Any) -> Any:
                tag = value.get(TAG) if value.__class__ is dict else None
                member = table.get(tag) if tag.__class__ is str else None
                if member is None:
                    _wrong(f"an object whose {TAG!r} is one of {', '.join(table)}", value)
                return member(value)

            self._made[key] = decode
        return self._made[key]

    def of(self, shape: Shape, place: str = "") -> Decoder:
        """Give the decoder of a shape; ``place`` is put behind what was expected when an error is told."""
        match shape:
            case Text() | Whole() | Flag():
                kind, wanted = _SCALARS[type(shape)]
                return _exact(kind, wanted + place)
            case Raw():
                return _raw
            case Word():
                return _word(shape.words, place)
            case Many(Record(cls), unordered=False) if cls in self._many:
                return self._many[cls]
            case Many():
                return _many(self.of(shape.item, place), place, frozenset if shape.unordered else tuple)
            case Fixed():
                return _fixed(tuple(self.of(item, place) for item in shape.items), place)
            case Maybe():
                return _maybe(self.of(shape.item, place))
            case Record():
                return self.record(shape.cls)
            case Choice():
                return self.choice(shape.classes)
            case _ as never:
                assert_never(never)

    def _build(self, cls: type[Any], tagged: bool) -> Decoder:
        names: dict[str, Any] = {"M": object(), "refuse": _refuse, "wrong": _wrong}
        body, made = self._lines(cls, "v", "", names, tagged=tagged)
        scope: dict[str, Any] = {}
        exec("\n".join(["def decode(v):", *[f"    {line}" for line in body], f"    return {made}"]), names, scope)
        return scope["decode"]  # type: ignore[no-any-return]

    def _lines(
        self, cls: type[Any], value: str, mark: str, names: dict[str, Any], *, tagged: bool = False
    ) -> tuple[list[str], str]:
        """Give the lines that look at ``value``, and the expression that makes the record; ``mark`` is its own in all names."""
        fields = fields_of(cls)
        names[f"C{mark}"], names[f"N{mark}"] = cls, maker(cls)
        names[f"K{mark}"] = frozenset([field.name for field in fields] + ([TAG] if tagged else []))
        unknown = "" if self._lenient else f" or not K{mark}.issuperset({value})"
        lines = [f"if {value}.__class__ is not dict{unknown}: refuse(C{mark}, {value}, K{mark})"]
        required = [field for field in fields if field.required]
        if required:
            lines.append("try:")
            lines += [f"    x{mark}_{field.name} = {value}[{field.name!r}]" for field in required]
            lines.append(f"except KeyError: refuse(C{mark}, {value}, {value}.keys())")
        for field in fields:
            lines += self._field(field, value, mark, names)
        return lines, f"N{mark}({', '.join(f'x{mark}_{field.name}' for field in fields)})"

    def _field(self, field: FieldShape, value: str, mark: str, names: dict[str, Any]) -> list[str]:
        x = f"x{mark}_{field.name}"
        lines = self._checks(field.shape, x, f"{mark}_{field.name}", f" as {field.name}", names)
        if field.required:
            return lines
        names[f"f{mark}_{field.name}"] = field.default
        missing = [f"{x} = {value}.get({field.name!r}, M)", f"if {x} is M: {x} = f{mark}_{field.name}"]
        return [*missing, "else:", *[f"    {line}" for line in lines]]

    def _checks(self, shape: Shape, x: str, mark: str, place: str, names: dict[str, Any]) -> list[str]:
        """Give the lines that check ``x`` and put in its place what it stands for."""
        if isinstance(shape, Text | Whole | Flag):
            kind, wanted = _SCALARS[type(shape)]
            return [f"if {x}.__class__ is not {kind.__name__}: wrong({wanted + place!r}, {x})"]
        if isinstance(shape, Maybe):
            return [f"if {x} is not None:", *[f"    {line}" for line in self._checks(shape.item, x, mark, place, names)]]
        if isinstance(shape, Record) and shape.cls not in self._instead:
            lines, made = self._lines(shape.cls, x, mark, names)
            return [*lines, f"{x} = {made}"]
        names[f"d{mark}"] = self.of(shape, place)
        return [f"{x} = d{mark}({x})"]
