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
    blocks: dict[Any, dict[str, Any]] = {}
    inputs: dict[Any, str] = {}
    reason: str | None = None
    for event in events_of(raw):
        index, delta = event.get("index"), event.get("delta")
        block = event.get("content_block")
        if event.get("type") == "content_block_start" and isinstance(block, dict):
            blocks[index] = dict(block)
        elif event.get("type") == "message_delta" and isinstance(delta, dict):
            reason = delta.get("stop_reason") or reason
        elif isinstance(delta, dict) and index in blocks:
            if delta.get("type") == "input_json_delta":
                inputs[index] = inputs.get(index, "") + str(delta.get("partial_json", ""))
            else:
                _grow(blocks[index], delta)
    for index, text in inputs.items():
        try:
            blocks[index]["input"] = json.loads(text or "{}")
        except (ValueError, RecursionError):
            blocks[index]["input"] = {}
    return tuple(blocks.values()), reason


def _grow(block: dict[str, Any], delta: dict[str, Any]) -> None:
    for name in ("text", "thinking", "content"):
        if isinstance(delta.get(name), str):
            block[name] = str(block.get(name) or "") + delta[name]
    for name in ("signature", "encrypted_content"):
        if delta.get(name) is not None:
            block[name] = delta[name]
    if "citation" in delta:
        block["citations"] = [*(block.get("citations") or []), delta["citation"]]
