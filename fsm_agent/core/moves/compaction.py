"""Answers of a compaction: its result is used, or the history stays as it was (spec 01, section 14; spec 02, layer 5)."""

from __future__ import annotations

from ..config import LoopConfig
from ..context.compact import after_compaction, apply
from ..context.media import LAYER as MEDIA
from ..context.media import strip_media
from ..context.report import LayerReport
from ..control import AutoCompactTracking, Wait
from ..effects import Effect, Emit
from ..events import CompactionFailed, CompactionFinished, Event
from ..evolving import evolve
from ..failures import ErrorKind
from ..outputs import Boundary, Notice
from ..phases import CompactKind, ContinueReason
from ..state import Iteration, LoopState, call_ids
from .common import Issuer, charged, without
from .continuing import continued
from .decide_failures import end_media, end_prompt_too_long


def _landed(state: LoopState, event: CompactionFinished | CompactionFailed) -> LoopState:
    """Take the compaction out of flight; no further automatic one runs in this pass."""
    state = charged(state, event.usage)
    control = state.control
    facts = evolve(control.context, compacting=None, replacing=0, compact_off=True)
    return LoopState(
        control=evolve(control, context=facts, wait=Wait(), flight=without(control.flight, event.id)),
        data=state.data,
    )


def _boundary(kind: CompactKind, before: int, report: LayerReport) -> Emit:
    after = max(0, before - report.freed)
    return Emit(output=Boundary(kind="compact", trigger=kind.value, before=before, after=after, detail=report.detail))


def _failed_once_more(tracking: AutoCompactTracking, tokens: int, config: LoopConfig) -> AutoCompactTracking:
    failures = tracking.failures + 1
    opens = failures >= config.context.breaker_failures
    return AutoCompactTracking(
        compacted=tracking.compacted,
        turns_since=tracking.turns_since,
        failures=failures,
        opened_at=max(1, tokens) if opens else tracking.opened_at,
    )


def _use(state: LoopState, event: Event, config: LoopConfig, *, progress: bool) -> tuple[LoopState, tuple[Effect, ...]]:
    assert isinstance(event, CompactionFinished)
    facts = state.control.context
    kind = facts.compacting or CompactKind.AUTO
    landed = _landed(state, event)
    control, data = landed.control, landed.data
    issuer = Issuer(control.run)
    model = control.tool_use_context.model
    done = apply(data.iteration.view, config, event, kind, issuer.new("compact"), model=model)
    tracking = AutoCompactTracking(compacted=True)
    if not progress:
        # In the unit of later counts, system prompt and tools included: else the breaker would close at once.
        counted = _failed_once_more(facts.tracking, facts.tokens - done.report.freed, config)
        tracking = AutoCompactTracking(compacted=True, failures=counted.failures, opened_at=counted.opened_at)
    if kind is CompactKind.MANUAL:
        tracking = AutoCompactTracking(compacted=True)
    context = after_compaction(data.context, config, model, done.after, verbatim=done.verbatim)
    next_facts = evolve(control.context, tracking=tracking, compacted_in_pass=True)
    iteration = Iteration(view=done.messages, reports=(*data.iteration.reports, done.report))
    return (
        LoopState(
            control=evolve(control, run=issuer.run, context=next_facts),
            data=evolve(
                data,
                messages=done.messages,
                iteration=iteration,
                context=context,
                call_ids=call_ids(done.messages),
            ),
        ),
        (_boundary(kind, facts.tokens, done.report),),
    )


def use_summary(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Put the summary in place of what it stands for; the breaker's count starts anew."""
    return _use(state, event, config, progress=True)


def use_summary_without_progress(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Use a valid, smaller result that freed too little; it also counts as a failure."""
    next_state, effects = _use(state, event, config, progress=False)
    fixed = next_state.control.context.fixed_tokens
    detail = next_state.data.iteration.reports[-1].detail
    text = f"The compaction freed little: system prompt, tools and the newest request alone are {fixed} tokens; {detail}."
    return next_state, (*effects, Emit(output=Notice(text=text, level="warning")))


def _keep_history(state: LoopState, event: Event, config: LoopConfig, why: str) -> tuple[LoopState, tuple[Effect, ...]]:
    assert isinstance(event, CompactionFinished | CompactionFailed)
    facts = state.control.context
    landed = _landed(state, event)
    tracking = _failed_once_more(facts.tracking, facts.tokens, config)
    control = evolve(landed.control, context=evolve(landed.control.context, tracking=tracking))
    text = f"The compaction failed ({why}); the history stays as it was."
    return LoopState(control=control, data=landed.data), (Emit(output=Notice(text=text, level="warning")),)


def refuse_summary(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """A result that may not be used: empty, refused, cut, or not smaller."""
    return _keep_history(state, event, config, "its summary could not be used")


def note_failure(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """The compactor gave up."""
    assert isinstance(event, CompactionFailed)
    return _keep_history(state, event, config, event.failure.message or event.failure.kind.value)


def retry_compacted(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Go on with the compacted messages after a prompt or media that was too large."""
    assert isinstance(event, CompactionFinished)
    facts = state.control.context
    failure = state.data.iteration.failure
    media = failure is not None and failure.kind is ErrorKind.MEDIA_TOO_LARGE
    path = failure.media_path if failure is not None else ""
    landed = _landed(state, event)
    control, data = landed.control, landed.data
    issuer = Issuer(control.run)
    model, view, sent = control.tool_use_context.model, data.iteration.view, data.context.sent
    if facts.replacing == 0:
        messages, stripped = strip_media(view, path, sent)
        after, report, verbatim = facts.tokens, stripped or LayerReport(MEDIA), False
    else:
        done = apply(
            view,
            config,
            event,
            CompactKind.REACTIVE,
            issuer.new("compact"),
            model=model,
            strip_media=media,
            media_path=path,
            sent=sent,
        )
        messages, after, report, verbatim = done.messages, done.after, done.report, done.verbatim
    context = after_compaction(data.context, config, model, after, verbatim=verbatim)
    guards = control.guards
    next_state = continued(
        LoopState(control=evolve(control, context=evolve(control.context, compacted_in_pass=True)), data=data),
        transition=ContinueReason.REACTIVE_COMPACT_RETRY,
        run=issuer.run,
        messages=messages,
        tool_use_context=control.tool_use_context,
        auto_compact_tracking=AutoCompactTracking(
            compacted=True, failures=facts.tracking.failures, opened_at=facts.tracking.opened_at
        ),
        max_output_tokens_recovery_count=guards.max_output_tokens_recovery_count,
        has_attempted_reactive_compact=True,
        max_output_tokens_override=None,
        pending_tool_use_summary=control.queue.pending_tool_use_summary,
        stop_hook_active=False,
        turn_count=control.run.turn_count,
        guards=guards,
        queue=control.queue,
        budget=control.budget,
        inbox=data.inbox,
        context=context,
        salvage=None,
        new_pass=False,
        appended=False,
        reports=(*data.iteration.reports, report),
    )
    return next_state, (_boundary(CompactKind.REACTIVE, facts.tokens, report),)


def _reactive_failed(state: LoopState, event: Event) -> LoopState:
    assert isinstance(event, CompactionFinished | CompactionFailed)
    return _landed(state, event)


def end_reactive_prompt(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """A failed reactive compaction ends the run with the reason of the withheld error: a prompt too long."""
    return end_prompt_too_long(_reactive_failed(state, event), event, config)


def end_reactive_media(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """A failed reactive compaction ends the run with the reason of the withheld error: media too large."""
    return end_media(_reactive_failed(state, event), event, config)
