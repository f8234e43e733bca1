"""Results that were shown in part are read in full again, also by another process that goes on from the log."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import anyio

from fsm_agent import Agent
from fsm_agent.core.config import ContextConfig
from fsm_agent.core.context.result_budget import reference
from fsm_agent.core.events import ToolFinished
from fsm_agent.core.phases import TerminalReason
from fsm_agent.log.blobs import folder_of
from fsm_agent.log.reader import read_log
from fsm_agent.runtime.tools.builtin import builtin_tools
from fsm_agent.runtime.tools.decorator import tool
from fsm_agent.runtime.tools.pipeline import ToolBox
from fsm_agent.runtime.tools.stored import ResultStore
from fsm_agent.server.app import LoopbackServer
from fsm_agent.server.replies import calls, says
from fsm_agent.server.replies import tool as use
from fsm_agent.session.session import Session
from fsm_agent.session.stored_results import find_in_logs

MODEL = "claude-opus-5"


@tool(read_only=True, max_result_chars=100_000)
def report(lines: int) -> str:
    """Give a report.

    Args:
        lines: how many lines.
    """
    return "\n".join(f"line {number} of the report" for number in range(1, lines + 1))


ASK = {"file_path": reference("toolu_big"), "offset": 700, "limit": 1}


def made(server: LoopbackServer, folder: Path, kept: int = 32_000_000) -> Agent:
    """Make an agent that shows long results in part, and keeps ``kept`` characters of them in memory."""
    agent = Agent(
        MODEL,
        cwd=folder,
        base_url=server.base_url,
        api_key="k",
        tools=[report, *builtin_tools()],
        context=ContextConfig(result_chars=5_000, preview_chars=200),
        allow=["report"],
    )
    toolbox = agent.deps.tools
    assert isinstance(toolbox, ToolBox)
    toolbox.results = ResultStore(limit=kept)
    return agent


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
    script = [
        calls(use("report", {"lines": 1_000}, id="toolu_big")),
        calls(use("Read", ASK)),
        says("Read."),
        calls(use("Read", ASK)),
        says("Read again."),
    ]
    with LoopbackServer(script) as server:
        for prompt in ("Report.", "Once more."):
            # A new agent each time: it knows nothing but what the logs of the folder say.
            agent = made(server, tmp_path)
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


def test_what_memory_lost_is_found_in_the_run_s_own_log(tmp_path: Path) -> None:
    """A result that gave way in memory is read from the log that the run is still writing."""
    script = [calls(use("report", {"lines": 1_000}, id="toolu_big")), calls(use("Read", ASK)), says("Read.")]
    with LoopbackServer(script) as server:
        anyio.run(work, made(server, tmp_path, kept=500), "Report.", tmp_path / "logs" / "r.jsonl")
        assert server.breaches == []
        assert "line 700 of the report" in results([request.body for request in server.messages])[1]


def died_behind_the_result(log: Path, copy: Path) -> None:
    """Copy a log as a process would have left it that died right after the result was recorded."""
    lines = log.read_bytes().splitlines(keepends=True)
    records = list(read_log(log).records())
    kept = next(place for place, record in enumerate(records) if isinstance(record.event, ToolFinished))
    assert len(lines) > len(records), "a header, then one line a record"
    copy.parent.mkdir()
    copy.write_bytes(b"".join(lines[: kept + 2]))
    shutil.copytree(folder_of(log), folder_of(copy))


def test_an_interrupted_run_finds_its_results_when_it_goes_on(tmp_path: Path) -> None:
    """``Agent.resume`` in a new process: what the dead one had in memory is read from the log that is gone on with."""
    script = [calls(use("report", {"lines": 1_000}, id="toolu_big")), says("Seen."), calls(use("Read", ASK)), says("Read.")]

    async def go_on(agent: Agent, log: Path) -> None:
        async with agent.resume(log) as run:
            async for _ in run:
                pass
        assert run.terminal is not None
        assert run.terminal.reason is TerminalReason.COMPLETED

    with LoopbackServer(script) as server:
        anyio.run(work, made(server, tmp_path), "Report.", tmp_path / "first" / "r.jsonl")
        dead = tmp_path / "dead" / "r.jsonl"
        died_behind_the_result(tmp_path / "first" / "r.jsonl", dead)
        anyio.run(go_on, made(server, tmp_path), dead)
        assert server.breaches == []
        shown = results([request.body for request in server.messages])
    assert reference("toolu_big") in shown[0]
    assert "line 700 of the report" in shown[1]


def test_a_session_finds_results_of_the_log_that_it_was_taken_up_from(tmp_path: Path) -> None:
    """``Session.resume`` of a run that ended, and of one that died: the next prompt reads a result of that run."""

    async def next_prompt(agent: Agent, log: Path) -> None:
        session = Session.resume(agent, log)
        if session.interrupted is not None:
            async with session.go_on() as going:
                async for _ in going:
                    pass
        async with session.submit("Once more.", log=log.parent / "next.jsonl") as submission:
            async for _ in submission:
                pass
        assert session.result is not None
        assert session.result["subtype"] == "success"

    script = [calls(use("report", {"lines": 1_000}, id="toolu_big")), says("Seen.")]
    again = [calls(use("Read", ASK)), says("Read.")]
    with LoopbackServer([*script, *again, says("Seen at last."), *again]) as server:
        log, dead = tmp_path / "first" / "r.jsonl", tmp_path / "dead" / "r.jsonl"
        anyio.run(work, made(server, tmp_path), "Report.", log)
        died_behind_the_result(log, dead)
        for place, request in ((log, 3), (dead, 6)):
            anyio.run(next_prompt, made(server, tmp_path), place)
            assert server.breaches == []
            shown = results([server.messages[request].body])
            assert "line 700 of the report" in shown[1], place
