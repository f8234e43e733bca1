"""Which servers there are: ``.mcp.json`` and the like, with variables expanded (api-facts C7)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

MAX_BYTES = 1_000_000
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_KINDS = ("stdio", "http", "sse")


class McpConfigError(ValueError):
    """A configuration of servers that cannot be read; the text says where and why."""


@frozen
class ServerConfig:
    """One server.

    Attributes:
        name: letters, digits, ``-`` and ``_``; its tools are called ``mcp__<name>__<tool>``.
        kind: ``stdio``, ``http`` or ``sse``.
        command: program of a stdio server.
        args: its arguments.
        env: variables that it gets besides those of other child processes.
        url: of an HTTP server.
        headers: sent with each of its requests.
        timeout: seconds that a call may take, None for the default.
    """

    name: str
    kind: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(factory=dict, repr=False)
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(factory=dict, repr=False)
    timeout: float | None = None


@frozen
class McpConfig:
    """What the files say together.

    Attributes:
        servers: in order; a later file's server takes the place of an earlier one of the same name.
        warnings: what was left out, and why.
    """

    servers: tuple[ServerConfig, ...] = ()
    warnings: tuple[str, ...] = ()


def read_mcp_file(path: Path, env: Mapping[str, str]) -> McpConfig:
    """Read one file.

    Args:
        path: the file.
        env: what variables stand for.

    Raises:
        McpConfigError: if it cannot be read, or is no JSON of the known shape.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as problem:
        raise McpConfigError(f"{path} cannot be read: {problem.strerror or problem}") from None
    if len(data) > MAX_BYTES:
        raise McpConfigError(f"{path} is larger than {MAX_BYTES} bytes")
    return read_mcp_text(data.decode("utf-8", "replace"), env, str(path))


def read_mcp_text(text: str, env: Mapping[str, str], where: str = "MCP configuration") -> McpConfig:
    """Read ``{"mcpServers": {name: {...}}}``. A server that is wrong is left out with a warning; the others stay.

    Args:
        text: JSON.
        env: what variables stand for.
        where: how messages name the text.

    Raises:
        McpConfigError: if the whole is no JSON of that shape.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise McpConfigError(f"{where} is no JSON: {problem}") from None
    servers = value.get("mcpServers", {}) if isinstance(value, dict) else None
    if not isinstance(servers, dict):
        raise McpConfigError(f"{where}: 'mcpServers' must be an object whose keys are names")
    found: dict[str, ServerConfig] = {}
    warnings: list[str] = []
    for name, item in servers.items():
        try:
            server = _server(name, item, env)
            if server.name in found:
                raise McpConfigError(f"another server is called {server.name} too")
        except McpConfigError as problem:
            warnings.append(f"{where}: MCP server {name[:64]!r} left out: {problem}")
        else:
            found[server.name] = server
    return McpConfig(tuple(found.values()), tuple(warnings))


def merge(*configs: McpConfig) -> McpConfig:
    """Join configurations, the weakest first."""
    servers = {server.name: server for config in configs for server in config.servers}
    return McpConfig(tuple(servers.values()), tuple(text for config in configs for text in config.warnings))


def plain_name(name: str) -> str:
    """Make a name that the API takes: other characters become ``_``."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)


def _server(name: str, item: Any, env: Mapping[str, str]) -> ServerConfig:
    if not isinstance(item, dict):
        raise McpConfigError("it must be an object")
    kind = item.get("type") or ("http" if "url" in item else "stdio")
    kind = {"streamable-http": "http", "streamableHttp": "http"}.get(kind, kind) if isinstance(kind, str) else kind
    if kind not in _KINDS:
        raise McpConfigError(f"type must be one of {', '.join(_KINDS)}, not {kind!r}")
    plain = plain_name(name)
    if not plain.strip("_-") or len(plain) > 64:
        raise McpConfigError("its name must have letters or digits, and at most 64 characters")
    made = ServerConfig(
        name=plain,
        kind=kind,
        command=expand(_text(item, "command"), env),
        args=tuple(expand(text, env) for text in _texts(item)),
        env={key: expand(text, env) for key, text in _table(item, "env").items()},
        url=expand(_text(item, "url"), env),
        headers={key: expand(text, env) for key, text in _table(item, "headers").items()},
        timeout=_seconds(item),
    )
    if kind == "stdio" and not made.command:
        raise McpConfigError("a stdio server needs 'command'")
    if kind != "stdio" and not made.url.startswith(("http://", "https://")):
        raise McpConfigError("'url' must begin with http:// or https://")
    return made


def expand(text: str, env: Mapping[str, str]) -> str:
    """Put in variables: ``${NAME}``, or ``${NAME:-default}``.

    Raises:
        McpConfigError: for a variable that is not set and has no default.
    """

    def value(found: re.Match[str]) -> str:
        name, default = found.group(1), found.group(2)
        given = env.get(name)
        if default is not None:
            return given or default
        if given is None:
            raise McpConfigError(f"the variable {name} is not set")
        return given

    return _VARIABLE.sub(value, text)


def _text(item: Mapping[str, Any], name: str) -> str:
    value = item.get(name, "")
    if not isinstance(value, str) or "\0" in value:
        raise McpConfigError(f"{name!r} must be a text")
    return value


def _texts(item: Mapping[str, Any]) -> list[str]:
    value = item.get("args", [])
    if not isinstance(value, list) or not all(isinstance(part, str) and "\0" not in part for part in value):
        raise McpConfigError("'args' must be a list of texts")
    return value


def _table(item: Mapping[str, Any], name: str) -> dict[str, str]:
    value = item.get(name, {})
    if not isinstance(value, dict) or not all(isinstance(part, str) and "\0" not in part for part in value.values()):
        raise McpConfigError(f"{name!r} must be an object of texts")
    return value


def _seconds(item: Mapping[str, Any]) -> float | None:
    """Read ``timeout``, which other programs give in milliseconds too."""
    value = item.get("timeout")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise McpConfigError("'timeout' must be a number of milliseconds above 0")
    return value / 1000
