"""One content block while it streams: what it started as, and the deltas on top (api-facts A4, A5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.blocks import Block, clean_text, dumps, read_block
from .strict_json import StrictInput, parse_input, parse_value

KNOWN_DELTAS: frozenset[str] = frozenset(
    {"text_delta", "thinking_delta", "signature_delta", "input_json_delta", "citations_delta", "compaction_delta"}
)
KNOWN_BLOCKS: frozenset[str] = frozenset(
    {"text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "mcp_tool_use"}
)

INPUT_BLOCKS: frozenset[str] = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
"""Blocks whose input streams as JSON text."""


class BadDelta(ValueError):
    """A delta that fits no block."""


class OpenBlock:
    """A block that has started.

    Attributes:
        position: its place in the reply, from 0.
        type: its own word, known or not.
        closed: the stream closed it, or it came whole.
    """

    __slots__ = ("_input", "_pieces", "_value", "closed", "position", "type")

    def __init__(self, position: int, value: Mapping[str, Any], *, closed: bool = False) -> None:
        kind = value.get("type")
        self.position = position
        self.type = kind if isinstance(kind, str) else ""
        self.closed = closed
        self._value = dict(value)
        self._pieces: dict[str, list[str]] = {}
        self._input: list[str] = []

    @property
    def value(self) -> Mapping[str, Any]:
        """The block as it started, with what was set outright since."""
        return self._value

    def add(self, delta: Mapping[str, Any]) -> str:
        """Take one delta.

        Returns:
            The text that it adds, for the consumer; empty for deltas that show nothing.

        Raises:
            BadDelta: if a known delta holds something else than it must.
        """
        match delta.get("type"):
            case "text_delta":
                return self._append("text", delta.get("text"))
            case "thinking_delta":
                # estimated_tokens is a hint about progress, no part of the block.
                return self._append("thinking", delta.get("thinking"))
            case "input_json_delta":
                piece = delta.get("partial_json")
                if piece is not None and not isinstance(piece, str):
                    raise BadDelta("input_json_delta without text")
                if piece:
                    self._input.append(piece)
            case "signature_delta":
                if isinstance(delta.get("signature"), str):
                    self._value["signature"] = delta["signature"]
            case "citations_delta":
                cited = self._value.get("citations")
                self._value["citations"] = [*(cited if isinstance(cited, list) else []), delta.get("citation")]
            case _:
                self._merge(delta, known=delta.get("type") in KNOWN_DELTAS)
        return ""

    def _append(self, key: str, text: object) -> str:
        if text is None:
            return ""
        if not isinstance(text, str):
            raise BadDelta(f"a delta whose {key} is no text")
        self._pieces.setdefault(key, []).append(text)
        return text

    def _merge(self, delta: Mapping[str, Any], *, known: bool) -> None:
        # By the convention of all deltas so far, a key of the delta continues the same key of the block. A key
        # that a block type which we know does not have is left out: the API would refuse it on the way back.
        for key, item in delta.items():
            if key == "type" or item is None:
                continue
            if not (known or key in self._value or self.type not in KNOWN_BLOCKS):
                continue
            before = self._value.get(key)
            if isinstance(item, str) and (before is None or isinstance(before, str)):
                self._pieces.setdefault(key, []).append(item)
            elif isinstance(item, list) and isinstance(before, list):
                self._value[key] = [*before, *item]
            else:
                self._value[key] = item

    def finish(self) -> tuple[Block, str, StrictInput | None]:
        """Assemble the block.

        Returns:
            The block; the raw text of its input; and for a ``tool_use`` the strictly parsed input. A call whose
            input is no strict object holds ``{}``, so that the history stays valid.

        """
        value = self._value
        for key, pieces in self._pieces.items():
            start = value.get(key)
            value[key] = (start if isinstance(start, str) else "") + "".join(pieces)
        self._pieces = {}
        if self.type not in INPUT_BLOCKS:
            return read_block(value), "", None
        raw = clean_text("".join(self._input)) if self._input else _text_of(value.get("input"))
        parsed = parse_input(raw)
        if parsed.value is not None:
            value["input"] = parsed.value
        elif self.type == "tool_use":
            value["input"] = {}
        else:
            # The API ran this call itself: what it streamed goes back as it came, as far as it is an object.
            value["input"] = _object_of(raw)
        return read_block(value), raw, parsed if self.type == "tool_use" else None


def _text_of(value: object) -> str:
    return "" if value is None else dumps(value)


def _object_of(raw: str) -> dict[str, Any]:
    try:
        value = parse_value(raw)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
