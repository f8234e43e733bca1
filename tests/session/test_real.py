"""The agent as users make it: the official SDK over real HTTP, the built-in tools on real files, a real log."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from attrs import fields

from fsm_agent import Agent, ConfigError, Session, run_sync
from fsm_agent.core.config import LoopConfig
from fsm_agent.core.outputs import BlockOutput, Notice, RawStreamEvent, TextDelta, ToolResult
from fsm_agent.core.phases import Cause, TerminalReason
from fsm_agent.log.replay import replay
from fsm_agent.runtime.hooks.config import Hook, HookEvent
from fsm_agent.runtime.tools.decorator import tool
from fsm_agent.server.app import LoopbackServer
from fsm_agent.server.replies import HttpError, Stall, calls, says
from fsm_agent.server.replies import tool as use
from fsm_agent.session.parts import Parts

MODEL = "claude-sonnet-5-5"


def agent_at(server: LoopbackServer, cwd: Path, **settings: Any) -> Agent:
    return Agent(MODEL, cwd=cwd, base_url=server.base_url, api_key="k", **settings)


def runs(pid: int) -> bool:
    """Say whether a process runs; one that has ended and was not yet collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def own_threads() -> set[str]:
    """Names of the threads; those that trio keeps for a while for name lookups are not ours."""
    return {thread.name for thread in threading.enumerate() if not thread.name.startswith("Trio")}


def open_sockets() -> int:
    count = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            count += os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
        except OSError:
            continue
    return count


def closed_down_to(count: int) -> bool:
    """No more sockets than that stay open; the server in this process closes its side a moment after ours."""
    for _ in range(500):
        if open_sockets() <= count:
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_reads_and_edits_a_file(tmp_path: Path, backend: str) -> None:
    """The model reads a file, edits it and ends; the file is changed, the log replays, and no socket stays open."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("one two\n")
    script = [
        calls(use("Read", {"file_path": str(work / "a.txt")})),
        calls(use("Edit", {"file_path": str(work / "a.txt"), "old_string": "two", "new_string": "three"})),
        says("Changed."),
    ]
    with LoopbackServer(script) as server:
        before = open_sockets()
        agent = agent_at(server, work, permission_mode="acceptEdits", logs=tmp_path / "logs")
        outcome = run_sync("please change two to three", agent=agent, backend=backend)
        assert closed_down_to(before)
        assert [request.breaches for request in server.requests] == [()] * 3
    assert (work / "a.txt").read_text() == "one three\n"
    assert (outcome.text, outcome.terminal.reason) == ("Changed.", TerminalReason.COMPLETED)
    assert outcome.result["transitions"] == ["next_turn", "next_turn"]
    assert replay(outcome.result["log"]).state == outcome.state
    assert oct(os.stat(outcome.result["log"]).st_mode & 0o777) == "0o600"


def test_own_tool_and_hooks(tmp_path: Path) -> None:
    """A decorated function is a tool, a stop hook blocks once, and a denied call is reported."""

    @tool(read_only=True)
    def shout(word: str) -> str:
        """Say a word loudly."""
        return word.upper()

    blocked: list[Any] = []

    def once(value: Any) -> Any:
        blocked.append(value)
        return {"decision": "block", "reason": "one more"} if len(blocked) == 1 else None

    script = [calls(use("shout", {"word": "hey"})), says("no"), calls(use("Write", {"file_path": "x"})), says("yes")]
    with LoopbackServer(script) as server:
        agent = agent_at(server, tmp_path, tools=[shout], hooks=[Hook(HookEvent.STOP, call=once)])
        seen: list[Any] = []
        outcome = run_sync("go", agent=agent, on_output=seen.append)
        bodies = [request.body for request in server.requests]
    assert "HEY" in json.dumps(bodies[1])
    assert "one more" in json.dumps(bodies[2])
    assert outcome.result["transitions"] == ["next_turn", "stop_hook_blocking", "next_turn"]
    results = [output for output in seen if isinstance(output, ToolResult)]
    assert [result.block.is_error for result in results] == [False, True]


def test_warnings_reach_the_consumer(tmp_path: Path) -> None:
    """What was left out of the settings, and a hook that fails without deciding anything, are notices."""

    def broken(value: Any) -> Any:
        raise ValueError("broken hook")

    (tmp_path / "a").write_text("x")
    script = [calls(use("Read", {"file_path": str(tmp_path / "a")})), says("ok"), says("ok")]
    with LoopbackServer(script) as server:
        agent = agent_at(server, tmp_path, hooks=[Hook(HookEvent.POST_TOOL_USE, call=broken)])
        agent.warnings = ("hooks.Odd: left out",)
        seen: list[Any] = []
        outcome = run_sync("go", agent=agent, on_output=seen.append)
    notices = [output.text for output in seen if isinstance(output, Notice)]
    assert notices[0] == "hooks.Odd: left out"
    assert any("broken hook" in text for text in notices[1:])
    assert outcome.text == "ok"


def test_denied_call_is_in_the_result(tmp_path: Path) -> None:
    """What would be asked is denied without an asker, and the result says so."""
    with LoopbackServer([calls(use("Bash", {"command": "touch x"})), says("ok")]) as server:
        outcome = run_sync("go", agent=agent_at(server, tmp_path))
    assert [denial["tool_name"] for denial in outcome.result["permission_denials"]] == ["Bash"]
    assert set(outcome.result["permission_denials"][0]) == {"tool_name", "tool_use_id", "tool_input"}
    assert not (tmp_path / "x").exists()


def test_interrupt_ends_a_command_and_its_children(tmp_path: Path) -> None:
    """An interrupt while a shell command runs leaves no process; the next prompt goes on in the same conversation."""
    command = "sleep 60 & echo $! > pid; wait"
    with LoopbackServer([calls(use("Bash", {"command": command})), says("fine")]) as server:
        session = Session(agent_at(server, tmp_path, permission_mode="bypassPermissions"))

        async def main() -> None:
            async with session.submit("go") as submission, anyio.create_task_group() as group:

                async def stop() -> None:
                    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
                        await anyio.sleep(0.01)
                    submission.run.interrupt()

                group.start_soon(stop)
                async for _ in submission:
                    pass
            assert submission.terminal is not None
            assert submission.terminal.reason is TerminalReason.ABORTED_TOOLS
            async with session.submit("go on") as submission:
                async for _ in submission:
                    pass

        anyio.run(main)
        assert [request.breaches for request in server.requests] == [()] * 2
    assert not runs(int((tmp_path / "pid").read_text()))
    assert session.result is not None
    assert session.result["result"] == "fine"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_leaving_a_stalled_stream_leaves_nothing(tmp_path: Path, backend: str) -> None:
    """A consumer that leaves while the server is silent closes the connection; no socket and no thread stays."""
    threads = own_threads()
    with LoopbackServer([Stall(says("one two three"), after_frames=3)]) as server:
        before = open_sockets()
        agent = agent_at(server, tmp_path)

        async def main() -> Any:
            async with agent.run("go") as run:
                async for output in run:
                    if isinstance(output, TextDelta):
                        break
            return run.terminal

        terminal = anyio.run(main, backend=backend)
        assert closed_down_to(before)
    assert terminal.cause is Cause.CONSUMER_CLOSED
    assert own_threads() == threads


def test_refused_key_is_an_api_failure(tmp_path: Path) -> None:
    """A wrong key ends the run with the API's words and the exit code of an API failure."""
    with LoopbackServer([HttpError(401, "authentication_error", "invalid x-api-key")]) as server:
        outcome = run_sync("go", agent=agent_at(server, tmp_path))
    assert (outcome.terminal.reason, outcome.terminal.cause) == (TerminalReason.MODEL_ERROR, Cause.AUTH)
    assert outcome.result["api_error_status"] == 401


def test_raw_events_and_deltas_come_before_their_block(tmp_path: Path) -> None:
    """Raw events are outputs when asked for, and text streams before its block is complete."""
    with LoopbackServer([says("hello there")]) as server:
        seen: list[Any] = []
        run_sync("go", agent=agent_at(server, tmp_path, raw_events=True), on_output=seen.append)
    kinds = [type(output) for output in seen]
    assert RawStreamEvent in kinds
    assert kinds.index(TextDelta) < kinds.index(BlockOutput)


def test_connections_are_kept_between_runs_on_request(tmp_path: Path) -> None:
    """An agent that is entered keeps its connection from run to run and closes it at the end."""
    with LoopbackServer([says("one"), says("two")]) as server:
        before = open_sockets()

        async def main() -> int:
            async with agent_at(server, tmp_path) as agent:
                for _ in range(2):
                    async with agent.run("go") as run:
                        async for _ in run:
                            pass
                return open_sockets()

        assert anyio.run(main) > before
        assert closed_down_to(before)


def test_what_is_wrong_with_the_parts_is_told(tmp_path: Path) -> None:
    """A mode, rule or folder that cannot be is refused when the agent is made; parts and settings share no name."""
    for wrong in ({"permission_mode": "maybe"}, {"allow": ["Bash("]}, {"cwd": tmp_path / "none"}):
        with pytest.raises(ValueError, match=r"maybe|Bash\(|none"):
            Agent(MODEL, **{"cwd": tmp_path, **wrong})
    with pytest.raises(ConfigError, match="did you mean base_url"):
        Agent(MODEL, cwd=tmp_path, base_ur="x")
    with pytest.raises(ConfigError, match="is a setting of the context"):
        Agent(MODEL, cwd=tmp_path, keep_rounds=1)
    assert {field.name for field in fields(Parts)} & {field.name for field in fields(LoopConfig)} == {"tools"}
    assert Agent(MODEL, cwd=tmp_path).config.info(MODEL).known
