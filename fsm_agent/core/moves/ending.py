"""Stop hooks, the token budget, and the limits found in ``preparing`` (spec 01, sections 5, 9, 14)."""

from __future__ import annotations

from .. import texts
from ..config import LoopConfig
from ..control import Budget, Wait
from ..effects import Effect, Emit
from ..events import Event, StopHooksFinished
from ..evolving import evolve
from ..messages import MessageKind
from ..outputs import Notice, UserOutput
from ..phases import Cause, ContinueReason, TerminalReason
from ..state import LoopState
from .common import Issuer, charged, finish, history, user_message, without
from .continuing import continued


def stop_hooks_finished(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Note what the hooks said; the way on is an ``auto`` row."""
    assert isinstance(event, StopHooksFinished)
    state = charged(state, event.usage)
    control, data = state.control, state.data
    wait = Wait(
        answered=True,
        blocking=len(event.blocking),
        prevented=event.prevented_cause if event.prevented is not None else None,
        resumes=control.wait.resumes,
    )
    words = (event.prevented,) if event.prevented is not None else event.blocking
    effects = tuple(Emit(output=Notice(text=text, level="warning")) for text in event.warnings)
    return (
        LoopState(
            control=evolve(control, wait=wait, flight=without(control.flight, event.id)),
            data=evolve(data, iteration=evolve(data.iteration, words=words)),
        ),
        effects,
    )


def block_stop(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Stop hooks want more work: their words go to the model, and the loop goes on."""
    control, data = state.control, state.data
    issuer = Issuer(control.run)
    words = user_message(issuer.new("msg"), MessageKind.META, texts.stop_hook_errors(data.iteration.words))
    guards = control.guards
    next_state = continued(
        state,
        transition=ContinueReason.STOP_HOOK_BLOCKING,
        run=issuer.run,
        messages=(*history(state, issuer), words),
        tool_use_context=control.tool_use_context,
        auto_compact_tracking=control.context.tracking,
        max_output_tokens_recovery_count=0,
        has_attempted_reactive_compact=guards.has_attempted_reactive_compact,
        max_output_tokens_override=None,
        pending_tool_use_summary=control.queue.pending_tool_use_summary,
        stop_hook_active=True,
        turn_count=control.run.turn_count,
        guards=evolve(
            guards,
            blocks_in_row=guards.blocks_in_row + 1,
            blocks_in_run=guards.blocks_in_run + 1,
            salvages=0,
            pauses=0,
        ),
        queue=control.queue,
        budget=control.budget,
        inbox=data.inbox,
        context=data.context,
        salvage=None,
        new_pass=True,
        appended=True,
    )
    return next_state, (Emit(output=UserOutput(message=words)),)


def continue_budget(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """The token budget is not spent: nudge the model to go on."""
    control, data = state.control, state.data
    issuer = Issuer(control.run)
    budget = control.budget
    nudge = user_message(
        issuer.new("msg"), MessageKind.META, texts.budget_nudge(budget.output_tokens, budget.token_budget or 1)
    )
    guards = control.guards
    next_state = continued(
        state,
        transition=ContinueReason.TOKEN_BUDGET_CONTINUATION,
        run=issuer.run,
        messages=(*history(state, issuer), nudge),
        tool_use_context=control.tool_use_context,
        auto_compact_tracking=control.context.tracking,
        max_output_tokens_recovery_count=0,
        has_attempted_reactive_compact=False,
        max_output_tokens_override=None,
        pending_tool_use_summary=control.queue.pending_tool_use_summary,
        stop_hook_active=False,
        turn_count=control.run.turn_count,
        guards=evolve(guards, salvages=0, pauses=0),
        queue=control.queue,
        budget=Budget(
            token_budget=budget.token_budget,
            continuations=budget.continuations + 1,
            spent_at_check=budget.output_tokens,
            last_delta=budget.output_tokens - budget.spent_at_check,
            output_tokens=budget.output_tokens,
            cost=budget.cost,
            cost_before=budget.cost_before,
        ),
        inbox=data.inbox,
        context=data.context,
        salvage=None,
        new_pass=True,
        appended=True,
    )
    return next_state, (Emit(output=UserOutput(message=nudge)),)


def _end(
    state: LoopState, reason: TerminalReason, cause: Cause, detail: str = "", warning: str = ""
) -> tuple[LoopState, tuple[Effect, ...]]:
    issuer = Issuer(state.control.run)
    messages = history(state, issuer)
    notices: tuple[Effect, ...] = (Emit(output=Notice(text=warning, level="warning")),) if warning else ()
    ended, effects = finish(
        LoopState(control=evolve(state.control, run=issuer.run), data=state.data), reason, cause, messages, detail=detail
    )
    return ended, notices + effects


def end_turn(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """The model is done, and nobody objects."""
    return _end(state, TerminalReason.COMPLETED, Cause.END_TURN)


def end_budget_reached(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """The token budget is spent."""
    return _end(state, TerminalReason.COMPLETED, Cause.BUDGET_REACHED)


def end_diminishing(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """The model has little more to say, though its token budget is not spent."""
    return _end(state, TerminalReason.COMPLETED, Cause.DIMINISHING_RETURNS)


def end_stop_hook_cap(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Stop hooks blocked once too often."""
    text = "Stop hooks kept blocking; the run ends although they are not content."
    words = "; ".join(state.data.iteration.words)
    return _end(state, TerminalReason.COMPLETED, Cause.STOP_HOOK_CAP, detail=f"{text} Last: {words}", warning=text)


def end_prevented(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """A stop hook ends the run."""
    words = "; ".join(state.data.iteration.words)
    return _end(state, TerminalReason.STOP_HOOK_PREVENTED, Cause.HOOK, words)


def end_structured_output(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """The answer did not fit its schema after all retries."""
    words = "; ".join(state.data.iteration.words)
    return _end(state, TerminalReason.STOP_HOOK_PREVENTED, Cause.STRUCTURED_OUTPUT_EXHAUSTED, words)


def end_invalid_history(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """No valid request can be made of the history."""
    rule = state.data.iteration.details
    return _end(
        state,
        TerminalReason.MODEL_ERROR,
        Cause.INVALID_HISTORY,
        f"No valid request can be made of the history: {rule}. It is kept as it is.",
    )


def end_budget_usd(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """The money is spent."""
    spent = state.control.budget.cost + state.control.budget.cost_before
    return _end(
        state,
        TerminalReason.BLOCKING_LIMIT,
        Cause.BUDGET_USD,
        f"${spent / 1_000_000:.4f} are spent of a budget of ${(config.max_budget or 0) / 1_000_000:.4f}.",
    )


def end_calls(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Too many model calls without a round of tools in between."""
    return _end(
        state,
        TerminalReason.MODEL_ERROR,
        Cause.ATTEMPTS_EXHAUSTED,
        f"{config.max_model_calls} model calls were made without a finished round of tools in between.",
    )


def end_irreducible(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """What cannot be left out is over the hard limit."""
    fixed = state.control.context.fixed_tokens
    return _end(
        state,
        TerminalReason.BLOCKING_LIMIT,
        Cause.CONTEXT_IRREDUCIBLE,
        f"System prompt, tools and the newest request alone are about {fixed:,} tokens, over the hard limit of the window. "
        "Shorten them, or use a model with a larger window.",
    )


def end_no_progress(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Over the hard limit while the breaker is open."""
    return _end(
        state,
        TerminalReason.BLOCKING_LIMIT,
        Cause.COMPACTION_NO_PROGRESS,
        "Compactions in a row freed too little, and the window is full. Compact by hand, or start a new session.",
    )


def end_hard_limit(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Over the hard limit, with compaction off."""
    return _end(
        state,
        TerminalReason.BLOCKING_LIMIT,
        Cause.HARD_LIMIT,
        "The window is full, and compaction is off. Turn it on, compact by hand, or start a new session.",
    )
