"""A real run in a real process is killed at every record and at random instants, resumed, and must come out right.

What is right: it reaches a terminal; every request keeps the wire's rules; no decision of the model is carried out
twice; what was answered before the death is not asked again; the user's words are there once (field reports 112, 116, 139).
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fsm_agent.core.effects import CallModel
from fsm_agent.core.events import CommandQueued, StreamCompleted, ToolFinished
from fsm_agent.core.outputs import Terminal
from fsm_agent.core.request.encode import body_of
from fsm_agent.core.state import Step
from fsm_agent.core.usage import ModelUsage, add_usage
from fsm_agent.log.errors import LogUnreadable
from fsm_agent.log.format import Record
from fsm_agent.log.reader import read_log
from fsm_agent.log.replay import replay
from fsm_agent.log.resume import reopen, stand
from fsm_agent.server.app import LoopbackServer

from .story import Story, is_agents
from .worker import COMMAND, PROMPT

pytestmark = pytest.mark.slow
SHORT = ("look", "pair")
HELPED = ("agent",)
RICH = ("look", "bump", "big", "pair", "big", "overload", "bump", "agent", "big", "look", "agent", "pair")
REPOSITORY = Path(__file__).resolve().parents[2]
WINDOW = 26_000
RANDOM = int(os.environ.get("FSM_AGENT_CRASHES", "25"))
"""Random instants; the release form asks for 500."""


class Nursery:
    """The process that forks the runs."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.worker"],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with LoopbackServer(Story(*SHORT)) as server, tempfile.TemporaryDirectory() as folder:
            self.run(do="warm", base_url=server.base_url, folder=folder, window=200_000)

    def run(self, **order: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(order), file=self.process.stdin, flush=True)
        report: dict[str, Any] = json.loads(self.process.stdout.readline())
        assert "error" not in report, (order, report)
        return report

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()


class Trial:
    """One run, killed and resumed as often as it is asked for."""

    def __init__(self, nursery: Nursery, server: LoopbackServer, folder: Path, window: int, backend: str = "asyncio") -> None:
        folder.mkdir()
        self.nursery, self.server, self.folder = nursery, server, folder
        self.log = folder / "run.jsonl"
        self.first = len(server.requests)
        self.answered: dict[bytes, int] = {}
        self._order = {"folder": str(folder), "base_url": server.base_url, "window": window, "backend": backend}

    def start(self, **death: Any) -> bool:
        """Run it from the beginning; True if it died."""
        return self._run("start", death)

    def resume(self, **death: Any) -> bool:
        """Resume it; True if it died again."""
        return self._run("resume", death)

    def _run(self, what: str, death: dict[str, Any]) -> bool:
        report = self.nursery.run(do=what, **self._order, **death)
        self._note_answered()
        return bool(report["killed"])

    @property
    def agents(self) -> list[Path]:
        """The logs of the sub-agents."""
        return [path for path in sorted(self.folder.glob("*.jsonl")) if path != self.log]

    def _note_answered(self) -> None:
        """Take down which requests have their answer in the log, and how many had been made by then."""
        requests: dict[str, bytes] = {}

        def each(record: Record, made: Step) -> None:
            for effect in made.effects:
                if isinstance(effect, CallModel):
                    requests[effect.id] = body_of(effect.request)
            if isinstance(record.event, StreamCompleted) and record.event.id in requests:
                self.answered.setdefault(requests[record.event.id], len(self.server.requests))

        for log in (self.log, *self.agents):
            if readable_now(log):
                replay(log, each=each)

    def check(self) -> None:
        """Check all that must hold once the run has ended."""
        replayed = replay(self.log)
        assert replayed.divergence is None
        assert replayed.tail is not None
        assert not replayed.tail.torn
        terminal = replayed.state.terminal
        assert terminal is not None
        assert (terminal.reason.value, terminal.cause.value) == ("completed", "end_turn")
        mine = self.server.requests[self.first :]
        assert [(one.number, str(found)) for one in mine for found in one.breaches] == []
        counted = Counter((self.folder / "counter").read_text().split())
        assert set(counted.values()) <= {1}, counted
        for body, known in self.answered.items():
            asked = [one.number for one in self.server.requests[known:] if one.raw == body]
            assert asked == [], "what was answered was asked again"
        self._check_inputs([one for one in mine if not is_agents(one.body)])
        self._check_agents(terminal)

    def _check_agents(self, terminal: Terminal) -> None:
        """Each agent that began has ended, in its own log, and what all of them used is in the caller's total."""
        used: tuple[ModelUsage, ...] = ()
        for record in read_log(self.log).records():
            if not isinstance(record.event, ToolFinished):
                used = add_usage(used, getattr(record.event, "usage", ()))
        for log in self.agents:
            if readable_now(log):
                replayed = replay(log)
                assert replayed.divergence is None
                assert replayed.state.terminal is not None, log
                used = add_usage(used, replayed.state.data.usage)
        assert sorted(map(str, used)) == sorted(map(str, terminal.usage))

    def _check_inputs(self, mine: list[Any]) -> None:
        events = [record.event for record in read_log(self.log).records()]
        queued = [event for event in events if isinstance(event, CommandQueued)]
        assert len(queued) <= 1
        asked = [words for words in (one.raw.decode() for one in mine) if '"tools":[' in words]
        assert asked[0].count(PROMPT) == 1
        assert all(words.count(PROMPT) <= 1 and words.count(COMMAND) <= len(queued) for words in asked)
        if not any("compaction" in row for row in rows_of(self.log)):
            assert all(words.count(PROMPT) == 1 for words in asked)
        if queued:
            # The newest request of the user outlives every compaction.
            assert asked[-1].count(COMMAND) == 1


def rows_of(log: Path) -> set[str]:
    return {name for record in read_log(log).records() for name in record.taken}


@pytest.fixture
def serve() -> Iterator[Any]:
    servers: list[LoopbackServer] = []

    def start(*steps: str) -> LoopbackServer:
        server = LoopbackServer(Story(*steps))
        server.start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.stop()


def length(nursery: Nursery, server: LoopbackServer, folder: Path, window: int) -> int:
    """Run it without a death, and count its records, those of its sub-agents included."""
    trial = Trial(nursery, server, folder, window)
    assert not trial.start()
    trial.check()
    return sum(read_log(log).tail.records for log in (trial.log, *trial.agents))


@pytest.mark.parametrize("how", ["before", "behind"])
@pytest.mark.parametrize("steps", [SHORT, HELPED], ids=["short", "helped"])
def test_killed_at_every_record(nursery: Nursery, serve: Any, tmp_path: Path, how: str, steps: tuple[str, ...]) -> None:
    """A run that dies before or behind any of its records or of its sub-agent's, and is resumed, comes out right."""
    server = serve(*steps)
    records = length(nursery, server, tmp_path / "whole", 200_000)
    for at in range(1, records + 1):
        trial = Trial(nursery, server, tmp_path / f"{at}", 200_000)
        # Calls beside each other may interleave otherwise, and the last of their records come a moment earlier.
        if trial.start(at=at, how=how):
            revive(trial)
        else:
            assert at > records - 2
        trial.check()


def revive(trial: Trial) -> None:
    """Resume until it ends; a run that died before its prompt was recorded is started again, as its user would."""
    if readable_now(trial.log):
        assert not trial.resume()
        return
    trial.log.unlink(missing_ok=True)
    assert not trial.start()


def readable_now(log: Path) -> bool:
    """Say whether the log holds the prompt; it may be missing, empty, or torn within its header."""
    try:
        return read_log(log).tail.records > 0
    except (FileNotFoundError, LogUnreadable):
        return False


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_killed_at_random_instants(nursery: Nursery, serve: Any, tmp_path: Path, backend: str) -> None:
    """A rich run (early tools, side effects, compactions, a fallback, agents) dies at any instant, also while it is resumed."""
    server = serve(*RICH)
    trial = Trial(nursery, server, tmp_path / "whole", WINDOW, backend)
    begun = time.monotonic()
    assert not trial.start()
    seconds = time.monotonic() - begun
    trial.check()
    check_rich(trial)
    chance = random.Random(os.environ.get("FSM_AGENT_SEED", "1"))
    for number in range((RANDOM + 1) // 2):
        trial = Trial(nursery, server, tmp_path / f"{number}", WINDOW, backend)
        died = trial.start(after=chance.uniform(0, seconds), seed=number)
        while died and chance.random() < 0.5 and readable_now(trial.log):
            died = trial.resume(after=chance.uniform(0, seconds), seed=number)
        if died:
            revive(trial)
        trial.check()


def check_rich(trial: Trial) -> None:
    """The rich run is what it is said to be: a fallback, compactions, tools that start while the reply streams, agents."""
    assert len(trial.agents) == RICH.count("agent")
    assert {"fallback", "compaction_applied"} <= rows_of(trial.log)
    events = [type(record.event).__name__ for record in read_log(trial.log).records()]
    assert "ToolStarted" in events[: events.index("StreamCompleted")]


def test_a_torn_write_at_every_byte(nursery: Nursery, serve: Any, tmp_path: Path) -> None:
    """However much of its last record reached the file, the run goes on; the rest is kept aside (field report 112)."""
    server = serve(*SHORT)
    trial = Trial(nursery, server, tmp_path / "dead", 200_000)
    assert trial.start(at=8, how="behind")
    data = trial.log.read_bytes()
    last = len(data.splitlines(keepends=True)[-1])
    for lost in range(1, last + 1):
        copy = trial.folder / "copy.jsonl"
        copy.write_bytes(data[:-lost])
        standing = stand(copy)
        assert (standing.seq, standing.torn) == (7, last - lost)
        journal = reopen(standing)
        journal.release()
        kept = list(trial.folder.glob("copy.jsonl.torn-*"))
        assert [place.read_bytes() for place in kept] == ([data[-last:-lost]] if lost < last else [])
        assert copy.read_bytes() == data[:-last]
        for place in (copy, *kept):
            place.unlink()
    every = 1 if RANDOM >= 500 else 97
    for lost in range(1, last + 1, every):
        again = Trial(nursery, server, tmp_path / f"{lost}", 200_000)
        again.log.write_bytes(data[:-lost])
        for name in ("counter",):
            if (trial.folder / name).exists():
                shutil.copy(trial.folder / name, again.folder / name)
        assert not again.resume()
        again.check()


def test_a_torn_write_at_every_byte_of_an_agents_record(nursery: Nursery, serve: Any, tmp_path: Path) -> None:
    """So it is with the last record of a sub-agent's log: the agent goes on from the one before."""
    server = serve(*HELPED)
    dead = died_at_work(nursery, server, tmp_path)
    (log,) = dead.agents
    data = log.read_bytes()
    last = len(data.splitlines(keepends=True)[-1])
    for lost in range(1, last + 1, 1 if RANDOM >= 500 else 173):
        again = Trial(nursery, server, tmp_path / f"lost-{lost}", 200_000)
        for place in dead.folder.iterdir():
            if place.is_file():
                shutil.copy(place, again.folder / place.name)
        (again.folder / log.name).write_bytes(data[:-lost])
        assert not again.resume()
        again.check()
        assert [path.name for path in again.agents] == [log.name]


def died_at_work(nursery: Nursery, server: LoopbackServer, folder: Path) -> Trial:
    """Let runs die later and later, until one dies behind the fourth record of its sub-agent."""
    for at in range(8, 40):
        trial = Trial(nursery, server, folder / f"at-{at}", 200_000)
        assert trial.start(at=at, how="behind")
        if trial.agents and read_log(trial.agents[0]).tail.records == 4:
            return trial
    raise AssertionError("no sub-agent came so far")


if RANDOM >= 500:  # the release form, FSM_AGENT_CRASHES=500

    @pytest.mark.parametrize("how", ["before", "behind"])
    def test_a_rich_run_killed_at_every_record(nursery: Nursery, serve: Any, tmp_path: Path, how: str) -> None:
        """The rich run, too, comes out right wherever it dies."""
        server = serve(*RICH)
        records = length(nursery, server, tmp_path / "whole", WINDOW)
        for at in range(1, records + 1):
            trial = Trial(nursery, server, tmp_path / f"{at}", WINDOW)
            if trial.start(at=at, how=how):
                revive(trial)
            trial.check()
