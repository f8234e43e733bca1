"""Clients of the loopback server: the official SDK, and a bare socket that shows what is on the wire."""

from __future__ import annotations

import json
import socket
from typing import Any

import anthropic

from fsm_agent.server.app import LoopbackServer

HELLO: list[Any] = [{"role": "user", "content": "hi"}]


def sdk(server: LoopbackServer, **options: Any) -> anthropic.AsyncAnthropic:
    """Make the official client, its own retries off."""
    return anthropic.AsyncAnthropic(**{"base_url": server.base_url, "api_key": "k", "max_retries": 0, **options})


def body(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 100, "messages": HELLO, "stream": True, **fields}


def post(server: LoopbackServer, value: Any, *, path: str = "/v1/messages", headers: dict[str, str] | None = None) -> bytes:
    """Send one request over a bare socket and give all bytes of the answer, until the server closes.

    Raises:
        ConnectionResetError: if the server resets the connection; the bytes so far are its argument.
    """
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    host, port = server.base_url.removeprefix("http://").split(":")
    names = {"x-api-key": "k", "anthropic-version": "2026-10-21", "connection": "close", **(headers or {})}
    head = "".join(f"{name}: {word}\r\n" for name, word in names.items() if word)
    request = f"POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {len(raw)}\r\n{head}\r\n".encode() + raw
    got = b""
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall(request)
        while True:
            try:
                piece = connection.recv(65_536)
            except ConnectionResetError:
                raise ConnectionResetError(got) from None
            if not piece:
                return got
            got += piece


def split(answer: bytes) -> tuple[int, dict[str, str], bytes, bool]:
    """Take an answer apart: status, headers, body without its chunks, and whether the body came to its end."""
    head, _, rest = answer.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = {name.lower(): word for name, _, word in (line.partition(": ") for line in lines[1:])}
    status = int(lines[0].split()[1])
    if headers.get("transfer-encoding") != "chunked":
        length = headers.get("content-length")
        return status, headers, rest, length is None or len(rest) == int(length)
    data = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        if not size or int(size, 16) == 0:
            return status, headers, data, bool(size)
        data += rest[: int(size, 16)]
        rest = rest[int(size, 16) + 2 :]
    return status, headers, data, False


def events(data: bytes) -> list[dict[str, Any]]:
    """Give the events of a stream."""
    return [json.loads(line[5:]) for line in data.split(b"\n") if line.startswith(b"data:")]
