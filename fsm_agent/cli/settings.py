"""What people write on the command line, read into values; each complaint names the place."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from ..core.config import ContextConfig, LoopConfig
from .problems import Problem

_ELSEWHERE = {
    "model": "--model",
    "models": "the data of models (see: fsm-agent models)",
    "tools": "the tools themselves",
    "system": "--system-prompt",
    "system_context": "the system prompt",
    "context": "its own fields, such as context_window",
}
"""Fields that are not given as ``key=value``, and where they come from."""
_YES, _NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_TOKENS = re.compile(r"\+?(\d+(?:\.\d+)?)([km]?)", re.IGNORECASE)
_MICRO = 1_000_000


def read_set(pairs: Iterable[str], option: str = "--set") -> dict[str, Any]:
    """Read ``key=value`` pairs into fields of :class:`LoopConfig`; those of its context are in ``context``.

    Args:
        pairs: as they were given; ``context.key`` is the same as ``key``.
        option: how complaints name them.

    Raises:
        Problem: for an unknown key or a value of the wrong type.
    """
    loop, context = get_type_hints(LoopConfig), get_type_hints(ContextConfig)
    values: dict[str, Any] = {}
    inner: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        key = key.strip()
        if not equals:
            raise Problem(f"{option} {pair}: write key=value")
        name = key.removeprefix("context.")
        if name in context and (name not in loop or key != name):
            inner[name] = _value(text.strip(), context[name], f"{option} {name}")
        elif key in _ELSEWHERE:
            raise Problem(f"{option} {key}: this comes from {_ELSEWHERE[key]}")
        elif key in loop:
            values[key] = _value(text.strip(), loop[key], f"{option} {key}")
        else:
            near = difflib.get_close_matches(name, [*loop, *context], 1)
            raise Problem(f"{option}: {key!r} is no setting" + (f"; did you mean {near[0]!r}?" if near else ""))
    return {**values, "context": inner} if inner else values


def _value(text: str, hint: Any, place: str) -> Any:
    if get_origin(hint) in (Union, UnionType):
        if text.lower() == "none":
            return None
        hint = next(choice for choice in get_args(hint) if choice is not NoneType)
    if hint is bool:
        if text.lower() not in _YES + _NO:
            raise Problem(f"{place}: write true or false, not {text!r}")
        return text.lower() in _YES
    if hint is int:
        if not re.fullmatch(r"-?\d{1,3}(_\d{3})+|-?\d{1,18}", text):
            raise Problem(f"{place}: write a whole number, not {text!r}")
        return int(text)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        words = [member.value for member in hint]
        if text not in words:
            raise Problem(f"{place}: {text!r} is none of {', '.join(words)}")
        return hint(text)
    if get_origin(hint) is tuple:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    return text


def read_tokens(text: str) -> int:
    """Read a number of tokens such as ``500k``.

    Raises:
        Problem: if it is none.
    """
    found = _TOKENS.fullmatch(text.strip())
    if found is None or len(text) > 20:
        raise Problem(f"--token-budget {text}: write a number of tokens such as 500k")
    number = int(Decimal(found[1]) * {"": 1, "k": 1_000, "m": _MICRO}[found[2].lower()])
    if number < 1:
        raise Problem(f"--token-budget {text}: must be at least one token")
    return number


def read_dollars(text: str) -> int:
    """Read an amount of US dollars such as ``0.5`` into micro-dollars.

    Raises:
        Problem: if it is none, or less than one millionth of a dollar.
    """
    try:
        amount = Decimal(text.strip().removeprefix("$"))
        micro = int(amount * _MICRO) if amount.is_finite() and amount < 10**9 else 0
    except InvalidOperation:
        micro = 0
    if micro < 1:
        raise Problem(f"--max-budget-usd {text}: write an amount of dollars above 0, such as 0.5")
    return micro
