"""Reads what a recorded stream says, as far as it can be read: so that the server knows its own words when they return."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


def events_of(raw: bytes) -> Iterator[dict[str, Any]]:
    """Give the events of a stream of server-sent events; frames that are none are left out."""
    for line in raw.replace(b"\r\n", b"\n").split(b"\n"):
        if not line.startswith(b"data:"):
            continue
        try:
            event = json.loads(line[5:])
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict):
            yield event


def read_stream(raw: bytes) -> tuple[tuple[dict[str, Any], ...], str | None]:
    """Fold a recorded body, a stream or one message, leniently.

    Args:
        raw: the body.

    Returns:
        Its content blocks and its stop reason; whatever is malformed is left out.
    """
    blocks: list[dict[str, Any]] = []
    inputs: dict[int, str] = {}
    # A spliced stream opens an index a second time: deltas go to the block that was opened last.
    places: dict[int, int] = {}
    reason: str | None = None
    for event in events_of(raw):
        delta, index = event.get("delta"), event.get("index")
        place = places.get(index) if isinstance(index, int) else None
        block, message = event.get("content_block"), event.get("message")
        if event.get("type") == "content_block_start" and isinstance(block, dict):
            if isinstance(index, int):
                places[index] = len(blocks)
            blocks.append(dict(block))
        elif event.get("type") == "message_start" and isinstance(message, dict):
            # Programmatic calls arrive whole in the opening of the message, its stop reason with them.
            whole = message.get("content")
            blocks.extend(dict(one) for one in (whole if isinstance(whole, list) else ()) if isinstance(one, dict))
            reason = _word(message.get("stop_reason")) or reason
        elif event.get("type") == "message_delta" and isinstance(delta, dict):
            reason = _word(delta.get("stop_reason")) or reason
        elif isinstance(delta, dict) and place is not None:
            if delta.get("type") == "input_json_delta":
                inputs[place] = inputs.get(place, "") + str(delta.get("partial_json", ""))
            else:
                _grow(blocks[place], delta)
    for number, text in inputs.items():
        try:
            blocks[number]["input"] = json.loads(text or "{}")
        except (ValueError, RecursionError):
            blocks[number]["input"] = {}
    return tuple(blocks), reason


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _grow(block: dict[str, Any], delta: dict[str, Any]) -> None:
    for name in ("text", "thinking", "content"):
        if isinstance(delta.get(name), str):
            block[name] = str(block.get(name) or "") + delta[name]
    for name in ("signature", "encrypted_content"):
        if delta.get(name) is not None:
            block[name] = delta[name]
    if "citation" in delta:
        before = block.get("citations")
        block["citations"] = [*(before if isinstance(before, list) else ()), delta["citation"]]
