"""The main demo: the real agent with the real tools on a real project, over real HTTP."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import anyio
from attrs import evolve

from fsm_agent.core.outputs import Terminal
from fsm_agent.core.phases import Cause
from fsm_agent.scenario import Scenario, load
from fsm_agent.scenario.answers import Reply
from fsm_agent.scenario.drive import drive
from fsm_agent.scenario.project import write_project
from fsm_agent.server.app import LoopbackServer
from fsm_agent.server.from_scenario import server_script
from fsm_agent.session.agent import Agent


def unpaced(reply: Reply) -> Reply:
    """Give the reply without pauses between its pieces."""
    return evolve(reply, pace_ms=0)


async def repair(scenario: Scenario, folder: Path, base_url: str) -> tuple[tuple[str, ...], Terminal | None]:
    """Run the agent on the project; the permission to run the tests is given by a rule, that to edit by the mode."""
    taken: list[str] = []
    config = evolve(scenario.config, tools=())
    agent = Agent(
        config=config,
        cwd=folder,
        permission_mode="acceptEdits",
        base_url=base_url,
        api_key="scenario",
        allow=(f"Bash({shlex.quote(sys.executable)} -m unittest:*)",),
    )
    async with agent.run("Repair it.", on_step=lambda event, step: taken.extend(step.taken)) as run:
        async for _ in run:
            pass
    return tuple(taken), run.terminal


def test_real_tools_repair_the_project(tmp_path: Path) -> None:
    """The agent reads, runs the failing test, edits, runs it again; the file is repaired, the rows are the reducer's."""
    scenario = load("repair", values={"python": shlex.quote(sys.executable)})
    scenario = evolve(scenario, replies=tuple(unpaced(reply) for reply in scenario.replies))
    write_project(scenario, tmp_path)
    with LoopbackServer(server_script(scenario), models=scenario.config.models) as server:
        taken, terminal = anyio.run(repair, scenario, tmp_path, server.base_url)
        assert server.breaches == []
        results = [
            block
            for message in server.messages[-1].body["messages"]
            for block in message["content"]
            if block["type"] == "tool_result"
        ]
    assert terminal is not None
    assert terminal.cause is Cause.END_TURN
    assert taken == drive(scenario).taken
    assert "discount_percent // 100" in (tmp_path / "basket.py").read_text(encoding="utf-8")
    texts = [str(result["content"]) for result in results]
    assert "discount_percent // 10" in texts[0]
    assert "0 != 360" in texts[1]
    assert "OK" in texts[3]
    assert [bool(result.get("is_error")) for result in results] == [False, True, False, False]
