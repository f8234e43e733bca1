"""Encoders, generated once per class: straight-line code that concatenates JSON text, since logs are written at every step."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from json.encoder import encode_basestring
from typing import Any, assert_never

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

Encoder = Callable[[Any], str]


def _bytes(value: bytes) -> str:
    try:
        return encode_basestring(value.decode("utf-8"))
    except UnicodeDecodeError:
        return '{"base64":"' + b64encode(value).decode() + '"}'


class Encoders:
    """A family of encoders that share one way of writing.

    Sparse encoders leave out a field that has its default: a field that a later version adds then changes neither
    old texts nor old digests. Full ones write every field, for snapshots that must not depend on later defaults.
    """

    def __init__(self, *, full: bool = False, instead: Mapping[type[Any], Encoder] | None = None) -> None:
        """Make a family.

        Args:
            full: write fields that have their default too.
            instead: encoders that take the place of the generated ones, by class.
        """
        self._full = full
        self._instead = dict(instead or {})
        self._names: dict[str, Any] = {"S": encode_basestring, "D": int.__repr__, "B": _bytes}
        self._made: dict[tuple[str, Any], Any] = {}

    def record(self, cls: type[Any]) -> Encoder:
        """Give the encoder of one class, as an object without a tag."""
        made = self._made.get(("record", cls)) or self._instead.get(cls)
        return made or self._keep("record", cls, self._text_function(cls, "''", "'{' + t[1:] + '}'"))

    def tagged(self, cls: type[Any]) -> Encoder:
        """Give the encoder of one class, as a member of a union."""
        made = self._made.get(("tagged", cls))
        return made or self._keep("tagged", cls, self._text_function(cls, repr(opening(cls)), "t + '}'"))  # type: ignore[no-any-return]

    def pieces(self, cls: type[Any]) -> Callable[[Any], list[str]]:
        """Give a function that makes the texts of the fields one by one; joined they are the inside of the object.

        Each piece begins with a comma; that of a field left out is empty.
        """
        made = self._made.get(("pieces", cls))
        if made is None:
            body = ["p = []"]
            for field in fields_of(cls):
                body.append(f"x = v.{field.name}")
                body.append(f"p.append({self._key(field)} + {self._text(field.shape, 'x')} if {self._said(field)} else '')")
            made = self._keep("pieces", cls, self._function(body, "p"))
        return made  # type: ignore[no-any-return]

    def choice(self, classes: tuple[type[Any], ...]) -> dict[type[Any], Encoder]:
        """Give the encoders of a tagged union, by class."""
        made = self._made.get(("choice", classes))
        return made or self._keep("choice", classes, {cls: self.tagged(cls) for cls in classes})  # type: ignore[no-any-return]

    def _keep(self, kind: str, key: Any, value: Any) -> Any:
        self._made[kind, key] = value
        return value

    def _function(self, body: list[str], result: str) -> Any:
        source = "def encode(v):\n" + "".join(f"    {line}\n" for line in body) + f"    return {result}\n"
        scope: dict[str, Any] = {}
        exec(source, self._names, scope)
        return scope["encode"]

    def _text_function(self, cls: type[Any], start: str, result: str) -> Any:
        body = [f"t = {start}"]
        for field in fields_of(cls):
            said = self._said(field)
            if said == "True":
                body.append(f"t += {self._key(field)} + {self._text(field.shape, f'v.{field.name}')}")
            else:
                body.append(f"x = v.{field.name}")
                body.append(f"if {said}: t += {self._key(field)} + {self._text(field.shape, 'x')}")
        return self._function(body, result)

    def _key(self, field: FieldShape) -> str:
        return repr(f',"{field.name}":')

    def _said(self, field: FieldShape) -> str:
        """Give the condition on ``x`` under which a field is written."""
        if field.required or self._full:
            return "True"
        if field.default is None:
            return "x is not None"
        if field.default in ("", 0, ()) and isinstance(field.shape, Text | Whole | Flag | Many):
            return "x"
        return f"x != {self._name(field.default)}"

    def _name(self, value: Any) -> str:
        name = f"n{len(self._names)}"
        self._names[name] = value
        return name

    def _text(self, shape: Shape, value: str, depth: int = 0) -> str:
        """Give the expression that writes ``value``, itself an expression without side effects."""
        match shape:
            case Text():
                return f"S({value})"
            case Whole():
                return f"D({value})"
            case Flag():
                return f"('true' if {value} else 'false')"
            case Raw():
                return f"B({value})"
            case Word():
                return f"{self._name({word: encode_basestring(word.value) for word in shape.words})}[{value}]"
            case Many():
                item = f"i{depth}"
                value = f"sorted({value})" if shape.unordered else value
                return f"('[' + ','.join([{self._text(shape.item, item, depth + 1)} for {item} in {value}]) + ']')"
            case Fixed():
                inside = " + ',' + ".join(self._text(item, f"{value}[{n}]", depth) for n, item in enumerate(shape.items))
                return f"('[' + {inside} + ']')"
            case Maybe():
                return f"('null' if {value} is None else {self._text(shape.item, value, depth)})"
            case Record():
                return f"{self._name(self.record(shape.cls))}({value})"
            case Choice():
                return f"{self._name(self.choice(shape.classes))}[{value}.__class__]({value})"
            case _ as never:
                assert_never(never)


def opening(cls: type[Any]) -> str:
    """Give the text before the fields of a member of a union."""
    return f'{{"{TAG}":"{tag_of(cls)}"'
