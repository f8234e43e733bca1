"""The wire checker: does a request keep the API's rules, for the capabilities of the model that it asks for?

The rules are those of api-facts A19 and A20 and of the wire checker of the field reports. Each is a named function in
:data:`RULES`; all are pure. "Prompt is too long" is no rule: it is an answer that a server gives.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ..core.models import ModelInfo
from .rules import RULES, Breach, Memory, Rule, Wire

__all__ = ["RULES", "Breach", "Memory", "NotJson", "Rule", "Wire", "check_request", "check_wire", "decode_body"]

_SURROGATE = re.compile("[\ud800-\udfff]")


class NotJson(ValueError):
    """A body that is no strict JSON; the text says what is wrong."""


def decode_body(raw: bytes) -> dict[str, Any]:
    """Decode the bytes of a request strictly: UTF-8, JSON without NaN, no key twice, no lone surrogate, an object.

    Args:
        raw: the body as it came.

    Returns:
        The decoded object.

    Raises:
        NotJson: if it is anything else (field reports, wire checker 6).
    """
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotJson(f"The request body is not valid JSON: invalid UTF-8 at byte {error.start}") from None
    try:
        value = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_unique)
    except RecursionError:
        raise NotJson("The request body is not valid JSON: nested too deeply") from None
    except ValueError as error:
        raise NotJson(f"The request body is not valid JSON: {error}") from None
    if b"\\u" in raw and _has_surrogate(value):
        raise NotJson("The request body is not valid JSON: no low surrogate in string")
    if not isinstance(value, dict):
        raise NotJson("The request body is not a JSON object")
    return value


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON value")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"key {next(name for name in names if names.count(name) > 1)!r} stands twice in one object")
    return value


def _has_surrogate(value: Any) -> bool:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            if not item.isascii() and _SURROGATE.search(item):
                return True
        elif isinstance(item, dict):
            waiting.extend(item.keys())
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
    return False


def check_request(
    body: Mapping[str, Any],
    info: ModelInfo,
    betas: tuple[str, ...] = (),
    *,
    memory: Memory | None = None,
    tokens: int | None = None,
    size: int = 0,
    counting: bool = False,
) -> tuple[Breach, ...]:
    """Check one request against every rule.

    Args:
        body: the decoded request.
        info: the capabilities of the model that it names.
        betas: the values of its ``anthropic-beta`` header.
        memory: what the server remembers of its own answers; None if the request is looked at alone, which gives it the
            benefit of the doubt where only the server can know.
        tokens: estimated prompt tokens for the window rule; None leaves that rule out.
        size: bytes of the body; 0 if unknown.
        counting: it is a request to count tokens, which needs no ``max_tokens``.

    Returns:
        All breaches, in the order of the rules; empty for a request that the API would take.
    """
    return check_wire(Wire.of(body, info, betas, memory=memory, tokens=tokens, size=size, counting=counting))


def check_wire(wire: Wire) -> tuple[Breach, ...]:
    """Check a request that was laid out by :meth:`Wire.of`."""
    found: list[Breach] = []
    for rule in RULES:
        found.extend(rule.check(wire))
        if rule.decides and found:
            # The later rules read what this one found missing.
            break
    return tuple(found)
