"""I8, I16: how long is waited, what is asked again, and what a failed or lost effect is read as (spec 01, sections 6, 10)."""

from __future__ import annotations

import json

from ..core import texts
from ..core.config import LoopConfig
from ..core.control import Control
from ..core.effects import Compact, EffectKind, Emit, GatherAttachments, RunStopHooks, StartTimer
from ..core.events import (
    EVENT_KINDS,
    USER_KINDS,
    AttachmentsGathered,
    CollapseFailed,
    CompactionFailed,
    EffectFailed,
    EffectLost,
    Event,
    Outcome,
    PrefetchFinished,
    StopHooksFinished,
    StreamFailed,
    TimerFired,
    ToolFinished,
    ToolUseSummaryReady,
)
from ..core.failures import TRANSIENT_KINDS, ErrorKind
from ..core.outputs import Notice, Retrying
from ..core.phases import Cause, CompactKind
from .choices import gives_up_model, too_long_a_wait
from .law import Edge, edge_law
from .micro import Micro, micros

ANSWERING: dict[EffectKind, type] = {
    EffectKind.CALL: StreamFailed,
    EffectKind.TOOL: ToolFinished,
    EffectKind.COMPACT: CompactionFailed,
    EffectKind.COLLAPSE: CollapseFailed,
    EffectKind.ATTACHMENTS: AttachmentsGathered,
    EffectKind.MEMORY: PrefetchFinished,
    EffectKind.SKILLS: PrefetchFinished,
    EffectKind.SUMMARY: ToolUseSummaryReady,
    EffectKind.HOOKS: StopHooksFinished,
    EffectKind.TIMER: TimerFired,
}
"""What a failed effect is read as."""
AGAIN = (EffectKind.TOOL, EffectKind.COMPACT, EffectKind.ATTACHMENTS, EffectKind.HOOKS, EffectKind.TIMER)
"""What a crash lost is asked for again, as long as its wait was not asked for too often."""


DOUBLINGS = 20
"""So often a wait is doubled at most."""


def wait_of(number: int, config: LoopConfig, asked: int | None) -> int:
    """Give the wait after an attempt: what the server asks, else 1, 2, 4 ... times the first wait, up to the cap.

    The first wait is doubled twenty times at most, whatever the cap.
    """
    if asked is not None:
        return asked
    delay = config.backoff_ms
    for _ in range(min(number, DOUBLINGS + 1) - 1):
        delay = min(2 * delay, max(config.backoff_cap_ms, 1))
    return min(delay, config.backoff_cap_ms)


def _asked(control: Control) -> int | None:
    return control.call.fault.retry_after_ms if control.call.fault is not None else None


def _warned(one: Micro) -> list[str]:
    outputs = [effect.output for effect in one.effects if isinstance(effect, Emit)]
    return [item.text for item in outputs if isinstance(item, Notice)]


@edge_law("I8", costly=True)
def waits_are_as_long_as_they_should_be(edge: Edge) -> str:
    """A timer runs by the number of the attempt, or as the server asks; a retry is announced with the same numbers."""
    for one in micros(edge):
        timers = [effect.delay_ms for effect in one.effects if isinstance(effect, StartTimer)]
        attempt, salvage = one.old.call.attempt, one.old.salvage
        match one.name:
            case "retry":
                delay = wait_of(attempt, one.config, _asked(one.old))
                told = [(item.output.attempt, item.output.max_attempts, item.output.delay_ms, item.output.failure)
                        for item in one.effects if isinstance(item, Emit) and isinstance(item.output, Retrying)]  # fmt: skip
                if told != [(attempt, one.config.max_attempts, delay, one.before.data.iteration.failure)]:
                    return f"the retry was announced as {told}, the wait is {delay}"
            case "salvage_backoff":
                delay = salvage.delay_ms if salvage is not None else -1
                if not any(f" {delay / 1000:g} s" in text for text in _warned(one)):
                    return f"the wait of {delay} is not told"
            case "timer_armed_again":
                delay = wait_of(attempt, one.config, _asked(one.old)) if salvage is None else salvage.delay_ms
            case _:
                if timers:
                    return f"{one.row.name} starts a timer"
                continue
        if timers != [delay]:
            return f"{one.row.name} waits for {timers}, not for {delay}"
    return ""


_CAUSES = {ErrorKind.AUTH: Cause.AUTH, ErrorKind.BILLING: Cause.AUTH, ErrorKind.ENGINE_ERROR: Cause.ENGINE_ERROR}


@edge_law("I17", costly=True)
def a_salvage_remembers_its_failure(edge: Edge) -> str:
    """A salvaged reply keeps its failure, whether the loop goes on, how long it waits, and the cause if it ends."""
    for one in micros(edge):
        record, fault = one.new.salvage, one.old.call.fault
        if one.name not in ("salvage", "salvage_and_end"):
            continue
        if record is None or record.fault != fault or record.resume != (one.name == "salvage"):
            return f"{one.row.name}: the record is {record}"
        if record.resume:
            due = gives_up_model(one.old, one.config)
            delay = 0 if due else wait_of(one.old.guards.salvages + 1, one.config, _asked(one.old))
            if record.delay_ms != delay:
                return f"the salvage waits for {record.delay_ms}, not for {delay}"
            continue
        cause = _CAUSES.get(record.fault.kind, Cause.API_ERROR)
        if _passing(record.fault.kind):
            cause = Cause.RATE_LIMITED_UNTIL if too_long_a_wait(one.old, one.config) else Cause.ATTEMPTS_EXHAUSTED
        if record.cause is not cause:
            return f"the salvage ends as {record.cause}, not as {cause}"
    return ""


def _passing(kind: ErrorKind) -> bool:
    return kind in TRANSIENT_KINDS


@edge_law("I16", costly=True)
def lost_waits_are_issued_again_as_they_were(edge: Edge) -> str:
    """What a crash lost is asked for again with the same content, under a new id, in the place of the lost one."""
    event = edge.event
    for one in micros(edge):
        if not one.name.endswith(("reissued", "armed_again")) or not isinstance(event, EffectLost):
            continue
        issued = [effect for effect in one.effects if hasattr(effect, "id")]
        if len(issued) != 1 and not one.name.endswith("tool_reissued"):
            return f"{one.row.name}: {len(issued)} effects were issued"
        if any(item.id == event.id for item in one.new.flight):
            return f"{one.row.name}: {event.id} is still in flight"
        fault = next((text for effect in issued if (text := _same_wait(one, effect))), "")
        if fault:
            return f"{one.row.name}: {fault}"
    return ""


def _same_wait(one: Micro, effect: object) -> str:
    control, data = one.old, one.before.data
    match effect:
        case Compact():
            kind = control.context.compacting
            words = data.inbox.instructions if kind is CompactKind.MANUAL else ""
            ok = effect.kind is kind and effect.instructions == words and effect.target == max(1, control.context.tokens // 2)
            return "" if ok else f"the compaction is {effect.kind}"
        case GatherAttachments():
            return "" if effect.turn == control.run.turn_count else f"the round is {effect.turn}"
        case RunStopHooks():
            told = (effect.stop_hook_active, effect.reply, effect.turn)
            due = (control.guards.stop_hook_active, data.iteration.reply, control.run.turn_count)
            return "" if told == due else "the stop hooks are told something else"
        case _:
            return ""


@edge_law("I16", costly=True)
def waits_are_issued_as_they_should_be(edge: Edge) -> str:
    """Compactions, attachments and stop hooks are asked for with the state's own numbers."""
    for one in micros(edge):
        control, data = one.old, one.before.data
        for effect in one.effects:
            if isinstance(effect, Compact):
                failure = data.iteration.failure if effect.kind is CompactKind.REACTIVE else None
                over = failure.over_tokens if failure is not None else 0
                words = data.inbox.instructions if effect.kind is CompactKind.MANUAL else ""
                told = (effect.target, effect.over_tokens, effect.instructions, effect.model)
                due = (max(1, control.context.tokens // 2), over, words, control.tool_use_context.model)
                media = failure is not None and failure.kind is ErrorKind.MEDIA_TOO_LARGE
                if media and effect.prefix is not None:
                    return "the API is to compact a history whose media it refused"
                if told != due:
                    return f"the compaction is asked for with {told}, not with {due}"
            elif isinstance(effect, RunStopHooks | GatherAttachments):
                turn = control.run.turn_count
                active = getattr(effect, "stop_hook_active", control.guards.stop_hook_active)
                if effect.turn != turn or active != control.guards.stop_hook_active:
                    return f"{type(effect).__name__} is told {effect.turn}, {active}"
                if isinstance(effect, RunStopHooks) and effect.reply != one.after.data.iteration.reply:
                    return "stop hooks are told of another reply"
    return ""


def read_as(edge: Edge, event: EffectFailed | EffectLost) -> type:
    """Give what a failed or lost effect is to be read as."""
    flight = next(item for item in edge.old.flight if item.id == event.id)
    began = any(call.started for call in edge.old.tools.calls if call.effect == event.id)
    again = flight.kind in AGAIN and edge.old.wait.resumes < edge.config.max_resumes and not began
    return EffectLost if isinstance(event, EffectLost) and again else ANSWERING[flight.kind]


@edge_law("I16", costly=True)
def failed_effects_are_read_as_answers(edge: Edge) -> str:
    """A failed effect is the failing answer of its kind; a lost one too, unless it is asked for again."""
    event, seen = edge.event, micros(edge)
    if not isinstance(event, EffectFailed | EffectLost) or not seen:
        return ""
    got: Event = seen[0].event
    due = read_as(edge, event)
    if type(got) is not due:
        return f"{event.id} was read as {type(got).__name__}, not as {due.__name__}"
    return "" if isinstance(got, EffectLost) else _answer(edge, event, got)


def _answer(edge: Edge, event: EffectFailed | EffectLost, got: Event) -> str:
    failed = isinstance(event, EffectFailed)
    words = (event.failure.message or event.failure.kind.value) if isinstance(event, EffectFailed) else ""
    usage = event.usage if isinstance(event, EffectFailed) else ()
    if getattr(got, "id", "") != event.id or getattr(got, "usage", usage) != usage:
        return f"{event.id}: the usage or the id was lost"
    match got:
        case StreamFailed():
            kind = ErrorKind.ENGINE_ERROR if failed else ErrorKind.CONNECTION_LOST
            ok = got.failure.kind is kind and (not failed or got.failure.message == words)
        case ToolFinished():
            began = any(call.started for call in edge.old.tools.calls if call.effect == event.id)
            text = json.loads(got.result.json)["content"]
            text = text if isinstance(text, str) else text[0]["text"]
            told = words in text if failed else not began or text == texts.UNKNOWN_CRASH
            ok = got.outcome is Outcome.FAILED and got.result.is_error and told and got.stop is None
        case AttachmentsGathered():
            ok = not got.messages and len(got.warnings) == 1 and words in got.warnings[0]
        case StopHooksFinished():
            ok = not got.blocking and got.prevented is None and len(got.warnings) == 1 and words in got.warnings[0]
        case CompactionFailed() | CollapseFailed():
            ok = not isinstance(event, EffectFailed) or got.failure == event.failure
        case _:
            ok = not getattr(got, "messages", ()) and not getattr(got, "text", "")
    return "" if ok else f"{event.id} was read as {got}"


@edge_law("I1", quiet=True)
def answers_are_classed_by_their_id(edge: Edge) -> str:
    """An answer in flight goes to the table; one of an effect that was issued earlier is stale; any other is refused."""
    event = edge.event
    kind = EVENT_KINDS[type(event)]
    if kind in USER_KINDS:
        return ""
    name: str = event.id  # type: ignore[union-attr]
    flight = next((item for item in edge.old.flight if item.id == name), None)
    if flight is not None:
        fits = isinstance(event, _FAILING) or _fits(flight.kind, event)
        return "" if fits or edge.made.rejected is not None else f"{name} was answered by {kind}"
    word, _, number = name.removeprefix(f"{edge.old.run.id}/").rpartition("-")
    ours = bool(edge.old.run.id) and name == f"{edge.old.run.id}/{word}-{number}"
    counted = number.isascii() and number.isdigit() and len(number) <= len(str(edge.old.run.issued))
    issued = counted and str(int(number)) == number and 1 <= int(number) <= edge.old.run.issued
    fits = word in _WORDS and (isinstance(event, _FAILING) or _fits(EffectKind(word), event))
    stale = ours and issued and fits
    return "" if (edge.made.rejected is None) == stale else f"{name} is {'stale' if stale else 'unknown'}"


def _fits(kind: EffectKind, event: Event) -> bool:
    return type(event).__name__ in _FITTING.get(kind, ())


_FAILING = (EffectFailed, EffectLost)
_WORDS = frozenset(item.value for item in EffectKind)
_FITTING: dict[EffectKind, tuple[str, ...]] = {
    **{kind: (answer.__name__,) for kind, answer in ANSWERING.items()},
    EffectKind.CALL: ("StreamStarted", "BlockCompleted", "StreamCompleted", "StreamFailed"),
    EffectKind.TOOL: ("ToolStarted", "ToolProgressed", "ToolFinished"),
    EffectKind.COMPACT: ("CompactionFinished", "CompactionFailed"),
    EffectKind.COLLAPSE: ("CollapseStaged", "CollapseFailed"),
}
"""Which events answer an effect, by name."""
