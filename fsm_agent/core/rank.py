"""Why the loop ends: a tuple of naturals that falls with every model call but the exempt ones (spec 01, section 14).

Exempt is the first call of a run, and the first after a ``next_turn`` made by a completed reply; the number of those is
bounded by ``max_turns``. What a component gives back when it is reset is always paid for by one that stands before it.
"""

from __future__ import annotations

from typing import NamedTuple

from .config import LoopConfig
from .control import Control
from .guards.budget import CONTINUATIONS_BEFORE_STOP, MIN_DELTA, is_sub_agent
from .guards.context import exempt
from .phases import ContinueReason


class Rank(NamedTuple):
    """What is left, most significant first. It is compared lexicographically.

    Attributes:
        models: fallback models that were not passed.
        nudges: continuations of the token budget that ask for no progress.
        tokens: what was left of the token budget at its last check, up to 90 %, in steps of the least progress.
        progress: the last check found progress.
        blocks: stop-hook blocks in the run.
        thinking: thinking was not taken out of the history.
        salvages: salvages in a row.
        pauses: resumes of paused replies.
        reactive: a reactive compaction.
        recoveries: continuations of cut replies.
        escalation: the output limit was not raised.
        empty: a retry of an empty reply.
        drain: staged collapses may be committed.
        attempts: attempts on this model in this pass.
    """

    models: int
    nudges: int
    tokens: int
    progress: int
    blocks: int
    thinking: int
    salvages: int
    pauses: int
    reactive: int
    recoveries: int
    escalation: int
    empty: int
    drain: int
    attempts: int


def rank(control: Control, config: LoopConfig) -> Rank:
    """Give the rank of a state.

    Args:
        control: the deciding half of the state.
        config: the run's configuration.

    Returns:
        The rank. Between two calls it never rises, and a call that is not exempt leaves it lower than before.
    """
    guards, budget = control.guards, control.budget
    nudges = tokens = progress = 0
    if budget.token_budget is not None and not is_sub_agent(control):
        nudges = max(0, CONTINUATIONS_BEFORE_STOP - budget.continuations)
        tokens = max(0, 9 * budget.token_budget // 10 - budget.spent_at_check) // MIN_DELTA
        progress = int(budget.last_delta >= MIN_DELTA)
    return Rank(
        models=max(0, len(config.fallback_models) - control.tool_use_context.fallbacks),
        nudges=nudges,
        tokens=tokens,
        progress=progress,
        blocks=config.stop_hook_run_cap - guards.blocks_in_run,
        thinking=int(not guards.thinking_dropped),
        salvages=config.max_attempts - guards.salvages,
        pauses=config.max_pauses - guards.pauses,
        reactive=int(config.context.reactive_compact and not guards.has_attempted_reactive_compact and not exempt(control)),
        recoveries=config.max_output_recoveries - guards.max_output_tokens_recovery_count,
        escalation=int(guards.max_output_tokens_override is None),
        empty=int(not guards.empty_retried),
        drain=int(control.run.transition is not ContinueReason.COLLAPSE_DRAIN_RETRY),
        attempts=max(0, config.max_attempts - control.call.attempt),
    )


def sizes(config: LoopConfig, token_budget: int | None = None) -> Rank:
    """Give how many values each component has under a configuration.

    Args:
        config: the run's configuration.
        token_budget: the run's token budget, or None.
    """
    tokens = 0 if token_budget is None else 9 * token_budget // 10
    return Rank(
        models=len(config.fallback_models) + 1,
        nudges=1 if token_budget is None else CONTINUATIONS_BEFORE_STOP + 1,
        tokens=tokens // MIN_DELTA + 1,
        progress=1 if token_budget is None else 2,
        blocks=config.stop_hook_run_cap + 1 if config.stop_hooks else 1,
        thinking=2,
        salvages=config.max_attempts + 1,
        pauses=config.max_pauses + 1,
        reactive=2 if config.context.reactive_compact else 1,
        recoveries=config.max_output_recoveries + 1,
        escalation=2,
        empty=2,
        drain=2 if config.context.collapse else 1,
        attempts=config.max_attempts,
    )


def bound(config: LoopConfig, token_budget: int | None = None) -> int:
    """Give B(config): how many calls can stand between two exempt ones, the first of them included.

    The rank falls with each of them, so there are at most as many as there are ranks. ``max_model_calls`` bounds them
    outright, which is usually far less.

    Args:
        config: the run's configuration.
        token_budget: the run's token budget, or None.
    """
    product = 1
    for size in sizes(config, token_budget):
        product *= size
    return product


def calls_bound(config: LoopConfig, token_budget: int | None = None) -> int:
    """Give the calls that can really stand between two exempt ones: the smaller of B(config) and ``max_model_calls``."""
    return min(bound(config, token_budget), config.max_model_calls)
