"""Results that were shown in part are read in full again, also by another process that goes on from the log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio

from fsm_agent import Agent
from fsm_agent.core.config import ContextConfig
from fsm_agent.core.context.result_budget import reference
from fsm_agent.runtime.tools.builtin import builtin_tools
from fsm_agent.runtime.tools.decorator import tool
from fsm_agent.server.app import LoopbackServer
from fsm_agent.server.replies import calls, says
from fsm_agent.server.replies import tool as use
from fsm_agent.session.stored_results import find_in_logs

MODEL = "claude-opus-5"


@tool(read_only=True, max_result_chars=100_000)
def report(lines: int) -> str:
    """Give a report.

    Args:
        lines: how many lines.
    """
    return "\n".join(f"line {number} of the report" for number in range(1, lines + 1))


def results(bodies: list[dict[str, object]]) -> list[str]:
    """Give the texts of the results in the last request."""
    messages = bodies[-1]["messages"]
    assert isinstance(messages, list)
    return [str(block["content"]) for item in messages for block in item["content"] if block["type"] == "tool_result"]


async def work(agent: Agent, prompt: str, log: Path) -> None:
    """Run a prompt to its end, with a log of its own."""
    async with agent.run(prompt, log=log) as run:
        async for _ in run:
            pass


def test_a_shortened_result_is_read_again_here_and_after_a_restart(tmp_path: Path) -> None:
    """The model sees a preview with a reference, reads the part that it needs, and a new agent still finds it."""
    tools = [report, *builtin_tools()]
    settings: dict[str, Any] = {
        "tools": tools,
        "context": ContextConfig(result_chars=5_000, preview_chars=200),
        "allow": ["report"],
    }
    ask = {"file_path": reference("toolu_big"), "offset": 700, "limit": 1}
    script = [
        calls(use("report", {"lines": 1_000}, id="toolu_big")),
        calls(use("Read", ask)),
        says("Read."),
        calls(use("Read", ask)),
        says("Read again."),
    ]
    with LoopbackServer(script) as server:
        for prompt in ("Report.", "Once more."):
            # A new agent each time: it knows nothing but what the logs of the folder say.
            agent = Agent(MODEL, cwd=tmp_path, base_url=server.base_url, api_key="k", **settings)
            anyio.run(work, agent, prompt, tmp_path / "logs" / f"{prompt[0]}.jsonl")
        assert server.breaches == []
        shown = [results([request.body]) for request in server.messages]
    assert reference("toolu_big") in shown[1][0]
    assert len(shown[1][0]) < 1_000
    assert "line 700 of the report" in shown[2][1]
    assert "line 700 of the report" in shown[4][0]
    text = find_in_logs(tmp_path / "logs", "toolu_big")
    assert text is not None
    assert json.dumps(text).count("of the report") == 1_000
    assert find_in_logs(tmp_path / "logs", "toolu_none") is None
