"""The abstract value of a state: what may still decide, and nothing else (spec 01, section 1).

Token counts become levels, ids their order of birth, money and usage disappear. Fields that no row can read any more
in a phase are left out. ``step`` respects the abstraction: states of one value take the same rows for the same abstract
events, and come to states of one value. The explorer checks that by sample.

``abstract`` looks at the control alone. What will decide later still lies in the data; :mod:`.behind` gives that part, and
the two together are the state of the explorer.
"""

from __future__ import annotations

import marshal

from ..core.config import LoopConfig, thresholds
from ..core.control import Budget, CallState, Control, ToolCall
from ..core.effects import EffectKind
from ..core.failures import ErrorKind
from ..core.guards.budget import CONTINUATIONS_BEFORE_STOP, MIN_DELTA
from ..core.memo import by_identity
from ..core.models import Thresholds
from ..core.phases import TERMINAL_SET, CompactKind, ContinueReason, Phase
from ..core.state import LoopState
from .behind import CAUSE_NUMBERS, Value, behind, model_number, step_of

_PHASE = {phase: number for number, phase in enumerate(Phase)}
_REASON: dict[ContinueReason | None, int] = {None: 0, ContinueReason.COLLAPSE_DRAIN_RETRY: 1}
_KIND = {kind: number for number, kind in enumerate(EffectKind)}
_COMPACT = {kind: number for number, kind in enumerate(CompactKind)}
_STATE = {state: number for number, state in enumerate(CallState)}
_PASS_PHASES = frozenset(
    {Phase.PREPARING, Phase.COMPACTING, Phase.CALLING_MODEL, Phase.BACKING_OFF, Phase.DECIDING, Phase.REACTIVE_COMPACTING}
)
"""Phases in which the facts of the pass in hand may still decide; the others lead to a new pass."""


@by_identity
def _limits(config: LoopConfig) -> dict[str, Thresholds]:
    """Remember the thresholds of each model; they are asked for at every edge."""
    return {}


def level(tokens: int, config: LoopConfig, model: str) -> int:
    """Give the level of a token count: how many thresholds it has reached (stage, commit, auto, blocking)."""
    known = _limits(config)
    limits = known.get(model)
    if limits is None:
        limits = known[model] = thresholds(config, model)
    return (
        (tokens >= limits.stage_at)
        + (tokens >= limits.commit_at)
        + (tokens >= limits.auto_compact_at)
        + (tokens >= limits.blocking_limit)
    )


def _calls(control: Control) -> Value:
    """Calls in order of birth; ids, outcomes and indexes decide nothing."""
    return tuple([_call(call) for call in control.tools.calls])


def _call(call: ToolCall) -> int:
    traits = call.traits
    value = _STATE[call.state]
    value = value * 2 + call.started
    value = value * 2 + call.whole
    value = value * 2 + call.last
    value = value * 2 + traits.read_only
    value = value * 2 + traits.concurrency_safe
    value = value * 2 + traits.cancels_siblings_on_error
    return value * 2 + traits.known


def _flight(control: Control) -> Value:
    """Effects in flight in order of birth; a tool is known by the place of its call."""
    found = []
    for item in control.flight:
        kind = _KIND[item.kind]
        if item.kind is EffectKind.TOOL:
            place = next((place for place, call in enumerate(control.tools.calls) if call.effect == item.id), 99)
            found.append(100 + place)
        elif item.kind is EffectKind.SUMMARY:
            found.append(200 + (item.id == control.queue.pending_tool_use_summary))
        else:
            found.append(kind)
    return tuple(found)


def _guards(control: Control, loops: bool) -> Value:
    guards = control.guards
    flags = (
        guards.has_attempted_reactive_compact
        + 2 * (guards.max_output_tokens_override is not None)
        + 4 * guards.stop_hook_active
        + 8 * guards.empty_retried
        + 16 * guards.thinking_dropped
        + 32 * guards.refusal_fallback
        + 64 * guards.loop_warned
    )
    return (
        flags,
        guards.max_output_tokens_recovery_count,
        guards.blocks_in_row,
        guards.blocks_in_run,
        guards.salvages,
        guards.pauses,
        guards.malformed,
        guards.model_calls,
        tuple([int(digest, 16) for digest in guards.rounds]) if loops else 0,
    )


def _budget(budget: Budget, config: LoopConfig) -> Value:
    spent = config.max_budget is not None and budget.cost + budget.cost_before >= config.max_budget
    if budget.token_budget is None:
        return (spent,)
    reached = 10 * budget.output_tokens >= 9 * budget.token_budget
    return (
        spent,
        min(budget.continuations, CONTINUATIONS_BEFORE_STOP),
        -1 if reached else budget.output_tokens // (2 * MIN_DELTA),
        budget.output_tokens - budget.spent_at_check >= MIN_DELTA,
        budget.last_delta >= MIN_DELTA,
    )


def _facts(control: Control, config: LoopConfig) -> Value:
    context = control.context
    tracking = context.tracking
    breaker = (tracking.failures, step_of(tracking.opened_at) if tracking.opened_at else -1)
    if control.phase not in _PASS_PHASES:
        return (*breaker, context.staged)
    model = control.tool_use_context.model
    return (
        *breaker,
        context.staged,
        level(context.tokens, config, model),
        level(context.blocking_tokens, config, model),
        level(context.fixed_tokens, config, model),
        context.compactable
        + 2 * context.sendable
        + 4 * context.compact_off
        + 8 * context.compacted_in_pass
        + 16 * context.thinking,
        tuple([_COMPACT[kind] for kind in context.tried]),
        -1 if context.compacting is None else _COMPACT[context.compacting],
        step_of(context.replacing) if context.replacing else -1,
    )


def abstract(control: Control, config: LoopConfig, *, loops: bool = False) -> Value:
    """Give the abstract value of a control.

    Args:
        control: the deciding half of a state.
        config: the run's configuration.
        loops: rounds may repeat, so their digests decide; without it each round is taken for a new one.

    Returns:
        Nested tuples of whole numbers, hashable and the same in every process.
    """
    phase = control.phase
    queue = control.queue
    context = control.tool_use_context
    waiting = (len(queue.commands), queue.compact + 2 * queue.forced, model_number(queue.switch, config))
    if phase in TERMINAL_SET:
        return (_PHASE[phase], waiting)
    call, tools, wait, salvage = control.call, control.tools, control.wait, control.salvage
    in_pass = phase in _PASS_PHASES
    fault = call.fault
    return (
        _PHASE[phase],
        min(control.run.turn_count, 1 + (config.max_turns or control.run.turn_count)),
        _REASON.get(control.run.transition, 0) if in_pass else 0,
        (model_number(context.model, config), context.fallbacks, context.depth, hash_of(context.source)),
        (call.attempt if in_pass else 0, min(call.overloads, config.overload_fallback_after)),
        call.streaming + 2 * call.usable + 4 * call.unresolved + 8 * bool(call.id),
        (fault.kind is ErrorKind.MEDIA_TOO_LARGE) if fault is not None and phase is Phase.REACTIVE_COMPACTING else 0,
        _calls(control),
        tools.yielded * 8 + tools.stopped + 2 * bool(tools.failed) + 4 * tools.after_stream,
        _guards(control, loops),
        _budget(control.budget, config),
        waiting,
        _facts(control, config),
        (wait.answered, wait.blocking > 0, -1 if wait.prevented is None else CAUSE_NUMBERS[wait.prevented], wait.resumes),
        0 if salvage is None else (1 + salvage.resume, CAUSE_NUMBERS[salvage.cause], salvage.delay_ms > 0),
        _flight(control),
    )


def hash_of(source: str) -> int:
    """Give what decides of a run's source: whether it makes room, and whether it is a sub-agent."""
    if source in ("compact", "session_memory"):
        return 1
    return 2 if source.startswith("agent:") else 0


def value_of(state: LoopState, config: LoopConfig, *, loops: bool = False) -> Value:
    """Give the abstract value of a whole state: its control, and what lies behind it in the data."""
    return (abstract(state.control, config, loops=loops), behind(state, config, loops=loops))


def key_of(state: LoopState, config: LoopConfig, *, loops: bool = False) -> bytes:
    """Give the abstract value of a state as bytes: small, and equal in every process for equal values."""
    return marshal.dumps((abstract(state.control, config, loops=loops), behind(state, config, loops=loops)), 2)
