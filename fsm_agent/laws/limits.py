"""The numbers of spec 01, sections 8 and 14, computed from the configuration alone."""

from __future__ import annotations

from ..core.config import LoopConfig
from ..core.control import Control


def window(control: Control, config: LoopConfig) -> int:
    """Give what of the window a prompt may fill."""
    context, info = config.context, config.info(control.tool_use_context.model)
    if context.effective_window is not None:
        return context.effective_window
    whole = info.context_window if context.context_window is None else context.context_window
    return whole - min(info.max_output, 20_000, whole // 5)


def limits(control: Control, config: LoopConfig) -> tuple[int, int]:
    """Give the threshold of automatic compaction, and the hard limit."""
    context, effective = config.context, window(control, config)
    low = effective - min(13_000, effective // 5) if context.auto_compact_at is None else context.auto_compact_at
    high = effective - min(3_000, effective // 20) if context.blocking_limit is None else context.blocking_limit
    return low, high


def breaker_open(control: Control, config: LoopConfig) -> bool:
    """Tell whether the breaker is open, and the view has not grown by a tenth of the window since it opened."""
    opened = control.context.tracking.opened_at
    margin = window(control, config) * config.context.breaker_growth_percent // 100
    return opened > 0 and control.context.tokens - opened < margin


def makes_room(control: Control) -> bool:
    """Tell whether the run is one that must not compact itself, nor be blocked."""
    return control.tool_use_context.source in ("compact", "session_memory")


def is_agent(control: Control) -> bool:
    """Tell whether the run is a sub-agent's, to which no token budget applies."""
    context = control.tool_use_context
    return context.depth > 0 or context.source.startswith("agent:")
