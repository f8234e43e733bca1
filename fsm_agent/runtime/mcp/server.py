"""One server: the task that owns its connection, calls within bounded time, bounded restarts (field reports 131, 132).

The connection is entered and left in one task of its own, whatever happens to the calls: a call that is cancelled or
times out, a server that dies or a shutdown end a call or that task, never anything beside them.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import TaskGroup
from attrs import define, field, frozen

from ...core.events import Outcome
from ..tools.base import ToolOutput
from ..tools.body import failure_text
from ..tools.bounded import clip
from .config import ServerConfig
from .content import to_output
from .stdio import Stdio

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client._transport import TransportStreams
    from mcp_types import Tool as ListedTool

MAX_TOOLS = 500
"""Tools that are taken from one server."""
_MAX_PAGES = 50
_MAX_WORDS = 2_000
_NOTICE = 0.3
"""Seconds in which the task of a connection notices what a call has noticed already."""


@frozen
class Limits:
    """How long things may take, in seconds, and how often a server is started again.

    Attributes:
        connect: from the start to the list of tools.
        call: one call, where the configuration says nothing else.
        probe: an answer to "are you there" after a call timed out.
        restarts: in a row, without a call that was answered.
    """

    connect: float = 30.0
    call: float = 120.0
    probe: float = 5.0
    restarts: int = 3


class ServerProblem(Exception):
    """A server cannot be used; the text names it and says why."""


@define(eq=False)
class _Link:
    """One connection, from its start to its end.

    Attributes:
        scope: cancels the task that owns it.
        client: the client while it may be used.
        ready: set when it may be used, or never will be.
        lost: set when it may not be used any more.
        over: set when its task has ended, and a process with it.
        problem: why it cannot be used (any more).
    """

    scope: anyio.CancelScope = field(factory=anyio.CancelScope)
    client: Client | None = None
    ready: anyio.Event = field(factory=anyio.Event)
    lost: anyio.Event = field(factory=anyio.Event)
    over: anyio.Event = field(factory=anyio.Event)
    problem: str = ""

    def lose(self, problem: str = "") -> None:
        """It may not be used any more; the first reason counts."""
        self.client = None
        self.problem = self.problem or problem
        self.lost.set()
        self.ready.set()


class McpServer:
    """One server.

    Args:
        config: what it is.
        cwd: working directory of a stdio server.
        env: environment of a stdio server.
        limits: of time and restarts.

    Attributes:
        name: its name.
        tools: what it said it can do when it was first connected to.
        starts: how often it was started.
    """

    def __init__(self, config: ServerConfig, *, cwd: str, env: Mapping[str, str], limits: Limits) -> None:
        self.config = config
        self.name = config.name
        self.tools: tuple[ListedTool, ...] = ()
        self.starts = 0
        self._cwd = cwd
        self._env = {**env, **config.env}
        self._limits = limits
        self._group: TaskGroup | None = None
        self._link: _Link | None = None
        self._lock = anyio.Lock()
        self._restarts = 0

    @property
    def connected(self) -> bool:
        """True while the connection may be used."""
        return self._link is not None and self._link.client is not None

    @property
    def problem(self) -> str:
        """Why it is not connected; empty while it is."""
        return "" if self._link is None or self.connected else self._link.problem

    async def start(self, group: TaskGroup) -> None:
        """Connect, and list its tools.

        Args:
            group: where the task that owns the connection lives.

        Raises:
            ServerProblem: if it cannot be used.
        """
        self._group = group
        async with self._lock:
            await self._begin()

    async def stop(self) -> None:
        """Close the connection; a process is gone when this returns."""
        link, self._group = self._link, None
        if link is not None:
            link.scope.cancel()
            with anyio.CancelScope(shield=True):
                await link.over.wait()

    async def call(
        self, tool: str, arguments: Mapping[str, Any], progress: Callable[[str], Awaitable[None]] | None = None
    ) -> ToolOutput:
        """Call a tool, and start the server again first if it has ended. Every outcome but cancellation is an output."""
        seconds = self.config.timeout or self._limits.call
        try:
            link = await self._living()
        except ServerProblem as problem:
            return ToolOutput(str(problem), Outcome.FAILED)
        output: ToolOutput | None = None
        with anyio.move_on_after(seconds):
            output = await self._ask(link, tool, arguments, progress)
        if output is None:
            if self._group is not None:
                self._group.start_soon(self._probe, link)
            words = f"The MCP server {self.name} did not answer within {seconds:g} s; what the call did is not known."
            return ToolOutput(words, Outcome.FAILED)
        return output

    # -- one call -----------------------------------------------------------------------------------------------

    async def _ask(
        self, link: _Link, tool: str, arguments: Mapping[str, Any], progress: Callable[[str], Awaitable[None]] | None
    ) -> ToolOutput:
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED

        client = link.client
        assert client is not None
        told = None if progress is None else _Progress(progress)
        try:
            result = await client.call_tool(tool, dict(arguments), progress_callback=told)
        except MCPError as problem:
            if problem.code != CONNECTION_CLOSED or not await self._ending(link):
                self._restarts = 0
                words = f"The MCP server {self.name} answered with an error: {problem.code} {problem.message}"
                return ToolOutput(words[:_MAX_WORDS], Outcome.ERROR)
        except Exception as problem:
            if not await self._ending(link):
                words = f"The MCP server {self.name} gave an answer that cannot be used: {failure_text(problem)}"
                return ToolOutput(words[:_MAX_WORDS], Outcome.FAILED)
        else:
            self._restarts = 0
            return to_output(result)
        return ToolOutput(
            f"The MCP server {self.name} ended during the call: {link.problem}. What the call did is not known.", Outcome.FAILED
        )

    async def _ending(self, link: _Link) -> bool:
        """True if the connection ends in this moment: its task may need a little to notice."""
        with anyio.move_on_after(_NOTICE):
            await link.lost.wait()
        return link.lost.is_set()

    async def _probe(self, link: _Link) -> None:
        """Ask a server that let a call time out whether it is there at all; if not, end it."""
        client = link.client
        if client is None:
            return
        with anyio.move_on_after(self._limits.probe):
            try:
                await client.list_tools(cache_mode="bypass")
            except Exception:
                pass
            else:
                return
        link.lose("it no longer answered, and was ended")
        link.scope.cancel()

    # -- the connection -----------------------------------------------------------------------------------------

    async def _living(self) -> _Link:
        """Give a connection that may be used.

        Raises:
            ServerProblem: if there is none, and none can be made.
        """
        async with self._lock:
            if self._link is not None and self._link.client is not None:
                return self._link
            if self._group is None:
                raise ServerProblem(f"The MCP server {self.name} has been closed.")
            if self._restarts >= self._limits.restarts:
                times = f"ended {self._restarts + 1} times in a row and is not started again"
                raise ServerProblem(f"The MCP server {self.name} {times}: {self.problem}")
            self._restarts += 1
            return await self._begin()

    async def _begin(self) -> _Link:
        if self._link is not None:
            with anyio.CancelScope(shield=True):
                await self._link.over.wait()
        if self._group is None:
            raise ServerProblem(f"The MCP server {self.name} has been closed.")
        link = self._link = _Link()
        self.starts += 1
        self._group.start_soon(self._own, link, name=f"MCP server {self.name}")
        try:
            await link.ready.wait()
        except BaseException:
            # Whoever wanted it has left: a connection in the making is of no use to anybody.
            if link.client is None:
                link.scope.cancel()
            raise
        if link.client is None:
            raise ServerProblem(f"The MCP server {self.name} cannot be used: {link.problem}")
        return link

    async def _own(self, link: _Link) -> None:
        """Own one connection from its start to its end."""
        try:
            with link.scope as scope:
                scope.deadline = anyio.current_time() + self._limits.connect
                await self._hold(link, scope)
            if scope.cancelled_caught:
                late = scope.deadline != math.inf
                link.lose(f"it did not answer within {self._limits.connect:g} s" if late else "it was closed")
        except Exception as problem:
            link.lose(failure_text(_cause(problem))[:_MAX_WORDS])
        finally:
            link.lose("it was closed")
            link.over.set()

    async def _hold(self, link: _Link, scope: anyio.CancelScope) -> None:
        from mcp import Client
        from mcp_types import Implementation

        for name in ("mcp", "client"):
            # What it logs is told to the model and the user by us; without a handler it would go to standard error.
            if not logging.getLogger(name).handlers:
                logging.getLogger(name).addHandler(logging.NullHandler())
        wire = Stdio([self.config.command, *self.config.args], self._cwd, self._env) if self.config.kind == "stdio" else None
        transport = self._remote() if wire is None else wire.connect()
        try:
            async with Client(transport, client_info=Implementation(name="fsm_agent", version="1")) as client:
                tools = await _list(client)
                self.tools = self.tools or tools
                scope.deadline = math.inf
                link.client = client
                link.ready.set()
                await (anyio.sleep_forever() if wire is None else wire.closed.wait())
                # Told before the process is ended: a call that waits must not wait for that.
                link.lose("" if wire is None else _with_errors(wire))
        finally:
            if wire is not None and wire.problem:
                link.lose(_with_errors(wire))

    @asynccontextmanager
    async def _remote(self) -> AsyncGenerator[TransportStreams, None]:
        """Open the wire to a server over HTTP."""
        import httpx2
        from mcp.client.sse import sse_client
        from mcp.client.streamable_http import streamable_http_client

        patience = (self.config.timeout or self._limits.call) + 30.0
        timeout = httpx2.Timeout(min(30.0, self._limits.connect), read=patience)
        async with httpx2.AsyncClient(headers=dict(self.config.headers), timeout=timeout) as http:
            wire: AbstractAsyncContextManager[Any]
            if self.config.kind == "http":
                wire = streamable_http_client(self.config.url, http_client=http, terminate_on_close=False)
            else:
                wire = sse_client(self.config.url, headers=dict(self.config.headers), sse_read_timeout=patience)
            async with wire as streams:
                yield streams


class _Progress:
    """Hands progress on at most once a second: a server may send a flood of it."""

    def __init__(self, show: Callable[[str], Awaitable[None]]) -> None:
        self._show = show
        self._next = 0.0

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        now = anyio.current_time()
        if now >= self._next:
            self._next = now + 1.0
            share = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
            await self._show(f"{share} {clip(message or '', 500)}".rstrip() + "\n")


async def _list(client: Client) -> tuple[ListedTool, ...]:
    found: list[ListedTool] = []
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await client.list_tools(cursor=cursor, cache_mode="bypass")
        found += page.tools
        cursor = page.next_cursor
        if not cursor or len(found) >= MAX_TOOLS:
            break
    return tuple(found[:MAX_TOOLS])


def _cause(problem: BaseException) -> BaseException:
    """The first real error inside groups."""
    while isinstance(problem, BaseExceptionGroup) and problem.exceptions:
        problem = problem.exceptions[0]
    return problem


def _with_errors(wire: Stdio) -> str:
    said = wire.errors.text().strip()
    return f"{wire.problem}; it printed: {clip(said, 600)}" if said else wire.problem
