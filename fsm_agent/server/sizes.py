"""Estimates the tokens of a request, with the estimates that the engine uses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..core.blocks import read_block
from ..core.tokens import MESSAGE_OVERHEAD, estimate_schema, estimate_text
from .signatures import content_of

RESULT_OVERHEAD = 8
"""Tokens of the envelope of a result, as the engine estimates them."""


def prompt_tokens(body: Mapping[str, Any]) -> int:
    """Estimate the prompt tokens of a decoded request: system prompt, tools and messages."""
    system = body.get("system")
    total = 0
    if isinstance(system, str):
        total += estimate_text(system)
    elif isinstance(system, list):
        total += sum(estimate_text(str(block.get("text") or "")) for block in system if isinstance(block, Mapping))
    tools = body.get("tools")
    if isinstance(tools, list):
        total += sum(estimate_schema(json.dumps(tool, ensure_ascii=False, separators=(",", ":"))) for tool in tools)
    messages = body.get("messages")
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, Mapping):
            total += MESSAGE_OVERHEAD
            total += sum(_block_tokens(block) for block in content_of(message) if isinstance(block, Mapping))
    return total


def _block_tokens(block: Mapping[str, Any]) -> int:
    """Estimate one block; plain text is not encoded for it, since a server does this for the whole history each time."""
    if block.get("type") == "text":
        return estimate_text(str(block.get("text") or ""))
    content = block.get("content")
    if block.get("type") == "tool_result" and isinstance(content, str):
        return RESULT_OVERHEAD + estimate_text(content)
    return read_block(block).tokens
