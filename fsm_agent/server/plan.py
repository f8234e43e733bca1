"""A reply as a plan: status, headers, and the actions on the connection in order. Pure; ``app`` carries it out."""

from __future__ import annotations

import json
from typing import Any, assert_never

from attrs import evolve, frozen

from . import frames
from .recorded import read_stream
from .replies import BareEof, Blocks, Cut, HttpError, Late, NoAnswer, RawBody, Reply, Stall, StreamError

USUAL_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    501: "api_error",
    503: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""The usual error type of each status (api-facts A15)."""

_STATUS_OF = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "conflict_error": 409,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}

USUAL_MESSAGES = {
    401: "invalid x-api-key",
    402: "Your credit balance is too low to access the Anthropic API.",
    403: "Your API key does not have permission to use the specified resource.",
    404: "Not found",
    408: "Request timeout",
    409: "Conflict",
    413: "Request exceeds the maximum size",
    429: "This request would exceed your organization's rate limit. Please try again later.",
    500: "Internal server error",
    503: "Service unavailable",
    504: "Gateway timeout",
    529: "Overloaded",
}


@frozen
class Send:
    """Write bytes at ``due`` seconds from the start, and flush them; ``closes`` marks the end of a content block."""

    data: bytes
    due: float = 0.0
    name: str = ""
    closes: bool = False


@frozen
class Hold:
    """Be silent for ``seconds`` (None: for ever), but for a ping every ``ping_every`` seconds; later frames move back."""

    seconds: float | None
    ping_every: float | None = None


@frozen
class Drop:
    """Cut the connection, by RST with ``reset``."""

    reset: bool = False


Action = Send | Hold | Drop


@frozen
class Plan:
    """What is done for one request.

    Attributes:
        status: the HTTP status.
        headers: the response headers.
        actions: what follows the headers.
        length: the announced length of the body; None for a body in chunks.
        delay: seconds before the headers; None for ever.
        answer: False if not even headers are sent.
        stop_reason: the stop reason of a reply of the model, else None.
        content: the content of a reply of the model, else empty.
    """

    status: int
    headers: tuple[tuple[str, str], ...]
    actions: tuple[Action, ...] = ()
    length: int | None = None
    delay: float | None = 0.0
    answer: bool = True
    stop_reason: str | None = None
    content: tuple[Any, ...] = ()


def error_body(
    kind: str, message: str, request_id: str, code: str = "", details: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Make the API's error object."""
    error: dict[str, Any] = {"type": kind, "message": message}
    more = {**({"error_code": code} if code else {}), **(details or {})}
    if more:
        error["details"] = more
    return {"type": "error", "error": error, "request_id": request_id}


def plan(reply: Reply, asked: frames.Asked, ids: frames.Ids, request_id: str) -> Plan:
    """Make the plan of a reply.

    Args:
        reply: what the script gave.
        asked: what its request asked for.
        ids: running numbers.
        request_id: id of the request, for error bodies.

    Returns:
        The plan.
    """

    def inner(of: Reply) -> Plan:
        return plan(of, asked, ids, request_id)

    match reply:
        case Blocks():
            return _message(reply, asked, ids)
        case HttpError():
            return _error(reply, request_id)
        case RawBody():
            pieces = (reply.body,) if isinstance(reply.body, bytes) else reply.body
            actions = tuple(Send(data, number * reply.pace, "raw") for number, data in enumerate(pieces) if data)
            headers = (("content-type", reply.content_type), *reply.headers.items())
            content, reason = read_stream(b"".join(pieces)) if reply.status == 200 else ((), None)
            return Plan(reply.status, headers, actions, stop_reason=reason, content=content)
        case StreamError():
            return _stream_error(reply, inner(reply.of), asked, request_id)
        case Stall():
            base = inner(reply.of)
            at = _place(base, reply.after_frames, reply.after_blocks)
            hold = Hold(reply.seconds, reply.ping_every if asked.stream else None)
            return evolve(base, actions=(*base.actions[:at], hold, *base.actions[at:]))
        case Cut():
            base = _shortened(inner(reply.of), reply.after_frames, reply.after_blocks, reply.after_bytes)
            return evolve(base, actions=(*base.actions, Drop(reply.reset)))
        case BareEof():
            base = _shortened(inner(reply.of), reply.after_frames, reply.after_blocks, reply.after_bytes)
            return evolve(base, length=None)
        case Late():
            base = inner(reply.of)
            return evolve(base, delay=None if base.delay is None else base.delay + reply.seconds)
        case NoAnswer():
            return Plan(0, (), (Drop(reply.reset),), delay=reply.seconds, answer=False)
        case _:
            assert_never(reply)


def _message(reply: Blocks, asked: frames.Asked, ids: frames.Ids) -> Plan:
    made = frames.make(reply, asked, ids)
    content = tuple(made.message["content"])
    if asked.stream:
        sends = tuple(Send(frame.data, frame.due, frame.name, frame.closes) for frame in made.frames)
        headers = (("content-type", "text/event-stream; charset=utf-8"), ("cache-control", "no-cache"))
        return Plan(200, headers, sends, stop_reason=made.stop_reason, content=content)
    body = json.dumps(made.message).encode()
    sends = (Send(body, made.due, "message", closes=True),)
    return Plan(200, (("content-type", "application/json"),), sends, len(body), stop_reason=made.stop_reason, content=content)


def _error(reply: HttpError, request_id: str) -> Plan:
    headers = dict(reply.headers)
    if reply.retry_after is not None:
        headers["retry-after"] = str(reply.retry_after)
    if reply.retry_after_ms is not None:
        headers["retry-after-ms"] = str(reply.retry_after_ms)
    if reply.should_retry is not None:
        headers["x-should-retry"] = "true" if reply.should_retry else "false"
    message = reply.message or USUAL_MESSAGES.get(reply.status, f"HTTP {reply.status}")
    if reply.html:
        title = f"{reply.status} {message}"
        page = f"<html>\r\n<head><title>{title}</title></head>\r\n<body><h1>{title}</h1></body>\r\n</html>\r\n"
        body, kind = page.encode(), "text/html"
    else:
        word = reply.type or USUAL_TYPES.get(reply.status, "invalid_request_error" if reply.status < 500 else "api_error")
        body = json.dumps(error_body(word, message, request_id, reply.code, dict(reply.details))).encode()
        kind = "application/json"
    return Plan(reply.status, (("content-type", kind), *headers.items()), (Send(body, 0.0, "error"),), len(body))


def _stream_error(reply: StreamError, base: Plan, asked: frames.Asked, request_id: str) -> Plan:
    if not asked.stream:
        status = _STATUS_OF.get(reply.type, 500)
        return _error(HttpError(status, type=reply.type, message=reply.message, code=reply.code), request_id)
    at = _place(base, reply.after_frames, reply.after_blocks)
    data = frames.encode(error_body(reply.type, reply.message, request_id, reply.code))
    return evolve(base, actions=(*base.actions[:at], Send(data, _due(base, at), "error")), stop_reason=None)


def _due(base: Plan, at: int) -> float:
    """Give the moment at which the frame at this place would have been sent, or that of the last one."""
    times = [action.due for action in base.actions[: at + 1] if isinstance(action, Send)]
    return times[-1] if times else 0.0


def _place(base: Plan, after_frames: int | None, after_blocks: int | None) -> int:
    """Give the place in the actions behind that many frames, or closed blocks; the end if there are fewer."""
    place = len(base.actions)
    for wanted, blocks_only in ((after_frames, False), (after_blocks, True)):
        if wanted is None:
            continue
        seen = 0
        # Behind no block at all there is still the frame that opens the message.
        start = 1 if blocks_only and base.actions else 0
        here = start if wanted <= 0 else len(base.actions)
        for number, action in enumerate(base.actions):
            if wanted > 0 and isinstance(action, Send) and (action.closes or not blocks_only):
                seen += 1
                if seen == wanted:
                    here = number + 1
                    break
        place = min(place, here)
    return place


def _shortened(base: Plan, after_frames: int | None, after_blocks: int | None, after_bytes: int | None) -> Plan:
    actions = base.actions[: _place(base, after_frames, after_blocks)]
    if after_bytes is None:
        return evolve(base, actions=actions)
    kept: list[Action] = []
    left = after_bytes
    for action in actions:
        if isinstance(action, Send):
            if left <= 0:
                break
            action = evolve(action, data=action.data[:left])
            left -= len(action.data)
        kept.append(action)
    return evolve(base, actions=tuple(kept))
