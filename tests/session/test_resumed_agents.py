"""An engine that dies while a sub-agent works: the agent goes on in its own log; what it used is its caller's either way."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest
from attrs import evolve

from fsm_agent import Agent, Session, run_sync
from fsm_agent.core.events import AbortRequested, RunStarted, ToolFinished, ToolStarted
from fsm_agent.core.phases import TerminalReason
from fsm_agent.core.state import LoopState
from fsm_agent.core.usage import ModelUsage, add_usage, total_cost
from fsm_agent.log.fork import fork
from fsm_agent.log.journal import Journal
from fsm_agent.log.reader import read_log
from fsm_agent.log.replay import replay
from fsm_agent.log.resume import stand
from fsm_agent.runtime.hooks.config import Hook, HookEvent
from fsm_agent.runtime.run import Run
from fsm_agent.server.app import LoopbackServer
from fsm_agent.session.resuming import begun_calls, resumption

from .family import Family, ask, calls, family_agent, priced, results, says, use

TOOL_HOOKS = (HookEvent.PRE_TOOL_USE, HookEvent.POST_TOOL_USE)


def count(name: str) -> Any:
    return use("Bash", {"command": f"echo {name} >> counted"})


def script() -> Family:
    return Family(
        main=[priced(calls(ask("work")), 0.01), priced(says("All done."), 0.01)],
        work=[priced(calls(count("one")), 0.02), priced(calls(count("two")), 0.02), priced(says("Counted."), 0.02)],
    )


class Left:
    """A folder in which an engine died: a caller whose agent had begun, and the agent's log as far as it got."""

    def __init__(self, tmp_path: Path, family: Family) -> None:
        self.folder = tmp_path
        with LoopbackServer(family) as server:
            (tmp_path / "first").mkdir()
            outcome = run_sync("main go", agent=self.agent(server, tmp_path / "first"))
            assert server.breaches == []
        self.whole = outcome.terminal.usage
        log = Path(outcome.result["log"])
        self.caller = log
        self.child = next(path for path in log.parent.glob("*.jsonl") if path != log)
        self.begun = next(record.seq for record in read_log(log).records() if isinstance(record.event, ToolStarted))
        self.records = read_log(self.child).tail.records

    def agent(self, server: LoopbackServer, cwd: Path) -> Agent:
        return family_agent(server, cwd, logs=self.folder / "logs", permission_mode="bypassPermissions")

    def cut(self, name: str, records: int | None) -> tuple[Path, Path]:
        """Make a folder with both logs, the caller's cut behind the start of the agent; None for no log of the agent."""
        place = self.folder / name / self.caller.parent.name
        place.mkdir(parents=True)
        log, child = place / self.caller.name, place / self.child.name
        _cut(self.caller, log, self.begun)
        if records is not None:
            _cut(self.child, child, records)
        return log, child


def _cut(source: Path, target: Path, records: int) -> None:
    lines = source.read_bytes().splitlines(keepends=True)
    target.write_bytes(b"".join(lines[: records + 1]))
    if (blobs := Path(f"{source}.blobs")).exists():
        shutil.copytree(blobs, f"{target}.blobs")


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Left:
    return Left(tmp_path_factory.mktemp("left"), script())


class Answers:
    """Answers a conversation by what it holds, whoever asks."""

    def __call__(self, number: int, body: dict[str, Any]) -> Any:
        words = str(body["messages"])
        if "main go" in words:
            return priced(says("All done."), 0.01) if "agent_result" in words else priced(calls(ask("work")), 0.01)
        for name in ("one", "two"):
            if f"echo {name} " not in words:
                return priced(calls(count(name)), 0.02)
        return priced(says("Counted."), 0.02)


def go_on(server: LoopbackServer, left: Left, log: Path, cwd: Path) -> Session:
    session = Session.resume(left.agent(server, cwd), log)

    async def main() -> None:
        async with session.go_on() as submission:
            async for _ in submission:
                pass

    anyio.run(main)
    return session


def test_an_agent_goes_on_behind_each_of_its_records(left: Left, tmp_path: Path) -> None:
    """However far it got, its answer reaches the caller once, nothing is counted twice, and all its usage is the caller's."""
    for records in range(1, left.records + 1):
        log, child = left.cut(f"cut-{records}", records)
        done = replay(child).state
        cwd = tmp_path / f"{records}"
        cwd.mkdir()
        with LoopbackServer(Answers()) as server:
            session = go_on(server, left, log, cwd)
            assert server.breaches == []
        terminal = session.state.terminal
        assert terminal is not None
        assert terminal.reason is TerminalReason.COMPLETED, records
        ended = replay(child)
        assert ended.divergence is None
        assert ended.state.terminal is not None
        assert replay(log).divergence is None
        (finished,) = [item.event for item in read_log(log).records() if isinstance(item.event, ToolFinished)]
        assert finished.usage == ended.state.data.usage
        assert total_cost(terminal.usage) == total_cost(add_usage(own(log), ended.state.data.usage))
        assert "Counted." in "".join(block.json for message in session.state.messages for block in message.results)
        counted = (cwd / "counted").read_text().split() if (cwd / "counted").exists() else []
        assert len(counted) == len(set(counted)) == 2 - bodies(done)


def bodies(state: LoopState) -> int:
    """Count the bodies that the agent had begun by then: those answered in its history, and those in flight."""
    flying = [call for call in state.control.tools.calls if call.effect and call.started]
    return len(flying) + sum(len(message.results) for message in state.messages)


def own(log: Path) -> tuple[ModelUsage, ...]:
    """What the caller's own calls used."""
    total: tuple[ModelUsage, ...] = ()
    for record in read_log(log).records():
        if not isinstance(record.event, ToolFinished):
            total = add_usage(total, getattr(record.event, "usage", ()))
    return total


def test_an_agent_that_had_ended_is_not_asked_again(left: Left, tmp_path: Path) -> None:
    """Its answer is in its log; only the caller goes on."""
    log, child = left.cut("ended", left.records)
    before = child.read_bytes()
    with LoopbackServer(Answers()) as server:
        session = go_on(server, left, log, tmp_path)
        assert len(server.requests) == 1
    assert session.state.terminal is not None
    assert session.state.terminal.usage == left.whole
    assert child.read_bytes() == before
    assert not (tmp_path / "counted").exists()


@pytest.mark.parametrize("what", ["missing", "empty", "torn in its header", "damaged", "of another session"])
def test_without_its_log_the_outcome_is_unknown(left: Left, tmp_path: Path, what: str) -> None:
    """A log that is not there, or cannot be gone on with, leaves what the table says of a call that had begun."""
    log, child = left.cut(what.replace(" ", "-"), None if what == "missing" else 5)
    if what == "empty":
        child.write_bytes(b"")
    elif what == "torn in its header":
        child.write_bytes(child.read_bytes()[:50])
    elif what == "damaged":
        child.write_bytes(child.read_bytes().replace(b"stream_started", b"stream_stArted"))
    elif what == "of another session":
        header = read_log(child).header
        child.unlink()
        assert header.state is not None
        journal = Journal.create(child, header.config, header.state, "other", header.run, caller=header.caller)
        start = RunStarted(header.run, ())
        from fsm_agent.core.step import step

        journal.append(start, step(header.state, start, header.config), sync=False)
        journal.release()
    agent = left.agent(LoopbackServer(Answers()), tmp_path)
    standing = stand(log)
    (call,) = begun_calls(standing.state)
    made = resumption(standing, agent.deps.tools)
    assert (made.going_on, [event.id for event in made.lost]) == ((), [call.id])
    with LoopbackServer(Answers()) as server:
        session = go_on(server, left, log, tmp_path)
    assert session.state.terminal is not None
    assert "unknown" in "".join(block.json for message in session.state.messages for block in message.results)


def test_a_fork_leaves_the_agent_to_its_run(left: Left, tmp_path: Path) -> None:
    """A fork has the ids of the run that it continues, and must not touch that one's agents."""
    log, _ = left.cut("forked", 5)
    place = fork(log, None, log.with_name("fork.jsonl"))
    agent = left.agent(LoopbackServer(Answers()), tmp_path)
    assert resumption(stand(place), agent.deps.tools).going_on == ()
    assert len(resumption(stand(log), agent.deps.tools).going_on) == 1


def found_in(session: Session) -> str:
    """All results that a conversation holds."""
    return "".join(block.json for message in session.state.messages for block in message.results)


def agents_of(log: Path) -> list[Path]:
    """The logs of agents whose name begins with that of their caller's log."""
    return sorted(log.parent.glob(f"{log.stem}-tool-*.jsonl"))


@pytest.mark.parametrize("first", ["the fork", "the original"])
def test_a_fork_and_its_original_have_their_own_agents(left: Left, tmp_path: Path, first: str) -> None:
    """Interrupted before their agent began, both go on, one after the other: each has an agent with a log of its own."""
    for at in range(1, left.begun):
        place = tmp_path / str(at) / left.caller.parent.name
        place.mkdir(parents=True)
        log = place / left.caller.name
        _cut(left.caller, log, at)
        logs = [fork(log, None, place / "fork.jsonl"), log]
        for number, one in enumerate(logs if first == "the fork" else reversed(logs)):
            cwd = tmp_path / f"{at}-{number}"
            cwd.mkdir()
            with LoopbackServer(Answers()) as server:
                session = go_on(server, left, one, cwd)
            assert "Counted." in found_in(session)
            assert "Error" not in found_in(session)
            assert (cwd / "counted").read_text().split() == ["one", "two"]
            (own_agent,) = agents_of(one)
            assert read_log(own_agent).header.session == read_log(one).header.session
            assert replay(own_agent).divergence is None


def test_a_fork_of_one_session_leaves_the_agent_to_its_run(left: Left, tmp_path: Path) -> None:
    """Also where nothing but the name of its log tells it from its original."""
    log, child = left.cut("one-session", 5)
    before = child.read_bytes()
    place = fork(log, None, log.with_name("fork.jsonl"), session_id=read_log(log).header.session)
    with LoopbackServer(Answers()) as server:
        session = go_on(server, left, place, tmp_path)
    assert "outcome is unknown" in found_in(session)
    assert child.read_bytes() == before


def test_a_log_of_its_own_name_has_agents_of_that_name(left: Left, tmp_path: Path) -> None:
    """A caller's log may be called anything; its agent goes on, by the name of now and by that of former times."""
    for name in ("former", "now"):
        log, child = left.cut(name, 5)
        renamed = log.rename(log.with_name("my own: log.jsonl"))
        if name == "now":
            child = child.rename(child.with_name(child.name.replace(log.stem, renamed.stem)))
        (tmp_path / name).mkdir()
        with LoopbackServer(Answers()) as server:
            session = go_on(server, left, renamed, tmp_path / name)
        assert "Counted." in found_in(session)
        assert replay(child).state.terminal is not None


def test_what_a_lost_fork_left_is_in_nobody_s_way(left: Left, tmp_path: Path) -> None:
    """A fork that was removed and made again under its name finds the logs of its agents taken, and gets others."""
    place = tmp_path / "again" / left.caller.parent.name
    place.mkdir(parents=True)
    log = place / left.caller.name
    _cut(left.caller, log, left.begun - 1)
    for number in range(3):
        one = fork(log, None, place / "fork.jsonl")
        cwd = tmp_path / str(number)
        cwd.mkdir()
        with LoopbackServer(Answers()) as server:
            assert "Counted." in found_in(go_on(server, left, one, cwd))
        assert len(agents_of(one)) == number + 1
        if number < 2:
            one.unlink()
    begun = next(record.seq for record in read_log(one).records() if isinstance(record.event, ToolStarted))
    _cut(one, one, begun)
    newest = next(path for path in agents_of(one) if path.stem.endswith("-3"))
    _cut(newest, newest, 5)
    (tmp_path / "last").mkdir()
    with LoopbackServer(Answers()) as server:
        assert "Counted." in found_in(go_on(server, left, one, tmp_path / "last"))
    assert len(agents_of(one)) == 3
    assert replay(newest).state.terminal is not None


@pytest.mark.parametrize("why", ["locked", "read only"])
def test_an_agent_whose_log_cannot_be_written_has_an_unknown_outcome(left: Left, tmp_path: Path, why: str) -> None:
    """It may have taken effect, and what it used by its log is its caller's."""
    if why == "read only" and os.geteuid() == 0:
        pytest.skip("nothing is read only for root")
    log, child = left.cut(why, 9)
    used, before = replay(child).state.data.usage, child.read_bytes()
    assert total_cost(used) > 0
    with child.open("rb") as other:
        if why == "locked":
            fcntl.flock(other, fcntl.LOCK_EX)
        else:
            child.chmod(0o400)
        with LoopbackServer(Answers()) as server:
            session = go_on(server, left, log, tmp_path)
    assert "its outcome is unknown, it may have taken effect" in found_in(session)
    assert "failed" not in found_in(session)
    told = [item.event.usage for item in read_log(log).records() if isinstance(item.event, ToolFinished)]
    assert told[0] == used
    assert session.state.terminal is not None
    assert total_cost(session.state.terminal.usage) == total_cost(own(log)) + sum(map(total_cost, told))
    assert child.read_bytes() == before


def test_what_an_agent_used_counts_when_its_log_breaks(tmp_path: Path) -> None:
    """An agent that stops because it cannot be recorded any more had been paid for."""
    line = "for log in logs/*/*-tool-*.jsonl; do touch $log.blobs; done; python3 -c \"print('x' * 20_000)\""
    family = Family(
        main=[priced(calls(ask("work")), 0.01), priced(says("Main is done."), 0.01)],
        work=[priced(calls(use("Bash", {"command": line})), 0.02), priced(says("Never."), 0.04)],
    )
    with LoopbackServer(family) as server:
        agent = family_agent(server, tmp_path, permission_mode="bypassPermissions", logs=tmp_path / "logs")
        outcome = run_sync("main go", agent=agent)
    assert "LogWriteError" in results(family.bodies["main"][-1])[0][0]
    assert outcome.terminal.reason is TerminalReason.COMPLETED
    assert total_cost(outcome.terminal.usage) == 40_000


def test_an_agent_of_an_agent_goes_on(tmp_path: Path) -> None:
    """Down the whole line: each goes on in its own log, and the deepest finds what it had begun."""
    family = Family(
        main=[calls(ask("middle")), says("Main is done.")],
        middle=[calls(ask("deep")), says("Middle is done.")],
        deep=[calls(count("one")), says("Deep is done.")],
    )
    left = Left(tmp_path, family)
    logs = sorted(left.caller.parent.glob("*.jsonl"), key=lambda path: len(path.name))
    place = tmp_path / "cut" / left.caller.parent.name
    place.mkdir(parents=True)
    for number, path in enumerate(logs):
        kinds = [type(record.event) for record in read_log(path).records()]
        last = kinds.index(ToolStarted) + 1 if number < 2 else 3
        _cut(path, place / path.name, last)
    (tmp_path / "cwd").mkdir()
    family = Family(main=[says("Main is done.")], middle=[says("Middle is done.")], deep=[calls(count("one")), says("Deep.")])
    with LoopbackServer(family) as server:
        session = go_on(server, left, place / left.caller.name, tmp_path / "cwd")
        assert server.breaches == []
    assert [len(bodies) for bodies in family.bodies.values()] == [1, 1, 2]
    assert (tmp_path / "cwd" / "counted").read_text() == "one\n"
    assert "Middle is done." in results(family.bodies["main"][0])[0][0]
    assert session.state.terminal is not None
    assert len(list(place.glob("*.jsonl"))) == 3


def test_what_an_aborted_agent_used_is_its_callers(tmp_path: Path) -> None:
    """An interrupt in the middle of an agent's agent: the caller's total holds what both had used, and its log replays."""
    wait = use("Bash", {"command": "echo > there; sleep 60"})
    family = Family(
        main=[priced(calls(ask("one")), 0.01)], one=[priced(calls(ask("two")), 0.02)], two=[priced(calls(wait), 0.04)]
    )
    with LoopbackServer(family) as server:
        agent = family_agent(server, tmp_path, permission_mode="bypassPermissions", logs=tmp_path / "logs")
        session = Session(agent)

        async def main() -> None:
            async with session.submit("main go") as submission, anyio.create_task_group() as group:

                async def stop() -> None:
                    while not (tmp_path / "there").exists():
                        await anyio.sleep(0.01)
                    submission.run.interrupt()

                group.start_soon(stop)
                async for _ in submission:
                    pass

        anyio.run(main)
    assert session.result is not None
    assert session.result["terminal_reason"] == "aborted_tools"
    assert session.result["total_cost_usd"] == pytest.approx(0.07)
    by_log = {path: replay(path) for path in tmp_path.glob("logs/*/*.jsonl")}
    assert all(found.divergence is None for found in by_log.values())
    assert sorted(total_cost(found.state.data.usage) for found in by_log.values()) == [40_000, 60_000, 70_000]
    aborts = [
        record.event for path in by_log for record in read_log(path).records() if isinstance(record.event, AbortRequested)
    ]
    assert sorted(total_cost(event.usage) for event in aborts) == [0, 40_000, 60_000]


def test_the_budget_counts_what_a_dead_agent_had_used(left: Left, tmp_path: Path) -> None:
    """An agent that goes on has spent what its log says; the caller's budget knows it."""
    log, _ = left.cut("spent", left.records)
    standing = stand(log)
    config = evolve(standing.header.config, max_budget=65_000)
    place = log.with_name("budget.jsonl")
    assert standing.header.state is not None
    journal = Journal.create(place, config, standing.header.state, standing.header.session, standing.header.run)
    from fsm_agent.core.step import step

    state = standing.header.state
    for record in read_log(log).records():
        made = step(state, record.event, config)
        journal.append(record.event, made, sync=False)
        state = made.state
    journal.release()
    with LoopbackServer(Answers()) as server:
        session = go_on(server, left, place, tmp_path)
        assert server.requests == []
    assert session.state.terminal is not None
    assert session.state.terminal.reason is TerminalReason.BLOCKING_LIMIT


def test_own_tools_may_outlive_their_engine(tmp_path: Path) -> None:
    """A tool of one's own says what goes on and how; hooks and permission are not asked again, its answer is its result."""
    from fsm_agent.runtime.tools.base import JsonObject, Tool, ToolContext, ToolOutput

    class Job(Tool):
        name = "Job"
        description = "Works elsewhere."
        needs_permission = False
        broken = False

        def goes_on(self, effect_id: str, log: Path) -> bool:
            if self.broken:
                raise RuntimeError("no idea")
            return log.name == "cut.jsonl" and effect_id.startswith("job/tool-")

        async def run(self, tool_input: JsonObject, context: ToolContext) -> ToolOutput:
            return ToolOutput("finished here")

        async def go_on(self, tool_input: JsonObject, context: ToolContext) -> ToolOutput:
            await context.progress("still there")
            return ToolOutput("finished elsewhere")

    family = Family(main=[calls(use("Job", {})), says("done")])
    job, log, cut = Job(), tmp_path / "run.jsonl", tmp_path / "cut.jsonl"
    asked: list[str] = []
    hooks = [Hook(event, call=lambda payload: asked.append(payload["hook_event_name"])) for event in TOOL_HOOKS]
    with LoopbackServer(family) as server:
        agent = Agent("claude-sonnet-5-5", cwd=tmp_path, base_url=server.base_url, api_key="k", tools=[job], hooks=hooks)

        async def main(run: Run) -> None:
            async with run:
                async for _ in run:
                    pass

        anyio.run(main, agent.run("main go", run_id="job", log=log))
        begun = next(record.seq for record in read_log(log).records() if isinstance(record.event, ToolStarted))
        _cut(log, cut, begun)
        job.broken = True
        (lost,) = resumption(stand(cut), agent.deps.tools).lost
        job.broken = False
        assert resumption(stand(cut), agent.deps.tools).going_on[0].id == lost.id
        asked.clear()
        anyio.run(main, agent.resume(cut))
        assert server.breaches == []
    assert asked == ["PostToolUse"]
    assert results(family.bodies["main"][-1]) == [("finished elsewhere", False)]
    assert replay(cut).divergence is None
