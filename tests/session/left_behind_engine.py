"""An engine in a process of its own, to be killed: ``python left_behind_engine.py BASE_URL FOLDER [SERVER]``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio

from fsm_agent import Agent
from fsm_agent.runtime.mcp.config import ServerConfig
from fsm_agent.runtime.mcp.servers import McpServers
from fsm_agent.runtime.tools.builtin import builtin_tools
from fsm_agent.runtime.tools.environment import child_environment
from fsm_agent.session.subagents import AgentTool


async def main(base_url: str, folder: Path, server: str) -> None:
    """Run one prompt with a shell, a sub-agent and a server."""
    configs = [ServerConfig("bad", "stdio", sys.executable, (server, "x", str(folder)))] if server else []
    async with McpServers(configs, cwd=str(folder), env=child_environment(os.environ)) as servers:
        agent = Agent(
            "claude-sonnet-5-5",
            cwd=folder,
            base_url=base_url,
            api_key="k",
            tools=[*builtin_tools(), AgentTool(), *servers.tools],
            permission_mode="bypassPermissions",
        )
        async with agent.run("main go", run_id="killed", log=folder / "log.jsonl") as run:
            async for _ in run:
                pass


anyio.run(main, sys.argv[1], Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "")
