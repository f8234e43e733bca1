"""Check a tool's input against its JSON schema, with errors that a model can act on (field report 84)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ...core.blocks import dumps
from .base import JsonObject

MAX_PROBLEMS = 5
_SHOWN = 120


@lru_cache(maxsize=256)
def _validator(schema_json: str) -> Any:
    # Imported here: the library is slow to load, and a program that only looks at tools does not need it.
    import json

    return offline_validator(json.loads(schema_json))


def offline_validator(schema: Any) -> Any:
    """Make a validator that fetches nothing from the network, whatever the schema refers to."""
    import jsonschema
    import referencing

    return jsonschema.Draft202012Validator(schema, registry=referencing.Registry())


def check_schema(schema: JsonObject) -> str:
    """Say what is wrong with a tool's own schema; an empty text if nothing is."""
    if schema.get("type") != "object":
        return "its type must be 'object'"
    return schema_problem(schema)


def schema_problem(schema: Any) -> str:
    """Say why a JSON schema cannot be used, an empty text if it can; never raises.

    References must lead somewhere inside the schema: one that leads nowhere would be found only by the value that gets there.
    """
    import jsonschema

    try:
        dumps(schema)
        jsonschema.Draft202012Validator.check_schema(schema)
        wrong = _dead_reference(schema)
        if not wrong:
            trials: tuple[Any, ...] = ({}, None)
            for value in trials:
                next(offline_validator(schema).iter_errors(value), None)
    except jsonschema.SchemaError as problem:
        return problem.message[:200]
    except RecursionError:
        return "it is nested too deeply, or refers to itself without an end"
    except Exception as problem:
        return f"it cannot be used: {problem}"[:200]
    return wrong


def _dead_reference(schema: Any) -> str:
    """Name a reference that leads nowhere; parts with an ``$id`` have names of their own, and are not looked at."""
    import referencing
    import referencing.exceptions
    from referencing.jsonschema import DRAFT202012

    resolver = referencing.Registry().resolver_with_root(DRAFT202012.create_resource(schema))
    open_parts: list[Any] = [schema]
    while open_parts:
        part = open_parts.pop()
        if isinstance(part, list):
            open_parts += part
        if not isinstance(part, Mapping) or (part is not schema and "$id" in part):
            continue
        for word in ("$ref", "$dynamicRef"):
            target = part.get(word)
            if isinstance(target, str):
                try:
                    resolver.lookup(target)
                except referencing.exceptions.Unresolvable:
                    return f"{word} {target[:120]!r} leads nowhere"
        open_parts += [inner for name, inner in part.items() if name not in _DATA]
    return ""


_DATA = frozenset({"enum", "const", "default", "examples"})
"""Keywords whose values are data and no schemas."""


def problems(schema: JsonObject, value: Any) -> tuple[str, ...]:
    """Give what is wrong with ``value``, field by field, at most a few; empty if it fits; never raises."""
    try:
        return _problems(schema, value)
    except RecursionError:
        return ("it is nested too deeply to be checked",)
    except Exception as problem:
        return (f"it cannot be checked against the schema: {problem}"[:200],)


def _problems(schema: JsonObject, value: Any) -> tuple[str, ...]:
    found = []
    for error in _validator(dumps(schema)).iter_errors(value):
        where = ".".join(str(part) for part in error.absolute_path)
        if error.validator == "required":
            text = f"field {_join(where, _missing(error))} is required"
        elif error.validator == "additionalProperties":
            text = f"{error.message[:_SHOWN]} (in {where})" if where else error.message[:_SHOWN]
        elif error.validator == "type":
            text = f"field {where or 'input'} must be of type {_words(error.validator_value)}, not {_kind(error.instance)}"
        elif error.validator == "enum":
            text = f"field {where} must be one of {dumps(error.validator_value)[:200]}, not {dumps(error.instance)[:_SHOWN]}"
        else:
            text = f"field {where or 'input'}: {error.message[:_SHOWN]}"
        found.append(text)
        if len(found) == MAX_PROBLEMS:
            break
    return tuple(found)


def _missing(error: Any) -> str:
    return next((name for name in error.validator_value if name not in error.instance), "?")


def _join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _words(kind: Any) -> str:
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), type(value).__name__)


def describe_fields(schema: JsonObject) -> str:
    """List the fields of a schema in one line, for an error text."""
    properties = schema.get("properties", {})
    required = schema.get("required", [])
    if not isinstance(properties, Mapping) or not properties:
        return "It takes no fields."
    parts = []
    for name, field in properties.items():
        kind = _words(field.get("type", "any")) if isinstance(field, Mapping) else "any"
        parts.append(f"{name} ({kind}{', required' if name in required else ''})")
    return "Fields: " + ", ".join(parts) + "."
