"""What ``preparing`` does: the context pipeline on entry, and the ways out of it (spec 01, section 5; spec 02)."""

from __future__ import annotations

from ..config import LoopConfig
from ..context.collapse import staged
from ..context.compact import plan
from ..context.pipeline import prepare
from ..control import AutoCompactTracking, Call, ContextFacts, Control, Flight, Wait
from ..effects import CallModel, Compact, Effect, EffectKind, Emit, PrefetchKind, StageCollapse, StartPrefetch, StartTimer
from ..events import Event, TimerFired
from ..evolving import evolve
from ..failures import ErrorKind
from ..guards.context import breaker_is_open
from ..outputs import Notice, RequestStart, Retrying
from ..phases import CompactKind
from ..rebuild import with_attempt, with_facts, with_iteration, with_model_calls, with_view
from ..request.build import Built, build
from ..request.compaction import compaction_request
from ..request.pairing import has_open_server_calls, settle_server_calls
from ..state import Iteration, LoopState, call_ids
from .common import Issuer, discard, without


def enter_preparing(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Run the context layers and build the request, unless the pass already holds a request that is still good."""
    if state.data.iteration.request is not None:
        return state, ()
    control, data = state.control, state.data
    issuer = Issuer(control.run)
    model = control.tool_use_context.model
    messages, context = data.messages, data.context
    if context.open_server_calls:
        messages = settle_server_calls(messages)
        if messages is not data.messages:
            data = evolve(data, iteration=evolve(data.iteration, front=()))
        context = evolve(context, open_server_calls=has_open_server_calls(messages))
    prepared = prepare(messages, context, config, model, issuer.new("view"), data.iteration.front)
    effects: list[Effect] = [Emit(output=boundary) for boundary in prepared.boundaries]
    flight = list(control.flight)
    for span, members in prepared.stage:
        effect_id = issuer.new(EffectKind.COLLAPSE)
        flight.append(Flight(id=effect_id, kind=EffectKind.COLLAPSE, call=span.id))
        effects.append(StageCollapse(id=effect_id, span=span.id, messages=members, model=model))
    if config.prefetch_skills and all(item.kind is not EffectKind.SKILLS for item in flight):
        effect_id = issuer.new(EffectKind.SKILLS)
        flight.append(Flight(id=effect_id, kind=EffectKind.SKILLS))
        effects.append(StartPrefetch(id=effect_id, kind=PrefetchKind.SKILLS, messages=prepared.view[-2:]))
    built = build(
        prepared.view,
        prepared.context,
        config,
        model,
        control.guards.max_output_tokens_override,
        issuer.new("wire"),
        allow_prefill=control.guards.pauses > 0,
        estimate=prepared.blocking_tokens,
    )
    if isinstance(built, Built):
        context, request, failed = built.context, built.request, ""
    else:
        context, request, failed = prepared.context, None, f"{built.rule} ({built.message_id})"
    old = control.context
    facts = ContextFacts(
        prepared.tokens,
        prepared.blocking_tokens,
        prepared.fixed_tokens,
        prepared.compactable,
        not failed,
        request is not None and context.sent.thinking,
        staged(context),
        old.tracking,
        old.tried,
        old.compact_off,
        old.compacted_in_pass,
        old.compacting,
        old.replacing,
    )
    reports = data.iteration.reports + prepared.reports if prepared.reports else data.iteration.reports
    iteration = Iteration(view=prepared.view, request=request, details=failed, reports=reports)
    ids = data.call_ids if len(prepared.view) == len(data.messages) else call_ids(prepared.view)
    return (
        LoopState(
            with_facts(control, issuer.run, facts, tuple(flight)),
            with_view(data, prepared.view, iteration, context, ids),
        ),
        tuple(effects),
    )


def call_model(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Issue one attempt of the request in hand."""
    control, data = state.control, state.data
    request = data.iteration.request
    assert request is not None
    issuer = Issuer(control.run)
    effect_id = issuer.new(EffectKind.CALL)
    guards = control.guards
    call = Call(id=effect_id, attempt=control.call.attempt + 1, overloads=control.call.overloads, streaming=True)
    next_control = with_attempt(
        control,
        issuer.run,
        call,
        with_model_calls(guards, guards.model_calls + 1),
        (*control.flight, Flight(effect_id, EffectKind.CALL)),
    )
    old = data.iteration
    iteration = Iteration(view=old.view, request=request, details=old.details, reports=old.reports)
    effects = (Emit(RequestStart(effect_id, request.model)), CallModel(effect_id, request))
    return LoopState(next_control, with_iteration(data, iteration)), effects


def compaction(state: LoopState, config: LoopConfig, kind: CompactKind, effect_id: str) -> tuple[Compact, int]:
    """Make the effect that compacts the view in hand.

    Args:
        state: where the run stands.
        config: settings.
        kind: what asks for it.
        effect_id: the effect's id.

    Returns:
        The effect, and the tokens of what it is to replace. The same state gives the same effect, so that a compaction
        that a crash lost is asked for again as it was.
    """
    control, data = state.control, state.data
    cut = plan(data.iteration.view, config, control.tool_use_context.model)
    failure = data.iteration.failure
    model = control.tool_use_context.model
    instructions = data.inbox.instructions if kind is CompactKind.MANUAL else ""
    # Refused media may stand anywhere in the history: it has to be made anew, so the API's block cannot stand for it.
    media = failure is not None and failure.kind is ErrorKind.MEDIA_TOO_LARGE
    prefix = None if media else compaction_request(data.iteration.view, cut.start, data.context, config, model, instructions)
    effect = Compact(
        id=effect_id,
        kind=kind,
        messages=cut.messages,
        tail=cut.tail,
        model=model,
        target=max(1, control.context.tokens // 2),
        over_tokens=failure.over_tokens if failure is not None and kind is CompactKind.REACTIVE else 0,
        instructions=instructions,
        prefix=prefix,
    )
    return effect, cut.replacing


def _compact(state: LoopState, config: LoopConfig, kind: CompactKind) -> tuple[LoopState, tuple[Effect, ...]]:
    control, data = state.control, state.data
    issuer = Issuer(control.run)
    effect_id = issuer.new(EffectKind.COMPACT)
    effect, replacing = compaction(state, config, kind, effect_id)
    tracking = control.context.tracking
    if kind is CompactKind.AUTO and tracking.opened_at and not breaker_is_open(control, config):
        tracking = AutoCompactTracking(compacted=tracking.compacted, turns_since=tracking.turns_since)
    facts = evolve(
        control.context,
        tracking=tracking,
        tried=(*control.context.tried, kind),
        compacting=kind,
        replacing=replacing,
    )
    queue = control.queue
    if kind is CompactKind.MANUAL:
        queue = evolve(queue, compact=False)
    elif kind is CompactKind.FORCED:
        queue = evolve(queue, forced=False)
    next_control: Control = evolve(
        control,
        run=issuer.run,
        queue=queue,
        context=facts,
        wait=Wait(resumes=control.wait.resumes if kind is CompactKind.REACTIVE else 0),
        flight=(*control.flight, Flight(id=effect_id, kind=EffectKind.COMPACT)),
    )
    return LoopState(control=next_control, data=data), (effect,)


def compact_forced(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Start the compaction that a full window forces."""
    return _compact(state, config, CompactKind.FORCED)


def compact_manual(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Start the compaction that the user asked for."""
    return _compact(state, config, CompactKind.MANUAL)


def compact_auto(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Start the compaction that the threshold asks for."""
    return _compact(state, config, CompactKind.AUTO)


def compact_reactive(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Start the compaction that a withheld error asks for; the reply is dropped."""
    dropped, effects = discard(state)
    compacting, more = _compact(dropped, config, CompactKind.REACTIVE)
    guards = evolve(compacting.control.guards, has_attempted_reactive_compact=True)
    return LoopState(control=evolve(compacting.control, guards=guards), data=compacting.data), effects + more


def backoff_delay(number: int, config: LoopConfig, retry_after_ms: int | None) -> int:
    """Give the wait before another attempt in milliseconds: doubled each time, or what the server asks for."""
    if retry_after_ms is not None:
        return retry_after_ms
    return int(min(config.backoff_ms << min(max(0, number - 1), 20), config.backoff_cap_ms))


def _arm(state: LoopState, delay_ms: int) -> tuple[LoopState, tuple[Effect, ...]]:
    control = state.control
    issuer = Issuer(control.run)
    effect_id = issuer.new(EffectKind.TIMER)
    flight = (*control.flight, Flight(id=effect_id, kind=EffectKind.TIMER))
    next_control = evolve(control, run=issuer.run, wait=Wait(), flight=flight)
    return LoopState(control=next_control, data=state.data), (StartTimer(id=effect_id, delay_ms=delay_ms),)


def salvage_backoff(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Wait before the call that follows a salvaged reply."""
    salvage = state.control.salvage
    assert salvage is not None
    armed, effects = _arm(state, salvage.delay_ms)
    text = f"The model's reply broke off; its finished calls are kept. Trying again in {salvage.delay_ms / 1000:g} s."
    return armed, (Emit(output=Notice(text=text, level="warning")), *effects)


def retry(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Discard the attempt and wait before the next one; the retry is announced."""
    call = state.control.call
    failure = state.data.iteration.failure
    assert call.fault is not None
    assert failure is not None
    delay = backoff_delay(call.attempt, config, call.fault.retry_after_ms)
    dropped, effects = discard(state)
    armed, more = _arm(dropped, delay)
    output = Retrying(attempt=call.attempt, max_attempts=config.max_attempts, delay_ms=delay, failure=failure)
    return armed, (*effects, Emit(output=output), *more)


def timer_fired(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Go back to the same request."""
    assert isinstance(event, TimerFired)
    control = evolve(state.control, salvage=None, flight=without(state.control.flight, event.id))
    return LoopState(control=control, data=state.data), ()
