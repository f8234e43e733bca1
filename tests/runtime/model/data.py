"""Recorded streams and errors, read in place, and short ways to fold them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fsm_agent.core.events import BlockCompleted, StreamCompleted, StreamFailed
from fsm_agent.core.failures import ErrorKind
from fsm_agent.core.outputs import TextDelta
from fsm_agent.core.wire import Request
from fsm_agent.runtime.ports import ModelItem
from fsm_agent.runtime.sse import SseDecoder
from fsm_agent.runtime.stream_fold import StreamFold

DATA = Path(__file__).resolve().parents[3] / ".." / "shared" / "data"
SPLICED = "798"
"""Two replies in one stream: a malformed stream by the contract of the error kinds, whatever the index counts in it."""


def recorded_streams() -> list[Any]:
    """Give one parameter a recorded stream, or one skipped parameter where the recordings are absent."""
    index = DATA / "streams" / "index.jsonl"
    if not index.exists():
        return [pytest.param(None, marks=pytest.mark.skip(reason="the recorded streams (../shared/data) are not here"))]
    entries = [json.loads(line) for line in index.read_text(encoding="utf-8").splitlines() if line.strip()]
    return [pytest.param(entry, id=entry["id"]) for entry in entries]


def recorded_errors() -> list[Any]:
    """Give one parameter a recorded error answer, or one skipped parameter where they are absent."""
    files = sorted((DATA / "errors").glob("*.json"))
    if not files:
        return [pytest.param(None, marks=pytest.mark.skip(reason="the recorded errors (../shared/data) are not here"))]
    return [pytest.param(json.loads(file.read_text(encoding="utf-8")), id=file.stem) for file in files]


def stream_bytes(entry: dict[str, Any]) -> bytes:
    """Read the bytes of one recorded stream."""
    return (DATA / "streams" / f"{entry['id']}.sse").read_bytes()


def sse(*events: object) -> bytes:
    """Write events (mappings, or raw data text) as a stream."""
    text = ""
    for event in events:
        data = event if isinstance(event, str) else json.dumps(event)
        name = f"event: {event['type']}\n" if isinstance(event, dict) and "type" in event else ""
        text += f"{name}data: {data}\n\n"
    return text.encode()


def start(**fields: Any) -> dict[str, Any]:
    """Make a ``message_start``."""
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "claude-opus-5"}
    return {"type": "message_start", "message": {**message, "usage": {"input_tokens": 10, "output_tokens": 1}, **fields}}


def opened(index: int, block: dict[str, Any]) -> dict[str, Any]:
    """Make a ``content_block_start``."""
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    """Make a ``content_block_delta``."""
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def closed(index: int) -> dict[str, Any]:
    """Make a ``content_block_stop``."""
    return {"type": "content_block_stop", "index": index}


def ending(reason: str | None, **fields: Any) -> dict[str, Any]:
    """Make a ``message_delta``."""
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 7}, **fields}


STOP: dict[str, Any] = {"type": "message_stop"}


def call(index: int, text: str | None, name: str = "Read", identity: str = "toolu_1") -> list[dict[str, Any]]:
    """Make the events of one whole tool call whose input streams as ``text`` (None: no delta at all)."""
    block = {"type": "tool_use", "id": identity, "name": name, "input": {}}
    pieces = [] if text is None else [delta(index, "input_json_delta", partial_json=text)]
    return [opened(index, block), *pieces, closed(index)]


def words(index: int, text: str) -> list[dict[str, Any]]:
    """Make the events of one whole text block."""
    return [opened(index, {"type": "text", "text": ""}), delta(index, "text_delta", text=text), closed(index)]


def fold(raw: bytes, *, size: int = 0, **settings: Any) -> list[ModelItem]:
    """Fold a whole stream that ends after ``raw``, fed in pieces of ``size`` bytes (0: at once)."""
    folded = StreamFold("c", **settings)
    decoder = SseDecoder()
    items: list[ModelItem] = []
    for place in range(0, len(raw), size or max(1, len(raw))):
        for event in decoder.feed(raw[place : place + (size or len(raw))]):
            items += folded.feed(event)
    return items + folded.end()


def blocks(items: list[ModelItem]) -> list[BlockCompleted]:
    """Give the completed blocks among ``items``."""
    return [item for item in items if isinstance(item, BlockCompleted)]


def shown(items: list[ModelItem]) -> str:
    """Give the text that the consumer saw."""
    return "".join(item.text for item in items if isinstance(item, TextDelta))


def completed(items: list[ModelItem]) -> StreamCompleted:
    """Give the end of a complete stream."""
    last = items[-1]
    assert isinstance(last, StreamCompleted), last
    return last


def failed(items: list[ModelItem], kind: ErrorKind) -> StreamFailed:
    """Give the end of a stream that failed with ``kind``."""
    last = items[-1]
    assert isinstance(last, StreamFailed), last
    assert last.failure.kind is kind, last.failure
    return last


def request(model: str = "claude-opus-5", betas: tuple[str, ...] = ()) -> Request:
    """Make a request whose body the test's own encoder writes."""
    return Request(model=model, max_tokens=100, head=b"{}", messages=(), betas=betas)


def encode(request: Request) -> bytes:
    """Write a small valid body."""
    body = {
        "model": request.model,
        "max_tokens": request.max_tokens,
        "stream": True,
        "messages": [{"role": "user", "content": "hello"}],
    }
    return json.dumps(body).encode()
