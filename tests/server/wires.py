"""Requests that keep every rule, to be broken in one place by a test."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

from attrs import evolve

from fsm_agent.core.models import ModelInfo

MODEL = ModelInfo(
    name="strict-1",
    context_window=200_000,
    max_output=64_000,
    thinking=("adaptive", "enabled", "disabled"),
    system_messages=True,
    context_edits=True,
    api_compaction=True,
    efforts=("low", "high"),
    max_media=30,
)
"""A model that can do everything but prefill."""
BOUND = evolve(
    MODEL, name="bound-1", thinking=("adaptive",), thinking_default=True, binds_thinking=True, forced_tool_choice=False
)
"""A model that binds its thinking to the conversation."""

READ = {"name": "Read", "description": "Reads.", "input_schema": {"type": "object", "properties": {}}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def system(*blocks: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "system", "content": list(blocks), **fields}


def call(identity: str, **fields: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": identity, "name": "Read", "input": {}, **fields}


def result(identity: str, content: Any = "ok", **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": identity, "content": content, **fields}


def request(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Make a request; without messages it holds one user text, a field of value None is left out."""
    body = {"model": MODEL.name, "max_tokens": 1_000, "messages": list(messages) or [user(text("hi"))], **fields}
    return {name: value for name, value in body.items() if value is not None}


def png(width: int, height: int) -> str:
    """Make a real grey PNG, in base64."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\x00" + b"\x80" * width for _ in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    raw = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return base64.b64encode(raw).decode()


def image(data: str, media_type: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def pdf(pages: int) -> dict[str, Any]:
    raw = b"%PDF-1.4\n" + b"".join(b"%d 0 obj << /Type /Page >> endobj\n" % number for number in range(pages))
    data = base64.b64encode(raw).decode()
    return {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": data}}
