"""Predicates about turns, money, tokens and stop hooks (spec 01, sections 5, 9, 14)."""

from __future__ import annotations

from ..config import LoopConfig
from ..control import Control
from ..events import Event
from ..phases import Cause

MIN_DELTA = 500
"""Output tokens between two checks under which the returns diminish."""
CONTINUATIONS_BEFORE_STOP = 3


def over_budget(control: Control, event: Event, config: LoopConfig) -> bool:
    """``max_budget`` is reached."""
    budget = control.budget
    return config.max_budget is not None and budget.cost + budget.cost_before >= config.max_budget


def too_many_calls(control: Control, event: Event, config: LoopConfig) -> bool:
    """``max_model_calls`` were made since the last exempt one."""
    return control.guards.model_calls >= config.max_model_calls


def last_turn(control: Control, event: Event, config: LoopConfig) -> bool:
    """The next round would exceed ``max_turns``."""
    return config.max_turns is not None and control.run.turn_count + 1 > config.max_turns


def prevented_by_hook(control: Control, event: Event, config: LoopConfig) -> bool:
    """A stop hook ends the run."""
    return control.wait.answered and control.wait.prevented is Cause.HOOK


def structured_output_exhausted(control: Control, event: Event, config: LoopConfig) -> bool:
    """The structured-output hook has no retries left."""
    return control.wait.answered and control.wait.prevented is Cause.STRUCTURED_OUTPUT_EXHAUSTED


def blocked_under_caps(control: Control, event: Event, config: LoopConfig) -> bool:
    """Stop hooks block, and may."""
    guards = control.guards
    return (
        control.wait.answered
        and control.wait.blocking > 0
        and guards.blocks_in_row < config.stop_hook_row_cap
        and guards.blocks_in_run < config.stop_hook_run_cap
    )


def blocked(control: Control, event: Event, config: LoopConfig) -> bool:
    """Stop hooks block (past the caps, where the row before did not hold)."""
    return control.wait.answered and control.wait.blocking > 0


def is_sub_agent(control: Control) -> bool:
    """The run belongs to a sub-agent: a token budget is a concept of the main run."""
    context = control.tool_use_context
    return context.depth > 0 or context.source.startswith("agent:")


def _has_budget(control: Control) -> bool:
    return control.wait.answered and control.budget.token_budget is not None and not is_sub_agent(control)


def diminishing_returns(control: Control, event: Event, config: LoopConfig) -> bool:
    """After three nudges, two checks in a row found less than 500 new tokens."""
    budget = control.budget
    return (
        _has_budget(control)
        and budget.continuations >= CONTINUATIONS_BEFORE_STOP
        and budget.output_tokens - budget.spent_at_check < MIN_DELTA
        and budget.last_delta < MIN_DELTA
    )


def budget_left(control: Control, event: Event, config: LoopConfig) -> bool:
    """Less than 90 % of the token budget is spent."""
    budget = control.budget
    return _has_budget(control) and 10 * budget.output_tokens < 9 * (budget.token_budget or 0)


def has_token_budget(control: Control, event: Event, config: LoopConfig) -> bool:
    """The run has a token budget (spent, where the rows before did not hold)."""
    return _has_budget(control)


def answered(control: Control, event: Event, config: LoopConfig) -> bool:
    """The answer of the wait in hand has come."""
    return control.wait.answered


def always(control: Control, event: Event, config: LoopConfig) -> bool:
    """Nothing is asked: the last row of a first-match list."""
    return True
