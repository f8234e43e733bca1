"""Configurations of servers: the known shape, variables, and what is wrong is said; nothing is imported for it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fsm_agent.runtime.mcp.config import McpConfigError, ServerConfig, expand, merge, read_mcp_file, read_mcp_text

ENV = {"HOME": "/home/me", "TOKEN": "secret", "EMPTY": ""}


def read(**servers: Any) -> tuple[ServerConfig, ...]:
    """Read servers that are all fine."""
    found = read_mcp_text(json.dumps({"mcpServers": servers}), ENV)
    assert found.warnings == ()
    return found.servers


def test_the_known_shape_with_variables(tmp_path: Path) -> None:
    """Programs, arguments, variables, URLs and headers are read, with what they name put in."""
    path = tmp_path / ".mcp.json"
    value = {
        "mcpServers": {
            "files": {"command": "${HOME}/bin/server", "args": ["${ROOT:-/srv}", "$HOME"], "env": {"KEY": "${TOKEN}"}},
            "web": {"type": "http", "url": "https://x/${PATH_:-mcp}", "headers": {"Authorization": "Bearer ${TOKEN}"}},
            "old": {"type": "sse", "url": "http://x/sse", "timeout": 2500},
        }
    }
    path.write_text(json.dumps(value))
    files, web, old = read_mcp_file(path, ENV).servers
    assert (files.kind, files.command, files.args) == ("stdio", "/home/me/bin/server", ("/srv", "$HOME"))
    assert files.env == {"KEY": "secret"}
    assert (web.kind, web.url, web.headers) == ("http", "https://x/mcp", {"Authorization": "Bearer secret"})
    assert (old.kind, old.timeout) == ("sse", 2.5)
    assert "secret" not in repr((files, web))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${TOKEN}", "secret"),
        ("a${TOKEN}b${HOME}", "asecretb/home/me"),
        ("${NOT:-x}", "x"),
        ("${NOT:-}", ""),
        ("${EMPTY:-x}", "x"),
        ("${EMPTY}", ""),
        ("${TOKEN:-x}", "secret"),
        ("$TOKEN ${1} ${} ${a b}", "$TOKEN ${1} ${} ${a b}"),
        ("${NOT:-${TOKEN}}", "${TOKEN}"),
    ],
)
def test_variables(text: str, value: str) -> None:
    """A variable stands for its value, or its default where it is unset or empty; nothing is expanded twice."""
    assert expand(text, ENV) == value


@pytest.mark.parametrize(
    ("server", "words"),
    [
        ({"command": "${NOT}"}, "the variable NOT is not set"),
        ({}, "needs 'command'"),
        ({"type": "ws", "url": "ws://x"}, "type must be one of"),
        ({"type": 7}, "type must be one of"),
        ({"type": "http", "url": "file:///etc/passwd"}, "must begin with http"),
        ({"command": ["a"]}, "'command' must be a text"),
        ({"command": "a", "args": "b"}, "'args' must be a list of texts"),
        ({"command": "a", "args": [1]}, "'args' must be a list of texts"),
        ({"command": "a", "env": {"A": 1}}, "'env' must be an object of texts"),
        ({"command": "a\0b"}, "'command' must be a text"),
        ({"command": "a", "timeout": -1}, "'timeout' must be a number"),
        ({"command": "a", "timeout": True}, "'timeout' must be a number"),
        ("a", "it must be an object"),
    ],
)
def test_a_wrong_server_is_left_out(server: Any, words: str) -> None:
    """A server that cannot be used is named with the reason; the others stay."""
    found = read_mcp_text(json.dumps({"mcpServers": {"wrong": server, "fine": {"command": "a"}}}), ENV, "here")
    assert [item.name for item in found.servers] == ["fine"]
    (warning,) = found.warnings
    assert warning.startswith("here: MCP server 'wrong' left out")
    assert words in warning


@pytest.mark.parametrize("text", ["", "{", "[]", '{"mcpServers": []}', "[" * 100_000, "null"])
def test_a_wrong_file_is_an_error(tmp_path: Path, text: str) -> None:
    """A file that is no JSON of the shape is one clear error that names it; so is one that cannot be read."""
    path = tmp_path / "servers.json"
    with pytest.raises(McpConfigError, match=r"servers\.json cannot be read"):
        read_mcp_file(path, ENV)
    path.write_text(text)
    with pytest.raises(McpConfigError, match=r"servers\.json"):
        read_mcp_file(path, ENV)


def test_names_are_made_plain_and_stay_apart() -> None:
    """Odd characters of a name become ``_``; of two that become one name the second is left out."""
    value = {"a b": {"command": "x"}, "a_b": {"command": "y"}, "---": {"command": "z"}, "n" * 65: {"command": "w"}}
    found = read_mcp_text(json.dumps({"mcpServers": value}), ENV)
    assert [(item.name, item.command) for item in found.servers] == [("a_b", "x")]
    assert len(found.warnings) == 3


def test_later_files_win() -> None:
    """Of two servers of one name the one of the later file counts."""
    first = read_mcp_text('{"mcpServers": {"a": {"command": "1"}, "b": {"command": "2"}}}', ENV)
    second = read_mcp_text('{"mcpServers": {"a": {"command": "3"}}}', ENV)
    assert [(item.name, item.command) for item in merge(first, second).servers] == [("a", "3"), ("b", "2")]


def test_nothing_is_imported_before_a_server_is_used() -> None:
    """The ``mcp`` package is loaded by the first connection, not by reading what there is to connect to."""
    code = "import sys, fsm_agent.runtime.mcp.servers, fsm_agent.session.discovery; print('mcp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
