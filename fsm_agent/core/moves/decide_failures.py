"""Moves of ``deciding`` after a failed call: recover, fall back, retry, salvage, or end (spec 01, sections 7 and 10)."""

from __future__ import annotations

from .. import texts
from ..config import LoopConfig
from ..context.collapse import drain
from ..context.media import strip_media
from ..control import EXECUTING, QUEUED, Call, Salvage, ToolUseContext
from ..effects import Cancel, Effect, EffectKind, Emit
from ..events import Event
from ..evolving import evolve
from ..failures import ErrorKind
from ..guards.call import above_ceiling, fallback_is_due, is_transient, next_fallback
from ..guards.context import is_irreducible
from ..messages import Message
from ..outputs import Boundary, Notice
from ..phases import Cause, ContinueReason, TerminalReason
from ..state import Iteration, LoopState
from .common import Issuer, discard, finish
from .continuing import continued
from .keeping import closed, keep, last_started
from .prepare import backoff_delay
from .tools import Round

CAUSES = {ErrorKind.AUTH: Cause.AUTH, ErrorKind.BILLING: Cause.AUTH, ErrorKind.ENGINE_ERROR: Cause.ENGINE_ERROR}


def drain_collapses(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """0a: commit every staged collapse and try again."""
    dropped, effects = discard(state)
    control, data = dropped.control, dropped.data
    issuer = Issuer(control.run)
    view, context, report = drain(data.iteration.view, data.context, issuer.new("view"))
    before = control.context.tokens
    output = Boundary(kind="collapse", trigger="drain", before=before, after=max(0, before - report.freed))
    guards = control.guards
    next_state = continued(
        dropped,
        transition=ContinueReason.COLLAPSE_DRAIN_RETRY,
        run=issuer.run,
        messages=view,
        tool_use_context=control.tool_use_context,
        auto_compact_tracking=control.context.tracking,
        max_output_tokens_recovery_count=guards.max_output_tokens_recovery_count,
        has_attempted_reactive_compact=guards.has_attempted_reactive_compact,
        max_output_tokens_override=guards.max_output_tokens_override,
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
    return next_state, (*effects, Emit(output=output))


def end_prompt_too_long(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """0c: no recovery is left for a prompt that is too long."""
    failure = state.data.iteration.failure
    facts = state.control.context
    if is_irreducible(state.control, config) or not facts.compactable:
        cause = Cause.CONTEXT_IRREDUCIBLE
        detail = (
            f"System prompt, tools and the newest request alone are about {facts.fixed_tokens:,} tokens: nothing can be "
            "left out. Shorten them, or use a model with a larger window."
        )
    else:
        cause = Cause.USED_UP
        detail = "The prompt is too long, and no compaction is left to try. Start a new session or compact by hand."
    dropped, effects = discard(state)
    ended, more = finish(
        dropped,
        TerminalReason.PROMPT_TOO_LONG,
        cause,
        dropped.data.iteration.view,
        detail=detail,
        error=failure,
        emit_error=True,
    )
    return ended, effects + more


def _without_media(state: LoopState) -> LoopState:
    """Take the refused media out of the view, so that the session stays usable (field report 71)."""
    data = state.data
    failure = data.iteration.failure
    path = failure.media_path if failure is not None else ""
    view, _ = strip_media(data.iteration.view, path, data.context.sent)
    return LoopState(control=state.control, data=evolve(data, iteration=evolve(data.iteration, view=view)))


def end_media(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """0c and 0d: media that the API does not take; later requests leave it out."""
    failure = state.data.iteration.failure
    unreadable = failure is not None and failure.kind is ErrorKind.MEDIA_UNREADABLE
    dropped, effects = discard(_without_media(state))
    detail = (
        "The API cannot read an image or document; it is left out from here on. Check the file."
        if unreadable
        else "An image or document is too large, or there are too many; it is left out from here on. Send a smaller one."
    )
    ended, more = finish(
        dropped,
        TerminalReason.IMAGE_ERROR,
        Cause.UNREADABLE if unreadable else Cause.TOO_LARGE,
        dropped.data.iteration.view,
        detail=detail,
        error=failure,
        emit_error=True,
    )
    return ended, effects + more


def _anew(state: LoopState, messages: tuple[Message, ...]) -> LoopState:
    """Forget the request in hand, so that ``preparing`` builds another one of ``messages``."""
    iteration = Iteration(view=messages, reports=state.data.iteration.reports)
    data = evolve(state.data, messages=messages, iteration=iteration)
    return LoopState(control=evolve(state.control, call=Call()), data=data)


def drop_thinking(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Take all thinking out of the history and try again, once (field reports 53 to 58)."""
    dropped, effects = discard(state)
    guards = evolve(dropped.control.guards, thinking_dropped=True)
    context = evolve(dropped.data.context, drop_thinking=True)
    moved = LoopState(control=evolve(dropped.control, guards=guards), data=evolve(dropped.data, context=context))
    text = "The API refused the thinking in the history; it was taken out."
    return _anew(moved, moved.data.iteration.view), (*effects, Emit(output=Notice(text=text, level="warning")))


def _next_model(state: LoopState, config: LoopConfig, why: str) -> tuple[LoopState, tuple[Effect, ...]]:
    """Switch to the model that is due; a model that the user chose meanwhile wins."""
    control = state.control
    found = next_fallback(control, config)
    assert found is not None
    model, passed = found
    old = control.tool_use_context
    model = control.queue.switch or model
    context = ToolUseContext(
        model=model,
        permission_mode=old.permission_mode,
        abort=old.abort,
        depth=old.depth,
        source=old.source,
        fallbacks=passed,
    )
    queue = evolve(control.queue, switch="")
    notice = Notice(text=texts.fallback_notice(old.model, model, why), level="warning")
    moved = evolve(control, tool_use_context=context, queue=queue)
    return LoopState(control=moved, data=state.data), (Emit(output=notice),)


def fall_back(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Fa: discard the attempt and go on with the next model; the window may be smaller, so prepare anew."""
    failure = state.data.iteration.failure
    dropped, effects = discard(state)
    switched, more = _next_model(dropped, config, failure.kind.value if failure is not None else "no reason given")
    return _anew(switched, switched.data.iteration.view), effects + more


def fall_back_after_refusal(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """1: let the next model answer what this one refused, once."""
    guards = evolve(state.control.guards, refusal_fallback=True)
    dropped, effects = discard(LoopState(control=evolve(state.control, guards=guards), data=state.data))
    switched, more = _next_model(dropped, config, "refusal")
    return _anew(switched, switched.data.iteration.view), effects + more


DETAILS = {
    Cause.AUTH: "The API did not accept the key or its rights. Check the key, its workspace and its credit.",
    Cause.RATE_LIMITED_UNTIL: "The API asks for a longer wait than a run may make. Try again later, or name a fallback model.",
    Cause.ATTEMPTS_EXHAUSTED: "The model call failed on every attempt. Try again later, or name a fallback model.",
    Cause.ENGINE_ERROR: "The engine failed while it performed a model call. This is a fault of ours: the log has it all.",
    Cause.API_ERROR: "The API refused the request, and would refuse it again unchanged.",
}


def _cause(state: LoopState, config: LoopConfig) -> Cause:
    fault = state.control.call.fault
    assert fault is not None
    if is_transient(fault):
        return Cause.RATE_LIMITED_UNTIL if above_ceiling(fault, config) else Cause.ATTEMPTS_EXHAUSTED
    return CAUSES.get(fault.kind, Cause.API_ERROR)


def end_model_error(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Fc to Fe: nothing mends the failure."""
    failure = state.data.iteration.failure
    cause = _cause(state, config)
    dropped, effects = discard(state)
    ended, more = finish(
        dropped,
        TerminalReason.MODEL_ERROR,
        cause,
        dropped.data.iteration.view,
        detail=DETAILS[cause],
        error=failure,
        emit_error=True,
    )
    return ended, effects + more


def salvage(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Sa: keep what began, await it, and go on with the model that is due."""
    fault = state.control.call.fault
    assert fault is not None
    number = state.control.guards.salvages + 1
    failure = state.data.iteration.failure
    effects: tuple[Effect, ...] = ()
    delay = backoff_delay(number, config, fault.retry_after_ms)
    kept, kept_effects = keep_started(state, event, config, texts.NOT_RUN_CRASH)
    if fallback_is_due(state.control, config):
        kept, effects = _next_model(kept, config, failure.kind.value if failure is not None else "")
        call = evolve(kept.control.call, overloads=0)
        kept = LoopState(control=evolve(kept.control, call=call), data=kept.data)
        delay = 0
    record = Salvage(fault=fault, resume=True, cause=Cause.API_ERROR, delay_ms=delay)
    guards = evolve(kept.control.guards, salvages=number)
    return LoopState(control=evolve(kept.control, salvage=record, guards=guards), data=kept.data), kept_effects + effects


def salvage_and_end(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Sb: keep what began and await it; then the run ends with the error."""
    fault = state.control.call.fault
    assert fault is not None
    cause = _cause(state, config)
    kept, effects = keep_started(state, event, config, texts.NOT_RUN_CRASH)
    record = Salvage(fault=fault, resume=False, cause=cause)
    return LoopState(control=evolve(kept.control, salvage=record), data=kept.data), effects


def keep_started(state: LoopState, event: Event, config: LoopConfig, words: str) -> tuple[LoopState, tuple[Effect, ...]]:
    """Keep the reply up to its last started call; unstarted calls before it are answered with ``words``, the rest goes."""
    cut = last_started(state.control)
    cancels: list[Effect] = []
    flight = list(state.control.flight)
    for call in state.control.tools.calls:
        if call.index > cut and call.state is EXECUTING:
            cancels.append(Cancel(id=call.effect))
            flight = [item for item in flight if item.id != call.effect]
    control = evolve(state.control, flight=tuple(item for item in flight if item.kind is not EffectKind.CALL))
    positions = tuple(position for position in closed(state) if position <= cut)
    kept, effects = keep(LoopState(control=control, data=state.data), positions, event)
    call_record = evolve(kept.control.call, fault=None)
    tools = evolve(kept.control.tools, after_stream=True)
    kept = LoopState(control=evolve(kept.control, call=call_record, tools=tools), data=kept.data)
    rounds = Round(kept)
    for position, call in enumerate(rounds.calls):
        if call.state in (QUEUED, EXECUTING) and not call.started:
            rounds.refuse(position, words)
    settled, more = rounds.done(config)
    return settled, (*cancels, *effects, *more)
