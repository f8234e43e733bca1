"""The Messages-API server on loopback: real HTTP, real server-sent events, scripted replies, checked requests."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from aiohttp import web

from ..core.models import ModelInfo
from .calls import Calls
from .exchange import Exchange, Sent
from .models_endpoint import model_object, model_page
from .plan import Plan, Send, error_body
from .player import ConnectionDropped, Player
from .replies import Reply, Script, as_script

_MAX_BODY = 64 * 1024 * 1024
"""Bytes that are read of a body at all; the API's own limit is a rule."""


class LoopbackServer:
    """A server that speaks the Messages API on a thread of its own.

    Use it as a context manager::

        with LoopbackServer([says("Hello.")]) as server:
            client = anthropic.AsyncAnthropic(base_url=server.base_url, api_key="any", max_retries=0)
            ...
            server.requests[0].body

    Attributes:
        requests: all requests so far, in the order of their arrival; each grows while it is answered.
    """

    def __init__(
        self,
        script: Script | Sequence[Reply] | Callable[[int, dict[str, Any]], Reply],
        *,
        models: Sequence[ModelInfo] | None = None,
        strict: bool = True,
        enforce_window: bool = False,
        keys: Sequence[str] | None = None,
        keep_bodies: bool = True,
        host: str = "127.0.0.1",
        port: int = 0,
        on_request: Callable[[Exchange], None] | None = None,
    ) -> None:
        """Make a server; :meth:`start` or ``with`` starts it.

        Args:
            script: what it answers: see :mod:`fsm_agent.server.replies`.
            models: the models that it knows, others are 404; None takes any name, with careful capabilities for one that
                is not in the packaged data.
            strict: check each request by the rules of the wire, and answer a breach with a 400. Else breaches are
                neither looked for nor answered.
            enforce_window: answer "prompt is too long" when the estimate is above the model's window.
            keys: the keys that it takes; None for any that is not empty.
            keep_bodies: keep the bodies of requests; without, memory does not grow with long runs.
            host: the address to listen on.
            port: the port, 0 for a free one.
            on_request: told of each request when the server is done with it, on the server's thread.
        """
        self._calls = Calls(
            as_script(script),
            None if models is None else tuple(models),
            strict=strict,
            enforce_window=enforce_window,
            keys=None if keys is None else tuple(keys),
        )
        self._host = host
        self._port = port
        self._keep_bodies = keep_bodies
        self._on_request = on_request
        self.requests: list[Exchange] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing: asyncio.Event | None = None
        self._url = ""

    @property
    def base_url(self) -> str:
        """The URL for clients, such as ``http://127.0.0.1:40001``; empty before the start."""
        return self._url

    @property
    def breaches(self) -> list[tuple[int, str]]:
        """All breaches so far: number of the request, and rule with its text."""
        return [(one.number, f"{found.rule}: {found.text}") for one in self.requests for found in one.breaches]

    @property
    def messages(self) -> list[Exchange]:
        """The accepted calls of ``/v1/messages``, in order."""
        return [one for one in self.requests if one.call is not None]

    def forget(self) -> None:
        """Forget the last refused body: the next request begins another turn (field reports, wire checker 9)."""
        self._calls.forget()

    def start(self) -> None:
        """Bind the port and start the thread; returns when the server answers.

        Raises:
            OSError: if the address cannot be bound.
            RuntimeError: if it runs already.
        """
        if self._thread is not None:
            raise RuntimeError("the server runs already")
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((self._host, self._port))
            sock.listen(128)
        except OSError:
            sock.close()
            raise
        host = f"[{self._host}]" if family == socket.AF_INET6 else self._host
        self._url = f"http://{host}:{sock.getsockname()[1]}"
        ready = threading.Event()
        failed: list[BaseException] = []
        self._thread = threading.Thread(
            target=self._run, args=(sock, ready, failed), name="fsm-agent loopback server", daemon=True
        )
        self._thread.start()
        ready.wait()
        if failed:
            self._thread.join()
            self._thread = None
            raise failed[0]

    def stop(self) -> None:
        """Stop: end every silence, close every connection, join the thread. Harmless when it does not run."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        loop, closing = self._loop, self._closing
        if loop is not None and closing is not None:
            loop.call_soon_threadsafe(closing.set)
        thread.join()
        self._loop = self._closing = None

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the server is stopped, by another thread or a signal, or until ``timeout`` seconds have passed."""
        thread = self._thread
        if thread is not None:
            thread.join(timeout)

    def __enter__(self) -> LoopbackServer:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def wait_for(self, condition: Callable[[list[Exchange]], bool], timeout: float = 5.0) -> bool:
        """Wait until a condition on the requests holds.

        Args:
            condition: looks at :attr:`requests`; asked again whenever one of them changes.
            timeout: seconds.

        Returns:
            True if it held in time.
        """
        with self._changed:
            return self._changed.wait_for(lambda: condition(self.requests), timeout)

    def wait_idle(self, timeout: float = 5.0) -> bool:
        """Wait until the server is done with every request that has arrived."""
        return self.wait_for(lambda requests: all(one.finished for one in requests), timeout)

    def _run(self, sock: socket.socket, ready: threading.Event, failed: list[BaseException]) -> None:
        try:
            asyncio.run(self._serve(sock, ready))
        except BaseException as error:
            if ready.is_set():
                raise
            failed.append(error)
        finally:
            sock.close()
            ready.set()

    async def _serve(self, sock: socket.socket, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._closing = asyncio.Event()
        application = web.Application(client_max_size=_MAX_BODY)
        application.router.add_post("/v1/messages", self._messages)
        application.router.add_post("/v1/messages/count_tokens", self._count)
        application.router.add_get("/v1/models", self._models)
        application.router.add_get("/v1/models/{model}", self._model)
        application.router.add_route("*", "/{rest:.*}", self._unknown)
        runner = web.AppRunner(application, handler_cancellation=True, access_log=None, shutdown_timeout=0.2)
        await runner.setup()
        try:
            await web.SockSite(runner, sock, backlog=128).start()
            ready.set()
            await self._closing.wait()
        finally:
            await runner.cleanup()

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    async def _arrive(self, request: web.Request) -> Exchange:
        headers = {name.lower(): value for name, value in request.headers.items()}
        raw = await request.read() if request.can_read_body else b""
        betas = tuple(value.strip() for value in headers.get("anthropic-beta", "").split(",") if value.strip())
        exchange = Exchange(
            number=len(self.requests),
            method=request.method,
            path=request.path_qs,
            headers=headers,
            raw=raw,
            betas=betas,
            request_id=self._calls.ids.next("req"),
            arrived=time.monotonic(),
        )
        self.requests.append(exchange)
        self._notify()
        return exchange

    async def _answer(self, request: web.Request, make: Callable[[Exchange], Plan]) -> web.StreamResponse:
        """Take a request in, make its plan and play it; a client that leaves is no error."""
        exchange = await self._arrive(request)
        plan = make(exchange)
        if not self._keep_bodies:
            exchange.raw, exchange.body = b"", {}

        def wrote(name: str, size: int) -> None:
            exchange.sent.append(Sent(time.monotonic() - exchange.arrived, name, size))
            self._notify()

        def began(status: int) -> None:
            exchange.status = status

        assert self._closing is not None
        player = Player(request, wrote, began, self._closing)
        try:
            return await player.play(plan, {"request-id": exchange.request_id})
        except ConnectionDropped:
            # The transport is gone or going; the handler has to end without another write.
            return web.Response(status=500)
        except (ConnectionError, asyncio.CancelledError) as error:
            exchange.client_left = not self._closing.is_set()
            if isinstance(error, asyncio.CancelledError):
                raise
            return web.Response(status=500)
        except Exception as error:
            # The client sees a broken answer; what broke it is kept where a test looks.
            exchange.error = f"{type(error).__name__}: {error}"
            raise
        finally:
            exchange.finished = True
            if self._on_request is not None:
                self._on_request(exchange)
            self._notify()

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, self._calls.message)

    async def _count(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, self._calls.count)

    async def _models(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, lambda one: self._calls.guarded(one, lambda: _json(model_page(self._calls.known()))))

    async def _model(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["model"]

        def make() -> Plan:
            return _json(model_object(self._calls.model(name)))

        return await self._answer(request, lambda one: self._calls.guarded(one, make))

    async def _unknown(self, request: web.Request) -> web.StreamResponse:
        def make(one: Exchange) -> Plan:
            return _json(error_body("not_found_error", f"Not found: {request.method} {request.path}", one.request_id), 404)

        return await self._answer(request, make)


def _json(value: Any, status: int = 200) -> Plan:
    body = json.dumps(value).encode()
    return Plan(status, (("content-type", "application/json"),), (Send(body),), len(body))
