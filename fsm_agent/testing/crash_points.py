"""One death of the engine at one state: what lasts is the log and the world; the resume has to bring both together.

A record is written before its effects are performed, and the body of a tool runs behind its recorded ``ToolStarted``. So
what the log holds at a death is always a state of the machine, and what may differ is how far each effect in flight got.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

from attrs import frozen

from ..core.blocks import text_block, tool_result
from ..core.config import LoopConfig
from ..core.control import Flight, ToolCall
from ..core.effects import EffectKind, RunTool
from ..core.events import (
    AttachmentsGathered,
    BlockCompleted,
    CollapseFailed,
    CompactionFailed,
    Event,
    Outcome,
    PrefetchFinished,
    StopHooksFinished,
    StreamCompleted,
    StreamStarted,
    TimerFired,
    ToolFinished,
    ToolStarted,
    ToolUseSummaryReady,
)
from ..core.failures import ErrorKind, ModelFailure
from ..core.messages import REAL_REQUESTS
from ..core.phases import TERMINAL_SET
from ..core.state import LoopState, Step
from ..core.step import step
from ..explorer.behind import clears
from ..laws import LAWS, Edge, Over
from ..laws.requests import unpaired
from ..log.resume import lost_in

CALM = 200
"""Events within which a resumed run must end when the world answers calmly."""
PATIENCE = 100
"""Deaths in a row, each right behind a resume, within which a run must end."""
_WORDS = text_block("done")
_FAULT = ModelFailure(kind=ErrorKind.SERVER_ERROR, message="no summary")
_AGAIN = frozenset({EffectKind.COMPACT, EffectKind.ATTACHMENTS, EffectKind.HOOKS, EffectKind.TIMER})
"""What a resume issues again, at most ``max_resumes`` times in one wait."""
_OVER_EDGES = tuple(law for law in LAWS if law.over is Over.EDGE and not law.costly)


class Stage(StrEnum):
    """How far the effect got at which the engine died; every other effect in flight was under way."""

    WRITTEN = "written"
    """Its step is in the log, and nothing of it was begun."""
    BEGUN = "begun"
    FINISHED = "finished"
    """It is done, its answer was stepped, and the record of that did not reach the log."""
    AGAIN = "again"
    """The engine died once more while it was telling the core that this effect was lost."""


def possible(state: LoopState, flight: Flight, stage: Stage) -> bool:
    """Say whether an effect in flight can have got so far: the body of a tool runs only once its start is in the log."""
    return stage is not Stage.FINISHED or flight.kind is not EffectKind.TOOL or _call(state, flight).started


@frozen
class Resumed:
    """What a resume made of a state: the state behind what it fed, and the steps that took it."""

    state: LoopState
    steps: tuple[tuple[Event, Step], ...]


def resume(state: LoopState, config: LoopConfig, most: int | None = None) -> Resumed:
    """Feed what a resume feeds, as a run does: the list is made once, and every event of it is stepped.

    Args:
        state: what the log folds to.
        config: the run's configuration.
        most: die again behind so many of them.
    """
    steps: list[tuple[Event, Step]] = []
    for event in lost_in(state)[:most]:
        made = step(state, event, config)
        steps.append((event, made))
        state = made.state
    return Resumed(state, tuple(steps))


def fault_of_crash(state: LoopState, config: LoopConfig, flight: Flight, stage: Stage) -> str:
    """Let the engine die at a state, resume it, let the run end calmly, and say what is wrong; empty if nothing is.

    Args:
        state: what the log folds to.
        config: the run's configuration.
        flight: the effect at which it dies, in flight there.
        stage: how far that got.
    """
    ran = _bodies(state, flight, stage)
    if stage is Stage.FINISHED:
        for event in answers(flight):
            made = step(state, event, config)  # its record is lost with it
            if made.rejected is not None:
                return f"the answer {event} was refused: {made.rejected.because}"
    steps: tuple[tuple[Event, Step], ...] = ()
    durable = state
    if stage is Stage.AGAIN:
        told = [event.id for event in lost_in(state)]
        if flight.id not in told:
            return "the core is not told that it is lost"
        first = resume(state, config, told.index(flight.id) + 1)
        steps, durable = first.steps, first.state
        if (words := _count(state, steps, ran)) or (words := _kept(state, durable, config)):
            return f"the first time: {words}"
    if durable.control.phase not in TERMINAL_SET:
        found = resume(durable, config)
        steps += found.steps
        if (words := _count(durable, found.steps, ran)) or (words := _settled(durable, found)):
            return words
        durable = found.state
    if words := _kept(state, durable, config):
        return words
    return _ends(state, durable, config, ran)


def fault_of_edges(state: LoopState, config: LoopConfig) -> str:
    """Judge each step of a resume by every law over edges that is not costly."""
    before = state
    for event, made in resume(state, config).steps:
        edge = Edge(before, event, made, config)
        before = made.state
        for law in _OVER_EDGES:
            if (law.quiet or not edge.quiet) and (words := law.check(edge)):
                return f"{law.name}: {words}"
    return ""


def deaths_in_a_row(state: LoopState, config: LoopConfig) -> tuple[int, str]:
    """Let the engine die right behind each resume, and count how often, until the run ends.

    Returns:
        The number of resumes, and what is wrong; empty if nothing is.
    """
    begin = state
    again: Counter[EffectKind] = Counter()
    for number in range(PATIENCE):
        if state.control.phase in TERMINAL_SET:
            return number, _kept(begin, state, config) or unpaired(state.data.messages)
        kinds = {flight.id: flight.kind for flight in state.control.flight}
        found = resume(state, config)
        if words := _settled(state, found):
            return number, f"resume {number + 1}: {words}"
        issued = {flight.kind for flight in found.state.control.flight if flight.id not in kinds}
        answered = {kind for kind in kinds.values() if kind not in _AGAIN}
        for kind in _AGAIN:
            again[kind] = again[kind] + 1 if kind in issued and kind in kinds.values() and not answered else 0
            if again[kind] > config.max_resumes:
                return number, f"{kind} was issued again {again[kind]} times in one wait"
        state = found.state
    return PATIENCE, f"{PATIENCE} resumes do not end it"


def answers(flight: Flight) -> tuple[Event, ...]:
    """Give a calm answer of the world to an effect: a reply of text, a result, nothing to add; no summary."""
    name = flight.id
    match flight.kind:
        case EffectKind.CALL:
            block = BlockCompleted(name, 0, _WORDS)
            return StreamStarted(name, f"msg-{name}", "m"), block, StreamCompleted(name, "end_turn", (), 20_000)
        case EffectKind.TOOL:
            return ToolStarted(name, "d"), ToolFinished(name, Outcome.OK, tool_result(flight.call, "done"), "done")
        case EffectKind.COMPACT:
            return (CompactionFailed(name, _FAULT),)
        case EffectKind.COLLAPSE:
            return (CollapseFailed(name, _FAULT),)
        case EffectKind.ATTACHMENTS:
            return (AttachmentsGathered(name),)
        case EffectKind.MEMORY | EffectKind.SKILLS:
            return (PrefetchFinished(name),)
        case EffectKind.SUMMARY:
            return (ToolUseSummaryReady(name),)
        case EffectKind.HOOKS:
            return (StopHooksFinished(name),)
        case EffectKind.TIMER:
            return (TimerFired(name),)


def _call(state: LoopState, flight: Flight) -> ToolCall:
    return next(call for call in state.control.tools.calls if call.effect == flight.id)


def _bodies(state: LoopState, flight: Flight, stage: Stage) -> Counter[str]:
    """Count the bodies that ran in the world by then, by call."""
    ran: Counter[str] = Counter()
    for call in state.control.tools.calls:
        if call.started and not (call.effect == flight.id and stage is Stage.WRITTEN):
            ran[call.id] += 1
    return ran


def _count(state: LoopState, steps: tuple[tuple[Event, Step], ...], ran: Counter[str]) -> str:
    """Check what a resume asks the world for: no call that has its answer, or that may have begun."""
    done = {call.id for call in state.control.tools.calls if call.started or call.outcome is not None}
    for event, made in steps:
        if made.rejected is not None:
            return f"{event} was refused: {made.rejected.because}"
        for effect in made.effects:
            if isinstance(effect, RunTool) and (effect.tool_use_id in done or ran[effect.tool_use_id]):
                return f"{effect.tool_use_id} is asked for again, and it has begun or is answered"
    return ""


def _settled(state: LoopState, found: Resumed) -> str:
    """Check that nothing waits for an answer of the dead engine, and that something is awaited or the run has ended."""
    after = found.state
    left = {flight.id for flight in state.control.flight} & {flight.id for flight in after.control.flight}
    if left:
        return f"still waiting for {sorted(left)}"
    if after.control.phase not in TERMINAL_SET and not after.control.flight:
        return f"nothing is awaited in {after.phase}"
    return ""


def _kept(before: LoopState, after: LoopState, config: LoopConfig) -> str:
    """Check that what was recorded is still there: the history, the user's messages, results that must not be lost."""
    old, new = before.data.messages, after.data.messages
    # What the layers of the next pass do they would have done without a death: a waiting summary takes its span's place.
    rewritten = _rewrites(config) or _committed(after) > _committed(before)
    if not rewritten and (len(new) < len(old) or any(one is not other for one, other in zip(old, new, strict=False))):
        return "the history is not what it was"
    held = Counter(item.id for item in new if item.kind in REAL_REQUESTS)
    terminal = after.data.terminal
    waiting = Counter(name for name, _ in after.data.inbox.commands) if terminal is None else Counter(terminal.undelivered)
    for name, message in before.data.inbox.commands:
        if (count := waiting[name] + held[message.id]) != 1:
            return f"the user's message {name} is there {count} times"
    if twice := [name for name, count in held.items() if count > 1]:
        return f"the user said it once, and it is there twice: {twice}"
    return _results_kept(before, after, config)


def _rewrites(config: LoopConfig) -> bool:
    """Say whether layers of the context drop old rounds, or clear old results, without being asked."""
    return config.context.snip or clears(config)


def _committed(state: LoopState) -> int:
    return sum(span.committed for span in state.data.context.spans)


def _results_kept(before: LoopState, after: LoopState, config: LoopConfig) -> str:
    """A result is lost only with a reply that is taken back, and that never happens to what may have changed something."""
    tools = before.control.tools
    known = {block.id: block for item in after.data.messages for block in item.results}
    in_hand: set[str] = set()
    if after.control.call.id == before.control.call.id:
        known |= {data.result.id: data.result for data in after.data.iteration.calls if data.result is not None}
        in_hand = {call.id for call in after.control.tools.calls if call.started}
    for call, data in zip(tools.calls, before.data.iteration.calls, strict=True):
        bound = tools.after_stream or (call.started and not call.traits.read_only)
        there = call.id in known if _rewrites(config) else known.get(call.id) is data.result
        if data.result is not None and bound and not there:
            return f"the recorded result of {call.id} is lost"
        if call.started and bound and call.id not in known and call.id not in in_hand:
            return f"{call.id} had begun, and nothing says so"
    return ""


def _ends(begin: LoopState, state: LoopState, config: LoopConfig, ran: Counter[str]) -> str:
    """Let the world answer calmly until the run ends; then the history is whole and no body ran twice."""
    for _ in range(CALM):
        if state.control.phase in TERMINAL_SET:
            break
        flight = state.control.flight[0]
        for event in answers(flight):
            made = step(state, event, config)
            if made.rejected is not None:
                return f"{event} was refused: {made.rejected.because}"
            state = made.state
            if not any(item.id == flight.id for item in state.control.flight):
                break
            if isinstance(event, ToolStarted):
                ran[flight.call] += 1
    else:
        return f"{CALM} calm answers do not end the run"
    twice = sorted(name for name, count in ran.items() if count > 1)
    if twice:
        return f"the bodies of {twice} ran twice"
    return unpaired(state.data.messages) or _kept(begin, state, config)
