"""Rules on the order of messages and on what may stand in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .. import signatures
from .base import Rule, Turn, Wire, at, paused_digest, rule

_SERVER_CALLS = ("server_tool_use", "mcp_tool_use")
_ASSISTANT_ONLY = frozenset({"thinking", "redacted_thinking", "tool_use", "server_tool_use", "mcp_tool_use", "compaction"})
_USER_ONLY = frozenset({"tool_result", "search_result"})
_SYSTEM_BLOCKS = frozenset({"text", "tool_addition", "tool_removal"})


@rule("first_message", "api-facts A19.1")
def first_message(wire: Wire) -> Iterator[tuple[str, str]]:
    """The first message is the user's, or the assistant's if it begins with the compaction block."""
    first = wire.messages[0]
    if first.get("role") == "user" or first.get("role") == "system":
        # A system message in front breaks the rule on its own place.
        return
    blocks = signatures.content_of(first)
    if not (blocks and isinstance(blocks[0], Mapping) and blocks[0].get("type") == "compaction"):
        yield at(0, more="role"), 'first message must use the "user" role'


@rule("last_message", "api-facts A19.5, wire checker 1")
def last_message(wire: Wire) -> Iterator[tuple[str, str]]:
    """The last message is not the assistant's, but for a paused turn that is sent back, and where prefill is taken."""
    last = wire.messages[-1]
    if last.get("role") != "assistant":
        return
    if wire.info.prefill:
        content = signatures.content_of(last)
        if content and isinstance(content[-1], Mapping) and str(content[-1].get("text") or "").endswith((" ", "\n", "\t")):
            yield "messages", "final assistant content cannot end with trailing whitespace"
        return
    if "compaction" in wire.body or "fallback_credit_token" in wire.body or _resumes(wire, wire.turns[-1]):
        return
    yield "", "This model does not support assistant message prefill. The conversation must end with a user message."


def _resumes(wire: Wire, turn: Turn) -> bool:
    """Tell whether the trailing assistant turn is one that the server paused."""
    blocks = [block for _, _, block in turn.blocks]
    if wire.memory is None:
        return any(block.get("type") in (*_SERVER_CALLS, "compaction") for block in blocks)
    return paused_digest(blocks) in wire.memory.paused


@rule("system_messages", "api-facts A2, A19.11")
def system_messages(wire: Wire) -> Iterator[tuple[str, str]]:
    """A system message stands where the model takes one: behind a user message or a server tool's result, never first."""
    turns = wire.turns
    for number, turn in enumerate(turns):
        if turn.role != "system":
            continue
        path = at(turn.first)
        if not wire.info.system_messages:
            yield at(turn.first, more="role"), 'this model does not support messages with the "system" role'
            continue
        for message, place, block in turn.blocks:
            if block.get("type") not in _SYSTEM_BLOCKS:
                yield at(message, place), f"`{block.get('type')}` blocks are not allowed in a system message"
        before = next((other for other in reversed(turns[:number]) if other.role != "system"), None)
        after = next((other for other in turns[number + 1 :] if other.role != "system"), None)
        if before is None:
            yield path, "a system message cannot be the first message"
        elif before.role == "assistant" and not _ends_in_server_result(before):
            yield path, "a system message must follow a user message or the result of a server tool"
        if after is not None and after.role != "assistant":
            yield path, "a system message must be the last one or be followed by an assistant message"


def _ends_in_server_result(turn: Turn) -> bool:
    return bool(turn.blocks) and str(turn.blocks[-1][2].get("type")).endswith("_tool_result")


@rule("empty_content", "api-facts A19.6, wire checker 1")
def empty_content(wire: Wire) -> Iterator[tuple[str, str]]:
    """No message has empty content."""
    for number, message in enumerate(wire.messages):
        if not message.get("content"):
            yield at(number), "all messages must have non-empty content"


@rule("blank_text", "api-facts A19.6, wire checker 4")
def blank_text(wire: Wire) -> Iterator[tuple[str, str]]:
    """No text block is empty or only white space, in results and in the system prompt too."""
    system = wire.body.get("system")
    if isinstance(system, list):
        for place, block in enumerate(system):
            yield from _blank(block, f"system.{place}")
    for number, message in enumerate(wire.messages):
        content = message.get("content")
        if isinstance(content, str):
            if content and not content.strip():
                yield at(number), "text content blocks must contain non-whitespace text"
            continue
        for place, block in enumerate(signatures.content_of(message)):
            yield from _blank(block, at(number, place))
            inner = block.get("content") if isinstance(block, Mapping) and block.get("type") == "tool_result" else None
            for deep, part in enumerate(inner if isinstance(inner, list) else ()):
                yield from _blank(part, at(number, place, f"content.{deep}"))


def _blank(block: Any, path: str) -> Iterator[tuple[str, str]]:
    if signatures.blank(block):
        words = "must contain non-whitespace text" if block.get("text") else "must be non-empty"
        yield f"{path}.text", f"text content blocks {words}"


@rule("roles", "api-facts A19.10")
def roles(wire: Wire) -> Iterator[tuple[str, str]]:
    """Calls and thinking are the assistant's, results the user's; no document or image directly in an assistant message."""
    for turn in wire.turns:
        for message, place, block in turn.blocks:
            kind = block.get("type")
            if turn.role == "user" and kind in _ASSISTANT_ONLY:
                yield at(message, place), f"`{kind}` blocks can only be in `assistant` messages"
            if turn.role == "assistant" and kind in _USER_ONLY:
                yield at(message, place), f"`{kind}` blocks can only be in `user` messages"
            if turn.role == "assistant" and kind in ("document", "image"):
                yield at(message, place), f"`{kind}` blocks are not allowed directly in an assistant message"
            if turn.role == "user" and kind == "text" and block.get("citations"):
                yield at(message, place, "citations"), "citations are not allowed on text blocks of user messages"


RULES: tuple[Rule, ...] = (first_message, last_message, system_messages, empty_content, blank_text, roles)
