"""Runs whose process died in any phase go on from their logs (field reports 116 to 123, 139)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from fsm_agent.core.config import ConfigError
from fsm_agent.core.events import EVENT_KINDS, EffectLost, EventKind, ToolFinished, ToolTraits
from fsm_agent.core.failures import ErrorKind
from fsm_agent.core.outputs import Notice, Output
from fsm_agent.core.phases import Cause, Phase
from fsm_agent.log.digest import state_digest
from fsm_agent.log.errors import LogError
from fsm_agent.log.reader import read_log
from fsm_agent.log.replay import replay
from fsm_agent.runtime.faults import RunBusy, RunEnded
from fsm_agent.session.agent import Agent
from fsm_agent.session.session import Session, Submission

from .script import Compactor, Fail, Hooks, Model, Providers, Say, Tools, Use, deps, reply, until
from .test_phases import WAITS, session_that_waits_in

pytestmark = pytest.mark.anyio
READ = ToolTraits(read_only=True, concurrency_safe=True)


async def read(submission: Submission) -> list[Output]:
    async with submission:
        return [output async for output in submission]


async def die_in(session: Session, phase: Phase, log: Path, *, queued: bool = False) -> Path:
    """Run until it waits in a phase, and give the log as a process that died there would have left it."""
    copy = log.with_name("dead.jsonl")
    async with session.submit("go", log=log, run_id="r") as submission, anyio.create_task_group() as group:

        async def look() -> None:
            async for _ in submission:
                pass

        group.start_soon(look)
        await until(lambda: submission.run.begun and submission.run.state.phase is phase)
        if queued:
            submission.run.queue("and mind the gap")
        await anyio.sleep(0.01)
        copy.write_bytes(log.read_bytes())
        submission.run.interrupt()
    return copy


def agent_like(config_of: Session, model: Model, tools: Tools | None = None, **parts: Any) -> Agent:
    made = deps(model, tools or Tools(slow=0.0, quick=0.0), **parts)
    return Agent(config=config_of.agent.config, deps=made)


@pytest.mark.parametrize("phase", list(WAITS))
async def test_every_waiting_phase_goes_on(phase: Phase, tmp_path: Path, anyio_backend_name: str) -> None:
    """A run that died while it waited, in whichever phase, waits for something again, and comes to its end."""
    if phase in (Phase.BACKING_OFF, Phase.CALLING_MODEL) and anyio_backend_name != "trio":
        return  # the wait of a quarter of an hour before the next attempt passes on virtual time only
    session, _, _ = session_that_waits_in(phase)
    dead = await die_in(session, phase, tmp_path / "run.jsonl")
    before = read_log(dead).tail.records
    model = Model(reply(Say("fine")), reply(Say("fine")))
    parts = {"hooks": Hooks(), "providers": Providers(), "compactor": Compactor()}
    revived = Session.resume(agent_like(session, model, backing(), **parts), dead)
    assert revived.interrupted is not None
    with pytest.raises(RunBusy, match="was interrupted"):
        revived.submit("more")
    await read(revived.go_on())
    assert revived.result is not None
    assert revived.result["is_error"] is False, revived.result
    records = list(read_log(dead).records())
    assert isinstance(records[before].event, EffectLost)
    replayed = replay(dead)
    assert replayed.divergence is None
    assert replayed.state == revived.state
    assert replayed.tail is not None
    assert replayed.tail.end is not None
    with pytest.raises(RunEnded):
        revived.go_on()


def backing() -> Tools:
    return Tools(slow=0.0, quick=0.0)


async def test_the_model_is_told_once_what_was_interrupted(tmp_path: Path) -> None:
    """A tool that had begun is not run again: its result says that the outcome is unknown, once."""
    session, _, _ = session_that_waits_in(Phase.RUNNING_TOOLS)
    dead = await die_in(session, Phase.RUNNING_TOOLS, tmp_path / "run.jsonl")
    model, tools = Model(reply(Say("fine")), reply(Say("more"))), backing()
    revived = Session.resume(agent_like(session, model, tools, hooks=Hooks(), providers=Providers()), dead)
    await read(revived.go_on())
    assert tools.log == []
    results = [block for message in model.requests[0] for block in message["content"] if block["type"] == "tool_result"]
    assert len(results) == 1
    assert results[0]["is_error"] is True
    assert "unknown" in json.dumps(results[0])
    await read(revived.submit("next"))
    assert json.dumps(model.requests[1]).count('"is_error": true') == 1


async def test_a_queued_command_is_there_once(tmp_path: Path) -> None:
    """What the user typed before the death is delivered once, and a new message does not take its id."""
    session, _, _ = session_that_waits_in(Phase.RUNNING_TOOLS)
    dead = await die_in(session, Phase.RUNNING_TOOLS, tmp_path / "run.jsonl", queued=True)
    model = Model(reply(Say("fine")))
    revived = Session.resume(agent_like(session, model, backing(), hooks=Hooks(), providers=Providers()), dead)
    async with revived.go_on() as submission:
        assert [str(status) for status in submission.run.commands.values()] == ["queued"]
        assert submission.run.queue("a second one") == "r/queued-2"
        async for _ in submission:
            pass
    said = json.dumps(model.requests[0])
    assert said.count("mind the gap") == 1
    assert said.count("a second one") == 1
    assert revived.undelivered == ()


@pytest.mark.parametrize(
    ("left", "cause"), [(reply(Say("fine")), Cause.END_TURN), (reply(Fail(ErrorKind.SERVER_ERROR)), Cause.ATTEMPTS_EXHAUSTED)]
)
@pytest.mark.parametrize("anyio_backend", ["trio"], indirect=True)
async def test_attempts_go_on_counting(tmp_path: Path, left: Any, cause: Cause) -> None:
    """Failures before the death are neither the end nor forgotten: the attempts are counted on (field report 120)."""
    model = Model(reply(Fail(ErrorKind.SERVER_ERROR)))
    session = Session(Agent("m", deps=deps(model), backoff_ms=3_600_000, backoff_cap_ms=3_600_000, max_attempts=2))
    dead = await die_in(session, Phase.BACKING_OFF, tmp_path / "run.jsonl")
    revived = Session.resume(Agent("m", deps=deps(Model(left))), dead)
    await read(revived.go_on())
    assert revived.result is not None
    assert revived.result["terminal"]["cause"] == cause.value


async def test_resumed_twice_before_a_tool_began(tmp_path: Path) -> None:
    """A call that had not begun is asked for again with the same input, however often; nothing is in the history twice."""
    model, tools = Model(reply(Use("t", {"n": 1})), reply(Say("fine"))), Tools(t=0.0)
    whole = Session(Agent("m", deps=deps(model, tools)))
    await read(whole.submit("go", log=tmp_path / "whole.jsonl", run_id="r"))
    lines = (tmp_path / "whole.jsonl").read_bytes().splitlines(keepends=True)
    kinds = [EVENT_KINDS[type(record.event)] for record in read_log(tmp_path / "whole.jsonl").records()]
    path = tmp_path / "dead.jsonl"
    path.write_bytes(b"".join(lines[: kinds.index(EventKind.TOOL_STARTED) + 1]))
    for _ in range(2):
        revived = Session.resume(Agent("m", deps=deps(Model(reply(Say("fine"))), tools)), path)
        await read(revived.go_on())
        records = list(read_log(path).records())
        keep = next(place for place, record in enumerate(records) if isinstance(record.event, EffectLost)) + 1
        final = revived.state
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[: keep + 1]))
    texts = [[block.json for block in message.blocks] for message in final.messages]
    assert texts == [[block.json for block in message.blocks] for message in whole.state.messages]
    assert len({message.id for message in final.messages}) == len(final.messages)


async def test_a_tool_that_is_gone(tmp_path: Path) -> None:
    """A tool that the agent no longer has is an error result for the model, not the end of the session (field report 123)."""
    model, tools = Model(reply(Use("old")), reply(Say("fine"))), Tools(old=0.0)
    await read(Session(Agent("m", deps=deps(model, tools))).submit("go", log=tmp_path / "run.jsonl", run_id="r"))
    records = list(read_log(tmp_path / "run.jsonl").records())
    keep = next(place for place, record in enumerate(records) if isinstance(record.event, ToolFinished))
    dead = tmp_path / "dead.jsonl"
    dead.write_bytes(b"".join((tmp_path / "run.jsonl").read_bytes().splitlines(keepends=True)[:keep]))
    revived = Session.resume(Agent("m", deps=deps(Model(reply(Say("fine"))), Tools(new=0.0))), dead)
    await read(revived.go_on())
    assert revived.result is not None
    assert revived.result["is_error"] is False


async def test_a_part_that_is_missing_is_refused_before_anything(tmp_path: Path) -> None:
    """An agent without a part that the run needs is refused by name; the log stays as it was, and is free."""
    session, _, _ = session_that_waits_in(Phase.RUNNING_STOP_HOOKS)
    dead = await die_in(session, Phase.RUNNING_STOP_HOOKS, tmp_path / "run.jsonl")
    before = dead.read_bytes()
    agent = Agent("m", deps=deps(Model()))
    with pytest.raises(ConfigError, match="hooks"):
        agent.resume(dead)
    assert dead.read_bytes() == before
    assert [place.name for place in tmp_path.iterdir() if ".lock" in place.name] == []


async def test_a_resumption_that_is_never_read_changes_nothing(tmp_path: Path) -> None:
    """Nothing happens before the first pull: the log is neither written nor locked."""
    session, _, _ = session_that_waits_in(Phase.CALLING_MODEL)
    dead = await die_in(session, Phase.CALLING_MODEL, tmp_path / "run.jsonl")
    before = dead.read_bytes()
    agent = Agent(config=session.agent.config, deps=session.agent.deps)
    async with agent.resume(dead), agent.resume(dead):
        pass
    assert dead.read_bytes() == before


async def test_a_torn_record_is_told(tmp_path: Path) -> None:
    """The user hears of a torn record, and finds its bytes beside the log."""
    session, _, _ = session_that_waits_in(Phase.GATHERING_ATTACHMENTS)
    dead = await die_in(session, Phase.GATHERING_ATTACHMENTS, tmp_path / "run.jsonl")
    with dead.open("ab") as file:
        file.write('{"crc":"é'.encode()[:-1])
    model = Model(reply(Say("fine")))
    parts = {"hooks": Hooks(), "providers": Providers(), "compactor": Compactor()}
    revived = Session.resume(agent_like(session, model, **parts), dead)
    outputs = await read(revived.go_on())
    notices = [output.text for output in outputs if isinstance(output, Notice)]
    assert sum("was torn" in text for text in notices) == 1
    assert dead.with_name("dead.jsonl.torn-1").read_bytes() == b'{"crc":"\xc3'
    assert replay(dead).divergence is None


async def test_what_cannot_be_resumed(tmp_path: Path) -> None:
    """A run that ended is gone on from by a prompt only, and an agent says so."""
    agent = Agent("m", deps=deps(Model(reply(Say("x")), reply(Say("y")))))
    session = Session(agent)
    await read(session.submit("go", log=tmp_path / "run.jsonl"))
    with pytest.raises(LogError, match="the run has ended"):
        agent.resume(tmp_path / "run.jsonl")
    revived = Session.resume(agent, tmp_path / "run.jsonl")
    assert (revived.id, revived.interrupted) == (session.id, None)
    assert revived.state == session.state
    await read(revived.submit("more", log=tmp_path / "next.jsonl"))
    header = read_log(tmp_path / "next.jsonl").header
    assert (header.state, header.parent is not None) == (None, True)
    assert replay(tmp_path / "next.jsonl").state == revived.state
    assert [message.role for message in revived.state.messages] == ["user", "assistant", "user", "assistant"]


@pytest.mark.parametrize("anyio_backend", ["trio"], indirect=True)
async def test_parallel_results_replay_in_their_order(tmp_path: Path) -> None:
    """Three tools that end 3-1-2, a message between: the replay has the order of the log (field report 118)."""
    model = Model(reply(Use("a"), Use("b"), Use("c")), reply(Say("fine")), traits=dict.fromkeys("abc", READ))
    tools = Tools(a=2.0, b=3.0, c=1.0)
    session = Session(Agent("m", deps=deps(model, tools)))
    async with session.submit("go", log=tmp_path / "run.jsonl", run_id="r") as submission:
        queued = False
        async for output in submission:
            if type(output).__name__ == "ToolResult" and not queued:
                queued = True
                submission.run.queue("between")
    assert [word for word in tools.log if word.startswith("finish")] == ["finish c", "finish a", "finish b"]
    replayed = replay(tmp_path / "run.jsonl")
    assert replayed.divergence is None
    assert replayed.state == session.state


def test_a_replay_does_not_know_where_it_runs(tmp_path: Path) -> None:
    """Under another hash seed, time zone and locale the same log gives the same state (field report 119)."""
    session = Session(Agent("m", deps=deps(Model(reply(Use("t")), reply(Say("x"))), Tools(t=0.0))))
    anyio.run(read, session.submit("go", log=tmp_path / "run.jsonl", run_id="r"))
    script = (
        "import sys; from fsm_agent.log.replay import replay; from fsm_agent.log.digest import state_digest\n"
        "found = replay(sys.argv[1]); assert found.divergence is None; print(state_digest(found.state))"
    )
    said = {state_digest(session.state)}
    for seed, zone, locale in (("1", "Asia/Kathmandu", "C"), ("2", "America/St_Johns", "tr_TR.UTF-8")):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "TZ": zone, "LC_ALL": locale}
        command = [sys.executable, "-c", script, str(tmp_path / "run.jsonl")]
        said.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip())
    assert len(said) == 1
