"""The same deaths on real files: a run's log is cut where a write was, folded, opened again and brought to its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ..core.config import LoopConfig
from ..core.effects import CallModel, RunTool
from ..core.events import Event
from ..core.phases import TERMINAL_SET, Phase
from ..core.state import LoopState, Step
from ..core.step import step
from ..laws import Edge
from ..laws.requests import unpaired
from ..log.files import SyncPolicy
from ..log.journal import Journal
from ..log.replay import replay
from ..log.resume import lost_in, reopen, stand
from .crash_points import CALM, answers

Taken = Sequence[tuple[Event, Step]]
CUTS = 4
"""Deaths of one log: its last record missing, torn by a byte, torn in the middle, whole."""


def write_log(path: Path, begin: LoopState, taken: Taken, config: LoopConfig) -> None:
    """Write the log of a run that nobody closed."""
    journal = Journal.create(path, config, begin, "session", "run", policy=SyncPolicy.NEVER)
    for event, made in taken:
        journal.append(event, made, sync=False)
    journal.release()


def faults_of_files(folder: Path, begin: LoopState, taken: Taken, config: LoopConfig) -> list[str]:
    """Let the engine die at the last write of a run, in four ways, each resumed from its file.

    Args:
        folder: where the logs are made; it must exist and hold none of them.
        begin: the state in which the run begins.
        taken: its events and steps; it has not ended.
        config: its configuration.

    Returns:
        What is wrong, in order; empty if nothing is.
    """
    whole = folder / "whole.jsonl"
    write_log(whole, begin, taken, config)
    data = whole.read_bytes()
    last = len(data.splitlines(keepends=True)[-1])
    before = taken[-2][1].state if len(taken) > 1 else begin
    found: list[str] = []
    for name, lost, torn in (
        ("missing", last, 0),
        ("torn", 1, last - 1),
        ("halved", last // 2, last - last // 2),
        ("whole", 0, 0),
    ):
        kept = taken if not lost else taken[:-1]
        if not kept:
            continue  # without its first event a run never began; its user starts it again
        path = folder / f"{name}-cut.jsonl"
        path.write_bytes(data[: len(data) - lost])
        words = _fault(path, kept, taken[-1][1].state if not lost else before, torn, config)
        if words:
            found.append(f"{name}: {words}")
        for left in folder.glob(f"{path.name}*"):
            left.unlink()
    whole.unlink()
    return found


def _fault(path: Path, kept: Taken, expected: LoopState, torn: int, config: LoopConfig) -> str:
    standing = stand(path)
    if (standing.seq, standing.torn) != (len(kept), torn):
        return f"it stands at record {standing.seq} with {standing.torn} torn bytes"
    if standing.state != expected:
        return "it folds to another state than the one that was written"
    if standing.lost != lost_in(expected):
        return f"{standing.lost} is to be fed"
    if expected.phase is Phase.READY:
        return ""  # the run never began, and nothing is in flight
    history = list(kept)
    state = _go_on(path, config, history, _feed)
    if words := _asked_again(history, len(kept), config):
        return words
    if state.phase not in TERMINAL_SET:
        standing = stand(path)  # it dies again, right behind its resume
        if standing.state != state or standing.torn:
            return "behind the resume it folds to another state than the one that was written"
        state = _go_on(path, config, history, _calmly)
        if words := _asked_again(history, len(kept), config):
            return words
    return _end(path, state)


def _go_on(
    path: Path, config: LoopConfig, history: list[tuple[Event, Step]], drive: Callable[[LoopState, LoopConfig], Taken]
) -> LoopState:
    standing = stand(path)
    journal = reopen(standing, policy=SyncPolicy.NEVER)
    state = standing.state
    try:
        for event, made in drive(state, config):
            journal.append(event, made, sync=False)
            history.append((event, made))
            state = made.state
        if state.phase in TERMINAL_SET:
            journal.close(state)
    finally:
        journal.release()
    return state


def _feed(state: LoopState, config: LoopConfig) -> Taken:
    found: list[tuple[Event, Step]] = []
    for event in lost_in(state):
        found.append((event, step(state, event, config)))
        state = found[-1][1].state
    return found


def _calmly(state: LoopState, config: LoopConfig) -> Taken:
    found = list(_feed(state, config))
    state = found[-1][1].state if found else state
    while state.phase not in TERMINAL_SET and len(found) < CALM:
        flight = state.control.flight[0]
        for event in answers(flight):
            found.append((event, step(state, event, config)))
            state = found[-1][1].state
            if not any(item.id == flight.id for item in state.control.flight):
                break
    return found


def _asked_again(history: Taken, resumed: int, config: LoopConfig) -> str:
    """Check that no request whose reply was kept is made again, and that no call is run again that had begun."""
    requests: dict[str, str] = {}
    answered: set[str] = set()
    begun: set[str] = set()
    state: LoopState | None = None
    for number, (event, made) in enumerate(history):
        if state is not None:
            edge = Edge(state, event, made, config)
            if edge.kept and edge.old.call.id in requests:
                answered.add(requests[edge.old.call.id])
        for effect in made.effects:
            if isinstance(effect, CallModel):
                if number >= resumed and effect.request.digest in answered:
                    return f"{effect.id} asks again what was answered"
                requests[effect.id] = effect.request.digest
            elif isinstance(effect, RunTool) and effect.tool_use_id in begun:
                return f"{effect.tool_use_id} is run again"
        begun |= {call.id for call in made.state.control.tools.calls if call.started}
        state = made.state
    return ""


def _end(path: Path, state: LoopState) -> str:
    if state.phase not in TERMINAL_SET:
        return f"{CALM} calm answers do not end the run"
    replayed = replay(path)
    if replayed.divergence is not None:
        return str(replayed.divergence)
    if replayed.tail is None or replayed.tail.end is None or replayed.tail.torn:
        return "the log has no end"
    return unpaired(replayed.state.messages)
