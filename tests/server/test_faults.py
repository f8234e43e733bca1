"""Each kind of fault as a client sees it: the official SDK, and a bare socket."""

from __future__ import annotations

import threading
from typing import Any

import anthropic
import httpx2
import pytest

from fsm_agent.server.app import LoopbackServer
from fsm_agent.server.replies import (
    BareEof,
    Blocks,
    Cut,
    DoneSentinel,
    Empty,
    HttpError,
    Late,
    NoAnswer,
    PingsOnly,
    RawBody,
    Reply,
    Stall,
    StreamError,
    says,
    text,
)

from .clients import HELLO, body, events, post, sdk, split

pytestmark = pytest.mark.anyio

TWO = Blocks((text("one"), text("two")))
TWO_NAMES = [
    "message_start",
    *["content_block_start", "content_block_delta", "content_block_stop"] * 2,
    "message_delta",
    "message_stop",
]


async def names_until_error(server: LoopbackServer) -> tuple[list[str], BaseException | None]:
    """Read one stream through the SDK: the raw events, and what ended it."""
    seen: list[str] = []
    async with sdk(server) as client:
        try:
            stream = await client.beta.messages.create(model="m", max_tokens=100, messages=HELLO, stream=True)
            async for event in stream:
                seen.append(event.type)
        except (anthropic.APIError, httpx2.HTTPError, AssertionError) as error:
            return seen, error
    return seen, None


async def raised(reply: Reply) -> Any:
    with LoopbackServer([reply]) as server:
        async with sdk(server) as client:
            with pytest.raises(anthropic.APIError) as caught:
                await client.beta.messages.create(model="m", max_tokens=100, messages=HELLO)
    return caught.value


STATUSES = [
    (400, anthropic.BadRequestError, "invalid_request_error"),
    (401, anthropic.AuthenticationError, "authentication_error"),
    (402, anthropic.APIStatusError, "billing_error"),
    (403, anthropic.PermissionDeniedError, "permission_error"),
    (404, anthropic.NotFoundError, "not_found_error"),
    (408, anthropic.APIStatusError, "timeout_error"),
    (409, anthropic.ConflictError, "conflict_error"),
    (413, anthropic.APIStatusError, "request_too_large"),
    (422, anthropic.UnprocessableEntityError, "invalid_request_error"),
    (429, anthropic.RateLimitError, "rate_limit_error"),
    (500, anthropic.InternalServerError, "api_error"),
    (501, anthropic.APIStatusError, "api_error"),
    (503, anthropic.InternalServerError, "api_error"),
    (504, anthropic.InternalServerError, "timeout_error"),
    (529, anthropic.InternalServerError, "overloaded_error"),
]


@pytest.mark.parametrize(("status", "kind", "word"), STATUSES)
async def test_each_status_has_its_usual_type(status: int, kind: type[Exception], word: str) -> None:
    """Every row of the API's error table arrives as the SDK's class for it, with the usual type and a request id."""
    error = await raised(HttpError(status))
    assert isinstance(error, kind)
    assert error.status_code == status
    assert error.type == word
    assert error.request_id == "req_0001"


async def test_code_details_and_headers_of_an_error() -> None:
    """Code, details and the retry headers reach the client as scripted."""
    error = await raised(
        HttpError(
            429,
            message="slow",
            code="spend_limit",
            details={"limit": 3},
            retry_after=7,
            retry_after_ms=7_100,
            should_retry=False,
        )
    )
    assert error.error_code == "spend_limit"
    assert error.body["error"]["details"]["limit"] == 3
    assert error.response.headers["retry-after"] == "7"
    assert error.response.headers["retry-after-ms"] == "7100"
    assert error.response.headers["x-should-retry"] == "false"


async def test_an_html_error_is_no_json() -> None:
    """A proxy's HTML page arrives as such, without a type."""
    error = await raised(HttpError(413, html=True))
    assert error.status_code == 413
    assert error.type is None
    assert error.response.headers["content-type"] == "text/html"
    assert "<html>" in error.response.text


@pytest.mark.parametrize("after", [0, 1, 4, 7])
async def test_an_error_event_interrupts_a_stream(after: int) -> None:
    """The error event stands behind that many frames of a 200 stream, and nothing follows it."""
    with LoopbackServer([StreamError(TWO, after_frames=after, type="overloaded_error")]) as server:
        seen, error = await names_until_error(server)
    assert seen == TWO_NAMES[:after]
    assert isinstance(error, anthropic.APIStatusError)
    assert error.status_code == 200
    assert error.type == "overloaded_error"


async def test_an_error_event_behind_a_block() -> None:
    """after_blocks counts closed blocks; none at all is behind message_start."""
    with LoopbackServer([StreamError(TWO, after_blocks=1), StreamError(TWO, after_blocks=0)]) as server:
        first, _ = await names_until_error(server)
        second, _ = await names_until_error(server)
    assert first == TWO_NAMES[:4]
    assert second == TWO_NAMES[:1]


async def test_a_stream_error_without_a_stream_is_the_http_error() -> None:
    """A client that does not stream gets the status of the error's type."""
    error = await raised(StreamError(TWO, type="overloaded_error"))
    assert error.status_code == 529


@pytest.mark.parametrize("reset", [False, True])
async def test_a_cut_connection_has_no_end_of_body(reset: bool) -> None:
    """A cut arrives as a broken body, not as its end; a reset one as a reset."""
    with LoopbackServer([Cut(TWO, after_frames=2, reset=reset), Cut(TWO, after_frames=2, reset=reset)]) as server:
        seen, error = await names_until_error(server)
        try:
            answer, was_reset = post(server, body()), False
        except ConnectionResetError as gone:
            answer, was_reset = gone.args[0], True
    assert seen == TWO_NAMES[:2]
    assert isinstance(error, httpx2.ReadError if reset else httpx2.RemoteProtocolError)
    assert was_reset is reset
    assert split(answer)[3] is False


async def test_a_cut_at_every_byte() -> None:
    """Cut at byte n, the client has exactly the first n bytes of the body, whatever n is."""
    whole = 'data: {"type": "héllo"}\n\n'.encode()
    with LoopbackServer(lambda number, body: Cut(RawBody(whole), after_bytes=number)) as server:
        for size in range(len(whole) + 1):
            _, _, data, ended = split(post(server, body()))
            assert data == whole[:size]
            assert not ended


async def test_a_plain_answer_can_be_cut() -> None:
    """A body of an announced length ends too early."""
    with LoopbackServer([Cut(says("hello"), after_bytes=20)]) as server:
        status, headers, data, ended = split(post(server, body(stream=False)))
    assert status == 200
    assert int(headers["content-length"]) > 20
    assert len(data) == 20
    assert not ended


@pytest.mark.parametrize("after", [1, 3, 4, 7])
async def test_a_bare_end_raises_nothing_in_the_sdk(after: int) -> None:
    """The body ends cleanly without message_stop: the SDK sees no error (this is why the engine has to)."""
    with LoopbackServer([BareEof(TWO, after_frames=after)]) as server:
        seen, error = await names_until_error(server)
    assert seen == TWO_NAMES[:after]
    assert error is None


@pytest.mark.parametrize("reply", [Empty(), PingsOnly(), DoneSentinel()], ids=["empty", "pings", "done"])
async def test_streams_without_a_message(reply: Reply) -> None:
    """No events, pings only, and a sentinel of another API end without a message."""
    with LoopbackServer([reply]) as server:
        status, headers, data, ended = split(post(server, body()))
    assert status == 200
    assert headers["content-type"].startswith("text/event-stream")
    assert b"message_start" not in data
    assert ended


async def test_no_answer_at_all() -> None:
    """A connection that is closed or reset without an answer is a connection error."""
    with LoopbackServer([NoAnswer(), NoAnswer(reset=True)]) as server:
        for _ in range(2):
            _, error = await names_until_error(server)
            assert isinstance(error, anthropic.APIConnectionError)
        assert [one.status for one in server.requests] == [0, 0]


async def test_a_stall_goes_on_when_it_is_over() -> None:
    """A short silence loses nothing; pings come in between if they are asked for."""
    with LoopbackServer(
        [Stall(TWO, after_blocks=1, seconds=0.03), Stall(TWO, after_frames=0, seconds=0.05, ping_every=0.01)]
    ) as server:
        quiet = [event["type"] for event in events(split(post(server, body()))[2])]
        pinged = [event["type"] for event in events(split(post(server, body()))[2])]
    assert quiet == TWO_NAMES
    assert pinged[0] == "ping"
    assert [name for name in pinged if name != "ping"] == TWO_NAMES


async def test_an_endless_stall_ends_when_the_client_leaves() -> None:
    """The server notices that the client of an endless stall has gone, and is done with the request."""
    with LoopbackServer([Stall(TWO, after_frames=2), says("next")]) as server:
        async with sdk(server, timeout=5) as client:
            stream = await client.beta.messages.create(model="m", max_tokens=100, messages=HELLO, stream=True)
            async for event in stream:
                if event.type == "content_block_start":
                    break
            await stream.close()
            assert server.wait_for(lambda requests: requests[0].finished)
            assert server.requests[0].client_left
            answer = await client.beta.messages.create(model="m", max_tokens=100, messages=HELLO)
    assert answer.content[0].text == "next"


@pytest.mark.parametrize(
    "reply", [Stall(TWO, after_frames=1), Stall(TWO, after_frames=1, ping_every=0.01), NoAnswer(seconds=None)]
)
async def test_a_stopping_server_ends_every_silence(reply: Reply) -> None:
    """A server that stops while a client waits cuts the connection and leaves no thread."""
    server = LoopbackServer([reply])
    server.start()
    got: list[bytes] = []
    client = threading.Thread(target=lambda: got.append(post(server, body())))
    client.start()
    assert server.wait_for(lambda requests: bool(requests and (requests[0].sent or reply == NoAnswer(seconds=None))))
    server.stop()
    client.join(5)
    assert not client.is_alive()
    assert b"message_stop" not in got[0]
    assert not [one for one in threading.enumerate() if one.name.startswith("fsm-agent")]


async def test_late_headers() -> None:
    """A late reply is whole."""
    with LoopbackServer([Late(TWO, seconds=0.02)]) as server:
        assert [event["type"] for event in events(split(post(server, body()))[2])] == TWO_NAMES


async def test_faults_can_be_nested() -> None:
    """A stall with a cut behind it: both happen, in order."""
    reply = Cut(Stall(TWO, after_blocks=1, seconds=0.02, ping_every=0.005), after_blocks=2)
    with LoopbackServer([reply]) as server:
        _, _, data, ended = split(post(server, body()))
    names = [event["type"] for event in events(data)]
    assert [name for name in names if name != "ping"] == TWO_NAMES[:7]
    assert "ping" in names
    assert not ended


async def test_raw_bodies_are_served_in_their_pieces() -> None:
    """Malformed bytes arrive as they are, status, type and headers as scripted."""
    reply = RawBody((b"data: {bro", b"ken\n\n"), status=207, content_type="text/plain", headers={"x-extra": "1"}, pace=0.001)
    with LoopbackServer([reply]) as server:
        status, headers, data, ended = split(post(server, body()))
        assert [one.size for one in server.requests[0].sent] == [10, 5]
    assert (status, headers["content-type"], headers["x-extra"]) == (207, "text/plain", "1")
    assert data == b"data: {broken\n\n"
    assert ended
