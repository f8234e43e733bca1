"""Predicates about the window and its compactions (spec 01, sections 5, 8, 14)."""

from __future__ import annotations

from ..config import LoopConfig, thresholds
from ..context.compact import valid
from ..control import Control
from ..events import CompactionFinished, Event
from ..phases import CompactKind

EXEMPT_SOURCES: tuple[str, ...] = ("compact", "session_memory")
"""Runs that must not compact themselves, nor be blocked: they make room."""


def exempt(control: Control) -> bool:
    """The run's source is one that makes room."""
    return control.tool_use_context.source in EXEMPT_SOURCES


def unsendable(control: Control, event: Event, config: LoopConfig) -> bool:
    """No valid request can be made of the view."""
    return not control.context.sendable


def breaker_is_open(control: Control, config: LoopConfig) -> bool:
    """Compactions failed in a row, and the view has not grown by a margin since."""
    opened_at = control.context.tracking.opened_at
    if opened_at == 0:
        return False
    limits = thresholds(config, control.tool_use_context.model)
    margin = limits.effective_window * config.context.breaker_growth_percent // 100
    return control.context.tokens < opened_at + margin


def forced_due(control: Control, event: Event, config: LoopConfig) -> bool:
    """A compaction is forced before the next call."""
    return _asked(control, control.queue.forced, CompactKind.FORCED)


def manual_due(control: Control, event: Event, config: LoopConfig) -> bool:
    """The user asked for a compaction."""
    return _asked(control, control.queue.compact, CompactKind.MANUAL)


def _asked(control: Control, wanted: bool, kind: CompactKind) -> bool:
    context = control.context
    return wanted and kind not in context.tried and context.compactable and not exempt(control)


def auto_due(control: Control, event: Event, config: LoopConfig) -> bool:
    """The view is at the threshold, and an automatic compaction may run."""
    context = control.context
    return (
        config.context.auto_compact
        and not context.compact_off
        and context.compactable
        and not exempt(control)
        and context.tokens >= thresholds(config, control.tool_use_context.model).auto_compact_at
        and not breaker_is_open(control, config)
    )


def over_hard_limit(control: Control, event: Event, config: LoopConfig) -> bool:
    """The view is over the hard limit, and nothing has made room in this pass."""
    context = control.context
    return (
        not exempt(control)
        and not context.compacted_in_pass
        and context.blocking_tokens >= thresholds(config, control.tool_use_context.model).blocking_limit
    )


def is_irreducible(control: Control, config: LoopConfig) -> bool:
    """System prompt, tools and newest request alone are over the hard limit."""
    return control.context.fixed_tokens >= thresholds(config, control.tool_use_context.model).blocking_limit


def blocked_irreducible(control: Control, event: Event, config: LoopConfig) -> bool:
    """Over the hard limit, and no compaction can help."""
    return over_hard_limit(control, event, config) and is_irreducible(control, config)


def blocked_by_breaker(control: Control, event: Event, config: LoopConfig) -> bool:
    """Over the hard limit, and the breaker is open."""
    return over_hard_limit(control, event, config) and breaker_is_open(control, config)


def blocked_without_compaction(control: Control, event: Event, config: LoopConfig) -> bool:
    """Over the hard limit, with automatic compaction off and no reactive one possible."""
    return (
        over_hard_limit(control, event, config) and not config.context.auto_compact and not reactive_possible(control, config)
    )


def reactive_possible(control: Control, config: LoopConfig) -> bool:
    """A reactive compaction can be tried: enabled, not tried since the last round, not a run that makes room."""
    return config.context.reactive_compact and not control.guards.has_attempted_reactive_compact and not exempt(control)


def _why_refused(control: Control, event: Event) -> str:
    if not isinstance(event, CompactionFinished):
        return "no result"
    if control.context.replacing == 0 and not event.summary:
        return ""  # nothing stood before the protected tail: the compaction only drops media from what it keeps
    return valid(event, control.context.replacing)


def compaction_valid(control: Control, event: Event, config: LoopConfig) -> bool:
    """The compactor's result may be used."""
    return _why_refused(control, event) == ""


def result_tokens(event: CompactionFinished) -> int:
    """Tokens of what a compaction puts in place of what it summarises."""
    return sum(block.tokens for block in event.summary) + sum(item.tokens for item in event.attachments)


def made_progress(control: Control, event: Event, config: LoopConfig) -> bool:
    """The result is valid, frees a fair share of the view, and brings it under the threshold."""
    if not isinstance(event, CompactionFinished) or not compaction_valid(control, event, config):
        return False
    context = control.context
    freed = context.replacing - result_tokens(event)
    limits = thresholds(config, control.tool_use_context.model)
    fair = 100 * freed >= config.context.min_freed_percent * context.tokens
    return fair and context.tokens - freed < limits.auto_compact_at
