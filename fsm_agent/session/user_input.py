"""What the user typed, read: a slash command, a trailing token budget, or plain words (spec 03, Session)."""

from __future__ import annotations

import re
from decimal import Decimal

from attrs import frozen

_COMMAND = re.compile(r"/([A-Za-z][\w.-]*(?::[\w.-]+)*)(?:\s+(.*))?\Z", re.DOTALL)
_BUDGET = re.compile(r"(?:^|\s)\+(\d{1,6}(?:\.\d{1,3})?)([km])\s*\Z", re.IGNORECASE)
_SCALE = {"k": 1_000, "m": 1_000_000}


@frozen
class UserInput:
    """What the user typed.

    Attributes:
        text: the words, without a budget at their end.
        token_budget: output tokens that the user wants spent, None if they do not say.
        command: name of a slash command, empty if it is none.
        arguments: what follows the command.
    """

    text: str
    token_budget: int | None = None
    command: str = ""
    arguments: str = ""


def read_input(text: str) -> UserInput:
    """Read what the user typed.

    A first character ``/`` and a name make a slash command; a path such as ``/etc/hosts`` does not. ``+500k`` or ``+1.5m``
    at the end is a token budget, if there are other words; a space in front keeps a text from being a command.

    Args:
        text: as it was typed.

    Returns:
        Its parts.
    """
    budget = None
    found = _BUDGET.search(text)
    if found is not None and text[: found.start()].strip():
        budget = int(Decimal(found[1]) * _SCALE[found[2].lower()])
        if budget > 0:
            text = text[: found.start()].rstrip()
        else:
            budget = None
    command = _COMMAND.match(text)
    if command is None:
        return UserInput(text=text, token_budget=budget)
    return UserInput(text=text, token_budget=budget, command=command[1], arguments=(command[2] or "").strip())
