"""What the loopback server records of each request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, mutable

from .replies import Reply
from .rules import Breach


@mutable
class Sent:
    """One piece of a body that was written: seconds after the request arrived, the event's name, bytes."""

    after: float
    name: str
    size: int


@mutable(eq=False)
class Exchange:
    """One request and what became of it; it grows while the server answers.

    Attributes:
        number: running number of all requests, from 0.
        method: HTTP method.
        path: path with its query.
        headers: request headers, names in lower case.
        raw: the body's bytes.
        body: the decoded body; empty if it could not be decoded or the server keeps none.
        betas: values of the ``anthropic-beta`` header.
        call: running number among accepted calls of ``/v1/messages``, None for every other request.
        breaches: rules that the request breaks.
        reply: what the script gave.
        request_id: id in the ``request-id`` header.
        arrived: monotonic time in seconds at which the whole body was there.
        status: HTTP status; 0 while there is none, and when no answer was given.
        sent: pieces that were written, in order.
        finished: the server is done with it.
        client_left: the client closed the connection before the server was done.
        error: what went wrong inside the script or the server, if something did.
    """

    number: int
    method: str
    path: str
    headers: Mapping[str, str]
    raw: bytes = b""
    body: dict[str, Any] = field(factory=dict)
    betas: tuple[str, ...] = ()
    call: int | None = None
    breaches: tuple[Breach, ...] = ()
    reply: Reply | None = None
    request_id: str = ""
    arrived: float = 0.0
    status: int = 0
    sent: list[Sent] = field(factory=list)
    finished: bool = False
    client_left: bool = False
    error: str = ""
