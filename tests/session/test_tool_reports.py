"""Field reports of groups G and H through the whole agent: real HTTP, real processes, real logs; star ones at every event."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from fsm_agent import Agent, Session, run_sync
from fsm_agent.core.outputs import ToolResult
from fsm_agent.core.phases import AbortReason
from fsm_agent.log.replay import replay
from fsm_agent.runtime.hooks.config import Hook, HookEvent
from fsm_agent.runtime.tools.asking import Answer, Question
from fsm_agent.runtime.tools.builtin import builtin_tools
from fsm_agent.runtime.tools.decorator import tool
from fsm_agent.server.app import LoopbackServer
from fsm_agent.server.replies import calls, says
from fsm_agent.server.replies import tool as use
from fsm_agent.session.subagents import AgentTool

from .family import Family, ask, results
from .test_left_behind import alive, pids, wait_for

MODEL = "claude-sonnet-5-5"
HERE = Path(__file__).parent


def agent_at(server: LoopbackServer, cwd: Path, **settings: Any) -> Agent:
    return Agent(MODEL, cwd=cwd, base_url=server.base_url, api_key="sk-ant-secret-key", **settings)


# -- G: tools and processes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_76_a_signal_to_the_engine_ends_its_command(tmp_path: Path, number: signal.Signals) -> None:
    """TERM or INT to the command line while a command runs: the command is gone when the engine has ended."""
    command = "echo $$ > pid; sleep 300"
    with LoopbackServer([calls(use("Bash", {"command": command}))]) as server:
        environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1]), "ANTHROPIC_API_KEY": "k"}
        argv = [sys.executable, "-m", "fsm_agent", "run", "go", "--model", MODEL, "--base-url", server.base_url]
        argv += ["--permission-mode", "bypassPermissions", "--cwd", str(tmp_path), "--log", str(tmp_path / "log.jsonl")]
        engine = subprocess.Popen(argv, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            (pid,) = pids(tmp_path, "pid")
            engine.send_signal(number)
            code = engine.wait(timeout=30)
        finally:
            engine.kill()
            engine.wait()
    assert code == {signal.SIGTERM: 143, signal.SIGINT: 130}[number]
    wait_for(lambda: not alive(pid))


LONE = "a\ud83d!"


def test_82_lone_surrogates_from_every_side(tmp_path: Path) -> None:
    """Half characters in prompt, tool input, output, file names and hooks become U+FFFD; whole ones stay whole."""
    os.close(os.open(os.fsencode(tmp_path) + b"/bad\xffname", os.O_CREAT | os.O_WRONLY))

    @tool(read_only=True)
    def say(words: str) -> str:
        """Say it back, with a half of its own."""
        assert "\ud83d" not in words
        return f"{words} and {LONE} \U0001f600"

    def hook(value: Any) -> Any:
        return {"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": f"hook {LONE}"}}

    whole_over_two_deltas = '{"words": "\\ud83d\\ude00 and \\ud83d"}'
    script = [
        calls(
            use("say", whole_over_two_deltas),
            use("Glob", {"pattern": "*"}),
            use("Bash", {"command": "printf 'a\\355\\240\\275'"}),
        ),
        says("ok"),
        says("ok"),
    ]
    with LoopbackServer(script) as server:
        agent = agent_at(
            server,
            tmp_path,
            tools=[*builtin_tools(), say],
            permission_mode="bypassPermissions",
            hooks=[Hook(HookEvent.POST_TOOL_USE, call=hook)],
            logs=tmp_path / "logs",
        )
        outcome = run_sync(f"go {LONE}", agent=agent)
        assert server.breaches == []
        raw = [request.raw for request in server.requests]
    for body in raw:
        body.decode("utf-8")
        assert b"\\ud83d" not in body.lower() or b"\\ud83d\\ude00" in body.lower()
    text = json.dumps(json.loads(raw[1]), ensure_ascii=False)
    assert "go a\ufffd!" in text
    assert "\U0001f600 and \ufffd and a\ufffd! \U0001f600" in text
    assert "hook a\ufffd!" in text
    assert "bad\ufffdname" in text or "bad" in text
    assert replay(outcome.result["log"]).state == outcome.state


def test_84_calls_that_cannot_be(tmp_path: Path) -> None:
    """Names that are misspelt or of another case, and wrong arguments, are errors that help; good calls beside run."""
    (tmp_path / "a").write_text("GOOD")
    bad = [
        use("Reed", {"file_path": "a"}),
        use("read", {"file_path": "a"}),
        use("mcp__gone__tool", {}),
        use("Read", {}),
        use("Read", {"file_path": "a", "extra": 1}),
        use("Read", {"file_path": 7}),
        use("Read", {"file_path": str(tmp_path / "a")}),
    ]
    script = [calls(*bad), says("ok")]
    with LoopbackServer(script) as server:
        outcome = run_sync("go", agent=agent_at(server, tmp_path))
        assert server.breaches == []
        found = results(server.requests[1].body)
    assert [wrong for _, wrong in found] == [True] * 6 + [False]
    assert "There is no tool 'Reed'" in found[0][0]
    assert "Did you mean Read?" in found[1][0]
    assert "file_path" in found[3][0]
    assert "extra" in found[4][0]
    assert "GOOD" in found[6][0]
    assert outcome.text == "ok"


def test_85_one_of_three_breaks(tmp_path: Path) -> None:
    """Of three calls side by side one raises; its siblings' real results are kept, and the run goes on."""
    done: list[str] = []

    @tool(read_only=True, concurrency_safe=True)
    async def slow(name: str) -> str:
        """Work for a moment."""
        await anyio.sleep(0.1)
        done.append(name)
        return f"real {name}"

    @tool(read_only=True, concurrency_safe=True)
    async def broken() -> str:
        """Break."""
        raise SystemExit("I leave")

    script = [calls(use("slow", {"name": "a"}), use("broken"), use("slow", {"name": "b"})), says("ok")]
    with LoopbackServer(script) as server:
        outcome = run_sync("go", agent=agent_at(server, tmp_path, tools=[slow, broken]))
        found = results(server.requests[1].body)
    assert [text for text, _ in found][::2] == ["real a", "real b"]
    assert found[1][1]
    assert "SystemExit" in found[1][0]
    assert sorted(done) == ["a", "b"]
    assert outcome.text == "ok"


def test_86_an_exit_code_cancels_nobody(tmp_path: Path) -> None:
    """`ls` of a missing path and `echo` in one reply both run."""
    script = [calls(use("Bash", {"command": "ls /nope"}), use("Bash", {"command": "echo ok"})), says("ok")]
    with LoopbackServer(script) as server:
        run_sync("go", agent=agent_at(server, tmp_path, permission_mode="bypassPermissions"))
        found = results(server.requests[1].body)
    assert [wrong for _, wrong in found] == [True, False]
    assert found[1][0] == "ok"


# -- H: permissions, hooks, secrets ---------------------------------------------------------------------------------


class Waiting:
    """Somebody who is asked and does not answer, until the test says so."""

    def __init__(self, answer: Answer | None = None) -> None:
        self.asked: list[Question] = []
        self.answer = answer

    async def ask(self, question: Question) -> Answer:
        """Take the question; answer at once or never."""
        self.asked.append(question)
        if self.answer is None:
            await anyio.sleep_forever()
        assert self.answer is not None
        return self.answer


def killed_at_the_question(agent: Agent, asker: Waiting, folder: Path, ready: Callable[[], bool]) -> Path:
    """Run until somebody is asked, keep the log as it is on disk in that moment, and give the copy: what a crash leaves."""

    async def work() -> None:
        async with (
            agent.run("go", run_id="first", log=folder / "logs" / "first.jsonl") as run,
            anyio.create_task_group() as group,
        ):

            async def watch() -> None:
                while not (asker.asked and ready()):
                    await anyio.sleep(0.005)
                shutil.copytree(folder / "logs", folder / "crashed")
                run.interrupt()

            group.start_soon(watch)
            async for _ in run:
                pass

    anyio.run(work)
    for lock in (folder / "crashed").glob("*.lock"):
        lock.unlink()
    return folder / "crashed" / "first.jsonl"


def resumed(agent: Agent, log: Path) -> list[Any]:
    """Resume a log and give the outputs."""
    seen: list[Any] = []

    async def work() -> None:
        async with agent.resume(log) as run:
            async for output in run:
                seen.append(output)

    anyio.run(work)
    return seen


def test_96_what_was_shown_is_what_runs_after_a_resume(tmp_path: Path) -> None:
    """Killed at the question, resumed: the same call is asked again and run as it was stored; the model is not asked before."""
    ran: list[str] = []

    @tool
    def record(word: str) -> str:
        """Record a word."""
        ran.append(word)
        return "recorded"

    # The model would say something else the second time; it must not be asked.
    script = [calls(use("record", {"word": "a"})), says("done"), calls(use("record", {"word": "b"}))]
    with LoopbackServer(script) as server:
        never = Waiting()
        log = killed_at_the_question(agent_at(server, tmp_path, tools=[record], asker=never), never, tmp_path, lambda: True)
        assert ran == []
        willing = Waiting(Answer(True))
        resumed(agent_at(server, tmp_path, tools=[record], asker=willing), log)
        assert server.breaches == []
        assert len(server.requests) == 2
    assert [question.tool_input for question in (*never.asked, *willing.asked)] == [{"word": "a"}] * 2
    assert ran == ["a"]


def test_98_the_free_calls_result_outlives_a_kill_at_the_question(tmp_path: Path) -> None:
    """A finished call and one that is asked about: after kill and resume the first is not run again, and both are answered."""
    ran: list[str] = []

    @tool(read_only=True)
    def free() -> str:
        """Needs no question."""
        ran.append("free")
        return "FREE RESULT"

    @tool
    def gated() -> str:
        """Is asked about."""
        ran.append("gated")
        return "GATED RESULT"

    with LoopbackServer([calls(use("free"), use("gated")), says("done")]) as server:
        never = Waiting()
        agent = agent_at(server, tmp_path, tools=[free, gated], asker=never)
        path = tmp_path / "logs" / "first.jsonl"
        log = killed_at_the_question(agent, never, tmp_path, lambda: "FREE RESULT" in path.read_text())
        rejecting = Waiting(Answer(False, "rather not"))
        resumed(agent_at(server, tmp_path, tools=[free, gated], asker=rejecting), log)
        assert server.breaches == []
        found = results(server.requests[1].body)
    assert ran == ["free"]
    assert found[0] == ("FREE RESULT", False)
    assert found[1][1]
    assert "rather not" in found[1][0]


def test_92_a_hook_that_never_returns(tmp_path: Path) -> None:
    """A gate that hangs is ended at its timeout, the call is denied and the result names the hook; the run goes on."""
    hook = Hook(HookEvent.PRE_TOOL_USE, command="sleep 300", timeout=0.3, name="gate")
    with LoopbackServer([calls(use("Bash", {"command": "touch x"})), says("ok")]) as server:
        outcome = run_sync("go", agent=agent_at(server, tmp_path, hooks=[hook], permission_mode="bypassPermissions"))
        ((text, wrong),) = results(server.requests[1].body)
    assert wrong
    assert "gate" in text
    assert "timed out" in text
    assert not (tmp_path / "x").exists()
    assert outcome.text == "ok"


def test_93_no_tool_reaches_through_a_link(tmp_path: Path) -> None:
    """Reading, writing and searching through links that lead out are denied without a question; links inside work."""
    work, outside = tmp_path / "w", tmp_path / "outside"
    work.mkdir()
    outside.mkdir()
    (outside / "secret").write_text("SECRET")
    (work / "out").symlink_to(outside)
    (work / "new").symlink_to(outside / "new")
    (work / "a").write_text("fine")
    (work / "inner").symlink_to("a")
    made = [
        use("Read", {"file_path": "out/secret"}),
        use("Write", {"file_path": "new", "content": "x"}),
        use("Write", {"file_path": "out/b", "content": "x"}),
        use("Grep", {"pattern": "SECRET", "path": "out"}),
        use("Read", {"file_path": "inner"}),
    ]
    with LoopbackServer([calls(*made), says("ok")]) as server:
        run_sync("go", agent=agent_at(server, work, permission_mode="acceptEdits"))
        found = results(server.requests[1].body)
        bodies = json.dumps([request.body for request in server.requests[1:]])
    assert [wrong for _, wrong in found] == [True] * 4 + [False]
    assert bodies.count("SECRET") == 1  # the model's own words
    assert [path.name for path in outside.iterdir()] == ["secret"]


def test_99_the_key_is_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's key is in no request body, log, output, child environment or text of the configuration."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-secret-key")
    seen: list[Any] = []
    with LoopbackServer([calls(use("Bash", {"command": "env; cat /proc/self/environ"})), says("ok")]) as server:
        agent = agent_at(server, tmp_path, permission_mode="bypassPermissions", logs=tmp_path / "logs")
        outcome = run_sync("go", agent=agent, on_output=seen.append)
        bodies = json.dumps([request.body for request in server.requests])
    log = Path(outcome.result["log"])
    for text in (bodies, log.read_text(), repr(seen), repr(agent.config), repr(outcome), repr(agent), repr(agent.deps)):
        assert "sk-ant-secret-key" not in text
    assert oct(log.stat().st_mode & 0o777) == "0o600"


# -- star entries, with injection at every event ----------------------------------------------------------------------


def rich(folder: Path) -> tuple[Family, dict[str, Any]]:
    """A run with half characters (82), a chained command (89), a gate that is killed (91), and an agent that meets them too."""
    chained = use("Bash", {"command": "git log; rm keep"})
    gated = use("Write", {"file_path": str(folder / "gated"), "content": "x"})
    script = Family(
        main=[
            calls(use("say", '{"words": "\\ud83d"}'), gated, chained),
            calls(ask("child"), ask("other")),
            says("done"),
        ],
        other=[says("done too")],
        child=[calls(use("say", '{"words": "\\ude00"}'), gated, chained), says("done \ufffd")],
    )

    @tool(read_only=True, concurrency_safe=True)
    def say(words: str) -> str:
        """Say it back, with a half of its own."""
        return words + LONE

    gate = Hook(HookEvent.PRE_TOOL_USE, command="kill -9 $$", matcher="Write")
    settings = {
        "tools": [*builtin_tools(), say, AgentTool()],
        "hooks": [gate],
        "allow": ["Bash(git log:*)", "Write"],
        "deny": ["Bash(rm:*)"],
    }
    return script, settings


def injected(folder: Path, how: Callable[[Any], None] | None, at: int) -> int:
    """Play the rich run, do something at one event, and see that all holds; gives the number of events."""
    (folder / "keep").write_text("kept")
    script, settings = rich(folder)
    count = 0
    with LoopbackServer(script) as server:
        session = Session(agent_at(server, folder, **settings))

        async def work() -> None:
            nonlocal count
            current: list[Any] = []

            def stepped(event: Any, step: Any) -> None:
                nonlocal count
                count += 1
                if count == at and how is not None:
                    how(current[0])

            async with session.submit(f"main {LONE}", on_step=stepped) as submission:
                current.append(submission.run)
                async for _ in submission:
                    pass
            async with session.submit("after all") as submission:
                async for _ in submission:
                    pass

        anyio.run(work)
        assert server.breaches == []
        for request in server.requests:
            request.raw.decode("utf-8")
    assert (folder / "keep").read_text() == "kept"
    assert not (folder / "gated").exists()
    assert session.result is not None
    assert session.result["result"] == "done"
    return count


INJECTIONS: dict[str, Callable[[Any], None]] = {
    "interrupt": lambda run: run.abort(AbortReason.INTERRUPT),
    "close": lambda run: run.abort(AbortReason.CLOSE),
    "message": lambda run: run.queue(f"typed {LONE}"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", INJECTIONS)
def test_82_89_91_at_every_event(tmp_path: Path, kind: str) -> None:
    """Whatever comes at whichever event of a run that meets the three: no bad request, nothing removed, nothing written."""
    events = injected(tmp_path, None, 0)
    assert events > 20
    for at in range(1, events + 1):
        injected(tmp_path, INJECTIONS[kind], at)


def test_82_89_91_without_anything_else(tmp_path: Path) -> None:
    """The run with half characters, a chained command and a killed gate ends well, and says why calls were denied."""
    (tmp_path / "keep").write_text("kept")
    script, settings = rich(tmp_path)
    seen: list[Any] = []
    with LoopbackServer(script) as server:
        outcome = run_sync("main go", agent=agent_at(server, tmp_path, **settings), on_output=seen.append)
        assert server.breaches == []
    texts = [output.block.json for output in seen if isinstance(output, ToolResult)]
    assert any("deny: Bash(rm:*)" in text and "rm keep" in text for text in texts)
    assert any("PreToolUse hook" in text and "kill -9" in text for text in texts)
    assert len(outcome.result["permission_denials"]) == 4
    assert outcome.text == "done"
