"""Agent, query, session and the result object, over scripted parts and the real core."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

import fsm_agent
from fsm_agent import (
    Agent,
    CommandStatus,
    ConfigError,
    LogWriteError,
    LoopConfig,
    RunBusy,
    RunEnded,
    Session,
    exit_code,
    query,
    run_sync,
)
from fsm_agent.core.events import BlockCompleted
from fsm_agent.core.failures import ErrorKind
from fsm_agent.core.outputs import ErrorOutput, InitOutput, Notice, Output, ResultOutput, Terminal, TerminalOutput, UserOutput
from fsm_agent.core.phases import CAUSES, SUCCESS, Cause, ContinueReason, TerminalReason
from fsm_agent.session.endings import ENDINGS, ERROR
from fsm_agent.session.session import Submission

from .script import Compactor, Crash, Fail, Hooks, Model, Providers, Say, Tools, Use, deps, history, reply, until

pytestmark = pytest.mark.anyio


async def read(submission: Submission) -> list[Output]:
    async with submission:
        return [output async for output in submission]


def agent_of(model: Model, tools: Tools | None = None, *, parts: dict[str, Any] | None = None, **settings: Any) -> Agent:
    return Agent("m", deps=deps(model, tools, **(parts or {})), **settings)


async def test_submission_begins_with_init_and_ends_with_the_result() -> None:
    """Outputs: init first, then the run's, its terminal, and the result object last."""
    session = Session(agent_of(Model(reply(Say("hello"))), Tools(t=0.0)), session_id="s1")
    outputs = await read(session.submit("hi"))
    assert isinstance(outputs[0], InitOutput)
    details = json.loads(outputs[0].details)
    assert (details["session_id"], details["model"], details["tools"]) == ("s1", "m", ["t"])
    assert isinstance(outputs[-2], TerminalOutput)
    assert isinstance(outputs[-1], ResultOutput)
    value = json.loads(outputs[-1].value)
    assert value == session.result
    assert {key: value[key] for key in ("type", "subtype", "is_error", "result", "num_turns", "session_id")} == {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "result": "hello",
        "num_turns": 1,
        "session_id": "s1",
    }
    assert value["usage"] == {
        "input_tokens": 100,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": 10,
    }
    assert value["modelUsage"]["m"]["costUSD"] == 0.0015
    assert value["total_cost_usd"] == 0.0015
    assert value["terminal"] == {"reason": "completed", "cause": "end_turn", "detail": "", "error": None}
    assert (value["stop_reason"], value["terminal_reason"], value["transitions"]) == ("end_turn", "completed", [])
    assert (value["permission_denials"], value["structured_output"], value["log"]) == ([], None, None)
    assert value["duration_ms"] >= value["duration_api_ms"] >= 0


async def test_conversation_goes_on_over_submits() -> None:
    """The second prompt is sent with the first one's messages; usage is the run's, the session's is the sum."""
    model = Model(reply(Say("one")), reply(Say("two")))
    session = Session(agent_of(model))
    await read(session.submit("first"))
    await read(session.submit("second"))
    texts = [block["text"] for message in model.requests[1] for block in message["content"]]
    assert texts == ["first", "one", "second"]
    assert session.result is not None
    assert session.result["usage"]["input_tokens"] == 100
    assert session.usage[0].input_tokens == 200


async def test_transitions_and_denials_are_in_the_result() -> None:
    """Continue reasons come in order; only the denials of this prompt are reported."""
    replies = (reply(Use("no")), reply(Say("done")), reply(Use("no")), reply(Use("yes")), reply(Say("done")))
    session = Session(agent_of(Model(*replies), Tools(no=float("-inf"), yes=0.0)))
    await read(session.submit("first"))
    await read(session.submit("second"))
    assert session.result is not None
    assert session.result["transitions"] == ["next_turn", "next_turn"]
    assert [denial["tool_use_id"] for denial in session.result["permission_denials"]] == ["toolu_2_0"]
    assert session.result["num_turns"] == 3


async def test_structured_output_is_parsed() -> None:
    """With an output schema the final text is given as data too."""
    session = Session(agent_of(Model(reply(Say('{"a": 1}'))), output_schema='{"type":"object"}'))
    await read(session.submit("go"))
    assert session.result is not None
    assert session.result["structured_output"] == {"a": 1}


async def test_failed_run_says_what_happened_and_has_no_answer() -> None:
    """An API failure is an error with kind, words and advice; nothing of it stands as the answer."""
    session = Session(agent_of(Model(reply(Fail(ErrorKind.AUTH)))))
    outputs = await read(session.submit("go"))
    assert any(isinstance(output, ErrorOutput) for output in outputs)
    value = session.result
    assert value is not None
    assert (value["subtype"], value["is_error"], value["result"]) == ("error_during_execution", True, "")
    assert value["terminal"]["error"]["kind"] == "auth"
    assert value["errors"][0] == "scripted auth"
    assert session.state.terminal is not None
    assert exit_code(session.state.terminal) == 6


def test_every_ending_has_a_meaning() -> None:
    """The table of endings covers each (reason, cause) once, and only a success exits with 0."""
    assert set(ENDINGS) == {(reason, cause) for reason, causes in CAUSES.items() for cause in causes}
    for (reason, cause), meaning in ENDINGS.items():
        good = reason is TerminalReason.COMPLETED and cause in SUCCESS
        assert (meaning.exit_code == 0) == good
        assert (meaning.subtype == "success") == good
        assert meaning.advice.endswith(".")
    codes = Counter(meaning.exit_code for meaning in ENDINGS.values())
    assert set(codes) == {0, 1, 4, 5, 6, 130}
    special = {key[1].value: meaning.subtype for key, meaning in ENDINGS.items() if meaning.subtype not in ("success", ERROR)}
    assert special == {
        "budget_usd": "error_max_budget_usd",
        "max_turns": "error_max_turns",
        "structured_output_exhausted": "error_max_structured_output_retries",
    }


CRASH = ValueError("broken part")


@pytest.mark.parametrize(
    ("agent", "reason", "cause"),
    [
        (lambda: agent_of(Model(reply(Crash(CRASH)))), TerminalReason.MODEL_ERROR, Cause.ENGINE_ERROR),
        (lambda: agent_of(Model(reply(Use("t")), reply(Say("x"))), Tools(t=CRASH)), TerminalReason.COMPLETED, Cause.END_TURN),
        (
            lambda: agent_of(Model(reply(Say("x"))), parts={"hooks": Hooks(error=CRASH)}, stop_hooks=True),
            TerminalReason.COMPLETED,
            Cause.END_TURN,
        ),
        (
            lambda: agent_of(
                Model(reply(Use("t")), reply(Say("x"))),
                Tools(t=0.0),
                parts={"providers": Providers(error=CRASH)},
                attachments=True,
                prefetch_memory=True,
                prefetch_skills=True,
            ),
            TerminalReason.COMPLETED,
            Cause.END_TURN,
        ),
        (
            lambda: agent_of(Model(reply(Fail(ErrorKind.PROMPT_TOO_LONG))), parts={"compactor": Compactor(error=CRASH)}),
            TerminalReason.PROMPT_TOO_LONG,
            Cause.USED_UP,
        ),
    ],
    ids=["model", "tool", "hook", "provider", "compactor"],
)
async def test_part_that_raises_is_an_event_of_the_table(agent: Any, reason: TerminalReason, cause: Cause) -> None:
    """Whatever part raises, the table decides what follows; the run reaches its terminal without an exception."""
    made = agent()
    session = Session(made, state=history(made, 20))
    await read(session.submit("go"))
    terminal = session.state.terminal
    assert terminal is not None
    assert (terminal.reason, terminal.cause) == (reason, cause)


async def test_queued_command_is_started_and_completed() -> None:
    """A command typed while a tool runs goes in after its round; query completes it at the end."""
    model = Model(reply(Use("t")), reply(Say("done")))
    moves: list[tuple[str, str]] = []
    async with query(agent_of(model, Tools(t=0.0)), "go", on_command=lambda *move: moves.append(move)) as asked:
        await asked.__anext__()
        command = asked.run.queue("and this")
        async for output in asked:
            if isinstance(output, UserOutput):
                assert asked.run.commands[command] in (CommandStatus.QUEUED, CommandStatus.STARTED)
    assert moves == [(command, CommandStatus.STARTED), (command, CommandStatus.COMPLETED)]
    assert "and this" in json.dumps(model.requests[1])


@pytest.mark.parametrize("close", [True, False])
async def test_closing_completes_no_command(close: bool) -> None:
    """A started command is not completed when the consumer leaves; after an interrupt it is."""
    model = Model(reply(Use("t")), reply(Say("more"), Use("slow")))
    statuses: list[CommandStatus] = []
    agent = agent_of(model, Tools(t=0.0, slow=1000.0))
    async with query(agent, "go", on_command=lambda _, status: statuses.append(status)) as asked:
        await asked.__anext__()
        asked.run.queue("and this")
        async for output in asked:
            if getattr(output, "text", "") == "more":
                if close:
                    break
                asked.run.interrupt()
    assert statuses == ([CommandStatus.STARTED] if close else [CommandStatus.STARTED, CommandStatus.COMPLETED])


async def test_five_hundred_commands_arrive_in_order() -> None:
    """A burst of commands during one tool is injected whole and in order, and none is lost."""
    model = Model(reply(Use("t")), reply(Say("done")))
    async with query(agent_of(model, Tools(t=0.02)), "go") as asked:
        await asked.__anext__()
        ids = [asked.run.queue(f"word {n}.") for n in range(500)]
        async for _ in asked:
            pass
    assert list(asked.run.commands) == ids
    assert set(asked.run.commands.values()) == {CommandStatus.COMPLETED}
    sent = json.dumps(model.requests[1])
    assert [sent.count(f"word {n}.") for n in range(500)] == [1] * 500
    assert sent.index("word 0.") < sent.index("word 250.") < sent.index("word 499.")


def test_commands_from_many_threads_are_all_taken() -> None:
    """A thousand commands from eight threads are each accepted once, under ids of their own."""
    model = Model(reply(Use("t")), reply(Say("done")))
    ids: list[str] = []

    async def main() -> None:
        async with query(agent_of(model, Tools(t=600.0)), "go") as asked, anyio.create_task_group() as group:
            await asked.__anext__()

            def burst(number: int) -> None:
                ids.extend([asked.run.queue(f"word {number}-{n}.") for n in range(125)])

            async with anyio.create_task_group() as threads:
                for number in range(8):
                    threads.start_soon(anyio.to_thread.run_sync, burst, number)
            # All threads are done; what they posted is stepped in the turns that follow.
            await until(lambda: len(asked.run.state.control.queue.commands) == 1000)
            group.cancel_scope.cancel()

    anyio.run(main)
    assert len(set(ids)) == 1000


async def test_commands_left_over_come_back() -> None:
    """Commands that no safe place came for are handed back by the session, in order."""
    session = Session(agent_of(Model(reply(Say("done")))))
    async with session.submit("go") as submission:
        await submission.__anext__()
        await submission.__anext__()
        ids = [submission.run.queue(f"late {n}") for n in range(10)]
        async for _ in submission:
            pass
    assert [command.command_id for command in session.undelivered] == ids
    assert submission.terminal is not None
    assert submission.terminal.undelivered == tuple(ids)


async def test_session_works_on_one_prompt_at_a_time() -> None:
    """A second prompt meanwhile is refused, and the first one goes on."""
    session = Session(agent_of(Model(reply(Say("x")))))
    other = session.submit("other")
    with pytest.raises(RunEnded, match="enter"):
        await other.__anext__()
    async with session.submit("go") as submission:
        with pytest.raises(RunBusy):
            session.submit("again")
        with pytest.raises(RunBusy):
            await other.__aenter__()
        outputs = [output async for output in submission]
    assert isinstance(outputs[-1], ResultOutput)


async def test_logs_are_written_and_replay(tmp_path: Path) -> None:
    """Each run has its log, named in the result; it replays to the same state, and one that never began has none."""
    from fsm_agent.log.replay import replay

    session = Session(agent_of(Model(reply(Use("t")), reply(Say("x"))), Tools(t=0.0), logs=tmp_path))
    async with session.submit("never read"):
        pass
    assert list(tmp_path.rglob("*")) == []
    await read(session.submit("go"))
    assert session.result is not None
    path = Path(session.result["log"])
    assert path.is_file()
    assert replay(path).state == session.state
    assert b"TerminalOutput" not in path.read_bytes()


async def test_log_that_cannot_be_made_stops_the_run(tmp_path: Path) -> None:
    """Without its log the run does nothing, says why, and the conversation is as it was."""
    (tmp_path / "file").write_text("")
    model = Model(reply(Say("x")))
    session = Session(agent_of(model, logs=tmp_path / "file"))
    before = session.state
    with pytest.raises(LogWriteError):
        await read(session.submit("go"))
    assert model.requests == []
    assert session.state.messages == before.messages
    session.agent.logs = None
    await read(session.submit("go"))
    assert session.result is not None
    assert session.result["is_error"] is False


async def test_log_that_breaks_in_the_middle_leaves_a_history_to_go_on_from() -> None:
    """When recording fails the run raises; the conversation is closed in memory and takes the next prompt."""

    class Full:
        count = 0

        def append(self, event: Any, step: Any, *, sync: bool) -> None:
            if isinstance(event, BlockCompleted):
                raise OSError(28, "No space left on device")

        def close(self, state: Any) -> None: ...

    model = Model(reply(Say("x")), reply(Say("y")))
    session = Session(agent_of(model, parts={"recorder": Full()}))
    with pytest.raises(LogWriteError):
        await read(session.submit("go"))
    session.agent.deps = deps(model)
    await read(session.submit("again"))
    assert session.result is not None
    assert session.result["result"] == "y"
    assert "go" in json.dumps(model.requests[1])


async def test_nothing_is_left_of_a_run() -> None:
    """After runs of every kind no thread is left."""
    threads = threading.active_count()
    hooks = Hooks(blocks=["not yet"])
    model = Model(reply(Use("t")), reply(Say("x")), reply(Say("y")))
    session = Session(agent_of(model, Tools(t=0.0), parts={"hooks": hooks}, stop_hooks=True))
    outputs = await read(session.submit("go"))
    assert isinstance(outputs[-1], ResultOutput)
    assert session.result is not None
    assert session.result["transitions"] == [ContinueReason.NEXT_TURN, ContinueReason.STOP_HOOK_BLOCKING]
    assert hooks.sampled == 3
    assert threading.active_count() == threads


async def test_slow_consumer_loses_nothing() -> None:
    """A consumer that rests now and then still sees every block, in order."""
    model = Model(reply(*(Say(f"piece {n}") for n in range(200))))
    seen = []
    async with agent_of(model).run("go") as run:
        async for output in run:
            if getattr(output, "block", None) is not None:
                seen.append(output.index)  # type: ignore[union-attr]
                if len(seen) % 20 == 0:
                    await anyio.sleep(0.001)
    assert seen == list(range(200))


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_run_sync(backend: str) -> None:
    """A script runs a prompt without an event loop of its own, and goes on from the state."""
    agent = agent_of(Model(reply(Say("one")), reply(Say("two"))))
    seen: list[Output] = []
    first = run_sync("hi", agent=agent, backend=backend, on_output=seen.append)
    assert first.text == "one"
    assert isinstance(seen[-1], ResultOutput)
    second = run_sync("more", agent=agent, state=first.state, backend=backend)
    assert second.text == "two"
    assert len(second.state.messages) == 4
    with pytest.raises(TypeError, match="stop_hooks"):
        run_sync("x", agent=agent, stop_hooks=True)


def test_wrong_settings_are_named() -> None:
    """A misspelt or missing setting is one clear sentence."""
    some = deps(Model())
    with pytest.raises(ConfigError, match="did you mean max_turns"):
        Agent("m", deps=some, max_turn=3)
    with pytest.raises(ConfigError, match=r"did you mean context\.keep_rounds"):
        Agent("m", deps=some, context={"keep_round": 3})
    with pytest.raises(ConfigError, match="model is missing"):
        Agent(deps=some)
    with pytest.raises(ConfigError, match="max_turns cannot stand beside"):
        Agent(config=LoopConfig(model="m"), deps=some, max_turns=3)
    with pytest.raises(ConfigError, match="cannot stand beside"):
        Agent("m", deps=some, api_key="k")
    with pytest.raises(ValueError, match="empty"):
        Session(Agent("m", deps=some)).submit(" \n")
    with pytest.raises(TypeError, match="blocks as mappings"):
        Agent("m", deps=some).run([3])  # type: ignore[list-item]
    assert Agent("m", deps=some, context={"keep_rounds": 3}).config.context.keep_rounds == 3


def test_public_names_are_there_and_lazy() -> None:
    """Every public name resolves, and importing the package alone imports neither SDK nor runtime."""
    for name in fsm_agent.__all__:
        assert getattr(fsm_agent, name) is not None
    assert set(fsm_agent.__all__) <= set(dir(fsm_agent))
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = fsm_agent.nothing_like_it
    code = "import sys, fsm_agent; print([m for m in sys.modules if m.startswith(('fsm_agent.', 'anthropic', 'anyio'))])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_terminal_is_typed() -> None:
    """The terminal that a run gives is the core's own value."""
    assert run_sync("hi", agent=agent_of(Model(reply(Say("x"))))).terminal == Terminal(
        TerminalReason.COMPLETED,
        Cause.END_TURN,
        turn_count=1,
        usage=run_sync("hi", agent=agent_of(Model(reply(Say("x"))))).terminal.usage,
    )


async def test_notices_do_not_end_a_run() -> None:
    """A run whose post-sampling hook crashes completes, with a warning."""

    class Bad(Hooks):
        async def post_sampling(self, effect: Any) -> None:
            raise CRASH

    session = Session(agent_of(Model(reply(Say("x"))), parts={"hooks": Bad()}, stop_hooks=True))
    outputs = await read(session.submit("go"))
    assert [output.level for output in outputs if isinstance(output, Notice)] == ["warning"]
    assert session.result is not None
    assert session.result["is_error"] is False
