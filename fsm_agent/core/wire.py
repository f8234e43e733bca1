"""Requests as values: parameters, and messages encoded once, each with its digest (spec 02, cost of history)."""

from __future__ import annotations

from hashlib import sha256

from attrs import field

from .frozen import frozen


@frozen
class WireMessage:
    """One message as it is sent.

    Attributes:
        role: ``user``, ``assistant`` or ``system``.
        body: UTF-8 JSON of the whole message object, made once.
        blocks: how many content blocks it has.
        tokens: estimated size in tokens.
        chain: SHA-256 (hex) over the chain before it and ``body``: names the whole prefix.
        offsets: byte offsets in ``body`` just before the closing brace of each block, where a cache mark goes; 0 for
            a block that takes none (thinking).
        media: how many images and documents it holds.
        media_bytes: encoded size of them.
        calls: ids of the tool calls in it.
        thinking: it holds thinking.
    """

    role: str
    body: bytes
    blocks: int
    tokens: int
    chain: str
    offsets: tuple[int, ...] = ()
    media: int = 0
    media_bytes: int = 0
    calls: tuple[str, ...] = ()
    thinking: bool = False


CHUNK = 32
"""So many messages are joined once into one piece, so that a body is joined from few (spec 02, cost of history)."""
CHAIN_START = sha256(b"").hexdigest()


def link(previous: str, body: bytes) -> str:
    """Extend a chain of digests by one message body."""
    return sha256(previous.encode() + body).hexdigest()


@frozen
class Request:
    """One model call, ready to be joined into bytes.

    Attributes:
        model: the model's name.
        max_tokens: output limit in tokens.
        head: UTF-8 JSON object of all parameters but ``messages``; joined with them by
            :func:`fsm_agent.core.request.encode.body_of`.
        messages: the messages in order.
        betas: values of the ``anthropic-beta`` header.
        marks: (message, block) positions that carry a cache mark.
        estimate: estimated prompt tokens.
        chunks: the first messages, :data:`CHUNK` at a time, joined by commas; may be fewer than there could be.
    """

    model: str
    max_tokens: int
    head: bytes
    messages: tuple[WireMessage, ...]
    betas: tuple[str, ...] = ()
    marks: tuple[tuple[int, int], ...] = ()
    estimate: int = 0
    chunks: tuple[bytes, ...] = field(default=(), repr=False, eq=False)

    @property
    def digest(self) -> str:
        """SHA-256 over the parameters and the chained message digests."""
        chain = self.messages[-1].chain if self.messages else CHAIN_START
        tail = f"{self.model}\n{self.max_tokens}\n{','.join(self.betas)}\n{self.marks}\n{chain}\n".encode()
        return sha256(tail + self.head).hexdigest()


@frozen
class Sendable:
    """Normalisation made a valid request."""

    messages: tuple[WireMessage, ...]
    tokens: int


@frozen
class Unsendable:
    """Normalisation found no valid request.

    Attributes:
        message_id: the message at fault.
        rule: the rule that it breaks.
    """

    message_id: str
    rule: str
