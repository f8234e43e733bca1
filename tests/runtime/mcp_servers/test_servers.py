"""MCP servers that work and that do not: real processes and real HTTP (field reports 94, 131, 132)."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from fsm_agent import Agent
from fsm_agent.core.events import Outcome
from fsm_agent.runtime.mcp.config import ServerConfig
from fsm_agent.runtime.mcp.servers import tool_name
from fsm_agent.runtime.tools.base import ToolOutput
from fsm_agent.server.app import LoopbackServer
from fsm_agent.server.replies import calls, says
from fsm_agent.server.replies import tool as use

from .kit import HERE, alive, bad, good, noted, servers

pytest.importorskip("mcp", reason="the 'mcp' extra is not installed")

BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])


async def answered(server: Any) -> bool:
    """True once the server answers as it should; on a busy machine the short limits of these tests may be met first."""
    for _ in range(20):
        if (await server.call("fine", {})).content == "fine":
            return True
    return False


def go(work: Callable[[], Awaitable[Any]], backend: str = "asyncio") -> Any:
    """Run a test's coroutine and see that nothing of it is left."""
    threads = set(threading.enumerate())
    handles = len(os.listdir("/proc/self/fd"))
    value = anyio.run(work, backend=backend)
    for thread in set(threading.enumerate()) - threads:
        # A thread that has just collected a process may need a moment; those that trio keeps for a while are not ours.
        if not thread.name.startswith("Trio"):
            thread.join(timeout=5)
            assert not thread.is_alive(), thread.name
    assert len(os.listdir("/proc/self/fd")) <= handles
    return value


@BACKENDS
def test_94_a_real_server_over_stdio(tmp_path: Path, backend: str) -> None:
    """Tools of a server made with the official package: results, errors, images, variables; its process ends with the block."""

    async def work() -> int:
        config = good(env={"GREETING": "hello"})
        async with servers(config, folder=tmp_path) as made:
            assert made.warnings == []
            assert "mcp__good__add" in [tool.name for tool in made.tools]
            (server,) = made.servers
            assert (await server.call("add", {"a": 1, "b": 2})).content == "3"
            failed = await server.call("fail", {"words": "no"})
            assert failed.outcome is Outcome.ERROR
            media = (await server.call("media", {})).content
            assert [part["type"] for part in media] == ["text", "image", "text"]
            assert media[1]["source"]["media_type"] == "image/png"
            assert (await server.call("environment", {"name": "GREETING"})).content == "hello"
            assert (await server.call("environment", {"name": "ANTHROPIC_API_KEY"})).content == "(unset)"
            # Field report 94: a server that wants something of the user is told that nobody can be asked.
            assert (await server.call("ask", {})).outcome is Outcome.ERROR
            return int((await server.call("pid", {})).content)

    assert not alive(go(work, backend))


@BACKENDS
@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("exit", "ended during the call: it ended with exit code 0"),
        ("exit-3", "ended during the call: it ended with exit code 3; it printed: out of cheese"),
        ("kill", "ended during the call: it was ended by signal 9"),
        ("close-stdout", "ended during the call: it closed its standard output"),
        ("half", "did not answer within 0.4 s"),
        ("other-id", "did not answer within 0.4 s"),
        ("late", "did not answer within 0.4 s"),
        ("flood", "did not answer within 0.4 s"),
        ("deaf", "did not answer within 0.4 s"),
        ("nonsense", "it printed 1001 lines that are no messages"),
        ("one-line", "it printed a line of more than 16000000 bytes"),
        ("wrong-shape", "an answer that cannot be used"),
    ],
)
def test_131_a_call_that_goes_wrong_ends_and_names_its_server(tmp_path: Path, backend: str, mode: str, words: str) -> None:
    """Whatever a server does in a call, that call fails in bounded time and names it; others work; no process is left."""

    async def work() -> None:
        limit = 0.4 if words.startswith("did not") else 20.0
        configs = (
            bad(mode, tmp_path, timeout=limit),
            ServerConfig("other", "stdio", sys.executable, bad("x", tmp_path / "o").args),
        )
        (tmp_path / "o").mkdir()
        async with servers(*configs, folder=tmp_path) as made:
            (tmp_path / "called").touch()
            broken, other = made.servers
            output = await broken.call("bad", {})
            assert output.outcome is Outcome.FAILED
            assert "The MCP server bad" in str(output.content)
            assert words in str(output.content)
            assert await answered(other)
            # The next call is answered, by the same process or by another one.
            if mode not in ("flood", "deaf"):
                assert await answered(broken)

    go(work, backend)
    assert not [pid for pid in noted(tmp_path, "start") if alive(int(pid))]


def test_131_a_server_that_is_deaf_is_ended_and_started_again(tmp_path: Path) -> None:
    """A server that lets a call time out and then does not even list its tools is ended; the next call has a new one."""

    async def work() -> None:
        async with servers(bad("deaf", tmp_path, timeout=0.3), folder=tmp_path, probe=0.2) as made:
            (server,) = made.servers
            (tmp_path / "called").touch()
            assert "did not answer" in str((await server.call("bad", {})).content)
            while server.connected:
                await anyio.sleep(0.01)
            assert server.problem == "it no longer answered, and was ended"
            (tmp_path / "called").unlink()
            assert await answered(server)
            assert server.starts > 1

    go(work)


@BACKENDS
@pytest.mark.parametrize(
    ("mode", "words"), [("never", "it did not answer within 0.5 s"), ("garbage", "it ended with exit code 1")]
)
def test_131_a_server_that_never_becomes_ready(tmp_path: Path, backend: str, mode: str, words: str) -> None:
    """A server that does not answer ``initialize``, or ends before, is a warning; the others are there."""

    async def work() -> None:
        fine = ServerConfig("fine", "stdio", sys.executable, bad("x", tmp_path).args)
        async with servers(fine, folder=tmp_path) as made:
            assert made.warnings == []
        async with servers(bad(mode, tmp_path), folder=tmp_path, connect=0.5 if mode == "never" else 20.0) as made:
            (warning,) = made.warnings
            assert "The MCP server bad cannot be used" in warning
            assert words in warning
            assert made.tools == ()
            assert made.statuses == ({"name": "bad", "status": "failed"},)

    go(work, backend)
    assert not [pid for pid in noted(tmp_path, "start") if alive(int(pid))]


def test_131_restarts_are_bounded(tmp_path: Path) -> None:
    """A server that dies in every call is started again three times in a row; an answered call begins the count anew."""

    async def work() -> None:
        async with servers(bad("exit-3", tmp_path), folder=tmp_path) as made:
            (server,) = made.servers
            for _ in range(2):
                await server.call("bad", {})
            assert (await server.call("fine", {})).content == "fine"
            said = [str((await server.call("bad", {})).content) for _ in range(6)]
            assert ["ended during the call" in text for text in said] == [True] * 4 + [False] * 2
            assert "is not started again: it ended with exit code 3" in said[-1]
            assert server.starts == 6

    go(work)


def test_131_a_late_answer_is_ignored(tmp_path: Path) -> None:
    """An answer that comes after the timeout reaches nobody, and the next call gets its own."""

    async def work() -> None:
        async with servers(bad("late", tmp_path, timeout=0.3), folder=tmp_path) as made:
            (server,) = made.servers
            assert "did not answer" in str((await server.call("bad", {})).content)
            await anyio.sleep(0.5)
            assert await answered(server)

    go(work)


def test_82_a_lone_surrogate_of_a_server_becomes_a_replacement(tmp_path: Path) -> None:
    """A server whose answer holds half a character is understood; the half is U+FFFD."""

    async def work() -> ToolOutput:
        async with servers(bad("surrogate", tmp_path), folder=tmp_path) as made:
            return await made.servers[0].call("bad", {})

    assert go(work).content == "a\ufffd!"


@BACKENDS
@pytest.mark.parametrize("mode", ["child", "stubborn"])
def test_131_what_a_server_leaves_is_ended(tmp_path: Path, backend: str, mode: str) -> None:
    """A child in a session of its own, and a server that hears neither its input's end nor TERM, are gone at the end."""

    async def work() -> None:
        async with servers(bad(mode, tmp_path), folder=tmp_path) as made:
            assert (await made.servers[0].call("fine", {})).content == "fine"

    go(work, backend)
    pids = [int(pid) for word in ("start", "child") for pid in noted(tmp_path, word)]
    assert len(pids) == 2
    assert not [pid for pid in pids if alive(pid)]


@BACKENDS
def test_132_one_of_two_calls_is_cancelled(tmp_path: Path, backend: str) -> None:
    """Two calls in parallel, one cancelled: the other one is answered, and the server goes on."""

    async def work() -> list[Any]:
        found: list[Any] = []
        async with servers(bad("slow", tmp_path), folder=tmp_path) as made:
            (server,) = made.servers

            async def call(seconds: float) -> None:
                found.append((await server.call("bad", {"seconds": seconds})).content)

            async with anyio.create_task_group() as group:
                with anyio.CancelScope() as scope:
                    async with anyio.create_task_group() as inner:
                        inner.start_soon(call, 30.0)
                        group.start_soon(call, 0.2)
                        await anyio.sleep(0.1)
                        scope.cancel()
            found.append((await server.call("fine", {})).content)
            found.append(server.starts)
        return found

    assert go(work, backend) == ["waited", "fine", 1]


@BACKENDS
@pytest.mark.parametrize("moment", ["connecting", "idle", "calling"])
def test_132_cancelled_at_any_moment(tmp_path: Path, backend: str, moment: str) -> None:
    """The whole is cancelled while it connects, rests or calls: the cancellation comes out as one, and no process is left."""

    async def work() -> None:
        mode = "never" if moment == "connecting" else "deaf"
        with anyio.move_on_after(0.5) as limit:
            async with servers(bad(mode, tmp_path), folder=tmp_path) as made:
                if moment == "calling":
                    await made.servers[0].call("bad", {})
                await anyio.sleep_forever()
        assert limit.cancelled_caught

    go(work, backend)
    assert not [pid for pid in noted(tmp_path, "start") if alive(int(pid))]


@BACKENDS
def test_132_an_error_in_the_block_stays_itself(tmp_path: Path, backend: str) -> None:
    """An exception raised while servers are open comes out as it is, in no group."""

    async def work() -> None:
        async with servers(bad("x", tmp_path), folder=tmp_path):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        anyio.run(work, backend=backend)


@BACKENDS
def test_132_a_server_that_dies_while_idle(tmp_path: Path, backend: str) -> None:
    """A server that is killed between two calls is started again by the next one."""

    async def work() -> None:
        async with servers(bad("x", tmp_path), folder=tmp_path) as made:
            (server,) = made.servers
            assert (await server.call("fine", {})).content == "fine"
            os.kill(int(noted(tmp_path, "start")[0]), 9)
            while server.connected:
                await anyio.sleep(0.01)
            assert server.problem == "it was ended by signal 9"
            assert (await server.call("fine", {})).content == "fine"

    go(work, backend)


def test_a_list_of_tools_without_an_end(tmp_path: Path) -> None:
    """A server whose list of tools never ends is cut off; each name is there once."""

    async def work() -> tuple[str, ...]:
        async with servers(bad("endless-list", tmp_path), folder=tmp_path) as made:
            return tuple(tool.name for tool in made.tools)

    assert go(work) == ("mcp__bad__bad", "mcp__bad__fine")


def test_a_program_that_does_not_exist(tmp_path: Path) -> None:
    """A server whose program cannot be started is a warning that names both."""

    async def work() -> list[str]:
        async with servers(ServerConfig("none", "stdio", "/no/such/program"), folder=tmp_path) as made:
            return made.warnings

    (warning,) = go(work)
    assert "The MCP server none cannot be used" in warning
    assert "/no/such/program" in warning


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize(
    ("backend", "kind", "answers"), [("asyncio", "http", "stream"), ("trio", "http", "json"), ("asyncio", "sse", "stream")]
)
def test_a_real_server_over_http(tmp_path: Path, backend: str, kind: str, answers: str) -> None:
    """The same server over HTTP: it is called, killed in the middle of a call, and the call fails and names it."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, str(HERE / "good_server.py"), kind, str(port), answers], stderr=subprocess.DEVNULL
    )
    path = "mcp" if kind == "http" else "sse"
    config = ServerConfig("web", kind, url=f"http://127.0.0.1:{port}/{path}", timeout=10.0)

    async def listening() -> None:
        while True:
            try:
                await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
            except OSError:
                await anyio.sleep(0.05)
            else:
                return

    async def work() -> None:
        await listening()
        async with servers(config, folder=tmp_path) as made:
            assert made.warnings == []
            (server,) = made.servers
            assert (await server.call("add", {"a": 2, "b": 2})).content == "4"
            found: list[ToolOutput] = []

            async def call() -> None:
                found.append(await server.call("wait", {"seconds": 30.0}))

            async with anyio.create_task_group() as group:
                group.start_soon(call)
                await anyio.sleep(0.3)
                process.kill()
            (output,) = found
            assert output.outcome is not Outcome.OK
            assert "The MCP server web" in str(output.content)

    try:
        anyio.run(work, backend=backend)
    finally:
        process.kill()
        process.wait()


def test_nobody_listens_over_http(tmp_path: Path) -> None:
    """A server over HTTP that is not there is a warning."""
    config = ServerConfig("web", "http", url=f"http://127.0.0.1:{free_port()}/mcp")

    async def work() -> list[str]:
        async with servers(config, folder=tmp_path) as made:
            return made.warnings

    (warning,) = go(work)
    assert "The MCP server web cannot be used" in warning


def test_a_server_from_the_package_index(tmp_path: Path) -> None:
    """A published server, ``mcp-server-time``, is connected to and called."""
    pytest.importorskip("mcp_server_time", reason="mcp-server-time is not installed")
    config = ServerConfig("time", "stdio", sys.executable, ("-m", "mcp_server_time", "--local-timezone", "UTC"))

    async def work() -> ToolOutput:
        async with servers(config, folder=tmp_path) as made:
            assert made.warnings == []
            assert [tool.name for tool in made.tools] == ["mcp__time__get_current_time", "mcp__time__convert_time"]
            fields = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
            return await made.servers[0].call("convert_time", fields)

    output = go(work)
    assert output.outcome is Outcome.OK
    assert "21:00" in str(output.content)


@BACKENDS
def test_an_agent_uses_a_server(tmp_path: Path, backend: str) -> None:
    """A run of the real agent calls a tool of a real server; a rule allows it, another tool is denied."""
    script = [calls(use("mcp__bad__fine", {}), use("mcp__bad__bad", {})), says("42")]
    with LoopbackServer(script) as server:

        async def work() -> Any:
            async with servers(bad("x", tmp_path), folder=tmp_path) as made:
                agent = Agent(
                    "claude-sonnet-5-5",
                    cwd=tmp_path,
                    base_url=server.base_url,
                    api_key="k",
                    tools=made.tools,
                    allow=["mcp__bad__fine"],
                )
                async with agent.run("go") as run:
                    async for _ in run:
                        pass
                return run

        anyio.run(work, backend=backend)
        assert server.breaches == []
        content = server.requests[1].body["messages"][-1]["content"]
    assert content[0]["content"] == "fine"
    assert content[1]["is_error"]
    assert "denied" in content[1]["content"]


@pytest.mark.parametrize("mode", ["deaf", "flood"])
def test_131_abort_while_a_server_is_silent(tmp_path: Path, mode: str) -> None:
    """An interrupt while a server does not answer, or answers with a flood, ends the run; the server is gone with its block."""
    with LoopbackServer([calls(use("mcp__bad__bad", {}))]) as server:

        async def work() -> Any:
            async with servers(bad(mode, tmp_path), folder=tmp_path) as made:
                agent = Agent(
                    "claude-sonnet-5-5",
                    cwd=tmp_path,
                    base_url=server.base_url,
                    api_key="k",
                    tools=made.tools,
                    permission_mode="bypassPermissions",
                )
                async with agent.run("go") as run, anyio.create_task_group() as group:

                    async def stop() -> None:
                        while run.state.phase != "running_tools":
                            await anyio.sleep(0.01)
                        await anyio.sleep(0.1)
                        run.interrupt()

                    group.start_soon(stop)
                    async for _ in run:
                        pass
                return run.terminal

        terminal = anyio.run(work)
    assert terminal.reason.value == "aborted_tools"
    assert not [pid for pid in noted(tmp_path, "start") if alive(int(pid))]


@pytest.mark.parametrize(
    ("server", "tool", "name"),
    [("a", "b", "mcp__a__b"), ("time", "get_current_time", "mcp__time__get_current_time")],
)
def test_names_stay_plain(server: str, tool: str, name: str) -> None:
    """A plain name is kept."""
    assert tool_name(server, tool) == name


def test_odd_names_are_told_apart() -> None:
    """Names with other characters, or too long ones, become names that the API takes, and two never become one."""
    odd = ["a b", "a.b", "a/b", "ä", "x" * 64, "x" * 65, "x" * 200, "", "a_b"]
    made = [tool_name("server", name) for name in odd]
    assert len(set(made)) == len(odd)
    assert all(len(name) <= 64 and name.isascii() and name.replace("_", "").replace("-", "").isalnum() for name in made)
    assert json.dumps(made) == json.dumps([tool_name("server", name) for name in odd])
