"""Estimates the tokens of a request, with the estimates that the engine uses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..core.blocks import read_block
from ..core.tokens import MESSAGE_OVERHEAD, estimate_schema, estimate_text
from .signatures import content_of


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
            total += sum(read_block(block).tokens for block in content_of(message) if isinstance(block, Mapping))
    return total
