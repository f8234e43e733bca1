"""What a step changed in the state, as lines for people: a path, what stood there, what stands there now."""

from __future__ import annotations

import json
from enum import Enum
from typing import Any

import attrs

from ..core.blocks import Block
from ..core.messages import Message
from ..core.state import LoopState
from .words import Words, one_line

Change = tuple[str, str | None, str | None]
"""Path, old value, new value; None where there was, or is, nothing."""

_LONGEST = 240
_CONTEXT = (
    "base",
    "freed",
    "replacements",
    "spans",
    "deferred",
    "cleared",
    "drop_thinking",
    "thinking_cut",
    "task_remaining",
    "open_server_calls",
)
"""Memory of the context layers that says something to people; what was sent, and tallies, are caches."""


def changes(before: LoopState, after: LoopState, words: Words) -> list[Change]:
    """List what differs between two states; messages are shown elsewhere and only counted here."""
    found: list[Change] = []
    if before is after:
        return found
    _walk("", before.control, after.control, found, words)
    old, new = before.data, after.data
    if old.messages is not new.messages and old.messages != new.messages:
        found.append(("messages", str(len(old.messages)), str(len(new.messages))))
    for name in ("failure", "words", "reports"):
        _walk(name, getattr(old.iteration, name), getattr(new.iteration, name), found, words)
    _walk("inbox", old.inbox, new.inbox, found, words)
    for name in _CONTEXT:
        _walk(f"context_state.{name}", getattr(old.context, name), getattr(new.context, name), found, words)
    _walk("usage", old.usage, new.usage, found, words)
    _walk("terminal", old.terminal, new.terminal, found, words)
    return found


def _walk(path: str, old: Any, new: Any, found: list[Change], words: Words) -> None:
    if old is new or old == new:
        return
    if type(old) is type(new) and attrs.has(type(old)) and not isinstance(old, Block | Message):
        for field in attrs.fields(type(old)):
            part = f"{path}.{field.name}" if path else field.name
            _walk(part, getattr(old, field.name), getattr(new, field.name), found, words)
        return
    if isinstance(old, tuple) and isinstance(new, tuple) and (named := _named(old, new)) is not None:
        for key in dict.fromkeys((*named[0], *named[1])):
            was, now = named[0].get(key), named[1].get(key)
            place = f"{path}[{words(key)}]"
            if was is not None and now is not None:
                _walk(place, was, now, found, words)
            else:
                found.append((place, None if was is None else _text(was, words), None if now is None else _text(now, words)))
        return
    found.append((path, _text(old, words), _text(new, words)))


def _named(old: tuple[Any, ...], new: tuple[Any, ...]) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Give the items by their names, None if they have none."""
    names: list[dict[str, Any]] = []
    for items in (old, new):
        named: dict[str, Any] = {}
        for item in items:
            name = getattr(item, "id", None) or getattr(item, "tool_use_id", None) or getattr(item, "model", None)
            if not isinstance(name, str) or isinstance(item, Message) or name in named:
                return None
            named[name] = item
        names.append(named)
    return names[0], names[1]


def _text(value: Any, words: Words) -> str:
    text = value if isinstance(value, str) and value else json.dumps(_brief(value), ensure_ascii=False)
    return one_line(words(text), _LONGEST)


def _brief(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Message):
        return f"{value.kind.value} message {value.id}"
    if isinstance(value, Block):
        return f"{value.type} block, {value.tokens} tokens"
    if isinstance(value, tuple):
        shown = [_brief(item) for item in value[:8]]
        return shown if len(value) <= 8 else [*shown, f"… {len(value) - 8} more"]
    if attrs.has(type(value)):
        fields = attrs.fields(type(value))
        return {
            field.name: _brief(getattr(value, field.name)) for field in fields if getattr(value, field.name) != field.default
        }
    return value if value is None or isinstance(value, bool | int | str) else str(value)
