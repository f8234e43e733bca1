"""A run with a window of 20,000 tokens works through a task of 300,000: real tools and files, real HTTP, a strict server.

The thresholds are 16,000 / 12,800 / 15,200. The model is scripted: it reads chapter after chapter of a real project, lists
and searches it, and counts; what it must not lose over all cuts is the request.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest
from attrs import define, evolve, field

from fsm_agent import Agent
from fsm_agent.core.config import ContextConfig, Microcompact, thresholds
from fsm_agent.core.effects import CallModel
from fsm_agent.core.events import Event, ToolFinished
from fsm_agent.core.models import ModelInfo
from fsm_agent.core.outputs import Terminal
from fsm_agent.core.phases import Cause, TerminalReason
from fsm_agent.core.state import Step
from fsm_agent.log.replay import replay
from fsm_agent.runtime.compact_text import SUMMARY_SYSTEM
from fsm_agent.server.app import LoopbackServer
from fsm_agent.server.replies import Reply, calls, compacts, says, text, thinking
from fsm_agent.server.replies import tool as use

REQUEST = "Count the word 'harvest' in every chapter and write the total into total.txt. Mind the spelling: harvest."
PLAIN = ModelInfo(name="small", context_window=20_000, max_output=4_000)
BOUND = evolve(
    PLAIN,
    name="bound",
    thinking=("adaptive",),
    thinking_default=True,
    binds_thinking=True,
    api_compaction=True,
    context_edits=True,
)
CHAPTERS = 122
PLANNING = 14
"""Turns before the reading begins."""
NOTES = (25, 45)
"""Turns in which the model writes long notes."""
LAYERS = ContextConfig(
    snip=True,
    microcompact=Microcompact.LOCAL,
    keep_results=2,
    collapse=True,
    result_chars=9_000,
    preview_chars=400,
    keep_rounds=1,
)


def book(folder: Path) -> int:
    """Write the project; gives the sum of the words to be counted."""
    total = 0
    for number in range(CHAPTERS):
        words = number % 5
        total += words
        body = "\n".join(f"Line {line} of chapter {number}: the field lay still and nothing moved." for line in range(84))
        (folder / f"chapter-{number:03}.txt").write_text(body + "\nharvest" * words + "\n")
    return total


class Reader:
    """The scripted model: it reads some chapters a turn, then writes what it was asked for, then ends."""

    def __init__(self, folder: Path, total: int, think: bool) -> None:
        self.folder, self.total, self.think = folder, total, think
        self.turn = 0
        self.read = 0
        self.lost: list[int] = []

    def __call__(self, call: int, body: dict[str, Any]) -> Reply:
        """Answer one request."""
        if "compaction" in body:
            return compacts(f"Chapters up to {self.turn} are read. The total is kept in mind.")
        if body.get("system") == SUMMARY_SYSTEM:
            return says(f"Summary: chapters up to {self.turn} are read, the counting goes on.")
        if REQUEST not in json.dumps(body["messages"], ensure_ascii=False):
            self.lost.append(call)
        head = (thinking(f"Turn {self.turn}."),) if self.think else ()
        self.turn += 1
        if self.read < CHAPTERS:
            if self.turn <= PLANNING:
                # Many words and small results: rounds that are worth a summary, and nothing that could be cleared.
                plan = f"Plan, part {self.turn}. " + "First the spelling is settled, then the order of the chapters. " * 50
                return calls(
                    *head, text(plan), use("Bash", {"command": f"head -{self.turn} {self.folder / 'chapter-000.txt'}"})
                )
            if self.turn in NOTES:
                # What the model itself writes is no result that could be cleared: only a compaction makes room.
                notes = "So far the harvest is counted as the request says. " * 650
                return calls(*head, use("Write", {"file_path": str(self.folder / f"notes-{self.turn}.txt"), "content": notes}))
            # Now and then five chapters at once: more than the light layers can make room for.
            count = 5 if self.turn % 3 == 0 else 1
            names = [
                str(self.folder / f"chapter-{number:03}.txt") for number in range(self.read, min(self.read + count, CHAPTERS))
            ]
            self.read += count
            said = text(f"On to turn {self.turn}.")
            if self.turn % 7 == 0:
                # In one shell line: a long result, which the result budget shortens.
                return calls(*head, said, use("Bash", {"command": f"cat {' '.join(names)}"}))
            return calls(*head, said, *(use("Read", {"file_path": name}) for name in names))
        if not (self.folder / "total.txt").exists():
            return calls(*head, use("Write", {"file_path": str(self.folder / "total.txt"), "content": f"{self.total}\n"}))
        return says(f"The total is {self.total}.")


@define
class Work:
    """How the task went: the script, the end, the steps, the log, and the tokens that tools brought."""

    script: Reader
    log: Path
    terminal: Terminal | None = None
    steps: list[Step] = field(factory=list)
    tokens: int = 0


def work(folder: Path, info: ModelInfo, layers: ContextConfig) -> Work:
    """Run the task; every request is checked by the server."""
    script = Reader(folder, book(folder), info.binds_thinking)
    done = Work(script, folder.parent / f"{info.name}.jsonl")

    def note(event: Event, step: Step) -> None:
        done.steps.append(step)
        done.tokens += event.result.tokens if isinstance(event, ToolFinished) else 0

    async def main(base_url: str) -> Terminal | None:
        agent = Agent(
            info.name,
            models=(info,),
            cwd=folder,
            base_url=base_url,
            api_key="k",
            context=layers,
            permission_mode="acceptEdits",
            allow=["Bash(cat:*)", "Bash(head:*)"],
            max_output_tokens=1_000,
            log_sync="never",
        )
        async with agent.run(REQUEST, log=done.log, on_step=note) as run:
            async for _ in run:
                pass
        return run.terminal

    with LoopbackServer(script, models=(info,), enforce_window=True) as server:
        done.terminal = anyio.run(main, server.base_url)
        assert server.breaches == []
    return done


def layers_of(steps: list[Step]) -> Counter[str]:
    """Count what the layers did, by layer."""
    found: Counter[str] = Counter()
    for step in steps:
        if any(isinstance(effect, CallModel) for effect in step.effects):
            found.update(report.layer for report in step.state.data.iteration.reports if report.freed or report.cut)
    return found


def test_the_thresholds_are_those_of_the_task() -> None:
    """A window of 20,000 tokens gives 16,000 / 12,800 / 15,200."""
    agent = Agent("small", models=(PLAIN,), api_key="k")
    limits = thresholds(agent.config, "small")
    assert (limits.effective_window, limits.auto_compact_at, limits.blocking_limit) == (16_000, 12_800, 15_200)


@pytest.mark.parametrize(
    ("info", "layers", "used"),
    [
        (PLAIN, LAYERS, {"result_budget", "snip", "microcompact", "collapse", "compact"}),
        (PLAIN, ContextConfig(keep_rounds=1), {"compact"}),
        (BOUND, ContextConfig(keep_rounds=1), {"compact"}),
    ],
    ids=["every-layer", "compaction-alone", "bound-thinking"],
)
def test_a_task_of_many_windows_is_finished(tmp_path: Path, info: ModelInfo, layers: ContextConfig, used: set[str]) -> None:
    """The task is done over dozens of cuts: no request breaks a rule, the user's words are in each, the log replays."""
    folder = tmp_path / "book"
    folder.mkdir()
    done = work(folder, info, layers)
    script, terminal = done.script, done.terminal
    assert terminal is not None
    assert (terminal.reason, terminal.cause) == (TerminalReason.COMPLETED, Cause.END_TURN)
    assert (folder / "total.txt").read_text() == f"{script.total}\n"
    assert script.lost == []
    assert done.tokens > 300_000
    assert used <= set(layers_of(done.steps))
    found = replay(done.log)
    assert found.divergence is None
    assert found.state.messages == done.steps[-1].state.messages
