"""The shape of the request: fields, roles, content. What it finds broken, no other rule could read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .base import Breach, Rule, Wire, at, rule

KNOWN_PARAMETERS = frozenset(
    (
        *("model", "max_tokens", "messages", "system", "tools", "tool_choice", "thinking", "output_config"),
        *("cache_control", "stop_sequences", "stream", "metadata", "service_tier", "speed", "container", "diagnostics"),
        *("inference_geo", "user_profile_id", "workspace_id", "context_management", "compaction", "thread"),
        *("fallbacks", "fallback_credit_token", "mcp_servers", "billing_policy", "temperature", "top_p", "top_k"),
    )
)
"""Parameters of api-facts A2; the sampling parameters are known and refused by a rule of their own."""

USER_BLOCKS = frozenset(
    (
        *("text", "image", "document", "search_result", "tool_result", "container_upload"),
        *("thinking", "redacted_thinking", "tool_use", "server_tool_use", "mcp_tool_use", "compaction"),
    )
)
"""Block types that are read in a user message; those of the second line may not stand there by another rule."""

_TEXTS: dict[str, tuple[str, ...]] = {
    "text": ("text",),
    "thinking": ("thinking", "signature"),
    "redacted_thinking": ("data",),
    "tool_use": ("id", "name"),
    "server_tool_use": ("id", "name"),
    "mcp_tool_use": ("id", "name"),
    "tool_result": ("tool_use_id",),
}
"""Fields of a block that must be there and be texts."""

_MAX_MESSAGES = 100_000


@rule("body_shape", "api-facts A2, A20", decides=True)
def body_shape(wire: Wire) -> Iterator[tuple[str, str] | Breach]:
    """Known parameters only; model, max_tokens and messages are there and of their types."""
    body = wire.body
    for name in body:
        if name not in KNOWN_PARAMETERS:
            yield str(name), "Extra inputs are not permitted"
    if not isinstance(body.get("model"), str) or not body.get("model"):
        yield "model", "Field required" if "model" not in body else "Input should be a valid string"
    if not wire.counting:
        yield from _max_tokens(body)
    messages = body.get("messages")
    if not isinstance(messages, list):
        yield "messages", "Field required" if "messages" not in body else "Input should be a valid list"
        return
    if not messages:
        yield "messages", "at least one message is required"
    if len(messages) > _MAX_MESSAGES:
        yield "messages", f"at most {_MAX_MESSAGES} messages are allowed, found {len(messages)}"
    for number, message in enumerate(messages):
        yield from _message(number, message)


def _max_tokens(body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    limit = body.get("max_tokens")
    if limit is None:
        yield "max_tokens", "Field required"
    elif not isinstance(limit, int) or isinstance(limit, bool):
        yield "max_tokens", "Input should be a valid integer"
    elif limit < 1:
        yield "max_tokens", "Input should be greater than or equal to 1"


def _message(number: int, message: Any) -> Iterator[tuple[str, str]]:
    if not isinstance(message, Mapping):
        yield at(number), "Input does not match the expected shape."
        return
    role = message.get("role")
    if role not in ("user", "assistant", "system"):
        yield at(number, more="role"), f"Input should be 'user', 'assistant' or 'system', found {role!r}"
    allowed = {"role", "content"} | ({"clear_at", "output_config"} if role == "system" else set())
    for name in message:
        if name not in allowed:
            yield at(number, more=str(name)), "Extra inputs are not permitted"
    content = message.get("content")
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        yield at(number, more="content"), "Input should be a valid list" if "content" in message else "Field required"
        return
    for place, block in enumerate(content):
        if not isinstance(block, Mapping) or not isinstance(block.get("type"), str) or not block.get("type"):
            yield at(number, place), "Input does not match the expected shape."
        elif role == "user" and block["type"] not in USER_BLOCKS:
            yield at(number, place), f"Input tag '{block['type']}' found using 'type' does not match any of the expected tags"
        else:
            yield from _fields(block, at(number, place))


def _fields(block: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    kind = block["type"]
    # Results of server tools have many names, and one field in common.
    names = _TEXTS.get(kind) or (("tool_use_id",) if kind.endswith("_tool_result") else ())
    for name in names:
        if not isinstance(block.get(name), str):
            words = "Input should be a valid string" if name in block else "Field required"
            yield f"{path}.{kind}.{name}", words
    content = block.get("content")
    if kind == "compaction" and not (content is None or isinstance(content, str)):
        yield f"{path}.{kind}.content", "Input should be a valid string"
    if kind == "tool_result" and not (content is None or isinstance(content, str | list)):
        yield f"{path}.{kind}.content", "Input should be a valid string or a list of blocks"


RULES: tuple[Rule, ...] = (body_shape,)
