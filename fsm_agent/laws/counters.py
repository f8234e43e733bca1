"""I8, I9, I13: ranking, guards and budgets."""

from __future__ import annotations

from typing import Any

from ..core.config import LoopConfig
from ..core.control import Control
from ..core.events import EffectFailed, StreamCompleted, StreamFailed
from ..core.phases import Cause, ContinueReason, Phase
from ..core.rank import calls_bound, rank
from ..core.state import LoopState
from .law import Edge, edge_law, state_law
from .limits import is_agent

_KEPT = ("run_tools", "malformed_answered", "ask_stop_hooks", "salvage_and_end")
"""Rows that keep a reply and so give the empty retry back. Each way on is exempt, an end, or pays with more."""
_NEW_PASS = (Phase.REACTIVE_COMPACTING, Phase.RUNNING_TOOLS, Phase.GATHERING_ATTACHMENTS, Phase.RUNNING_STOP_HOOKS)
"""Phases that lead to a new pass, with its attempts anew."""
_ATTEMPTS = (StreamCompleted, StreamFailed, EffectFailed)
"""Events that say what an attempt has used."""


def measure(control: Control, config: LoopConfig) -> tuple[int, ...]:
    """Give the rank in half steps, so that it falls on each edge that calls the model, and rises on none.

    An attempt costs two halves: one when its call is decided, one when it is made.
    """
    now = rank(control, config)
    if control.phase is Phase.CALLING_MODEL:
        return (*now[:-1], 2 * now.attempts)
    if control.phase is Phase.REACTIVE_COMPACTING:
        now = now._replace(escalation=1, drain=1)  # paid for by the compaction, whose retry gives them back
    if control.phase in _NEW_PASS:
        now = now._replace(attempts=config.max_attempts)
    return (*now[:-1], 2 * now.attempts - 1)


_LAST: list[Any] = [None, None, ()]
"""The control and configuration measured last, and their measure: an exploration asks of many edges of one state."""


def _measured(control: Control, config: LoopConfig) -> tuple[int, ...]:
    if _LAST[0] is not control or _LAST[1] is not config:
        _LAST[:] = control, config, measure(control, config)
    measured: tuple[int, ...] = _LAST[2]
    return measured


@edge_law("I8")
def the_rank_falls(edge: Edge) -> str:
    """The rank never rises within a run, and falls with each model call but the exempt ones."""
    if edge.ended or edge.took("run_started", "next_turn", *_KEPT):
        return ""
    if edge.calls and edge.new.guards.model_calls == 1:
        return ""
    before, after = _measured(edge.old, edge.config), measure(edge.new, edge.config)
    if edge.calls:
        return "" if after < before else f"a call, and the rank went from {before} to {after}"
    return "" if after <= before else f"the rank rose from {before} to {after}"


@state_law("I8")
def calls_are_bounded(state: LoopState, config: LoopConfig) -> str:
    """Between two exempt calls stand no more than the smaller of B(config) and max_model_calls."""
    most = calls_bound(config, state.control.budget.token_budget)
    made = state.control.guards.model_calls
    return "" if made <= most else f"{made} calls, at most {most} are allowed"


@state_law("I9")
def counters_keep_their_caps(state: LoopState, config: LoopConfig) -> str:
    """No counter is above its cap."""
    control = state.control
    guards = control.guards
    caps = (
        ("recoveries", guards.max_output_tokens_recovery_count, config.max_output_recoveries),
        ("attempts", control.call.attempt, config.max_attempts),
        ("salvages", guards.salvages, config.max_attempts),
        ("pauses", guards.pauses, config.max_pauses),
        ("malformed", guards.malformed, config.max_malformed),
        ("blocks in a row", guards.blocks_in_row, config.stop_hook_row_cap),
        ("blocks in a run", guards.blocks_in_run, config.stop_hook_run_cap),
        ("resumes", control.wait.resumes, config.max_resumes),
        ("fallbacks", control.tool_use_context.fallbacks, len(config.fallback_models)),
        ("turns", control.run.turn_count, config.max_turns if config.max_turns is not None else control.run.turn_count),
    )
    for name, value, cap in caps:
        if not 0 <= value <= cap:
            return f"{name}: {value} of {cap}"
    return ""


@edge_law("I9")
def the_reactive_flag_stays(edge: Edge) -> str:
    """Only a completed round and a budget continuation clear the flag of the reactive compaction."""
    was, now = edge.old.guards.has_attempted_reactive_compact, edge.new.guards.has_attempted_reactive_compact
    if was and not now and not edge.took("next_turn", "token_budget_continuation", "run_started"):
        return f"{edge.taken} cleared it"
    if now and not was and not edge.took("reactive_compact"):
        return f"{edge.taken} set it"
    return ""


@edge_law("I9")
def never_two_drains_in_a_row(edge: Edge) -> str:
    """Collapses are drained only if the last continue was not a drain."""
    if edge.took("collapse_drain_retry") and edge.old.run.transition is ContinueReason.COLLAPSE_DRAIN_RETRY:
        return "drained twice in a row"
    return ""


@edge_law("I9")
def stop_hooks_after_a_good_reply_only(edge: Edge) -> str:
    """Stop hooks run after a reply that ended by itself, never after an error or a cut."""
    asked = [effect for effect in edge.issued if "/hooks-" in effect.id]
    if not asked or edge.took("stop_hooks_reissued"):
        return ""
    return "" if edge.took("ask_stop_hooks") else f"stop hooks were run by {edge.taken}"


_TABLE: dict[str, tuple[str, str, str, str, str]] = {
    # row: turn_count, recoveries, reactive flag, override, stop_hook_active (spec 01, section 4)
    "next_turn": ("+1", "0", "no", "none", "="),
    "next_turn_salvaged": ("+1", "=", "=", "=", "="),
    "collapse_drain_retry": ("=", "=", "=", "=", "none"),
    "reactive_compact_retry": ("=", "=", "yes", "none", "none"),
    "max_output_tokens_escalate": ("=", "=", "=", "set", "none"),
    "max_output_tokens_recovery": ("=", "+1", "=", "none", "none"),
    "window_recovery": ("=", "+1", "=", "none", "none"),
    "stop_hook_blocking": ("=", "0", "=", "none", "yes"),
    "token_budget_continuation": ("=", "0", "no", "none", "none"),
}


@edge_law("I9")
def continues_set_their_fields(edge: Edge) -> str:
    """Each continue reason keeps, counts and resets the carried fields as its line of the table says."""
    row = next((name for name in edge.taken if name in _TABLE), "")
    if not row or edge.ended:
        return ""
    turn, recoveries, reactive, override, active = _TABLE[row]
    old, new = edge.old.guards, edge.new.guards
    pairs = (
        ("turn_count", edge.new.run.turn_count, edge.old.run.turn_count + (turn == "+1")),
        (
            "max_output_tokens_recovery_count",
            new.max_output_tokens_recovery_count,
            {"0": 0, "=": old.max_output_tokens_recovery_count, "+1": old.max_output_tokens_recovery_count + 1}[recoveries],
        ),
        (
            "has_attempted_reactive_compact",
            new.has_attempted_reactive_compact,
            {"no": False, "yes": True, "=": old.has_attempted_reactive_compact}[reactive],
        ),
        (
            "max_output_tokens_override",
            new.max_output_tokens_override,
            {
                "none": None,
                "=": old.max_output_tokens_override,
                "set": edge.config.escalated_max_output_tokens,
            }[override],
        ),
        ("stop_hook_active", new.stop_hook_active, {"=": old.stop_hook_active, "yes": True, "none": False}[active]),
    )
    for name, got, expected in pairs:
        if got != expected:
            return f"{row}: {name} is {got!r}, the table says {expected!r}"
    return ""


@edge_law("I9")
def other_rows_keep_the_fields(edge: Edge) -> str:
    """A step without a continue leaves turn, recovery count, reactive flag, override and stop_hook_active as they are."""
    if edge.ended or edge.took(*_TABLE, "run_started"):
        return ""
    old, new = edge.old.guards, edge.new.guards
    if edge.new.run.turn_count != edge.old.run.turn_count:
        return "the turn changed"
    if new.max_output_tokens_recovery_count != old.max_output_tokens_recovery_count:
        return "the recovery count changed"
    if new.max_output_tokens_override != old.max_output_tokens_override:
        return "the override changed"
    return "stop_hook_active changed" if new.stop_hook_active != old.stop_hook_active else ""


@edge_law("I13")
def money_stops_calls(edge: Edge) -> str:
    """No model is called once the money is spent, and the run ends for want of money only then."""
    budget, limit = edge.new.budget, edge.config.max_budget
    over = limit is not None and budget.cost + budget.cost_before >= limit
    if edge.calls and over:
        return "a call was made though the money is spent"
    terminal = edge.made.state.data.terminal
    if edge.ended and terminal is not None and terminal.cause is Cause.BUDGET_USD and not over:
        return "the run ended for want of money that it has"
    return ""


@edge_law("I13")
def the_token_budget_decides(edge: Edge) -> str:
    """The loop goes on for a token budget only in the main run and under nine tenths; else it stops by name."""
    budget = edge.new.budget
    if edge.took("token_budget_continuation"):
        if budget.token_budget is None or is_agent(edge.new):
            return "continued without a budget of its own"
        if 10 * budget.output_tokens >= 9 * budget.token_budget:
            return "continued above nine tenths"
        return "" if budget.continuations == edge.old.budget.continuations + 1 else "the continuation was not counted"
    if budget.continuations != edge.old.budget.continuations and not edge.took("run_started"):
        return "a continuation was counted that did not happen"
    if edge.took("completed") and budget.token_budget is not None and not is_agent(edge.new):
        return "a run with a budget ended as end_turn"
    return ""


@edge_law("I13")
def usage_only_grows(edge: Edge) -> str:
    """Cost follows what each answer says; output tokens follow the attempts, which alone spend the token budget."""
    if edge.took("run_started"):
        return ""
    old, new = edge.old.budget, edge.new.budget
    used = getattr(edge.event, "usage", ())
    if new.cost - old.cost != (sum([item.cost for item in used]) if used else 0):
        return f"the cost went from {old.cost} to {new.cost}"
    attempt = isinstance(edge.event, _ATTEMPTS) and "/call-" in edge.event.id
    if new.output_tokens - old.output_tokens != (sum([item.output_tokens for item in used]) if attempt and used else 0):
        return f"the output went from {old.output_tokens} to {new.output_tokens}"
    return ""
