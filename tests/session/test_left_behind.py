"""What runs leave behind when they are aborted, or when their engine is killed: nothing (field report 78)."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from fsm_agent import Agent
from fsm_agent.core.outputs import Notice
from fsm_agent.core.phases import AbortReason
from fsm_agent.runtime.mcp.config import ServerConfig
from fsm_agent.runtime.mcp.servers import McpServers
from fsm_agent.runtime.tools.builtin import builtin_tools
from fsm_agent.runtime.tools.environment import child_environment
from fsm_agent.runtime.tools.orphans import end_orphans, find_orphans
from fsm_agent.runtime.tools.survivors import all_marked, life_of
from fsm_agent.server.app import LoopbackServer
from fsm_agent.server.replies import Stall
from fsm_agent.session.subagents import AgentTool

from .family import Family, ask, calls, says, use

HERE = Path(__file__).parent
BAD_SERVER = HERE.parent / "runtime" / "mcp_servers" / "bad_server.py"
MODEL = "claude-sonnet-5-5"


def alive(pid: int) -> bool:
    """True if a process runs; one that only waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def wait_for(condition: Callable[[], Any]) -> Any:
    """Wait until a condition holds; one that never does is an error."""
    for _ in range(3_000):
        if value := condition():
            return value
        time.sleep(0.01)
    raise AssertionError("what the test waits for never came")


def pids(folder: Path, *names: str) -> list[int]:
    """Process ids that commands wrote down, once all are there."""
    files = [folder / name for name in names]
    wait_for(lambda: all(file.exists() and file.read_text().strip() for file in files))
    return [int(file.read_text()) for file in files]


def test_78_a_killed_engine_leaves_nothing_behind_its_resume(tmp_path: Path) -> None:
    """After kill -9 an MCP server ends by itself; commands, an agent's too, are found by the resume, ended and reported."""
    pytest.importorskip("mcp", reason="the 'mcp' extra is not installed")
    escape = "setsid sh -c 'echo $$ > one; exec sleep 300' & sleep 300"
    shell = use("Bash", {"command": f"echo $$ > two; {escape}"})
    script = Family(main=[calls(ask("work")), says("resumed")], work=[calls(shell), says("stopped")])
    with LoopbackServer(script) as server:
        environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1])}
        argv = [sys.executable, str(HERE / "left_behind_engine.py"), server.base_url, str(tmp_path), str(BAD_SERVER)]
        engine = subprocess.Popen(argv, env=environment)
        try:
            found = pids(tmp_path, "one", "two")
        finally:
            engine.kill()
            engine.wait()
        (server_pid,) = [int(line.split()[1]) for line in (tmp_path / "log").read_text().splitlines() if "start" in line]
        wait_for(lambda: not alive(server_pid))
        assert all(alive(pid) for pid in found)
        seen: list[Any] = []

        async def resume() -> Any:
            agent = Agent(
                MODEL,
                cwd=tmp_path,
                base_url=server.base_url,
                api_key="k",
                tools=[*builtin_tools(), AgentTool()],
                permission_mode="bypassPermissions",
            )
            async with agent.resume(tmp_path / "log.jsonl") as run:
                async for output in run:
                    seen.append(output)
            return run.terminal

        terminal = anyio.run(resume)
        assert server.breaches == []
    assert not [pid for pid in found if alive(pid)]
    assert terminal.reason == "completed"
    (notice,) = [output.text for output in seen if isinstance(output, Notice) and "interrupted run" in output.text]
    assert all(str(pid) in notice for pid in found)
    assert find_orphans("killed") == ()


def test_78_only_the_run_s_own_processes_are_ended(tmp_path: Path) -> None:
    """Processes of other runs, whose ids merely begin alike, and those above the engine are spared."""
    marks = {"mine": "x.run-abc.1", "agent": ".run-abc-tool-4-general.2", "other": ".run-abcd.3", "below": ".run-xabc.4"}
    children = {
        name: subprocess.Popen(["sleep", "300"], env={**os.environ, "FSM_AGENT_PROCESS": mark}) for name, mark in marks.items()
    }
    try:
        found = end_orphans("abc")
        assert {item.pid for item in found.ended} == {children["mine"].pid, children["agent"].pid}
        assert found.survivors == ()
        assert [name for name, child in children.items() if alive(child.pid)] == ["other", "below"]
        assert str(end_orphans("abc")) == ""
    finally:
        for child in children.values():
            child.kill()
            child.wait()


def test_78_what_a_living_engine_started_is_spared(tmp_path: Path) -> None:
    """A fork has the id of its run: a resume of the one ends what dead engines left, and nothing of an engine at work."""
    engines = [subprocess.Popen(["sleep", "300"]) for _ in range(2)]
    marks = {
        f"{mark}{number}": f".run-{run}.0a1b_{life_of(engine.pid)}"
        for mark, run in (("own", "forked"), ("agent", "forked-tool-4-general"))
        for number, engine in enumerate(engines)
    }
    children = {
        name: subprocess.Popen(["sleep", "300"], env={**os.environ, "FSM_AGENT_PROCESS": mark}) for name, mark in marks.items()
    }
    try:
        assert find_orphans("forked") == ()
        engines[0].kill()
        wait_for(lambda: not alive(engines[0].pid))
        found = end_orphans("forked")
        assert {item.pid for item in found.ended} == {children["own0"].pid, children["agent0"].pid}
        assert [name for name, child in children.items() if alive(child.pid)] == ["own1", "agent1"]
    finally:
        for child in (*engines, *children.values()):
            child.kill()
            child.wait()


def test_78_one_that_hears_no_signal_but_kill(tmp_path: Path) -> None:
    """A process that ignores TERM is ended with KILL."""
    line = "trap '' TERM; echo $$ > pid; while :; do sleep 0.1; done"
    child = subprocess.Popen(["sh", "-c", line], cwd=tmp_path, env={**os.environ, "FSM_AGENT_PROCESS": ".run-deaf.1"})
    try:
        pids(tmp_path, "pid")
        found = end_orphans("deaf")
        assert child.pid in [item.pid for item in found.ended]
        child.wait(timeout=10)
    finally:
        child.kill()
        child.wait()


# -- many aborted runs ----------------------------------------------------------------------------------------------


class Leftovers:
    """What this process has: handles, threads, children, and files in a folder for temporary ones."""

    def __init__(self, temporary: Path) -> None:
        self.temporary = temporary
        self.handles = self._handles()
        self.threads = set(threading.enumerate())

    @staticmethod
    def _handles() -> int:
        return len(os.listdir("/proc/self/fd"))

    def check(self) -> None:
        """Nothing is there that was not there before."""
        gc.collect()
        for thread in set(threading.enumerate()) - self.threads:
            # Workers of an event loop that has ended, and those that collect processes, may need a moment.
            if not thread.name.startswith("Trio"):
                thread.join(timeout=5)
                assert not thread.is_alive(), thread.name
        wait_for(lambda: self._handles() <= self.handles)
        assert all_marked((".run-aborted-",)) == ()
        assert list(self.temporary.iterdir()) == []
        children = Path(f"/proc/self/task/{os.getpid()}/children")
        if children.exists():
            assert [pid for pid in children.read_text().split() if alive(int(pid))] == []


def aborted_runs(count: int, folder: Path, backend: str) -> None:
    """Abort runs in every way and in every state: streaming, in a shell, in an agent, in an agent's shell, in a server."""
    shell = use("Bash", {"command": "sleep 300 & setsid sleep 300 & echo started; sleep 300"})
    ways = {
        "stream": [Stall(says("one two three"), after_frames=3)],
        "shell": [calls(shell)],
        "agent": [calls(ask("stream"))],
        "agents": [calls(ask("shell"), ask("stream"), ask("server"))],
        "server": [calls(use("mcp__bad__bad", {}))],
    }
    script = Family(**ways)
    config = ServerConfig("bad", "stdio", sys.executable, (str(BAD_SERVER), "deaf", str(folder)))

    async def one(agent: Agent, number: int, base: str) -> None:
        name = list(ways)[number % len(ways)]
        how = (None, AbortReason.INTERRUPT, AbortReason.SUBMIT)[number // len(ways) % 3]
        begun = anyio.Event()

        async def stop(run: Any) -> None:
            await begun.wait()
            # As many moments as there are runs.
            await anyio.sleep(0.002 * (number % 40))
            if how is None:
                await run.aclose()
            else:
                run.abort(how)

        async with agent.run(f"{name} go", run_id=f"aborted-{number}") as run, anyio.create_task_group() as group:
            group.start_soon(stop, run)
            async for _ in run:
                begun.set()
            begun.set()

    async def work() -> None:
        with LoopbackServer(script, keep_bodies=False) as server:
            async with McpServers([config], cwd=str(folder), env=child_environment(os.environ)) as servers:
                agent = Agent(
                    MODEL,
                    cwd=folder,
                    base_url=server.base_url,
                    api_key="k",
                    permission_mode="bypassPermissions",
                    tools=[*builtin_tools(), AgentTool(), *servers.tools],
                )
                limit = anyio.CapacityLimiter(4)

                async def limited(number: int) -> None:
                    async with limit:
                        await one(agent, number, server.base_url)

                async with anyio.create_task_group() as group:
                    for number in range(count):
                        group.start_soon(limited, number)

    run_on(work, backend)


def run_on(work: Callable[[], Awaitable[Any]], backend: str) -> None:
    """Run on an event loop and see that it has no task left at the end."""

    async def whole() -> None:
        await work()
        if backend == "asyncio":
            import asyncio

            await asyncio.sleep(0)
            left = asyncio.all_tasks() - {asyncio.current_task()}
            assert not left, left

    anyio.run(whole, backend=backend)


@pytest.mark.parametrize(
    ("count", "backend"),
    [
        (15, "asyncio"),
        (15, "trio"),
        pytest.param(1_000, "asyncio", marks=pytest.mark.long),
        pytest.param(1_000, "trio", marks=pytest.mark.long),
    ],
)
def test_aborted_runs_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, backend: str) -> None:
    """After many aborted runs no process, task, thread, socket or temporary file is left: shells, agents, servers included."""
    pytest.importorskip("mcp", reason="the 'mcp' extra is not installed")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    (tmp_path / "w").mkdir()
    # What is imported late opens files and starts threads of its own; once is enough.
    aborted_runs(3, tmp_path / "w", backend)
    before = Leftovers(temporary)
    aborted_runs(count, tmp_path / "w", backend)
    before.check()
