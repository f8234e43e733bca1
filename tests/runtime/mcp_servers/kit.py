"""What the tests of servers share."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from fsm_agent.runtime.mcp.config import ServerConfig
from fsm_agent.runtime.mcp.server import Limits
from fsm_agent.runtime.mcp.servers import McpServers
from fsm_agent.runtime.tools.environment import child_environment

HERE = Path(__file__).parent


def good(name: str = "good", **fields: Any) -> ServerConfig:
    """A server made with the official package."""
    return ServerConfig(name, "stdio", sys.executable, (str(HERE / "good_server.py"),), **fields)


def bad(mode: str, folder: Path, **fields: Any) -> ServerConfig:
    """A server that misbehaves."""
    return ServerConfig("bad", "stdio", sys.executable, (str(HERE / "bad_server.py"), mode, str(folder)), **fields)


def servers(*configs: ServerConfig, folder: Path, **limits: Any) -> McpServers:
    """Servers with short limits."""
    made = Limits(**{"connect": 20.0, "call": 5.0, "probe": 0.5, **limits})
    return McpServers(configs, cwd=str(folder), env=child_environment(os.environ), limits=made)


def noted(folder: Path, word: str) -> list[str]:
    """What a bad server noted behind this word."""
    file = folder / "log"
    lines = file.read_text().splitlines() if file.exists() else []
    return [line.removeprefix(word).strip() for line in lines if line.startswith(word)]


def alive(pid: int) -> bool:
    """True if a process runs; one that only waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False
