"""Model calls on the official SDK (spec 03): bytes out, events in, every failure a value.

The SDK gives authentication, headers, connection pool and error classes. Its retries are off (the loop owns them), and
its accumulator is not used: it repairs cut JSON and swallows pings. The SDK is imported at the first call.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import TYPE_CHECKING, Any

import anyio
from anyio.lowlevel import current_token

from ..core.effects import CallModel
from ..core.events import StreamFailed
from ..core.failures import ErrorKind, ModelFailure
from ..core.models import ModelInfo
from ..core.wire import Request
from .error_table import classify_body, failure, failure_of
from .model_data import price_of
from .ports import ModelItem
from .retry_after import Jitter, default_jitter
from .sse import SseDecoder, SseOverflow
from .stream_fold import StreamFold, Traits, no_traits

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

PATH = "/v1/messages?beta=true"
IDLE_TIMEOUT = 120.0
"""Seconds of waiting for an event that is no ping."""
FIRST_EVENT_TIMEOUT = 300.0
"""Seconds until the first such event, sending the request included."""
CONNECT_TIMEOUT = 15.0
"""Seconds until the connection stands."""
CLOSE_TIMEOUT = 2.0
"""Seconds that closing a connection may take."""
DRAIN_TIMEOUT = 0.2
"""Seconds to wait for the end of the body behind the last event, so that the connection can be used again."""
SPAN_NAME = "anthropic.messages.create"
"""Name of the SDK's own trace span of such a call."""
BODY_CHARS = 100_000
"""Bytes read of an answer that is no stream."""


class ModelCaller:
    """Implements :class:`~fsm_agent.runtime.ports.Model` over HTTP. Works under asyncio and trio.

    Close it with :meth:`aclose`, or use it as an async context manager: it keeps connections for the next call.
    """

    def __init__(
        self,
        traits: Traits = no_traits,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        models: Iterable[ModelInfo] | None = None,
        idle_timeout: float = IDLE_TIMEOUT,
        first_event_timeout: float = FIRST_EVENT_TIMEOUT,
        raw_events: bool = False,
        jitter: Jitter = default_jitter,
        encode: Callable[[Request], bytes] | None = None,
        middleware: Iterable[Any] = (),
    ) -> None:
        """Make a caller; nothing is opened or imported before the first call.

        Args:
            traits: what a tool says of a call.
            base_url: of the API; None for the SDK's usual places (``ANTHROPIC_BASE_URL``).
            api_key: None for the SDK's usual places (``ANTHROPIC_API_KEY``, ``ANTHROPIC_AUTH_TOKEN``, profiles).
            models: prices; None for the packaged data.
            idle_timeout: seconds of waiting on the socket without an event other than ``ping``.
            first_event_timeout: the same until the first event, the answer's headers included.
            raw_events: yield every event as it came too.
            jitter: what makes of a ``retry-after`` the wait, both in milliseconds.
            encode: makes the body of a request; None for the core's own.
            middleware: what the SDK runs around each request.

        Raises:
            ValueError: for a timeout that is not above zero.
        """
        for name, seconds in (("idle_timeout", idle_timeout), ("first_event_timeout", first_event_timeout)):
            if not seconds > 0:
                raise ValueError(f"{name} must be a number of seconds above 0, not {seconds!r}")
        self._traits = traits
        self._base_url = base_url
        self._api_key = api_key
        self._price = price_of(models)
        self._idle_timeout = idle_timeout
        self._first_event_timeout = first_event_timeout
        self._raw_events = raw_events
        self._jitter = jitter
        self._encode = encode
        self._middleware = tuple(middleware)
        self._client: AsyncAnthropic | None = None
        self._token: object = None

    async def __aenter__(self) -> ModelCaller:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections that are kept for the next call."""
        client, self._client = self._client, None
        # A client of an event loop that has ended cannot be closed from another one; its sockets ended with it.
        if client is not None and self._token == current_token():
            with anyio.move_on_after(CLOSE_TIMEOUT, shield=True):
                await client.close()

    async def stream(self, effect: CallModel) -> AsyncGenerator[ModelItem, None]:
        """Perform one attempt.

        Args:
            effect: the call, with its request.

        Yields:
            Deltas for the consumer and events for the core, the last of them ``StreamCompleted`` or ``StreamFailed``.
            Closing the generator, or cancelling the task, closes the connection.
        """
        fold = StreamFold(effect.id, self._traits, self._price, raw_events=self._raw_events, model=effect.request.model)
        body = await self._open(effect.request)
        if isinstance(body, ModelFailure):
            yield StreamFailed(id=effect.id, failure=body)
            return
        failed = False
        try:
            fold.request_id = body.request_id
            decoder = SseDecoder()
            while not fold.done:
                for item in await self._next(body, decoder, fold):
                    failed = isinstance(item, StreamFailed)
                    yield item
        finally:
            # Whoever has the last item may leave with it, so this is no part of the loop. What is left of a broken stream
            # is not worth a wait, and reading it would count as a success.
            try:
                if fold.done and not failed:
                    await body.drain()
            finally:
                await body.close()

    async def _next(self, body: _Body, decoder: SseDecoder, fold: StreamFold) -> list[ModelItem]:
        """Read once and fold what came."""
        chunk = await body.read()
        if isinstance(chunk, ModelFailure):
            return fold.cut(chunk)
        if chunk is None:
            return fold.end()
        beats = fold.beats
        items: list[ModelItem] = []
        try:
            for event in decoder.feed(chunk):
                items += fold.feed(event)
        except SseOverflow as error:
            items += fold.cut(failure(ErrorKind.MALFORMED_STREAM, str(error), status=200))
        except Exception as error:  # a fault of ours ends the attempt, not the run
            items += fold.fail(failure(ErrorKind.ENGINE_ERROR, f"{type(error).__name__}: {error}"))
        if fold.beats > beats:
            body.allow(self._idle_timeout)
        return items

    async def _open(self, request: Request) -> _Body | ModelFailure:
        """Send the request and wait for the headers of the answer."""
        try:
            content = self._body_of(request)
            client = self._connect()
            from anthropic import AsyncStream, Timeout

            # Our own watchdog strikes first; the library's limit is there in case it does not.
            longest = max(self._idle_timeout, self._first_event_timeout) + 30
            headers = {"anthropic-beta": ",".join(request.betas)} if request.betas else {}
            timeout = Timeout(longest, connect=CONNECT_TIMEOUT)
            options: Any = {"headers": headers, "timeout": timeout, **_span_options(request)}
            before = anyio.current_time()
            with anyio.move_on_after(self._first_event_timeout) as scope:
                stream: AsyncStream[Any] = await client.post(
                    PATH,
                    content=content,
                    cast_to=object,
                    options=options,
                    stream=True,
                    stream_cls=AsyncStream[Any],
                )
            if scope.cancelled_caught:
                return failure(ErrorKind.STALLED, f"no answer within {self._first_event_timeout:g} seconds")
            left = self._first_event_timeout - (anyio.current_time() - before)
            body = _Body(stream, left)
        except Exception as error:
            return failure_of(error, self._jitter)
        if body.content_type in ("application/json", "text/html"):
            return await self._no_stream(body)
        return body

    async def _no_stream(self, body: _Body) -> ModelFailure:
        """Read a 200 answer that is no stream: an error all the same, or a server that does not stream."""
        pieces: list[bytes] = []
        try:
            while sum(map(len, pieces)) < BODY_CHARS:
                chunk = await body.read()
                if isinstance(chunk, ModelFailure):
                    return chunk
                if chunk is None:
                    break
                pieces.append(chunk)
        finally:
            await body.close()
        text = b"".join(pieces).decode("utf-8", "replace")
        problem = classify_body(text, status=200, request_id=body.request_id, jitter=self._jitter)
        if '"error"' in text and (problem.type or problem.code):
            return problem
        words = f"the answer is {body.content_type}, not an event stream: {text[:200]}"
        return failure(ErrorKind.MALFORMED_STREAM, words, status=200, request_id=body.request_id)

    def _body_of(self, request: Request) -> bytes:
        if self._encode is not None:
            return self._encode(request)
        from ..core.request.encode import body_of

        return body_of(request)

    def _connect(self) -> AsyncAnthropic:
        token = current_token()
        if self._client is None or self._token != token:
            from anthropic import AsyncAnthropic

            self._client = AsyncAnthropic(
                base_url=self._base_url,
                api_key=self._api_key,
                max_retries=0,
                middleware=list(self._middleware) or None,
            )
            self._token = token
        return self._client


def _span_options(request: Request) -> dict[str, Any]:
    """What the SDK needs for the trace span that it makes of each call, where the program has a tracer provider.

    The SDK's own methods pass the same: ours sends ready bytes, of which it could not read the attributes. An SDK without
    these options makes no span.
    """
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": request.model,
        "gen_ai.request.max_tokens": request.max_tokens,
        "gen_ai.request.stream": True,
    }
    return {"span_name": SPAN_NAME, "span_attributes": attributes}


class _Body:
    """The body of one answer, read under the watchdog."""

    def __init__(self, stream: Any, allowed: float) -> None:
        response = stream.response
        self._stream = stream
        self._chunks: AsyncGenerator[bytes, None] = response.aiter_bytes()
        self._allowed = allowed
        self._left = allowed
        self._ended = False
        self.request_id: str = response.headers.get("request-id", "")
        self.content_type: str = response.headers.get("content-type", "").partition(";")[0].strip().lower()

    def allow(self, seconds: float) -> None:
        """An event came: the watchdog counts anew."""
        self._allowed = self._left = seconds

    async def read(self) -> bytes | ModelFailure | None:
        """Give the next bytes, None at a clean end, or what broke. Only the time spent in here counts."""
        before = anyio.current_time()
        chunk: bytes | None = None
        try:
            with anyio.move_on_after(max(0.0, self._left)) as scope:
                chunk = await anext(self._chunks, None)
        except Exception as error:
            self._ended = True
            return failure_of(error)
        self._left -= anyio.current_time() - before
        if scope.cancelled_caught:
            self._ended = True
            return failure(ErrorKind.STALLED, f"nothing but pings for {self._allowed:g} seconds", status=200)
        self._ended = chunk is None
        return chunk

    async def drain(self) -> None:
        """Read what is left behind the last event, within bounds, so that the connection can be used again."""
        self._left = DRAIN_TIMEOUT
        while not self._ended and self._left > 0 and isinstance(await self.read(), bytes):
            pass

    async def close(self) -> None:
        """Close the answer, also while the task is being cancelled."""
        with anyio.move_on_after(CLOSE_TIMEOUT, shield=True):
            await self._stream.close()
            # The library's generators are nested and not closed with the outer one; reading what is left of a closed
            # connection ends them in order, where trio would complain about each.
            with contextlib.suppress(Exception):
                while await anext(self._chunks, None) is not None:
                    pass
            await self._chunks.aclose()
