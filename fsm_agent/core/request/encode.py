"""Bytes of a request: each message is encoded once, the body is joined from pieces (spec 02, cost of history)."""

from __future__ import annotations

from ..blocks import clean_text
from ..messages import Message
from ..wire import CHUNK, Request, WireMessage, link

CACHE_MARK = b',"cache_control":{"type":"ephemeral"}'
_UNMARKED = frozenset({"thinking", "redacted_thinking", "compaction", "fallback", "mcp_tool_listing"})
"""Blocks that take no cache mark."""


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return clean_text(text).encode()


def wire_of(item: Message, previous: str, chain: str = "") -> WireMessage:
    """Encode a message.

    Args:
        item: a normalised message.
        previous: the chain digest of what stands before it.
        chain: the chain digest that includes it, where that is known already.

    Returns:
        Its bytes, where marks may go, and the chain digest that includes it.
    """
    role, blocks = item.role, item.blocks
    start = b'{"role":"' + role.encode() + b'","content":['
    position = len(start)
    pieces: list[bytes] = []
    offsets: list[int] = []
    for block in blocks:
        piece = _utf8(block.json)
        pieces.append(piece)
        position += len(piece)
        # A mark goes behind the members of an object, so there must be one.
        offsets.append(0 if block.type in _UNMARKED or not piece.endswith(b"}") or len(piece) <= 2 else position - 1)
        position += 1
    body = start + b",".join(pieces) + b"]}"
    media = [medium.size for block in blocks for medium in block.media]
    calls = [block.id for block in blocks if block.type == "tool_use"] if role == "assistant" else ()
    thinking = True in [block.is_thinking for block in blocks]
    return WireMessage(
        role, body, len(pieces), item.tokens, chain or link(previous, body), tuple(offsets), len(media), sum(media),
        tuple(calls), thinking,
    )  # fmt: skip


def marked(wire: WireMessage, block: int) -> bytes:
    """Give a message's bytes with a cache mark on one block."""
    offset = wire.offsets[block]
    if offset == 0:
        return wire.body
    return wire.body[:offset] + CACHE_MARK + wire.body[offset:]


def body_of(request: Request) -> bytes:
    """Join the whole JSON body of a request.

    Returns:
        Strict JSON in UTF-8: the parameters (``"stream":true`` among them) and the messages, cache marks put in.
    """
    marked_chunks = {index // CHUNK for index, _ in request.marks}
    blocks = dict(request.marks)
    pieces: list[bytes] = [request.head[:-1], b',"messages":[']
    start = 0
    for number, chunk in enumerate(request.chunks):
        if number in marked_chunks:
            break
        pieces += (chunk, b",")
        start += CHUNK
    for index in range(start, len(request.messages)):
        wire = request.messages[index]
        pieces += (marked(wire, blocks[index]) if index in blocks else wire.body, b",")
    if request.messages:
        pieces.pop()
    pieces.append(b"]}")
    # One join: a long body is copied once.
    return b"".join(pieces)


def chunked(wires: tuple[WireMessage, ...], chunks: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Join full chunks of messages that are not joined yet.

    Args:
        wires: all messages.
        chunks: chunks of their front.
    """
    more = [
        b",".join([wire.body for wire in wires[start : start + CHUNK]])
        for start in range(len(chunks) * CHUNK, len(wires) - CHUNK + 1, CHUNK)
    ]
    return chunks + tuple(more) if more else chunks
