"""Moves of ``deciding`` after a complete reply: tools, recoveries, pauses, ends (spec 01, section 7)."""

from __future__ import annotations

import json

from .. import texts
from ..config import LoopConfig
from ..control import EXECUTING, QUEUED, Call, Flight, Tools, Wait
from ..effects import Effect, EffectKind, Emit, RunStopHooks
from ..events import Event
from ..evolving import evolve
from ..failures import ErrorKind, ModelFailure
from ..guards.call import counts_as_changed
from ..messages import MessageKind
from ..outputs import UserOutput
from ..phases import Cause, ContinueReason, TerminalReason
from ..state import Iteration, LoopState
from .common import Issuer, discard, finish, history, shown_results, user_message
from .continuing import continued
from .decide_failures import keep_started
from .keeping import closed, keep, kept_round, without_calls
from .stream import is_cut
from .tools import Round


def refuse(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """1: end after a refusal. What began is cancelled and kept with its results; else nothing of the reply stays."""
    detail = _refusal_words(state.data.iteration.details)
    if not counts_as_changed(state.control):
        dropped, effects = discard(state)
        ended, more = finish(dropped, TerminalReason.COMPLETED, Cause.REFUSAL, dropped.data.iteration.view, detail=detail)
        return ended, effects + more
    kept, effects = keep_started(state, event, config, texts.NOT_RUN_REFUSED)
    rounds = Round(kept)
    for position, call in enumerate(rounds.calls):
        if call.state is EXECUTING:
            rounds.refuse(position, texts.unknown_with_tail(rounds.data[position].tail))
    settled, more = rounds.done(config)
    messages = history(settled, Issuer(settled.control.run))
    ended, last = finish(settled, TerminalReason.COMPLETED, Cause.REFUSAL, messages, detail=detail)
    return ended, effects + more + shown_results(settled, messages) + last


def _refusal_words(details: str) -> str:
    try:
        value = json.loads(details) if details else {}
    except ValueError:
        value = {}
    parts = [value[key] for key in ("category", "explanation") if isinstance(value, dict) and isinstance(value.get(key), str)]
    return "The model refused to answer" + (f" ({': '.join(parts)})." if parts else ".")


def _run_tools(state: LoopState, event: Event, config: LoopConfig, malformed: int) -> tuple[LoopState, tuple[Effect, ...]]:
    cut = is_cut(state.control)
    rounds, effects = kept_round(state, closed(state), event)
    if rounds.guards.malformed != malformed:
        rounds.guards = evolve(rounds.guards, malformed=malformed)
    rounds.after_stream = True
    for position, call in enumerate(rounds.calls):
        if call.whole or call.state is not QUEUED:
            continue
        use = rounds.data[position].use
        if use.input_json is not None and not (cut and call.last):
            words = texts.NOT_RUN_DUPLICATE
        else:
            words = texts.not_whole(use.raw, use.problem, cut and call.last)
        rounds.refuse(position, words)
    settled, more = rounds.done(config)
    return settled, effects + more


def run_tools(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """2: keep the reply, answer what is not whole, and let the calls run."""
    return _run_tools(state, event, config, 0)


def answer_malformed(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """5: no call is whole: answer each by an error, and let the model try again."""
    return _run_tools(state, event, config, state.control.guards.malformed + 1)


def end_malformed(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """5: too many replies in a row whose calls are all malformed; they are answered, so that the history is valid."""
    settled, effects = _run_tools(state, event, config, state.control.guards.malformed)
    messages = history(settled, Issuer(settled.control.run))
    ended, more = finish(
        settled,
        TerminalReason.COMPLETED,
        Cause.MALFORMED_TOOL_USE,
        messages,
        detail="The model kept sending tool calls with invalid input.",
    )
    return ended, effects + shown_results(settled, messages) + more


def escalate(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """3a: the same request with a larger output limit; the cut reply is discarded."""
    dropped, effects = discard(state)
    control, data = dropped.control, dropped.data
    guards = control.guards
    next_state = continued(
        dropped,
        transition=ContinueReason.MAX_OUTPUT_TOKENS_ESCALATE,
        run=control.run,
        messages=data.iteration.view,
        tool_use_context=control.tool_use_context,
        auto_compact_tracking=control.context.tracking,
        max_output_tokens_recovery_count=guards.max_output_tokens_recovery_count,
        has_attempted_reactive_compact=guards.has_attempted_reactive_compact,
        max_output_tokens_override=config.escalated_max_output_tokens,
        pending_tool_use_summary=control.queue.pending_tool_use_summary,
        stop_hook_active=False,
        turn_count=control.run.turn_count,
        guards=guards,
        queue=control.queue,
        budget=control.budget,
        inbox=data.inbox,
        context=data.context,
        salvage=None,
        new_pass=False,
        appended=True,
    )
    return next_state, effects


def _recover(state: LoopState, event: Event, words: str, forced: bool) -> tuple[LoopState, tuple[Effect, ...]]:
    kept, effects = _keep_text(state, event)
    control, data = kept.control, kept.data
    issuer = Issuer(control.run)
    nudge = user_message(issuer.new("msg"), MessageKind.META, words)
    guards = control.guards
    next_state = continued(
        kept,
        transition=ContinueReason.MAX_OUTPUT_TOKENS_RECOVERY,
        run=issuer.run,
        messages=(*history(kept, issuer), nudge),
        tool_use_context=control.tool_use_context,
        auto_compact_tracking=control.context.tracking,
        max_output_tokens_recovery_count=guards.max_output_tokens_recovery_count + 1,
        has_attempted_reactive_compact=guards.has_attempted_reactive_compact,
        max_output_tokens_override=None,
        pending_tool_use_summary=control.queue.pending_tool_use_summary,
        stop_hook_active=False,
        turn_count=control.run.turn_count,
        guards=guards,
        queue=evolve(control.queue, forced=control.queue.forced or forced),
        budget=control.budget,
        inbox=data.inbox,
        context=data.context,
        salvage=None,
        new_pass=True,
        appended=True,
    )
    return next_state, (*effects, Emit(output=UserOutput(message=nudge)))


def _keep_text(state: LoopState, event: Event) -> tuple[LoopState, tuple[Effect, ...]]:
    """Keep text and closed thinking of a cut reply; its cut calls go, and nothing of them is in flight."""
    return keep(state, without_calls(state), event)


def recover_output(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """3b: keep what can be used and let the model go on where it stopped."""
    return _recover(state, event, texts.OUTPUT_LIMIT, forced=False)


def recover_window(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """4: keep what can be used, force a compaction, and let the model go on."""
    return _recover(state, event, texts.WINDOW_LIMIT, forced=True)


def end_output(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """3c and 4: the reply was cut once more, and no recovery is left: the withheld error comes out."""
    kept, effects = _keep_text(state, event)
    stop_reason = kept.control.call.stop_reason or ""
    failure = ModelFailure(
        kind=ErrorKind.MAX_OUTPUT_TOKENS, message=f"the reply was cut ({stop_reason}) and no recovery is left"
    )
    ended, more = finish(
        kept,
        TerminalReason.COMPLETED,
        Cause.MAX_OUTPUT_EXHAUSTED,
        history(kept, Issuer(kept.control.run)),
        detail="The reply hit the output limit again and again. Ask for less at once, or raise max_output_tokens.",
        error=failure,
        emit_error=True,
    )
    return ended, effects + more


def retry_empty(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """6: an empty reply is never stored; ask once more with a few words."""
    dropped, effects = discard(state)
    issuer = Issuer(dropped.control.run)
    nudge = user_message(issuer.new("msg"), MessageKind.META, texts.EMPTY_REPLY)
    messages = (*dropped.data.iteration.view, nudge)
    guards = evolve(dropped.control.guards, empty_retried=True)
    control = evolve(dropped.control, run=issuer.run, call=Call(), guards=guards)
    data = evolve(dropped.data, messages=messages, iteration=Iteration(view=messages))
    return LoopState(control=control, data=data), (*effects, Emit(output=UserOutput(message=nudge)))


def end_empty(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """6: the reply is empty again."""
    dropped, effects = discard(state)
    ended, more = finish(
        dropped,
        TerminalReason.COMPLETED,
        Cause.EMPTY_REPLY,
        dropped.data.iteration.view,
        detail="The model gave an empty reply twice.",
    )
    return ended, effects + more


def resume_pause(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """7: send the paused reply back as it is, so that the API goes on with it."""
    kept, effects = keep(state, closed(state), event)
    control, data = kept.control, kept.data
    messages = history(kept, Issuer(control.run))
    guards = evolve(control.guards, pauses=control.guards.pauses + 1)
    return (
        LoopState(
            control=evolve(control, call=Call(), tools=Tools(), guards=guards),
            data=evolve(data, messages=messages, iteration=Iteration(view=messages)),
        ),
        effects,
    )


def _end_kept(state: LoopState, event: Event, cause: Cause, detail: str) -> tuple[LoopState, tuple[Effect, ...]]:
    kept, effects = keep(state, closed(state), event)
    ended, more = finish(kept, TerminalReason.COMPLETED, cause, history(kept, Issuer(kept.control.run)), detail=detail)
    return ended, effects + more


def end_pause(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """7: paused once too often."""
    return _end_kept(state, event, Cause.PAUSE_LIMIT, "The API paused its own tool loop too often.")


def end_unknown(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """9: a stop reason that nobody knows: keep what came, say which."""
    reason = state.control.call.stop_reason
    return _end_kept(state, event, Cause.UNKNOWN_STOP_REASON, f"The reply ended with the unknown stop reason {reason!r}.")


def ask_stop_hooks(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """8: the model is done: keep the reply and ask the stop hooks, if there are any."""
    kept, effects = keep(state, closed(state), event)
    control = kept.control
    if not config.stop_hooks:
        return LoopState(control=evolve(control, wait=Wait(answered=True)), data=kept.data), effects
    issuer = Issuer(control.run)
    effect = RunStopHooks(
        id=issuer.new(EffectKind.HOOKS),
        stop_hook_active=control.guards.stop_hook_active,
        reply=kept.data.iteration.reply,
        turn=control.run.turn_count,
    )
    flight = (*control.flight, Flight(id=effect.id, kind=EffectKind.HOOKS))
    next_control = evolve(control, run=issuer.run, wait=Wait(), flight=flight)
    return LoopState(control=next_control, data=kept.data), (*effects, effect)
