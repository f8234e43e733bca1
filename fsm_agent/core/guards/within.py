"""Conditions that hold only where a quicker one does: that one is asked first, once for all of them (spec 01, section 1)."""

from __future__ import annotations

from collections.abc import Callable

from ..config import LoopConfig
from ..control import Control
from ..events import Event
from . import call, context, tools

Predicate = Callable[[Control, Event, LoopConfig], bool]


WITHIN: dict[Predicate, Predicate] = {
    **dict.fromkeys(
        (
            call.salvage_resumes,
            call.salvage_due,
            call.drain_possible,
            call.reactive_due,
            call.prompt_too_long,
            call.media_too_large,
            call.media_unreadable,
            call.thinking_refused,
            call.fallback_due,
            call.retry_possible,
            call.wait_too_long,
            call.attempts_used_up,
            call.refused_access,
            call.engine_failed,
            call.call_failed,
        ),
        call.call_failed,
    ),
    **dict.fromkeys(
        (tools.stopped_by_hook, tools.loop_detected, tools.error_remembered, tools.turns_used_up, tools.round_done),
        tools.round_done,
    ),
    **dict.fromkeys(
        (context.blocked_irreducible, context.blocked_by_breaker, context.blocked_without_compaction),
        context.over_hard_limit,
    ),
}
"""For a condition, one that it implies."""
