"""Crash everywhere: the engine dies at every state of the bounded machine, at every stage of every effect in flight.

Each state is visited by the explorer; the recovery is that of :mod:`fsm_agent.log.resume`. One state in ``EVERY`` is
reached again by its shortest path, and dies in a real log.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from ..core.config import LoopConfig
from ..core.effects import EffectKind
from ..core.events import Event
from ..core.models import ModelInfo
from ..core.phases import TERMINAL_SET, Phase
from ..core.state import LoopState, Step
from ..explorer.bounds import Bounds
from ..explorer.environment import NextRun
from ..explorer.expand import Worker
from ..explorer.explore import Explored, Progress, explore
from ..explorer.matrix import BUSY, COLLAPSING, Case
from ..laws import Law, Over, state_law
from .crash_files import CUTS, faults_of_files
from .crash_points import Stage, deaths_in_a_row, fault_of_crash, fault_of_edges, possible

EVERY = 200
"""One state in so many dies in a real log too."""
WIDE = Case(
    "crash-wide",
    LoopConfig(
        model="m",
        models=(ModelInfo(name="m"), ModelInfo(name="n")),
        context=COLLAPSING,
        prompt_caching=False,
        max_attempts=2,
        max_output_recoveries=0,
        max_output_tokens=4_096,
        max_pauses=0,
        max_malformed=0,
        max_resumes=1,
        max_turns=3,
        max_model_calls=1,
        stop_hook_row_cap=1,
        stop_hook_run_cap=1,
        stop_hooks=True,
        attachments=True,
        prefetch_memory=True,
        prefetch_skills=True,
        tool_summaries=True,
    ),
    evolve(
        BUSY,
        blocks=2,
        tools=2,
        kinds=("read", "write"),
        errors=(),
        compactions=("failed",),
        old_rounds=1,
        usage=(80_000, 110_000),
        commands=1,
        strangers=False,
        states=24_000,
    ),
)
"""As much in flight as there can be, and little that goes wrong but the engine: its first 24,000 states, for a release."""
_KINDS, _STAGES = tuple(EffectKind), tuple(Stage)
_ROW, _LONGEST, _STATES = (len(_KINDS) * len(_STAGES) + place for place in range(3))


@state_law("I16")
def every_crash_is_survived(state: LoopState, config: LoopConfig) -> str:
    """The engine may die at every stage of every effect: nothing is lost, nothing runs twice, and the run ends."""
    return _fault(state, config, lambda place, number: None)


@frozen
class Crashed:
    """What came of it.

    Attributes:
        explored: the search; a fault is a violation of its, with the shortest way there.
        stages: recoveries for each kind of effect and each stage.
        states: states at which the engine died.
        row: recoveries of engines that died right behind each resume, again and again.
        longest: most resumes that one run needed so.
        logs: logs in which it died, each in four ways.
        faults: what went wrong in logs.
        seconds: wall time.
    """

    explored: Explored
    stages: tuple[tuple[EffectKind, Stage, int], ...]
    states: int
    row: int
    longest: int
    logs: int
    faults: tuple[str, ...]
    seconds: float

    @property
    def recoveries(self) -> int:
        """All recoveries, those from real logs included."""
        return sum(count for _, _, count in self.stages) + self.row + CUTS * self.logs

    @property
    def words(self) -> str:
        """One line."""
        return (
            f"{self.recoveries:,} recoveries at {self.states:,} states in {self.seconds:.1f} s, {CUTS * self.logs:,} of them "
            f"from logs that were cut; at most {self.longest} resumes in a row"
        )


def crash_everywhere(
    config: LoopConfig,
    bounds: Bounds | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
    *,
    every: int = EVERY,
) -> Crashed:
    """Let the engine die at every state within bounds, at every stage of every effect in flight there.

    Args:
        config: the configuration.
        bounds: what the environment may do.
        jobs: processes that share the frontier.
        progress: told how far the search is, after each level.
        every: one state in so many dies in a real log too; 0 for none.

    Returns:
        How many recoveries there were, of which kinds, and what is wrong.

    Raises:
        ValueError: for a negative ``every``, by which no log would be cut.
    """
    if every < 0:
        raise ValueError(f"every={every}: one state in so many, or 0 for none")
    begun = time.monotonic()
    counts: Any = multiprocessing.get_context("fork").Array("q", _STATES + 1)
    found = explore(config, bounds, (_counting(counts),), jobs, progress)
    logs, faults = _in_logs(found, every) if every else (0, ())
    stages = tuple(
        (kind, stage, counts[place * len(_STAGES) + number])
        for place, kind in enumerate(_KINDS)
        for number, stage in enumerate(_STAGES)
    )
    return Crashed(
        explored=found,
        stages=stages,
        states=counts[_STATES],
        row=counts[_ROW],
        longest=counts[_LONGEST],
        logs=logs,
        faults=faults,
        seconds=time.monotonic() - begun,
    )


def _counting(counts: Any) -> Law:
    """Make the law that counts for all processes of a search together."""
    law = every_crash_is_survived

    def check(state: LoopState, config: LoopConfig) -> str:
        own: list[tuple[int, int]] = []
        words = _fault(state, config, lambda place, number: own.append((place, number)))
        with counts.get_lock():
            for place, number in own:
                counts[place] = max(counts[place], number) if place == _LONGEST else counts[place] + number
        return words

    return Law(law.name, law.group, Over.STATE, check, law.text)


def _fault(state: LoopState, config: LoopConfig, count: Callable[[int, int], None]) -> str:
    if state.control.phase in TERMINAL_SET or state.control.phase is Phase.READY:
        return ""
    count(_STATES, 1)
    for flight in state.control.flight:
        for number, stage in enumerate(_STAGES):
            if not possible(state, flight, stage):
                continue
            count(_KINDS.index(flight.kind) * len(_STAGES) + number, 1)
            if words := fault_of_crash(state, config, flight, stage):
                return f"{flight.id} was {stage}: {words}"
    if words := fault_of_edges(state, config):
        return words
    row, words = deaths_in_a_row(state, config)
    count(_ROW, row)
    count(_LONGEST, row)
    return words


def _in_logs(found: Explored, every: int) -> tuple[int, tuple[str, ...]]:
    """Let the engine die in the logs of the shortest paths to some states."""
    worker = Worker(found.config, found.bounds, (), found.start)
    logs = 0
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(1, found.states, every):
            if found.graph.terminal[number]:
                continue
            begin, taken, names = _last_run(worker, found.graph.ordinals_to(number))
            logs += 1
            wrong = faults_of_files(Path(folder), begin, taken, found.config)
            faults += [f"{' '.join(names)}: {words}" for words in wrong]
    return logs, tuple(faults)


def _last_run(worker: Worker, ordinals: tuple[int, ...]) -> tuple[LoopState, list[tuple[Event, Step]], list[str]]:
    """Take a path, and give what its last run began with and took."""
    begin = worker.begin()[1]
    taken: list[tuple[Event, Step]] = []
    names: list[str] = []
    for event, made, name in worker.walk(ordinals):
        names.append(name)
        if isinstance(event, NextRun):
            begin, taken = made.state, []
        else:
            taken.append((event, made))
    return begin, taken, names
