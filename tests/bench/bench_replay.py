"""How fast a log is decoded, folded and compared, and how it grows: the log of a run of 800 rounds (issue 4, point 4).

Run: ``python tests/bench/bench_replay.py [ROUNDS]``. Every digest of every effect, those of the model calls too, is
compared. The time of each record is the best of several replays, so that what else the machine does counts little.
An ordinary event is one that makes no request. Lines are read and decoded some at a time; that part of the time falls on
every 32nd record, whichever it is. ``parts``: folded by a process for each core at once, as ``fsm-agent replay`` does.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

from fsm_agent.core.blocks import read_block, text_block, tool_result
from fsm_agent.core.config import ContextConfig, LoopConfig
from fsm_agent.core.effects import CallModel, RunTool
from fsm_agent.core.events import (
    BlockCompleted,
    Event,
    Outcome,
    RunStarted,
    StreamCompleted,
    StreamStarted,
    ToolFinished,
    ToolStarted,
    ToolTraits,
    ToolUse,
)
from fsm_agent.core.messages import MessageKind, message
from fsm_agent.core.models import ModelInfo
from fsm_agent.core.state import LoopState, Step, initial
from fsm_agent.core.step import step
from fsm_agent.core.usage import ModelUsage
from fsm_agent.log.journal import Journal
from fsm_agent.log.parts import replay_in_parts
from fsm_agent.log.reader import read_log
from fsm_agent.log.replay import replay

WINDOW = 2_000_000
CONFIG = LoopConfig(
    model="bench",
    models=(ModelInfo(name="bench", context_window=WINDOW),),
    context=ContextConfig(context_window=WINDOW),
)
READ = ToolTraits(read_only=True, concurrency_safe=True)
REPEATS = 7


class Recorder:
    """Drives the reducer and writes the log."""

    def __init__(self, path: Path) -> None:
        self.state = initial(CONFIG)
        self.path = path
        self.journal = Journal.create(path, CONFIG, self.state, "bench", "r")

    def feed(self, event: Event) -> Step:
        made = step(self.state, event, CONFIG)
        self.journal.append(event, made, sync=False)
        self.state = made.state
        return made

    def round(self, made: Step, number: int) -> Step:
        """One reply with a text and a call, and its result of 1,500 characters."""
        call = next(effect.id for effect in made.effects if isinstance(effect, CallModel))
        self.feed(StreamStarted(call, f"msg_{number}", "bench"))
        self.feed(BlockCompleted(call, 0, text_block(f"Now I look at file number {number}. " * 3)))
        given = f'{{"file_path":"/src/file{number}.py"}}'
        block = {
            "type": "tool_use",
            "id": f"toolu_{number:06d}",
            "name": "Read",
            "input": {"file_path": f"/src/file{number}.py"},
        }
        use = ToolUse(f"toolu_{number:06d}", "Read", given, given, "", READ)
        early = self.feed(BlockCompleted(call, 1, read_block(block), use))
        usage = (ModelUsage("bench", 100 + number, 50, cost=10),)
        late = self.feed(StreamCompleted(call, "tool_use", usage, 1_000 + number * 300))
        tool = next(effect for effect in (*early.effects, *late.effects) if isinstance(effect, RunTool))
        self.feed(ToolStarted(tool.id, "ab" * 32))
        result = tool_result(tool.tool_use_id, f"line {number} of the file\n" * 70)
        return self.feed(ToolFinished(tool.id, Outcome.OK, result, "cd" * 32))


def write(path: Path, rounds: int) -> list[int]:
    """Write the log, and give its size behind each round."""
    recorder = Recorder(path)
    prompt = message("p", "user", MessageKind.PROMPT, (text_block("Look at everything."),))
    made = recorder.feed(RunStarted("r", (prompt,)))
    sizes = []
    for number in range(rounds):
        made = recorder.round(made, number)
        sizes.append(path.stat().st_size)
    recorder.journal.close(recorder.state)
    return sizes


def best_times(path: Path) -> tuple[list[float], list[float]]:
    """Give the best time of each record in seconds: all of it, and the step alone."""
    count = read_log(path).tail.records
    whole, alone = [float("inf")] * count, [float("inf")] * count
    clock = time.perf_counter
    for _ in range(REPEATS):
        starts: list[float] = []
        ends: list[float] = []

        def stamped(
            state: LoopState, event: Event, config: LoopConfig, starts: list[float] = starts, ends: list[float] = ends
        ) -> Step:
            starts.append(clock())
            made = step(state, event, config)
            ends.append(clock())
            return made

        gc.collect()
        found = replay(path, reducer=stamped)
        assert found.divergence is None
        assert found.steps == count
        assert len(starts) == count, "a record was stepped twice, since it could not be compared as it is written"
        starts.append(clock())
        for place in range(count):
            whole[place] = min(whole[place], starts[place + 1] - starts[place])
            alone[place] = min(alone[place], ends[place] - starts[place])
    return whole, alone


def peak(path: Path) -> tuple[int, int]:
    """Give the memory that a replay leaves, which is its state, and what it needed beyond that, in bytes."""
    gc.collect()
    tracemalloc.start()
    found = replay(path)
    left, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del found
    return left, most - left


def walls(path: Path, jobs: int) -> tuple[float, float]:
    """Give the best seconds of a whole replay, in one piece and in parts, taken in turn."""
    alone, parted = float("inf"), float("inf")
    for _ in range(3 * REPEATS):
        for number in (1, jobs):
            gc.collect()
            begun = time.perf_counter()
            found = replay_in_parts(path, number)
            spent = time.perf_counter() - begun
            assert found.divergence is None
            if number == 1:
                alone = min(alone, spent)
            else:
                parted = min(parted, spent)
    return alone, parted


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 800
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"
        sizes = write(path, rounds)
        size = path.stat().st_size
        early, late = sizes[50] - sizes[49], sizes[-1] - sizes[-2]
        print(f"log       {size:,} bytes, {early:,} in round 50, {late:,} in round {rounds}")
        whole, alone = best_times(path)
        kinds = [bool("call_model" in " ".join(record.sketch)) for record in read_log(path).records()]
        ordinary = [cost for cost, request in zip(whole, kinds, strict=True) if not request]
        plain = [cost for cost, request in zip(alone, kinds, strict=True) if not request]
        jobs = os.cpu_count() or 1
        single, parted = walls(path, jobs)
        gain = single / parted
        print(f"whole     {len(whole) / single:>10,.0f} events/s in one process")
        print(f"parts     {len(whole) / parted:>10,.0f} events/s in {jobs} processes, {gain:.2f} times one")
        for name, costs, steps in (("all", whole, alone), ("ordinary", ordinary, plain)):
            mean, inner = sum(costs) / len(costs), sum(steps) / len(steps)
            print(
                f"{name:<10}{1 / mean:>10,.0f} events/s {mean * 1e6:7.1f} us an event, of which step {inner * 1e6:.1f} us",
                end="",
            )
            print(f"; {gain / mean:,.0f} events/s in parts")
        left, beyond = peak(path)
        print(f"memory    {left:,} bytes of state, {beyond:,} beyond it at most")


if __name__ == "__main__":
    main()
