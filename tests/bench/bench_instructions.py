"""What a round costs in machine instructions, which no neighbour on the machine disturbs. Needs valgrind.

Run: ``python tests/bench/bench_instructions.py``. The log of a run is folded under ``valgrind --tool=cachegrind``; each
count is the difference between doing something four times and not at all. SHA-256 counts for more there than it costs
on a processor that has instructions for it.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import tempfile
from pathlib import Path

from fsm_agent.core.events import Event, StreamStarted
from fsm_agent.core.request.encode import body_of
from fsm_agent.core.state import LoopState
from fsm_agent.core.step import step
from fsm_agent.log.reader import read_log
from fsm_agent.log.replay import replay

PER_ROUND = 6
SPAN = 20
TIMES = 4


def steps_of(path: Path, start: int) -> list[tuple[LoopState, Event]]:
    """Give the states and events of some rounds of a log."""
    log = read_log(path)
    state = log.header.state
    assert state is not None
    found: list[tuple[LoopState, Event]] = []
    for record in log.records():
        if record.seq > (start + SPAN) * PER_ROUND + 1:
            break
        if record.seq > start * PER_ROUND + 1:
            found.append((state, record.event))
        state = step(state, record.event, log.header.config).state
    return found


def work(what: str, path: Path, start: int, times: int) -> None:
    """Do one thing some times; this runs under valgrind."""
    gc.disable()
    config = read_log(path).header.config
    if what == "replay":
        for _ in range(times):
            replay(path)
        return
    taken = steps_of(path, start)
    for _ in range(times):
        for state, event in taken:
            if what == "step":
                step(state, event, config)
            elif isinstance(event, StreamStarted) and state.data.iteration.request is not None:
                body_of(state.data.iteration.request)


def counted(*arguments: object) -> int:
    """Give the instructions of one run of this file."""
    tool = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    command = [*tool, sys.executable, __file__, *[str(argument) for argument in arguments]]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    return int(said.split("I   refs:")[1].split()[0].replace(",", ""))


def main() -> None:
    """Count and print."""
    from bench_replay import write

    with tempfile.TemporaryDirectory() as folder:
        short, long = Path(folder) / "short.jsonl", Path(folder) / "long.jsonl"
        write(short, 100)
        write(long, 800)
        whole = (counted("replay", short, 0, TIMES) - counted("replay", short, 0, 0)) // TIMES // 100
        print(f"a round of a replay           {whole:>10,}")
        for what, words in (("step", "in the reducer"), ("body", "joining the body")):
            for start in (40, 780):
                cost = (counted(what, long, start, TIMES) - counted(what, long, start, 0)) // TIMES // SPAN
                print(f"{words:<17} at turn {start + SPAN // 2:<4}{cost:>10,}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        work(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
