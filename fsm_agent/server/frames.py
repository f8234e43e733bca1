"""Turns a reply of the model into the frames of its stream, each with the moment at which it is due."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from attrs import field, frozen, mutable

from ..core.tokens import estimate_schema, estimate_text
from . import signatures
from .replies import AUTO, Blocks, Insert, Part

_CALLS = {"tool_use": "toolu", "server_tool_use": "srvtoolu", "mcp_tool_use": "mcptoolu"}


@frozen
class Frame:
    """One frame of a stream.

    Attributes:
        data: its bytes, blank line included.
        name: the event's name.
        due: seconds from the start of the reply.
        closes: it closes a content block.
    """

    data: bytes
    name: str
    due: float = 0.0
    closes: bool = False


def _start() -> str:
    return signatures.START


@frozen
class Asked:
    """What a reply needs to know of its request.

    Attributes:
        model: the model asked for.
        binds: thinking of that model is bound to the conversation.
        system: digest of the system prompt.
        chain: gives the chain of the conversation that was sent; asked only when something is signed.
        input_tokens: estimated prompt tokens.
        transformations: what was done to the input; None without the beta that reports it.
        stream: the client wants a stream.
    """

    model: str
    binds: bool = False
    system: str = signatures.START
    chain: Callable[[], str] = _start
    input_tokens: int = 0
    transformations: tuple[Mapping[str, Any], ...] | None = None
    stream: bool = True


@mutable
class Ids:
    """Running numbers: the same script gives the same ids."""

    counts: dict[str, int] = field(factory=dict)

    def next(self, kind: str) -> str:
        """Give the next id of a kind, such as ``msg_0001``."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        return f"{kind}_{self.counts[kind]:04d}"


@frozen
class Made:
    """A reply of the model, worked out.

    Attributes:
        frames: its stream.
        message: the whole message, as a client that does not stream gets it.
        due: seconds from the start at which the whole message is there.
        stop_reason: the stop reason.
    """

    frames: tuple[Frame, ...]
    message: dict[str, Any]
    due: float
    stop_reason: str | None


def encode(event: Mapping[str, Any]) -> bytes:
    """Encode one event as a frame of server-sent events."""
    data = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    # A scripted lone surrogate has no UTF-8 form: it travels as the escape that a model would have written.
    raw = data.encode() if data.isascii() or _encodes(data) else json.dumps(event, separators=(",", ":")).encode()
    return b"event: " + str(event.get("type", "")).encode() + b"\ndata: " + raw + b"\n\n"


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def split(text: str, count: int) -> list[str]:
    """Split a text into at most ``count`` pieces of nearly equal length; an empty text has none."""
    count = max(1, min(count, len(text)))
    edges = [len(text) * number // count for number in range(count + 1)]
    return [text[start:end] for start, end in pairwise(edges) if end > start]


def make(reply: Blocks, asked: Asked, ids: Ids) -> Made:
    """Work a reply out.

    Args:
        reply: the scripted reply.
        asked: what its request asked for.
        ids: running numbers for ids that the script leaves open.

    Returns:
        Its frames and its whole message.
    """
    return _Maker(reply, asked, ids).make()


class _Maker:
    """Builds one reply: a clock of its own, the frames and the content so far."""

    def __init__(self, reply: Blocks, asked: Asked, ids: Ids) -> None:
        self.reply = reply
        self.asked = asked
        self.ids = ids
        self.model = reply.model or asked.model
        self.clock = 0.0
        self.frames: list[Frame] = []
        self.content: list[dict[str, Any]] = []

    def make(self) -> Made:
        reply = self.reply
        message: dict[str, Any] = {
            "id": reply.id or self.ids.next("msg"),
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
        }
        for block in reply.preloaded:
            self.content.append(self._whole(dict(block)))
        message["content"] = list(self.content)
        if self.asked.transformations is not None:
            message["input_transformations"] = [dict(entry) for entry in self.asked.transformations]
        for item in reply.blocks:
            if isinstance(item, Insert):
                self._insert(item)
            else:
                self._block(item if isinstance(item, Part) else Part(item))
        reason = self._stop_reason()
        usage = self._usage()
        whole = {**message, "content": self.content, "stop_reason": reason, "stop_sequence": reply.stop_sequence}
        whole["usage"] = usage
        whole.update(self._extras())
        if reply.all_at_once:
            self.frames = [self._frame({"type": "message_start", "message": whole}, 0.0)]
            self._send({"type": "message_stop"})
            return Made(tuple(self.frames), whole, self.clock, reason)
        first = {name: value for name, value in usage.items() if name != "iterations"}
        if first.get("output_tokens") is not None:
            first["output_tokens"] = min(1, int(first["output_tokens"]))
        head = [self._frame({"type": "message_start", "message": {**message, "usage": first}}, 0.0)]
        if reply.ping:
            head.append(self._frame({"type": "ping"}, 0.0))
        self.frames[:0] = head
        self._tail(reason, usage)
        return Made(tuple(self.frames), whole, self.clock, reason)

    def _frame(self, event: Mapping[str, Any], due: float, closes: bool = False) -> Frame:
        return Frame(encode(event), str(event.get("type", "")), due, closes)

    def _send(self, event: Mapping[str, Any], closes: bool = False) -> None:
        self.frames.append(self._frame(event, self.clock, closes))

    def _extras(self) -> dict[str, Any]:
        extras: dict[str, Any] = {}
        if self.reply.stop_details is not None:
            extras["stop_details"] = dict(self.reply.stop_details)
        if self.reply.container is not None:
            extras["container"] = dict(self.reply.container)
        if self.reply.applied_edits is not None:
            extras["context_management"] = {"applied_edits": [dict(edit) for edit in self.reply.applied_edits]}
        return extras

    def _tail(self, reason: str | None, usage: dict[str, Any]) -> None:
        extras = self._extras()
        delta: dict[str, Any] = {"stop_reason": reason, "stop_sequence": self.reply.stop_sequence}
        for name in ("stop_details", "container"):
            if name in extras:
                delta[name] = extras.pop(name)
        self.clock += self.reply.pace
        self._send({"type": "message_delta", "delta": delta, "usage": usage, **extras})
        self._send({"type": "message_stop"})

    def _stop_reason(self) -> str | None:
        if self.reply.stop_reason != AUTO:
            return self.reply.stop_reason
        return "tool_use" if any(block.get("type") == "tool_use" for block in self.content) else "end_turn"

    def _usage(self) -> dict[str, Any]:
        written = sum(_tokens_of(block) for block in self.content)
        usage: dict[str, Any] = {
            "input_tokens": self.asked.input_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": max(1, written),
        }
        if self.content and all(block.get("type") == "compaction" for block in self.content):
            # A compaction's tokens stand in the iterations only (api-facts A9).
            usage = {"input_tokens": 0, "output_tokens": 0, "iterations": [{"type": "compaction", **usage}]}
        usage.update(self.reply.usage)
        return {name: value for name, value in usage.items() if value is not None}

    def _insert(self, item: Insert) -> None:
        self.clock += item.wait
        if isinstance(item.data, bytes):
            self.frames.append(Frame(item.data, "raw", self.clock))
        else:
            self._send(item.data)

    def _whole(self, block: dict[str, Any], raw: str | None = None) -> dict[str, Any]:
        """Fill in what the script left open: ids, the object of an input, signatures."""
        kind = block.get("type")
        if kind in _CALLS and "id" not in block:
            block = {"type": kind, "id": self.ids.next(_CALLS[str(kind)]), **{k: v for k, v in block.items() if k != "type"}}
        if kind in _CALLS and raw is not None:
            block["input"] = _parsed(raw)
        if kind == "thinking" and "signature" not in block:
            block["signature"] = self._sign(str(block.get("thinking", "")))
        elif kind == "redacted_thinking" and "data" not in block:
            block["data"] = self._sign("redacted")
        elif kind == "compaction" and block.get("content") is not None and "signature" not in block:
            block["signature"] = self._sign(signatures.compaction_content(block), binds=True)
        return block

    def _sign(self, content: str, *, binds: bool = False) -> str:
        if not (binds or self.asked.binds):
            return signatures.sign(content, self.model)
        chain = self.asked.chain()
        for block in self.content:
            chain = signatures.extend(chain, "assistant", block)
        return signatures.sign(content, self.model, self.asked.system, chain)

    def _block(self, part: Part) -> None:
        index = len(self.content)
        block = self._whole(dict(part.block), part.raw)
        self.content.append(block)
        self.clock += part.wait
        if part.at is not None:
            self.clock = max(self.clock, part.at)
        start, deltas = _streamed(block, part)
        pace = self.reply.pace if part.pace is None else part.pace
        if part.until is not None:
            pace = max(0.0, part.until - self.clock) / (len(deltas) + 1)
        elif self.frames:
            self.clock += pace if part.at is None else 0.0
        self._send({"type": "content_block_start", "index": index, "content_block": start})
        for delta in deltas:
            self.clock += pace
            self._send({"type": "content_block_delta", "index": index, "delta": delta})
        if part.closed:
            self.clock += pace
            self._send({"type": "content_block_stop", "index": index}, closes=True)


def _parsed(raw: str) -> Any:
    """Give what a client can make of a streamed input: malformed text stands for an empty object in the history."""
    try:
        value = json.loads(raw) if raw.strip() else {}
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _tokens_of(block: Mapping[str, Any]) -> int:
    kind = block.get("type")
    if kind in ("text", "thinking"):
        return estimate_text(str(block.get(str(kind)) or ""))
    return estimate_schema(json.dumps(block, ensure_ascii=False, separators=(",", ":"), default=str))


def _pieces(part: Part, text: str) -> list[str]:
    return list(part.pieces) if part.pieces is not None else split(text, part.chunks)


def _streamed(block: dict[str, Any], part: Part) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Give the opening form of a block, and the deltas that make it whole."""
    match block.get("type"):
        case "text":
            citations = block.get("citations")
            deltas: list[dict[str, Any]] = [
                {"type": "text_delta", "text": piece} for piece in _pieces(part, str(block.get("text") or ""))
            ]
            deltas += [{"type": "citations_delta", "citation": entry} for entry in citations or ()]
            return {**block, "text": "", **({"citations": []} if citations is not None else {})}, deltas
        case "thinking":
            deltas = [
                {"type": "thinking_delta", "thinking": piece} for piece in _pieces(part, str(block.get("thinking") or ""))
            ]
            if block.get("signature"):
                deltas.append({"type": "signature_delta", "signature": block["signature"]})
            return {**block, "thinking": "", "signature": ""}, deltas
        case "tool_use" | "server_tool_use" | "mcp_tool_use":
            value = block.get("input", {})
            text = part.raw if part.raw is not None else json.dumps(value, ensure_ascii=False) if value else ""
            return {**block, "input": {}}, [
                {"type": "input_json_delta", "partial_json": piece} for piece in _pieces(part, text)
            ]
        case "compaction":
            delta = {"type": "compaction_delta", "content": block.get("content")}
            if "encrypted_content" in block:
                delta["encrypted_content"] = block["encrypted_content"]
            return {**block, "content": None, **({"encrypted_content": None} if "encrypted_content" in block else {})}, [delta]
        case _:
            return block, []
