"""All servers of a session: connected side by side, their tools under names of their own."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import TaskGroup

from ...core.blocks import clean_text
from ..tools.base import JsonObject, Tool, ToolContext, ToolOutput
from ..tools.bounded import clip
from ..tools.validate import check_schema
from .config import ServerConfig, plain_name
from .server import Limits, McpServer, ServerProblem

if TYPE_CHECKING:
    from mcp_types import Tool as ListedTool

MAX_NAME = 64
"""Characters of a tool's full name; longer ones get a short hash at their end."""
_MAX_DESCRIPTION = 2_048


class McpMissing(ImportError):
    """The ``mcp`` package is not installed."""


class McpTool(Tool):
    """One tool of a server. What the server says of its effects is not believed: each call is judged like a change."""

    max_result_chars = 100_000
    timeout = None  # the server has one of its own, which names it

    def __init__(self, server: McpServer, listed: ListedTool, name: str) -> None:
        self.server = server
        self.remote_name = listed.name
        self.name = name
        self.description = clip(clean_text(listed.description or listed.title or listed.name), _MAX_DESCRIPTION)
        self.input_schema = _schema(listed)
        hints = listed.annotations
        # A server that claims to read only may still run beside others; it gets no permission by it.
        self._beside = bool(hints is not None and hints.read_only_hint)

    def is_concurrency_safe(self, tool_input: JsonObject) -> bool:
        """True for tools that say they only read."""
        return self._beside

    async def run(self, tool_input: JsonObject, context: ToolContext) -> ToolOutput:
        """Call the server."""
        return await self.server.call(self.remote_name, tool_input, context.progress)


class McpServers:
    """The servers of a session; an async context manager.

    Inside the block the servers are connected, and ``tools`` are what an agent is given; when it is left, they and their
    processes are gone. A server that cannot be used is a warning, never an error.

    Args:
        configs: the servers.
        cwd: working directory of stdio servers.
        env: environment of stdio servers, already without secrets; their own ``env`` is added.
        limits: of time and restarts.

    Attributes:
        servers: in order.
        tools: the tools of those that are connected, in order.
        warnings: what cannot be used, and why.
    """

    def __init__(
        self, configs: Iterable[ServerConfig], *, cwd: str, env: Mapping[str, str], limits: Limits | None = None
    ) -> None:
        self.servers = tuple(McpServer(config, cwd=cwd, env=env, limits=limits or Limits()) for config in configs)
        self.tools: tuple[Tool, ...] = ()
        self.warnings: list[str] = []
        self._group: TaskGroup | None = None

    async def __aenter__(self) -> McpServers:
        """Connect to all servers side by side.

        Raises:
            McpMissing: if there are servers and the ``mcp`` package is not installed.
        """
        if self.servers:
            _check_installed()
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        try:
            async with anyio.create_task_group() as starting:
                for server in self.servers:
                    starting.start_soon(self._start, server)
        except BaseException as problem:
            await self._stop()
            await self._group.__aexit__(type(problem), problem, problem.__traceback__)
            raise
        self.tools = self._named()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._group is not None
        # The group is never told of the error: it would wrap it. Nothing of it is left when the servers have stopped.
        await self._stop()
        self._group.cancel_scope.cancel()
        await self._group.__aexit__(None, None, None)

    @property
    def statuses(self) -> tuple[Mapping[str, Any], ...]:
        """Name and status of each server, in the form of the ``init`` output (api-facts B4)."""
        return tuple({"name": server.name, "status": "connected" if server.connected else "failed"} for server in self.servers)

    async def _start(self, server: McpServer) -> None:
        assert self._group is not None
        try:
            await server.start(self._group)
        except ServerProblem as problem:
            self.warnings.append(str(problem))

    async def _stop(self) -> None:
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as stopping:
                for server in self.servers:
                    stopping.start_soon(server.stop)

    def _named(self) -> tuple[Tool, ...]:
        found: dict[str, Tool] = {}
        for server in self.servers:
            for listed in server.tools:
                name = tool_name(server.name, listed.name)
                tool = McpTool(server, listed, name)
                wrong = check_schema(tool.input_schema)
                if wrong or name in found:
                    why = f"its schema is none: {wrong}" if wrong else f"another tool is called {name} too"
                    self.warnings.append(f"MCP server {server.name}: tool {listed.name[:64]!r} left out: {why}")
                else:
                    found[name] = tool
        return tuple(found.values())


def tool_name(server: str, tool: str) -> str:
    """Make the name that the model sees: ``mcp__<server>__<tool>`` in the characters and the length that the API takes."""
    name = f"mcp__{server}__{plain_name(tool)}"
    if len(name) <= MAX_NAME and re.fullmatch(r"[A-Za-z0-9_-]+", tool):
        return name
    # Another name may become the same one: a hash of the real one keeps them apart.
    return f"{name[: MAX_NAME - 9]}_{hashlib.sha256(tool.encode('utf-8', 'replace')).hexdigest()[:8]}"


def _schema(listed: ListedTool) -> JsonObject:
    schema = dict(listed.input_schema)
    # Some servers leave out what every schema of an input has.
    schema.setdefault("type", "object")
    return schema


def _check_installed() -> None:
    try:
        import mcp  # noqa: F401
    except ImportError as problem:
        raise McpMissing("MCP servers need the 'mcp' package: pip install 'fsm_agent[mcp]'") from problem
