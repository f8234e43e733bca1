"""Blocks as they may be sent: what the API refuses in a message of a role is mended or left out (api-facts A2, A5, A19)."""

from __future__ import annotations

import json
from typing import Any

from ..blocks import Block, block_value, dumps, read_block
from ..evolving import evolve
from .pairing import is_server_result

_NEEDS = {
    "compaction": ("compact-",),
    "fallback": ("server-side-fallback-",),
    "mcp_tool_use": ("mcp-client-",),
    "mcp_tool_result": ("mcp-client-",),
    "mcp_tool_listing": ("mcp-client-",),
    "advisor_tool_result": ("advisor-tool-",),
    "tool_addition": ("mid-conversation-tool-changes-", "inline-tools-"),
    "tool_removal": ("mid-conversation-tool-changes-", "inline-tools-"),
}
"""Block types that the API takes only with a beta; the beginnings of the values that allow them."""
_REPLY_ONLY = frozenset(
    {"tool_use", "server_tool_use", "mcp_tool_use", "mcp_tool_listing", "compaction", "fallback", "boundary"}
)
"""Blocks that only an assistant message may hold (thinking and results of server tools aside), and our own marks."""
SYSTEM_ONLY = frozenset({"tool_addition", "tool_removal"})


def clean_block(block: Block, role: str, betas: tuple[str, ...]) -> Block | None:
    """Make a block one that may stand in a message of ``role``.

    Args:
        block: any block.
        role: ``user``, ``assistant`` or ``system``.
        betas: values of the beta header.

    Returns:
        The block, itself where nothing had to change; None if it cannot be sent.
    """
    return _clean_reply(block, betas) if role == "assistant" else _clean_user(block, role, betas)


def is_clean(block: Block, role: str) -> bool:
    """Tell, quickly, of the common blocks whether :func:`clean_block` would leave them as they are; False if unsure."""
    text = block.json
    if '"cache_control"' in text or ("\\u" in text and ("\\ud" in text or "\\uD" in text)):
        return False
    if role == "user":
        return not block.blank and (block.type == "tool_result" or (block.type == "text" and '"citations"' not in text))
    if block.type == "text":
        return not block.blank
    return block.type == "tool_use" and '"input":{' in text and block.name != ""


def _allowed(block: Block, betas: tuple[str, ...]) -> bool:
    needs = _NEEDS.get(block.type)
    return needs is None or any(beta.startswith(needs) for beta in betas)


def _clean_reply(block: Block, betas: tuple[str, ...]) -> Block | None:
    if (block.type == "text" and block.blank) or block.type in ("document", "image", "search_result", "boundary"):
        return None
    if not _allowed(block, betas):
        return None
    if block.type == "compaction" and '"content":""' in block.json:
        return None
    if block.type == "tool_use" and ('"input":{' not in block.json or not block.name):
        block = _whole_call(block)
    return _sound(_unmarked(block))


def _whole_call(block: Block) -> Block:
    """Give a call an object as input and a name; the reducer stores none without, but a foreign history may."""
    value = _loaded(block) or {"type": "tool_use", "id": block.id}
    if isinstance(value.get("input"), dict) and block.name:
        return block
    given = value.get("input")
    value["input"] = given if isinstance(given, dict) else {}
    value["name"] = block.name or "unknown"
    return evolve(read_block(value), id=block.id)


def _clean_user(block: Block, role: str, betas: tuple[str, ...]) -> Block | None:
    if (block.type == "text" and block.blank) or block.is_thinking or not _allowed(block, betas):
        return None
    if block.type in _REPLY_ONLY or is_server_result(block) or (block.type in SYSTEM_ONLY and role != "system"):
        return None
    if block.type == "tool_result" and block.blank:
        return _fill_result(block)
    return _sound(_unmarked(block, citations=block.type == "text"))


def _unmarked(block: Block, *, citations: bool = False) -> Block:
    """Remove cache marks, which are put in when a body is joined, and citations where they may not stand."""
    if '"cache_control"' not in block.json and not (citations and '"citations"' in block.json):
        return block
    value = _loaded(block)
    if value is None or not _strip_keys(value, citations):
        return block
    return evolve(block, json=dumps(value))


def _sound(block: Block) -> Block:
    """Mend escaped lone surrogates, which are ASCII but no Unicode text (field report 82)."""
    if "\\ud" not in block.json and "\\uD" not in block.json:
        return block
    value = _loaded(block)
    if value is None:
        return block
    mended = dumps(value)
    return block if mended == block.json else evolve(block, json=mended)


def _loaded(block: Block) -> dict[str, Any] | None:
    try:
        value = block_value(block)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _strip_keys(value: dict[str, Any], citations: bool) -> bool:
    """Remove cache marks of a block and its parts, and citations if asked; tell if anything went."""
    changed = value.pop("cache_control", None) is not None
    if citations:
        changed = value.pop("citations", None) is not None or changed
    content = value.get("content")
    if isinstance(content, list):
        for part in content:
            if isinstance(part, dict):
                text = value.get("type") == "tool_result" and part.get("type") == "text"
                changed = _strip_keys(part, text) or changed
    return changed


def _fill_result(block: Block) -> Block:
    """Replace blank text in a result by words, since the API refuses it."""
    value = json.loads(block.json)
    content = value.get("content")
    parts = content if isinstance(content, list) else []
    kept = [part for part in parts if not _blank_part(part)]
    value["content"] = kept or "(no output)"
    made = read_block(value)
    return evolve(block, json=made.json, chars=made.chars, blank=False)


def _blank_part(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "text" and not str(part.get("text", "")).strip()
