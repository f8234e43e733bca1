"""I4, I9: the first-match lists of spec 01, sections 5, 7, 9 and 14, written a second time: which row is due, and why.

Each function is one list, from top to bottom, in the words and numbers of the specification. None asks a guard of the
core: what is compared here with the row that was taken is a second reading of the same text.
"""

from __future__ import annotations

from collections.abc import Callable

from ..core.config import LoopConfig
from ..core.context.compact import valid
from ..core.control import Control
from ..core.events import CompactionFinished, Event
from ..core.failures import ABOUT_MESSAGES, TRANSIENT_KINDS, ErrorKind
from ..core.phases import Cause, CompactKind, ContinueReason, Phase
from .law import Edge, edge_law
from .limits import breaker_open, is_agent, limits, makes_room
from .micro import Micro, micros

DEFAULT_OUTPUT = 8_192
"""Only this configured output limit is escalated (section 7, 3a)."""
LEAST_DELTA = 500
NUDGES = 3


def begun(control: Control) -> bool:
    """Tell whether a call that may have changed something began, or a hook stopped the run at one."""
    return control.tools.stopped or any(call.started and not call.traits.read_only for call in control.tools.calls)


def models_left(control: Control, config: LoopConfig) -> list[str]:
    """Give the fallback models that are still to come, without the current one."""
    context = control.tool_use_context
    return [name for name in config.fallback_models[context.fallbacks :] if name != context.model]


def too_long_a_wait(control: Control, config: LoopConfig) -> bool:
    """Tell whether the server asks for more than the ceiling."""
    fault = control.call.fault
    asked = fault.retry_after_ms if fault is not None else None
    return asked is not None and asked > config.retry_after_ceiling_ms


def gives_up_model(control: Control, config: LoopConfig) -> bool:
    """Section 10: a fallback is due, and a model is left."""
    call = control.call
    kind = call.fault.kind if call.fault is not None else None
    if kind is None or kind in ABOUT_MESSAGES or not models_left(control, config):
        return False
    if kind in (ErrorKind.MODEL_NOT_FOUND, ErrorKind.FALLBACK_REQUESTED):
        return True
    enough = kind is ErrorKind.OVERLOADED and config.overload_fallback_after <= call.overloads
    last = config.max_attempts <= call.attempt or too_long_a_wait(control, config)
    return kind in TRANSIENT_KINDS and (enough or last)


def reactive_left(control: Control, config: LoopConfig) -> bool:
    """Tell whether a reactive compaction may be tried: enabled, not tried since the last round, no run that makes room."""
    tried = control.guards.has_attempted_reactive_compact
    return config.context.reactive_compact and not tried and not makes_room(control)


def after_failure(control: Control, config: LoopConfig) -> str:
    """Section 7, Sa to Fe: the row that a failed attempt takes."""
    call, guards, facts = control.call, control.guards, control.context
    assert call.fault is not None
    kind = call.fault.kind
    passing, dear = kind in TRANSIENT_KINDS, too_long_a_wait(control, config)
    fallback = gives_up_model(control, config)
    if begun(control):
        more = passing and guards.salvages < config.max_attempts and (fallback or not dear)
        return "salvage" if more else "salvage_and_end"
    if kind is ErrorKind.PROMPT_TOO_LONG:
        if facts.staged and control.run.transition is not ContinueReason.COLLAPSE_DRAIN_RETRY:
            return "collapse_drain_retry"
        mends = reactive_left(control, config) and facts.compactable
        return "reactive_compact" if mends else "prompt_too_long"
    if kind is ErrorKind.MEDIA_TOO_LARGE:
        return "reactive_compact" if reactive_left(control, config) else "media_too_large"
    if kind is ErrorKind.MEDIA_UNREADABLE:
        return "media_unreadable"
    if kind is ErrorKind.THINKING_INVALID and facts.thinking and not guards.thinking_dropped:
        return "thinking_dropped"
    if fallback:
        return "fallback"
    if passing:
        if dear:
            return "rate_limited_until"
        return "retry" if call.attempt < config.max_attempts else "attempts_exhausted"
    if kind in (ErrorKind.AUTH, ErrorKind.BILLING):
        return "access_refused"
    return "engine_failed" if kind is ErrorKind.ENGINE_ERROR else "call_refused"


def can_escalate(control: Control, config: LoopConfig) -> bool:
    """3a: the limit in force is the default, and the clamped new one is larger."""
    info = config.info(control.tool_use_context.model)
    window = config.context.context_window
    room = (info.context_window if window is None else window) - control.context.blocking_tokens
    larger = min(config.escalated_max_output_tokens, info.max_output, room) > DEFAULT_OUTPUT
    free = control.guards.max_output_tokens_override is None
    return larger and free and config.max_output_tokens == DEFAULT_OUTPUT


def after_reply(control: Control, config: LoopConfig) -> str:
    """Section 7, 1 to 9: the row that a complete reply takes."""
    call, guards, calls = control.call, control.guards, control.tools.calls
    stop = call.stop_reason
    if stop == "refusal":
        once = config.fallback_on_refusal and not guards.refusal_fallback and not begun(control)
        return "refusal_fallback" if once and models_left(control, config) else "refusal"
    if any(item.whole for item in calls):
        return "run_tools"
    recoveries = guards.max_output_tokens_recovery_count < config.max_output_recoveries
    if stop == "max_tokens":
        if can_escalate(control, config):
            return "max_output_tokens_escalate"
        return "max_output_tokens_recovery" if recoveries else "output_exhausted"
    if stop == "model_context_window_exceeded":
        return "window_recovery" if recoveries else "window_exhausted"
    if calls:
        return "malformed_answered" if guards.malformed < config.max_malformed else "malformed_tool_use"
    if not call.usable:
        return "empty_reply" if guards.empty_retried else "empty_retry"
    if stop in ("pause_turn", "compaction"):
        return "pause_resume" if guards.pauses < config.max_pauses else "pause_limit"
    return "ask_stop_hooks" if stop in ("end_turn", "stop_sequence", "tool_use") else "unknown_stop_reason"


def deciding(control: Control, event: Event, config: LoopConfig) -> str:
    """Section 7: a failure is looked at first."""
    return after_failure(control, config) if control.call.fault is not None else after_reply(control, config)


def preparing(control: Control, event: Event, config: LoopConfig) -> str:
    """Section 5, end of ``preparing``."""
    facts, queue = control.context, control.queue
    low, high = limits(control, config)
    money = control.budget.cost + control.budget.cost_before
    if not facts.sendable:
        return "invalid_history"
    if config.max_budget is not None and config.max_budget <= money:
        return "budget_usd"
    room = makes_room(control)
    if facts.compactable and not room:
        if queue.forced and CompactKind.FORCED not in facts.tried:
            return "compact_forced"
        if queue.compact and CompactKind.MANUAL not in facts.tried:
            return "compact_manual"
        due = low <= facts.tokens and config.context.auto_compact and not facts.compact_off
        if due and not breaker_open(control, config):
            return "compact_auto"
    if high <= facts.blocking_tokens and not room and not facts.compacted_in_pass:
        if high <= facts.fixed_tokens:
            return "context_irreducible"
        if breaker_open(control, config):
            return "compaction_no_progress"
        if not config.context.auto_compact and not reactive_left(control, config):
            return "hard_limit"
    if config.max_model_calls <= control.guards.model_calls:
        return "model_calls_exhausted"
    waits = control.salvage is not None and control.salvage.delay_ms > 0
    return "salvage_backoff" if waits else "call_model"


def running_tools(control: Control, event: Event, config: LoopConfig) -> str:
    """Section 5, end of ``running_tools``; empty while a call has no result."""
    if len(control.tools.calls) > control.tools.yielded:
        return ""
    if control.tools.stopped:
        return "hook_stopped"
    if repeats(control.guards.rounds) >= config.loop_rounds + 2:
        return "loop_detected"
    if control.salvage is not None and not control.salvage.resume:
        return "error_remembered"
    if config.max_turns is not None and config.max_turns <= control.run.turn_count:
        return "max_turns"
    return "round_done"


def repeats(rounds: tuple[str, ...]) -> int:
    """Section 11: how often the last round stands in a row, or the last pair alternates, whichever is more."""
    best = 0
    for size in (1, 2):
        unit = rounds[len(rounds) - size :]
        count = 0
        while len(unit) == size and rounds[len(rounds) - size * (count + 1) :][:size] == unit:
            if size * (count + 1) > len(rounds):
                break
            count += 1
        best = max(best, count if size == 1 or len(set(unit)) == size else 0)
    return best


def gathering(control: Control, event: Event, config: LoopConfig) -> str:
    """Section 4: ``next_turn``, of a salvaged reply or of a whole one."""
    if not control.wait.answered:
        return ""
    return "next_turn" if control.salvage is None else "next_turn_salvaged"


def stop_hooks(control: Control, event: Event, config: LoopConfig) -> str:
    """Section 5, end of ``running_stop_hooks``, and section 9."""
    wait, guards, budget = control.wait, control.guards, control.budget
    if not wait.answered:
        return ""
    if wait.prevented is not None:
        return "stop_hook_prevented" if wait.prevented is Cause.HOOK else "structured_output_exhausted"
    if wait.blocking:
        over = guards.blocks_in_row >= config.stop_hook_row_cap or guards.blocks_in_run >= config.stop_hook_run_cap
        return "stop_hook_cap" if over else "stop_hook_blocking"
    if budget.token_budget is None or is_agent(control):
        return "completed"
    delta = budget.output_tokens - budget.spent_at_check
    if budget.continuations >= NUDGES and delta < LEAST_DELTA and budget.last_delta < LEAST_DELTA:
        return "diminishing_returns"
    return "token_budget_continuation" if budget.output_tokens * 10 < budget.token_budget * 9 else "budget_reached"


def compacting(control: Control, event: Event, config: LoopConfig) -> str:
    """Section 14: a result that may be used, whether it counts as progress too."""
    if not isinstance(event, CompactionFinished):
        return ""
    put = sum(block.tokens for block in event.summary) + sum(item.tokens for item in event.attachments)
    if not usable_result(event, control.context.replacing):
        return "compaction_refused"
    tokens, freed = control.context.tokens, control.context.replacing - put
    low, _ = limits(control, config)
    little = 100 * freed < config.context.min_freed_percent * tokens
    return "compaction_without_progress" if little or tokens - freed >= low else "compaction_applied"


def usable_result(event: CompactionFinished, replacing: int) -> bool:
    """Section 14: a result may be used if it is valid; where nothing is replaced, only media are dropped."""
    nothing = not replacing and not event.summary
    return nothing or valid(event, replacing) == ""


def reactive(control: Control, event: Event, config: LoopConfig) -> str:
    """Section 14: a failed reactive compaction ends the run with the reason of the withheld error."""
    media = control.call.fault is not None and control.call.fault.kind is ErrorKind.MEDIA_TOO_LARGE
    if isinstance(event, CompactionFinished):
        if usable_result(event, control.context.replacing):
            return "reactive_compact_retry"
        return "reactive_refused_media" if media else "reactive_refused"
    return "reactive_failed_media" if media else "reactive_failed"


_LISTS: dict[Phase, Callable[[Control, Event, LoopConfig], str]] = {
    Phase.DECIDING: deciding,
    Phase.PREPARING: preparing,
    Phase.RUNNING_TOOLS: running_tools,
    Phase.GATHERING_ATTACHMENTS: gathering,
    Phase.RUNNING_STOP_HOOKS: stop_hooks,
    Phase.COMPACTING: compacting,
    Phase.REACTIVE_COMPACTING: reactive,
}


def _listed(one: Micro) -> bool:
    guard = one.row.guard
    return guard is not None and one.row.source in _LISTS


@edge_law("I4", costly=True)
def the_first_that_holds_is_taken(edge: Edge) -> str:
    """Where a list decides, the row taken is the first of the list of the specification that holds."""
    for one in micros(edge):
        if _listed(one):
            due = _LISTS[one.row.source](one.old, one.event, edge.config)
            if due != one.row.name:
                return f"in {one.row.source} {due or 'nothing'} was due, {one.row.name} was taken"
    return ""
