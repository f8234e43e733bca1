"""The one way to begin another pass: the whole next state, every field named (spec 01, section 4)."""

from __future__ import annotations

from ..context.report import LayerReport
from ..context.store import ContextState
from ..control import (
    AutoCompactTracking,
    Budget,
    Call,
    ContextFacts,
    Control,
    Guards,
    Queue,
    Run,
    Salvage,
    ToolUseContext,
)
from ..evolving import evolve
from ..messages import Message
from ..phases import ContinueReason
from ..rebuild import NO_TOOLS, NO_WAIT
from ..state import Data, Inbox, Iteration, LoopState, call_ids


def continued(
    state: LoopState,
    *,
    transition: ContinueReason,
    run: Run,
    messages: tuple[Message, ...],
    tool_use_context: ToolUseContext,
    auto_compact_tracking: AutoCompactTracking,
    max_output_tokens_recovery_count: int,
    has_attempted_reactive_compact: bool,
    max_output_tokens_override: int | None,
    pending_tool_use_summary: str,
    stop_hook_active: bool,
    turn_count: int,
    guards: Guards,
    queue: Queue,
    budget: Budget,
    inbox: Inbox,
    context: ContextState,
    salvage: Salvage | None,
    new_pass: bool,
    appended: bool,
    reports: tuple[LayerReport, ...] = (),
) -> LoopState:
    """Build the state of the next pass. Every continue site calls it, and names all ten carried fields.

    Args:
        state: the state that the pass ends with; gives the phase and what is in flight.
        transition: why the loop goes on.
        run: the run, its counter moved on.
        messages: the working list.
        tool_use_context: model, permission mode, abort reason, depth, source; a switch that waits in ``queue`` takes effect.
        auto_compact_tracking: the breaker.
        max_output_tokens_recovery_count: recoveries so far.
        has_attempted_reactive_compact: one was tried since the last round.
        max_output_tokens_override: escalated limit.
        pending_tool_use_summary: the summary in flight.
        stop_hook_active: a stop hook forced the round.
        turn_count: rounds, from 1.
        guards: the other counters; the four guards among the carried fields are set from their own arguments.
        queue: what waits; the pending summary is set from its own argument.
        budget: tokens and money.
        inbox: content that waits.
        context: memory of the layers.
        salvage: a salvaged reply's failure that still asks for a wait.
        new_pass: compactions may be tried again; False for the three retries of one pass.
        appended: ``messages`` is the view and what came behind it; else the ids of its calls are collected anew.
        reports: what has cut the view in this pass already; the layers add theirs.
    """
    old: Control = state.control
    facts = old.context
    control = Control(
        phase=old.phase,
        run=Run(id=run.id, issued=run.issued, turn_count=turn_count, transition=transition),
        tool_use_context=evolve(tool_use_context, model=queue.switch) if queue.switch else tool_use_context,
        # An overload streak outlives a salvage: the model that is due is decided by it.
        call=Call(overloads=old.call.overloads if salvage is not None else 0),
        tools=NO_TOOLS,
        guards=Guards(
            max_output_tokens_recovery_count,
            has_attempted_reactive_compact,
            max_output_tokens_override,
            stop_hook_active,
            guards.blocks_in_row,
            guards.blocks_in_run,
            guards.salvages,
            guards.pauses,
            guards.malformed,
            guards.empty_retried,
            guards.thinking_dropped,
            guards.refusal_fallback,
            guards.model_calls,
            guards.rounds,
            guards.loop_warned,
        ),
        budget=budget,
        queue=Queue(queue.commands, queue.compact, queue.forced, "", pending_tool_use_summary),
        context=_facts(facts, auto_compact_tracking, new_pass),
        wait=NO_WAIT,
        salvage=salvage,
        flight=old.flight,
    )
    data = Data(
        messages=messages,
        iteration=Iteration(reports=reports, front=state.data.iteration.view if appended else ()),
        context=context,
        inbox=inbox,
        usage=state.data.usage,
        session_usage=state.data.session_usage,
        terminal=None,
        call_ids=_grown_ids(state, messages) if appended else call_ids(messages),
    )
    return LoopState(control=control, data=data)


def _facts(old: ContextFacts, tracking: AutoCompactTracking, new_pass: bool) -> ContextFacts:
    return ContextFacts(
        old.tokens,
        old.blocking_tokens,
        old.fixed_tokens,
        old.compactable,
        old.sendable,
        old.thinking,
        old.staged,
        tracking,
        () if new_pass else old.tried,
        False if new_pass else old.compact_off,
        False if new_pass else old.compacted_in_pass,
        compacting=None,
        replacing=0,
    )


def _grown_ids(state: LoopState, messages: tuple[Message, ...]) -> str:
    known = state.data.call_ids
    reply = state.data.iteration.reply
    if reply is None:
        return known
    return known + "".join([block.id + "\n" for block in reply.calls])
