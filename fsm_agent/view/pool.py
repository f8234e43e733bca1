"""Values of a log as JSON for a page. What is large or comes again is kept once, in a pool that is read piece by piece."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from math import isfinite
from typing import Any

import attrs

from ..core.blocks import Block
from ..core.events import ToolUse
from ..core.messages import Message
from ..core.wire import Request
from ..log.shapes import tag_of
from .words import Words

REFERENCE, MESSAGE, KIND = "$p", "$m", "$is"
"""Keys that the page knows; keys of foreign values never begin with a dollar (:func:`_key`)."""
_LONG = 400
"""Texts from this length on go into the pool."""
_DEEPEST = 40


class Pool:
    """Holds values once, and gives references to them.

    Attributes:
        words: makes texts fit for the page.
        items: JSON texts, by number.
        messages: one list for each message: role, kind, id, tokens, model, numbers of its blocks.
    """

    def __init__(self, words: Words) -> None:
        self.words = words
        self.items: list[str] = []
        self.messages: list[list[Any]] = []
        self._known: dict[str, int] = {}
        self._blocks: dict[str, int] = {}
        self._message_numbers: dict[int, int] = {}
        self._kept: list[Message] = []

    def plain(self, value: Any) -> Any:
        """Turn a value of the contract into JSON: fields with their default are left out, a tag says what it is."""
        if value is None or isinstance(value, bool | int):
            return value
        if isinstance(value, Enum):
            return value.value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, bytes):
            return self.text(value.decode("utf-8", "replace"))
        if isinstance(value, tuple | list):
            return [self.plain(item) for item in value]
        if isinstance(value, Message):
            return {MESSAGE: self.message(value)}
        if isinstance(value, Block):
            return {REFERENCE: self.block(value)}
        if isinstance(value, Request):
            return self._request(value)
        if isinstance(value, ToolUse) and not value.problem:
            # The block beside it says what the call is; raw and parsed text would say it twice more.
            return {KIND: "call", "traits": self.plain(value.traits)}
        return self._record(value)

    def text(self, text: str) -> Any:
        """Give a text, or a reference to it if it is long."""
        shown = self.words(text)
        return shown if len(shown) < _LONG else {REFERENCE: self._keep(_dumps(shown))}

    def json_text(self, text: str) -> Any:
        """Give the value of a JSON text; a text that is no JSON is given as it is."""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return self.text(text)
        return self.loose(value)

    def loose(self, value: Any, depth: int = 0) -> Any:
        """Make a parsed JSON value fit for the page."""
        if isinstance(value, str):
            return self.text(value)
        if depth > _DEEPEST:
            return "…"
        if isinstance(value, Mapping):
            if value.get("type") == "base64" and isinstance(value.get("data"), str):
                return {**self._fields(value, depth, but="data"), "data": f"… {len(value['data']):,} characters of base64"}
            return self._fields(value, depth)
        if isinstance(value, list):
            return [self.loose(item, depth + 1) for item in value]
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 2**53:
            return str(value)
        if isinstance(value, float) and not isfinite(value):
            return str(value)
        return value

    def block(self, block: Block) -> int:
        """Give the number of a content block."""
        number = self._blocks.get(block.json)
        if number is None:
            number = self._blocks[block.json] = self._keep(_dumps(self.json_text(block.json)))
        return number

    def message(self, message: Message) -> int:
        """Give the number of a message."""
        number = self._message_numbers.get(id(message))
        if number is None:
            number = self._message_numbers[id(message)] = len(self.messages)
            self._kept.append(message)  # keeps the object alive, so that its identity stays its own
            blocks = [self.block(block) for block in message.blocks]
            name, model = self.words(message.id), self.words(message.model)
            self.messages.append([message.role, message.kind.value, name, message.tokens, model, blocks])
        return number

    def _fields(self, value: Mapping[Any, Any], depth: int, but: str = "") -> dict[str, Any]:
        # A dollar in front would look like a reference.
        return {_key(self.words(str(key))): self.loose(item, depth + 1) for key, item in value.items() if not but or key != but}

    def _keep(self, text: str) -> int:
        number = self._known.get(text)
        if number is None:
            number = self._known[text] = len(self.items)
            self.items.append(text)
        return number

    def _record(self, value: Any) -> Any:
        shown: dict[str, Any] = {KIND: tag_of(type(value))}
        for field in attrs.fields(type(value)):
            part = getattr(value, field.name)
            if field.default is not attrs.NOTHING and part == field.default:
                continue
            if field.name.rpartition("_")[2] == "json" and isinstance(part, str):
                shown[field.name.removesuffix("_json")] = self.json_text(part) if part else ""
            else:
                shown[field.name] = self.plain(part)
        return shown

    def _request(self, request: Request) -> dict[str, Any]:
        return {
            "model": self.words(request.model),
            "max_tokens": request.max_tokens,
            "estimate": request.estimate,
            "messages": len(request.messages),
            "betas": [self.words(beta) for beta in request.betas],
            "cache_marks": [list(mark) for mark in request.marks],
            "digest": request.digest,
            "head": {REFERENCE: self._keep(_dumps(self.json_text(request.head.decode("utf-8", "replace"))))},
        }


def _key(name: str) -> str:
    return f"\\{name}" if name.startswith(("$", "\\")) else name


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
