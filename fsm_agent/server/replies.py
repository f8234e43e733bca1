"""What the loopback server answers, as values: replies, faults around them, and short helpers to write scripts.

A script gives one :data:`Reply` a call. A fault wraps a base reply in its ``of`` and may be wrapped itself, so
``Cut(of=Stall(of=Blocks(...), after_blocks=1, seconds=0.2), after_bytes=900)`` is a stall with a cut behind it.
Where a fault takes ``after_frames`` or ``after_blocks``, it strikes behind that many frames of the stream, or right
behind the frame that closes that block; the smaller place wins when both are given. Frames are counted with
``message_start`` as the first; a block with its content in one piece has three (start, delta, stop).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from attrs import field, frozen


def _tuple(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(values)


AUTO = "auto"
"""Stop reason that the server works out: ``tool_use`` if the reply holds a tool_use block, else ``end_turn``."""


@frozen
class Part:
    """One content block and how it is streamed.

    Attributes:
        block: the block in the shape of the API. A thinking, redacted thinking or compaction block without a signature
            gets a valid one. ``input`` of a call may be an object, which is encoded.
        chunks: into how many deltas its text, thinking or input is split.
        pieces: the deltas themselves, word for word; overrides ``chunks``.
        raw: text of the tool input as it is streamed, which may be malformed or cut; overrides ``input``.
        wait: seconds between the frame before it and its first frame.
        pace: seconds between its frames; None takes that of the reply.
        at: seconds from the start of the reply at which it starts, at the earliest.
        until: seconds from the start of the reply at which it is closed, at the earliest; its deltas are spread
            evenly over the time between.
        closed: False leaves out its ``content_block_stop``.
    """

    block: Mapping[str, Any]
    chunks: int = 1
    pieces: tuple[str, ...] | None = None
    raw: str | None = None
    wait: float = 0.0
    pace: float | None = None
    at: float | None = None
    until: float | None = None
    closed: bool = True


@frozen
class Insert:
    """One frame between the blocks of a stream, word for word; a reply without a stream leaves it out.

    Attributes:
        data: an event as a mapping (its ``type`` names the frame), or the frame's bytes with its blank line.
        wait: seconds between the frame before it and this one.
    """

    data: Mapping[str, Any] | bytes
    wait: float = 0.0


@frozen
class Blocks:
    """A reply of the model.

    Attributes:
        blocks: its content: blocks in the shape of the API, or :class:`Part` for timing and splitting, or
            :class:`Insert` for a frame of its own.
        stop_reason: a stop reason, None for null, or :data:`AUTO`.
        stop_sequence: the sequence that ended it, if one did.
        stop_details: details of a refusal.
        usage: fields of ``usage`` that replace the estimates, ``iterations`` among them; None drops a field.
        model: the model that answered; None for the one asked for.
        pace: seconds between two frames.
        applied_edits: entries of ``context_management.applied_edits``.
        container: the container field, if any.
        preloaded: blocks that already stand in ``message_start``.
        id: the message's id; None for the next one of the server.
        ping: send a ``ping`` right after ``message_start``, as the API does.
        all_at_once: the whole message stands in ``message_start``, its stop reason too, and only ``message_stop`` follows:
            so programmatic calls arrive.
    """

    blocks: tuple[Mapping[str, Any] | Part | Insert, ...] = field(default=(), converter=_tuple)
    stop_reason: str | None = AUTO
    stop_sequence: str | None = None
    stop_details: Mapping[str, Any] | None = None
    usage: Mapping[str, Any] = field(factory=dict)
    model: str | None = None
    pace: float = 0.0
    applied_edits: tuple[Mapping[str, Any], ...] | None = None
    container: Mapping[str, Any] | None = None
    preloaded: tuple[Mapping[str, Any], ...] = field(default=(), converter=_tuple)
    id: str | None = None
    ping: bool = False
    all_at_once: bool = False


@frozen
class HttpError:
    """An answer with an error status (api-facts A15).

    Attributes:
        status: the HTTP status.
        type: the error's type; empty takes the usual one of the status.
        message: the error's text; empty takes the usual one of the status.
        code: ``error.details.error_code``, if any.
        details: more fields of ``error.details``.
        retry_after: the ``retry-after`` header: seconds, or a date.
        retry_after_ms: the ``retry-after-ms`` header.
        should_retry: the ``x-should-retry`` header.
        headers: further headers.
        html: answer with an HTML page, as a proxy in front of the API does.
    """

    status: int
    type: str = ""
    message: str = ""
    code: str = ""
    details: Mapping[str, Any] = field(factory=dict)
    retry_after: int | float | str | None = None
    retry_after_ms: int | None = None
    should_retry: bool | None = None
    headers: Mapping[str, str] = field(factory=dict)
    html: bool = False


@frozen
class RawBody:
    """Bytes served word for word: a recorded stream, a recorded error, malformed frames.

    Attributes:
        body: the bytes, or a sequence of pieces that are flushed one by one.
        status: the HTTP status.
        content_type: the content type.
        headers: further headers.
        pace: seconds between two pieces.
    """

    body: bytes | tuple[bytes, ...]
    status: int = 200
    content_type: str = "text/event-stream; charset=utf-8"
    headers: Mapping[str, str] = field(factory=dict)
    pace: float = 0.0


@frozen
class StreamError:
    """An ``error`` event in a 200 stream, which then ends. A reply without a stream becomes the HTTP error.

    Attributes:
        of: the reply that it interrupts.
        after_frames: frames before it; 0 makes it the first event.
        after_blocks: closed blocks before it.
        type: the error's type.
        message: the error's text.
        code: ``error.details.error_code``, if any.
    """

    of: Reply
    after_frames: int | None = None
    after_blocks: int | None = None
    type: str = "overloaded_error"
    message: str = "Overloaded"
    code: str = ""


@frozen
class Stall:
    """Silence in the middle of a reply; what is left follows when it is over.

    Attributes:
        of: the reply that it interrupts.
        after_frames: frames before it; 0 stalls after the headers.
        after_blocks: closed blocks before it.
        ping_every: seconds between pings; None for true silence.
        seconds: how long it lasts; None until the client leaves or the server stops.
    """

    of: Reply
    after_frames: int | None = None
    after_blocks: int | None = None
    ping_every: float | None = None
    seconds: float | None = None


@frozen
class Cut:
    """The connection is cut in the body: no terminating chunk, no end of the announced length.

    Attributes:
        of: the reply that is cut.
        after_bytes: bytes of the body before the cut; a cut at its very end leaves out the end of the body only.
        after_frames: frames before the cut.
        after_blocks: closed blocks before the cut.
        reset: reset the connection (RST) instead of closing it (FIN).
    """

    of: Reply
    after_bytes: int | None = None
    after_frames: int | None = None
    after_blocks: int | None = None
    reset: bool = False


@frozen
class BareEof:
    """The body ends cleanly too early: a stream without ``message_stop``.

    Attributes:
        of: the reply that ends early.
        after_frames: frames before the end.
        after_blocks: closed blocks before the end.
        after_bytes: bytes of the body before the end.
    """

    of: Reply
    after_frames: int | None = None
    after_blocks: int | None = None
    after_bytes: int | None = None


@frozen
class Late:
    """A reply whose headers come late.

    Attributes:
        of: the reply.
        seconds: how late.
    """

    of: Reply
    seconds: float


@frozen
class NoAnswer:
    """The connection is closed without an answer.

    Attributes:
        seconds: how long the server stays silent before; None until the client leaves or the server stops.
        reset: reset the connection (RST) instead of closing it (FIN).
    """

    seconds: float | None = 0.0
    reset: bool = False


Reply = Blocks | HttpError | RawBody | StreamError | Stall | Cut | BareEof | Late | NoAnswer
"""All that a script can answer."""


def DoneSentinel(*, ahead: bytes = b"") -> RawBody:
    """Make a stream that ends with the ``[DONE]`` sentinel of another API, behind the bytes ``ahead``."""
    return RawBody((ahead, b"data: [DONE]\n\n") if ahead else b"data: [DONE]\n\n")


def PingsOnly(count: int = 3, pace: float = 0.0) -> RawBody:
    """Make a stream of ``count`` pings, ``pace`` seconds apart, and a clean end."""
    return RawBody((b'event: ping\ndata: {"type": "ping"}\n\n',) * count, pace=pace)


def Empty() -> RawBody:
    """Make a 200 answer without a single event."""
    return RawBody(b"")


def text(words: str, **timing: Any) -> Part:
    """Make a text block; ``timing`` are fields of :class:`Part`."""
    return Part({"type": "text", "text": words}, **timing)


def thinking(words: str, *, signature: str | None = None, **timing: Any) -> Part:
    """Make a thinking block; without ``signature`` it gets a valid one, an empty one stays empty."""
    block = {"type": "thinking", "thinking": words}
    return Part(block if signature is None else {**block, "signature": signature}, **timing)


def redacted(data: str | None = None, **timing: Any) -> Part:
    """Make a redacted thinking block; without ``data`` it gets a valid one."""
    return Part({"type": "redacted_thinking"} if data is None else {"type": "redacted_thinking", "data": data}, **timing)


def tool(name: str, arguments: Mapping[str, Any] | str | None = None, *, id: str | None = None, **timing: Any) -> Part:
    """Make a tool call.

    Args:
        name: the tool's name.
        arguments: the input as an object, or the raw text that is streamed, malformed or not.
        id: the call's id; None for the next one of the server (``toolu_0001``).
        timing: fields of :class:`Part`.

    Returns:
        The block.
    """
    block: dict[str, Any] = {"type": "tool_use", "name": name}
    if id is not None:
        block["id"] = id
    if isinstance(arguments, str):
        return Part(block, raw=arguments, **timing)
    return Part({**block, "input": dict(arguments or {})}, **timing)


def server_tool(name: str, arguments: Mapping[str, Any] | None = None, *, id: str | None = None, **timing: Any) -> Part:
    """Make a call of a tool that the API runs itself; ``id`` None for the next one of the server (``srvtoolu_0001``)."""
    block: dict[str, Any] = {"type": "server_tool_use", "name": name, "input": dict(arguments or {})}
    return Part(block if id is None else {**block, "id": id}, **timing)


def compaction(summary: str | None, **timing: Any) -> Part:
    """Make a compaction block with a valid signature; None for a summary that failed."""
    return Part({"type": "compaction", "content": summary}, **timing)


def compacts(summary: str | None, **fields: Any) -> Blocks:
    """Make the answer to a request for a compaction: one block; None for a summary that failed."""
    return Blocks((compaction(summary),), stop_reason="compaction", **fields)


def says(words: str, **fields: Any) -> Blocks:
    """Make a reply of one text; ``fields`` are fields of :class:`Blocks`."""
    return Blocks((text(words),), **fields)


def calls(*parts: Mapping[str, Any] | Part, **fields: Any) -> Blocks:
    """Make a reply of these blocks; ``fields`` are fields of :class:`Blocks`."""
    return Blocks(parts, **fields)


class ScriptExhausted(LookupError):
    """A script has no reply for a call; the text says how many it had."""


class Script(Protocol):
    """Gives the reply to each call."""

    def reply(self, call: int, body: dict[str, Any]) -> Reply:
        """Give the reply to one accepted request.

        Args:
            call: running number of accepted requests, from 0.
            body: the decoded request.

        Returns:
            The reply.

        Raises:
            ScriptExhausted: if there is none.
        """
        ...


@frozen
class ListScript:
    """Replies in a fixed order.

    Attributes:
        replies: one a call.
        repeat: begin anew after the last one, for servers that stay up.
    """

    replies: tuple[Reply, ...] = field(converter=_tuple)
    repeat: bool = False

    def reply(self, call: int, body: dict[str, Any]) -> Reply:
        """Give the reply to call number ``call``."""
        if self.replies and (self.repeat or call < len(self.replies)):
            return self.replies[call % len(self.replies)]
        raise ScriptExhausted(f"the script has {len(self.replies)} replies, and this is call {call + 1}")


@frozen
class CallableScript:
    """A function of (call number from 0, decoded request) as a script; it runs on the server's thread."""

    function: Callable[[int, dict[str, Any]], Reply]

    def reply(self, call: int, body: dict[str, Any]) -> Reply:
        """Give what the function gives."""
        return self.function(call, body)


def as_script(script: Script | Sequence[Reply] | Callable[[int, dict[str, Any]], Reply]) -> Script:
    """Take a script, a sequence of replies or a function for a script.

    Raises:
        TypeError: for anything else.
    """
    if hasattr(script, "reply"):
        return script
    if isinstance(script, Sequence):
        return ListScript(tuple(script))
    if callable(script):
        return CallableScript(script)
    raise TypeError(f"a script is an object with reply(call, body), a sequence of replies or a function, not {script!r}")
