"""Resume from every prefix of a log, on the bare reducer: it comes to an end, or to a call that the API would take."""

from __future__ import annotations

from pathlib import Path

from ..core.config import LoopConfig
from ..core.events import Event
from ..core.phases import TERMINAL_SET, Phase
from ..core.state import LoopState, Step
from ..core.step import step
from ..laws import LAWS, Edge, Law, Over
from ..laws.requests import unpaired
from .wire import check_requests


def crashed(state: LoopState, config: LoopConfig) -> tuple[tuple[Event, Step], ...]:
    """Feed a state what a resume would: each unanswered effect as lost, in the order of their ids.

    Args:
        state: where the engine died.
        config: the run's configuration.

    Returns:
        The events with the steps that took them; what the table cancelled meanwhile is ignored by name, as in a run.
    """
    from ..log.resume import lost_in

    taken: list[tuple[Event, Step]] = []
    for event in lost_in(state):
        made = step(state, event, config)
        taken.append((event, made))
        state = made.state
    return tuple(taken)


def faults_of_prefixes(log: Path, laws: tuple[Law, ...] = LAWS) -> str:
    """Crash before the first record of a log and behind each, resume, and say what is wrong with what comes of it.

    Returns:
        The first fault; empty if there is none.
    """
    from ..log.reader import read_log
    from ..log.replay import begin_state, replay

    found: list[str] = []

    def judge(seq: int, state: LoopState) -> None:
        if not found:
            words = _fault(state, config, laws)
            if words:
                found.append(f"resumed behind record {seq}: {words}")

    opened = read_log(log)
    config = opened.header.config
    judge(0, begin_state(opened))
    replayed = replay(log, each=lambda record, made: judge(record.seq, made.state))
    if replayed.divergence is not None:
        found.append(f"the log does not fold back into its run: {replayed.divergence}")
    found.extend(f"what follows a gap was not judged: {skipped.gap.words}" for skipped in replayed.skipped)
    return found[0] if found else ""


def _fault(state: LoopState, config: LoopConfig, laws: tuple[Law, ...]) -> str:
    if state.phase in TERMINAL_SET or state.phase is Phase.READY:
        return ""
    before = state
    taken = crashed(state, config)
    for event, made in taken:
        if made.rejected is not None:
            return f"{event} was refused: {made.rejected.because}"
        edge = Edge(before, event, made, config)
        for law in laws:
            judges = law.over is Over.EDGE and not law.costly and (law.quiet or not edge.quiet)
            if judges and (words := law.check(edge)):
                return f"{law.name}: {words}"
        before = made.state
    wire = check_requests(taken, config)
    if state.control.guards.pauses:  # only the server knows whether the turn that stands last is one that it paused
        wire = tuple(words for words in wire if ": last_message: " not in words)
    if wire:
        return wire[0]
    after = before
    if after.phase in TERMINAL_SET:
        return unpaired(after.messages)
    return "" if after.control.flight else f"nothing is awaited in {after.phase}"


def every_prefix_resumes(log: str | Path) -> None:
    """Check that a run could be resumed from each prefix of its log.

    Args:
        log: the log; it is only read.

    Raises:
        AssertionError: names the record behind which a resume goes wrong, and how; 0 stands for the state before the first.
        ValueError: if nothing can be judged: the log has no record, and begins at rest.
    """
    _need_something(Path(log))
    words = faults_of_prefixes(Path(log))
    if words:
        raise AssertionError(words)


def _need_something(log: Path) -> None:
    from ..log.reader import read_log
    from ..log.replay import begin_state

    opened = read_log(log)
    if next(iter(opened.records()), None) is None:
        phase = begin_state(opened).phase
        if phase is Phase.READY or phase in TERMINAL_SET:
            raise ValueError(
                f"{log} has no record, and begins at rest ({phase}): there is nothing to resume, and nothing to judge"
            )
