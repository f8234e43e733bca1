"""Runs do not depend on the hash seed: logs of other processes are equal byte for byte under a scripted clock."""

from __future__ import annotations

import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from fsm_agent.scenario import catalog

REPOSITORY = Path(__file__).resolve().parents[2]
SOME = ("repair", "salvage", "collapse-drain", "tool-summary", "fallback-overloaded", "queued-command")
WRITER = """
import itertools, os, sys

os.urandom = lambda size: b"s" * size  # the salt of a log is the one thing in it that is drawn at random
from pathlib import Path

import trio, trio.testing
from trio._core import _run

_run._ALLOW_DETERMINISTIC_SCHEDULING = True  # trio shuffles tasks that may run, so that nobody relies on their order
_run._r.seed(0)

from fsm_agent.core.state import initial
from fsm_agent.log.journal import Journal
from fsm_agent.scenario import load
from fsm_agent.scenario.play import play
from fsm_agent.scenario.scripted import World, scripted_deps

for name in sys.argv[2:]:
    scenario = load(name)
    clock = itertools.count(1_700_000_000_000, 7)
    log = Path(sys.argv[1], f"{name}.jsonl")
    begin = initial(scenario.config)
    journal = Journal.create(log, scenario.config, begin, "session", "run", now=lambda: next(clock))
    world = World()

    async def main():
        await play(scenario, scripted_deps(scenario, journal, world), world=world, jitter=lambda: 0.0)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
"""


def logs(folder: Path, seed: int, names: tuple[str, ...]) -> dict[str, str]:
    """Play scenarios in a process with this hash seed; gives a digest of each log."""
    folder.mkdir()
    environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": str(REPOSITORY)}
    subprocess.run([sys.executable, "-c", WRITER, str(folder), *names], check=True, env=environment)
    return {name: sha256((folder / f"{name}.jsonl").read_bytes()).hexdigest() for name in names}


def same(folder: Path, seeds: range, names: tuple[str, ...]) -> None:
    """Compare the logs of several seeds with those of seed 0."""
    first = logs(folder / "0", 0, names)
    for seed in seeds:
        assert logs(folder / str(seed), seed, names) == first, f"hash seed {seed}"


def test_three_hash_seeds(tmp_path: Path) -> None:
    """Some scenarios in processes with three hash seeds."""
    same(tmp_path, range(1, 3), SOME)


@pytest.mark.long
def test_twenty_hash_seeds(tmp_path: Path) -> None:
    """All scenarios in processes with twenty hash seeds."""
    from fsm_agent.scenario import load
    from fsm_agent.scenario.format import Way

    same(tmp_path, range(1, 20), tuple(name for name in catalog() if Way.INTERPRETER in load(name).ways))
