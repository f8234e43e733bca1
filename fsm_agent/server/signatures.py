"""Signatures of thinking and compaction blocks that the loopback server makes and checks (api-facts A8, A9).

Like the API's they are opaque to a client. Inside is, in base64, what the block is bound to: the model, a digest of the
system prompt and the chain of digests over the conversation before it. A compaction block carries the chain of what it
stands for, so that thinking behind it stays valid although the messages before it are gone.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

from attrs import frozen

_SECRET = "fsm-agent loopback server"
_UNBOUND_KEYS = frozenset({"cache_control", "id", "tool_use_id"})

START = sha256(b"").hexdigest()[:32]
"""The chain of an empty conversation."""


@frozen
class Bound:
    """What a signature says of its block.

    Attributes:
        model: the model that made it.
        system: digest of the system prompt; empty on a model that does not bind.
        chain: chain of the conversation before it; empty on a model that does not bind.
        digest: the seal over all of that and the content.
    """

    model: str
    system: str
    chain: str
    digest: str


def _digest(*parts: str) -> str:
    return sha256("\x00".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def canonical(value: Any) -> str:
    """Encode JSON so that equal values have equal texts, whatever the order of their keys."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def sign(content: str, model: str, system: str = "", chain: str = "") -> str:
    """Make the signature of a block.

    Args:
        content: what must not be changed: the text of a thinking block, the sealed fields of a compaction.
        model: the model that makes it.
        system: digest of the system prompt, empty if the model does not bind.
        chain: chain of the conversation before it, empty if the model does not bind.

    Returns:
        The signature, in base64.
    """
    inner = "|".join((model, system, chain, _digest(_SECRET, content, model, system, chain)))
    return base64.b64encode(inner.encode()).decode()


def read(signature: str) -> Bound | None:
    """Read a signature; None if it was not made by :func:`sign`."""
    try:
        parts = base64.b64decode(signature, validate=True).decode().split("|")
    except (binascii.Error, ValueError):
        return None
    return Bound(*parts) if len(parts) == 4 else None


def genuine(bound: Bound, content: str) -> bool:
    """Tell whether a signature seals this content."""
    return bound.digest == _digest(_SECRET, content, bound.model, bound.system, bound.chain)


def compaction_content(block: Mapping[str, Any]) -> str:
    """Give the sealed fields of a compaction block as one text."""
    return canonical([block.get("content"), block.get("encrypted_content"), block.get("tool_changes")])


def system_digest(system: Any) -> str:
    """Give the digest of a system prompt: a text and one text block with it are the same, marks do not count."""
    if not system:
        return START
    blocks = system if isinstance(system, list) else [{"type": "text", "text": system}]
    return _digest(canonical([_bare(block) for block in blocks]))


def _bare(block: Any) -> Any:
    """Leave out what is no content: cache marks, and ids, which a client may have to replace to keep them unique."""
    if not isinstance(block, Mapping):
        return block
    return {key: value for key, value in block.items() if key not in _UNBOUND_KEYS}


def blank(block: Any) -> bool:
    """Tell whether a block is a text without anything to see."""
    return isinstance(block, Mapping) and block.get("type") == "text" and not str(block.get("text") or "").strip()


def extend(chain: str, role: str, block: Any) -> str:
    """Extend the chain by one block.

    Blank text does not count: the API refuses it, so a client has to drop it. A compaction block with content sets the
    chain to what it stands for.
    """
    if blank(block):
        return chain
    if isinstance(block, Mapping) and block.get("type") == "compaction":
        bound = read(str(block.get("signature") or "")) if block.get("content") else None
        return bound.chain if bound is not None else chain
    return _digest(chain, role, canonical(_bare(block)))


def content_of(message: Mapping[str, Any]) -> list[Any]:
    """Give the content of a message as a list of blocks; a text is one block."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return list(content) if isinstance(content, list) else []


def walk(messages: list[Any]) -> Iterator[tuple[int, int, str, Any, str]]:
    """Go through all blocks of a conversation: message, place in it, role, block, chain before it."""
    chain = START
    for number, message in enumerate(messages):
        if not isinstance(message, Mapping):
            continue
        role = str(message.get("role", ""))
        for place, block in enumerate(content_of(message)):
            yield number, place, role, block, chain
            chain = extend(chain, role, block)


def chain_of(messages: list[Any]) -> str:
    """Give the chain of a whole conversation."""
    chain = START
    for _, _, role, block, before in walk(messages):
        chain = extend(before, role, block)
    return chain
