"""How fast a log is decoded, folded and compared, and how it grows: the log of a run of 800 rounds (issue 4, point 4).

Run: ``python tests/bench/bench_replay.py [ROUNDS]``. Every digest of every effect, those of the model calls too, is
compared. The times are the best of several replays, so that what else the machine does counts little. An ordinary event is
one that makes no request: the time of a whole replay is shared out among the events by what each of them takes where its
stages are gone through with a clock. ``parts``: folded by a process for each core at once, as ``fsm-agent replay`` does.
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
from fsm_agent.log.agreement import reads_as
from fsm_agent.log.digest import StateDigests
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


class Shares:
    """The least time of each record in each of the stages of a replay, in seconds."""

    def __init__(self, count: int) -> None:
        self.read, self.step, self.compare = ([float("inf")] * count for _ in range(3))

    def measure(self, path: Path) -> None:
        """Go through the log once, with a clock beside each record."""
        clock = time.perf_counter
        log, steps, written = read_log(path), list[Step](), list[bytes]()

        def stamped(state: LoopState, event: Event, config: LoopConfig) -> Step:
            begun = clock()
            made = step(state, event, config)
            spent = clock() - begun
            place = len(steps)
            self.step[place] = min(self.step[place], spent)
            steps.append(made)
            return made

        gc.collect()
        assert replay(path, reducer=stamped).divergence is None
        lines = log.lines(events=True)
        for place in range(len(steps)):
            begun = clock()
            line = next(lines)
            self.read[place] = min(self.read[place], clock() - begun)
            assert line.written is not None, "a record cannot be compared as it is written"
            written.append(line.written[1])
        states = StateDigests()
        for place, made in enumerate(steps):
            begun = clock()
            same = reads_as(made, written[place], states)
            self.compare[place] = min(self.compare[place], clock() - begun)
            assert same

    def stages(self) -> tuple[list[float], list[float], list[float]]:
        """Give the times of reading, of the step, and of comparing."""
        return self.read, self.step, self.compare

    def whole(self) -> list[float]:
        """Sum the stages."""
        return [sum(costs) for costs in zip(*self.stages(), strict=True)]


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
        jobs = os.cpu_count() or 1
        single, parted = walls(path, jobs)
        gain = single / parted
        print(f"parts     {gain:.2f} times one process, in {jobs} of them")
        requests = ["call_model" in " ".join(record.sketch) for record in read_log(path).records()]
        shares = Shares(len(requests))
        for _ in range(REPEATS):
            shares.measure(path)
        costs = shares.whole()
        scale = single / sum(costs)
        for name, kinds in (("all", (False, True)), ("ordinary", (False,))):
            chosen = [place for place, request in enumerate(requests) if request in kinds]
            mean = scale * sum(costs[place] for place in chosen) / len(chosen)
            parts = [scale * sum(stage[place] for place in chosen) / len(chosen) * 1e6 for stage in shares.stages()]
            read, stepped, compared = parts
            print(
                f"{name:<10}{1 / mean:>10,.0f} events/s, {gain / mean:,.0f} in parts; {mean * 1e6:.1f} us an event: "
                f"{read:.1f} to read it, {stepped:.1f} in step, {compared:.1f} to compare"
            )
        left, beyond = peak(path)
        print(f"memory    {left:,} bytes of state, {beyond:,} beyond it at most")


if __name__ == "__main__":
    main()
