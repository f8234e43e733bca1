"""Tool input as the model wrote it, parsed once and strictly under fixed limits (spec 01, section 6).

A cut or repaired input that looks plausible must never run, so nothing here guesses: the text is a strict JSON
object, or the call is malformed and the reason is said in words.
"""

from __future__ import annotations

import json
import re
from typing import Any

from attrs import frozen

from ..core.blocks import clean_text, dumps

MAX_DEPTH = 200
"""Nested arrays and objects."""
MAX_DIGITS = 4_300
"""Characters of one number: Python's own limit for integers, held for every number."""

# A string may lack its end quote: it then runs to the end of the text, which keeps the scan linear.
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)


@frozen
class StrictInput:
    """The outcome of one parse.

    Attributes:
        value: the object, or None if the text is no strict object.
        json: its canonical text (compact, keys in the order received), or None.
        problem: why there is no object, empty otherwise.
    """

    value: dict[str, Any] | None
    json: str | None
    problem: str = ""


class _Problem(ValueError):
    """A rule was broken; the text says which."""


def depth_of(text: str) -> int:
    """Give the deepest nesting of arrays and objects in JSON text, without parsing it."""
    depth = deepest = 0
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token in ("{", "["):
            depth += 1
            deepest = max(deepest, depth)
        elif token in ("}", "]"):
            depth -= 1
    return deepest


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        # Two keys that differ only in lone surrogates are the same key once those are replaced.
        clean = clean_text(key)
        if clean in result:
            raise _Problem(f"the key {clean[:80]!r} is there twice")
        result[clean] = value
    return result


def _integer(digits: str) -> int:
    if len(digits.lstrip("-")) > MAX_DIGITS:
        raise _Problem(f"a number has more than {MAX_DIGITS} digits")
    return int(digits)


def _decimal(digits: str) -> float:
    if len(digits.lstrip("-")) > MAX_DIGITS:
        raise _Problem(f"a number has more than {MAX_DIGITS} digits")
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise _Problem(f"the number {digits[:40]} is too large")
    return number


def _constant(word: str) -> Any:
    raise _Problem(f"{word} is no JSON value")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_int=_integer, parse_float=_decimal, parse_constant=_constant, strict=True
)


_PLAIN = json.JSONDecoder(parse_int=_integer, parse_float=_decimal, parse_constant=_constant)


def parse_value(text: str) -> Any:
    """Parse JSON of the API, so that whatever it gives can be encoded again.

    Raises:
        ValueError: if it is no JSON, holds a number that JSON cannot express, or is nested beyond all reason.
    """
    if text.count("{") + text.count("[") > MAX_DEPTH and depth_of(text) > 2 * MAX_DEPTH:
        raise ValueError("it is nested too deeply")
    try:
        return _PLAIN.decode(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def parse_input(text: str) -> StrictInput:
    """Parse the input of a call.

    Args:
        text: the raw text as streamed; empty or blank means ``{}``.

    Returns:
        The object with its canonical text, or the problem in words. Never raises.
    """
    if not text.strip():
        return StrictInput(value={}, json="{}")
    if text.count("{") + text.count("[") > MAX_DEPTH and depth_of(text) > MAX_DEPTH:
        return _refuse(f"it is nested more than {MAX_DEPTH} levels deep")
    try:
        value = _DECODER.decode(text)
        if not isinstance(value, dict):
            return _refuse(f"it is {_name(value)}, not an object")
        return StrictInput(value=value, json=dumps(value))
    except json.JSONDecodeError as error:
        return _refuse(f"it is no valid JSON: {error.msg} at character {error.pos}")
    except _Problem as error:
        return _refuse(str(error))
    except RecursionError:
        return _refuse("it is nested too deeply")
    except (ValueError, OverflowError) as error:
        return _refuse(f"it is no valid JSON: {error}")


def _refuse(problem: str) -> StrictInput:
    return StrictInput(value=None, json=None, problem=problem)


def _name(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case _:
            return "an array"
