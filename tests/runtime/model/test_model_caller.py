"""The model caller over real HTTP: the official SDK against the loopback server."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import anyio
import pytest

from fsm_agent.core.effects import CallModel
from fsm_agent.core.events import StreamCompleted, StreamFailed, StreamStarted
from fsm_agent.core.failures import ErrorKind
from fsm_agent.core.outputs import TextDelta
from fsm_agent.runtime.model_caller import ModelCaller
from fsm_agent.runtime.ports import ModelItem
from fsm_agent.runtime.retry_after import no_jitter
from fsm_agent.server.app import LoopbackServer
from fsm_agent.server.replies import (
    BareEof,
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
    calls,
    says,
    text,
    tool,
)

from .data import (
    SPLICED,
    blocks,
    completed,
    encode,
    ending,
    failed,
    recorded_errors,
    recorded_streams,
    request,
    shown,
    sse,
    start,
    stream_bytes,
    words,
)

BACKENDS = ("asyncio", "trio")


def caller(server: LoopbackServer, **settings: Any) -> ModelCaller:
    """Make a caller of this server."""
    return ModelCaller(base_url=server.base_url, api_key="sk-test", encode=encode, jitter=no_jitter, **settings)


async def ask(model: ModelCaller, name: str = "c", **fields: Any) -> list[ModelItem]:
    """Perform one attempt and give all items."""
    return [item async for item in model.stream(CallModel(id=name, request=request(**fields)))]


def play(replies: list[Reply], backend: str = "asyncio", **settings: Any) -> list[list[ModelItem]]:
    """Serve these replies one after another to one caller; give the items of each."""

    async def main() -> list[list[ModelItem]]:
        async with caller(server, **settings) as model:
            return [await ask(model, f"c{number}") for number in range(len(replies))]

    with LoopbackServer(replies, strict=False) as server:
        return anyio.run(main, backend=backend)


@contextmanager
def serving(*replies: Reply) -> Iterator[LoopbackServer]:
    """Serve these replies without checking the requests."""
    with LoopbackServer(replies, strict=False) as server:
        yield server


STREAMS = recorded_streams()
ERRORS = recorded_errors()


@pytest.fixture(scope="module")
def recorded() -> dict[str, list[ModelItem]]:
    """All recorded streams through one caller and one server."""
    entries = [param.values[0] for param in STREAMS if param.values[0] is not None]
    answers = play([RawBody(stream_bytes(entry)) for entry in entries])
    return {entry["id"]: items for entry, items in zip(entries, answers, strict=True)}


@pytest.mark.parametrize("entry", STREAMS)
def test_recorded_streams_come_through_http_as_the_index_says(entry: dict[str, Any], recorded: dict[str, Any]) -> None:
    """Each recorded stream gives its blocks, tool names, stop reason and usage through the SDK."""
    items = recorded[entry["id"]]
    if entry["id"] == SPLICED:
        failed(items, ErrorKind.MALFORMED_STREAM)
        return
    end = completed(items)
    assert [item.block.type for item in blocks(items)] == entry["blocks"]
    assert [item.block.name for item in blocks(items) if item.block.type.endswith("tool_use")] == entry["tool_uses"]
    assert end.stop_reason == entry["stop_reason"]
    usage = entry["usage"] or {}
    if usage.get("output_tokens") and len(end.usage) == 1 and "compaction" not in entry["blocks"]:
        assert end.usage[0].output_tokens == usage["output_tokens"]
        assert end.usage[0].input_tokens == usage.get("input_tokens", end.usage[0].input_tokens)


EXPECTED = {
    "not_found": (ErrorKind.MODEL_NOT_FOUND, ErrorKind.INVALID_REQUEST),
    "authentication": (ErrorKind.AUTH,),
    "prompt_too_long": (ErrorKind.PROMPT_TOO_LONG,),
    "thinking_signature": (ErrorKind.THINKING_INVALID,),
}
"""Kinds by the word that the recording gives; every other one is a plain invalid request."""


@pytest.mark.parametrize("entry", ERRORS)
def test_recorded_errors_have_their_kind(entry: dict[str, Any]) -> None:
    """Each recorded error answer becomes one failure of the right kind, with the API's own words."""
    headers = {key: value for key, value in entry["headers"].items() if key in ("request-id", "x-should-retry", "retry-after")}
    reply = RawBody(
        json.dumps(entry["body"]).encode(), status=entry["status"], content_type="application/json", headers=headers
    )
    (items,) = play([reply])
    (end,) = items
    assert isinstance(end, StreamFailed)
    assert end.failure.kind in EXPECTED.get(entry["kind"], (ErrorKind.INVALID_REQUEST,))
    message = entry["body"]["error"]["message"]
    if entry["kind"] == "not_found":
        assert (end.failure.kind is ErrorKind.MODEL_NOT_FOUND) == message.startswith("model:")
    assert end.failure.message == message[:500]
    assert end.failure.status == entry["status"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_call_on_each_backend(backend: str) -> None:
    """A reply streams through under asyncio and under trio, and the connection is used again."""
    first, second = play([says("hello"), calls(text("a"), tool("Read", {"path": "x"}), text("b"))], backend)
    assert shown(first) == "hello"
    assert [item.block.type for item in blocks(second)] == ["text", "tool_use", "text"]
    assert isinstance(second[0], StreamStarted)
    assert completed(second).stop_reason == "tool_use"
    assert completed(second).usage[0].cost > 0


def test_what_is_sent() -> None:
    """The body goes out byte for byte, with betas, key and content type in the headers, to the beta endpoint, once."""

    async def main() -> None:
        async with caller(server) as model:
            await ask(model, betas=("one-2026-01-01", "two-2026-02-02"))
            await ask(model)

    with serving(says("x"), HttpError(500)) as server:
        anyio.run(main)
        first, second = server.requests
        assert first.headers["anthropic-beta"] == "one-2026-01-01,two-2026-02-02"
        assert "anthropic-beta" not in second.headers
        assert first.headers["content-type"] == "application/json"
        assert first.headers["authorization"] == "Bearer sk-test"
        assert first.raw == encode(request())


KINDS: list[tuple[str, Reply, ErrorKind]] = [
    ("done sentinel", DoneSentinel(ahead=sse(start())), ErrorKind.NO_MESSAGE_STOP),
    ("pings only", PingsOnly(), ErrorKind.EMPTY_STREAM),
    ("no events", Empty(), ErrorKind.EMPTY_STREAM),
    ("error event first", StreamError(says("x"), after_frames=0), ErrorKind.OVERLOADED),
    ("error event later", StreamError(says("x"), after_frames=3, type="api_error"), ErrorKind.SERVER_ERROR),
    ("second message_start", RawBody(sse(start(), *words(0, "a"), start(id="m2"))), ErrorKind.MALFORMED_STREAM),
    ("bare end of file", BareEof(says("x"), after_blocks=1), ErrorKind.NO_MESSAGE_STOP),
    ("cut", Cut(says("x"), after_frames=3), ErrorKind.CONNECTION_LOST),
    ("reset", Cut(says("x"), after_frames=3, reset=True), ErrorKind.CONNECTION_LOST),
    ("no answer", NoAnswer(), ErrorKind.CONNECTION_LOST),
    ("not a stream", RawBody(b'{"type":"message"}', content_type="application/json"), ErrorKind.MALFORMED_STREAM),
    ("page for a stream", RawBody(b"<html><title>Log in</title>", content_type="text/html"), ErrorKind.MALFORMED_STREAM),
    (
        "error object in a 200",
        RawBody(b'{"type":"error","error":{"type":"overloaded_error","message":"busy"}}', content_type="application/json"),
        ErrorKind.OVERLOADED,
    ),
    ("html 413", HttpError(413, html=True), ErrorKind.MEDIA_TOO_LARGE),
    ("html 502", HttpError(502, html=True), ErrorKind.SERVER_ERROR),
    ("html 403", HttpError(403, html=True), ErrorKind.AUTH),
    ("overloaded", HttpError(529), ErrorKind.OVERLOADED),
    ("rate limit", HttpError(429), ErrorKind.RATE_LIMITED),
    ("spend limit", HttpError(429, code="enforced_spend_limit_reached"), ErrorKind.BILLING),
    ("ramp limit", HttpError(429, code="ramp_limit_exceeded"), ErrorKind.RATE_LIMITED),
    ("payment", HttpError(402), ErrorKind.BILLING),
    ("conflict", HttpError(409), ErrorKind.CONFLICT),
    ("request timeout", HttpError(408), ErrorKind.TIMEOUT),
    ("gateway timeout", HttpError(504), ErrorKind.TIMEOUT),
    ("told not to retry", HttpError(500, should_retry=False), ErrorKind.FALLBACK_REQUESTED),
    ("broken compression", RawBody(b"no gzip", headers={"content-encoding": "gzip"}), ErrorKind.MALFORMED_STREAM),
]


@pytest.mark.parametrize(("reply", "kind"), [pytest.param(reply, kind, id=name) for name, reply, kind in KINDS])
def test_each_way_to_fail_has_its_kind(reply: Reply, kind: ErrorKind) -> None:
    """Every fault of the wire is one StreamFailed, the last item, of its kind; nothing is raised or retried."""
    (items,) = play([reply])
    failed(items, kind)
    assert sum(isinstance(item, (StreamFailed, StreamCompleted)) for item in items) == 1


def test_a_cut_connection_at_each_byte() -> None:
    """Cut at any byte, a stream is a lost connection until its stop reason is there, and complete behind it."""
    raw = sse(start(), *words(0, "hi"), ending("end_turn"))
    whole = len(raw)
    answers = play([Cut(RawBody(raw + sse({"type": "message_stop"})), after_bytes=place) for place in range(0, whole + 8, 3)])
    for place, items in zip(range(0, whole + 8, 3), answers, strict=True):
        if place >= whole:
            completed(items)
        else:
            failed(items, ErrorKind.CONNECTION_LOST)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "reply",
    [
        Stall(says("hello there"), after_frames=0),
        Stall(says("hello there"), after_frames=3),
        Stall(says("hello there"), after_frames=3, ping_every=0.02),
        Late(says("x"), seconds=30),
    ],
    ids=["after the headers", "after deltas", "pings only", "no headers"],
)
def test_a_silent_stream_is_stalled(reply: Reply, backend: str) -> None:
    """Silence, or nothing but pings, ends the attempt by the watchdog (field report 59)."""
    (items,) = play([reply], backend, idle_timeout=0.1, first_event_timeout=0.15)
    failed(items, ErrorKind.STALLED)


def test_silence_behind_the_stop_reason_is_a_complete_reply() -> None:
    """A stream that falls silent between the stop reason and ``message_stop`` is complete."""
    (items,) = play([Stall(says("x"), after_frames=5)], idle_timeout=0.1)
    assert completed(items).stop_reason == "end_turn"


def test_waiting_for_the_consumer_does_not_count() -> None:
    """A consumer slower than the watchdog sees the whole reply."""

    async def main() -> list[ModelItem]:
        items: list[ModelItem] = []
        async with caller(server, idle_timeout=0.05) as model:
            async for item in model.stream(CallModel(id="c", request=request())):
                items.append(item)
                await anyio.sleep(0.06)
        return items

    with serving(says("slow")) as server:
        completed(anyio.run(main))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("how", ["close", "cancel"])
def test_leaving_early_closes_the_connection(how: str, backend: str) -> None:
    """Closing the generator or cancelling the task ends the request at the server; nothing leaks."""

    async def main() -> None:
        async with caller(server) as model:
            with anyio.CancelScope() as scope:
                async with aclosing(model.stream(CallModel(id="c", request=request()))) as items:
                    async for item in items:
                        if isinstance(item, TextDelta):
                            if how == "close":
                                break
                            scope.cancel()
            assert await anyio.to_thread.run_sync(lambda: server.wait_idle(5.0)), "the server still writes"

    with serving(Stall(says("a b c"), after_frames=3)) as server:
        anyio.run(main, backend=backend)


def test_retry_after_is_read_from_the_headers() -> None:
    """The wait that the server asks for arrives in milliseconds."""
    first, second = play([HttpError(529, retry_after=2), HttpError(429, retry_after_ms=1_500, retry_after=9)])
    assert failed(first, ErrorKind.OVERLOADED).failure.retry_after_ms == 2_000
    assert failed(second, ErrorKind.RATE_LIMITED).failure.retry_after_ms == 1_500


def test_a_port_without_a_server_is_a_lost_connection() -> None:
    """Connection refused is a failure like any other."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        model = ModelCaller(base_url=url, api_key="k", encode=encode)
        failed(anyio.run(ask, model), ErrorKind.CONNECTION_LOST)


def test_a_url_without_a_scheme_is_refused_at_once() -> None:
    """A base URL that cannot work is no transient failure."""
    failed(anyio.run(ask, ModelCaller(base_url="localhost:80", api_key="k", encode=encode)), ErrorKind.INVALID_REQUEST)


def test_without_a_key_the_failure_says_what_to_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """No key anywhere is an AUTH failure that names the variable."""
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE", "ANTHROPIC_CONFIG_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    end = failed(anyio.run(ask, ModelCaller(base_url="http://127.0.0.1:9", encode=encode)), ErrorKind.AUTH)
    assert "ANTHROPIC_API_KEY" in end.failure.message


def test_a_body_that_cannot_be_made_is_a_failure() -> None:
    """An exception of our own becomes engine_error, not a crash of the run."""

    def broken(_: object) -> bytes:
        raise RuntimeError("no body")

    end = failed(anyio.run(ask, ModelCaller(base_url="http://127.0.0.1:9", api_key="k", encode=broken)), ErrorKind.ENGINE_ERROR)
    assert "no body" in end.failure.message


def test_one_caller_serves_several_event_loops() -> None:
    """A caller that outlives its event loop, as in a script that runs twice, works in the next one."""
    with serving(says("one"), says("two"), says("three")) as server:
        model = caller(server)
        runs: list[Callable[[], list[ModelItem]]] = [
            lambda: anyio.run(ask, model),
            lambda: anyio.run(ask, model),
            lambda: anyio.run(ask, model, backend="trio"),
        ]
        assert [shown(run()) for run in runs] == ["one", "two", "three"]


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_timeouts_that_make_no_sense_are_refused(seconds: float) -> None:
    """A watchdog of zero seconds or none at all is a mistake that is said at once."""
    with pytest.raises(ValueError, match="idle_timeout"):
        ModelCaller(idle_timeout=seconds)


@pytest.mark.parametrize("backend", BACKENDS)
def test_cancelling_before_the_headers_closes_the_connection(backend: str) -> None:
    """An abort while the server still thinks ends the request too."""

    async def main() -> None:
        async with caller(server) as model, anyio.create_task_group() as tasks:
            tasks.start_soon(ask, model)
            assert await anyio.to_thread.run_sync(lambda: server.wait_for(lambda found: len(found) == 1))
            tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            assert await anyio.to_thread.run_sync(lambda: server.wait_idle(5.0))

    with serving(Late(says("x"), seconds=30)) as server:
        anyio.run(main, backend=backend)
        assert server.requests[0].client_left


class OneReply(BaseHTTPRequestHandler):
    """Answers each request with one short stream, and keeps the connection."""

    protocol_version = "HTTP/1.1"
    connections: ClassVar[list[object]] = []

    def setup(self) -> None:
        self.connections.append(self.client_address)
        super().setup()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        body = sse(start(), *words(0, "a"), ending("end_turn"), {"type": "message_stop"})
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


async def leave_with_the_last_item(model: ModelCaller) -> list[ModelItem]:
    """Perform one attempt as the interpreter does: whoever has the last item asks for no more."""
    items: list[ModelItem] = []
    async with aclosing(model.stream(CallModel(id="c", request=request()))) as stream:
        async for item in stream:
            items.append(item)
            if isinstance(item, StreamCompleted | StreamFailed):
                break
    return items


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("ask", [ask, leave_with_the_last_item])
def test_a_connection_is_kept_for_the_next_call(ask: Callable[[ModelCaller], Any], backend: str) -> None:
    """Calls in a row use one connection: a body is read to its end behind the last event, whether or not one asks on."""

    async def main() -> None:
        url = f"http://127.0.0.1:{server.server_address[1]}"
        async with ModelCaller(base_url=url, api_key="k", encode=encode) as model:
            for _ in range(3):
                completed(await ask(model))

    OneReply.connections.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), OneReply) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            anyio.run(main, backend=backend)
        finally:
            server.shutdown()
            thread.join()
    assert len(OneReply.connections) == 1


def test_nothing_heavy_is_imported_before_the_first_call() -> None:
    """Making a caller and a compactor imports neither the SDK nor its HTTP library."""
    code = (
        "import sys; import fsm_agent.runtime.compactor; from fsm_agent.runtime.model_caller import ModelCaller; ModelCaller();"
        "print([name for name in ('anthropic', 'httpx2', 'pydantic') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
