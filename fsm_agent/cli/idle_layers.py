"""Why a context layer did nothing in a pass, in a few words (spec 02)."""

from __future__ import annotations

from ..core.config import Microcompact
from ..core.context.collapse import staged
from ..core.context.microcompact import least_freed, mode
from ..core.guards.context import breaker_is_open, exempt
from .requests import Asked

LAYERS = ("after_boundary", "result_budget", "media", "snip", "microcompact", "collapse", "thinking", "compact")
"""The layers in the order in which they run; a compaction comes last and makes another pass over the others."""


def why_idle(layer: str, asked: Asked) -> str:
    """Say why a layer has no report.

    Args:
        layer: its name.
        asked: the request.

    Returns:
        One short text with the numbers that decided.
    """
    facts, limits, config = asked.state.control.context, asked.limits, asked.config
    settings = config.context
    match layer:
        case "after_boundary":
            return "the view begins at the newest boundary already"
        case "result_budget":
            return f"no new message has results over {settings.result_chars} characters"
        case "media":
            return "all images and documents are within the model's limits"
        case "snip":
            return f"{facts.tokens} is below {limits.snip_at}" if settings.snip else "off"
        case "microcompact":
            return _microcompact(asked)
        case "collapse":
            if not settings.collapse:
                return "off"
            ready = staged(asked.state.data.context)
            return (
                f"{facts.tokens} is below {limits.commit_at}; {ready} summaries are ready, staging begins at {limits.stage_at}"
            )
        case "thinking":
            return "nothing was cut in front of it"
        case _:
            return _compact(asked)


def _microcompact(asked: Asked) -> str:
    config, limits = asked.config, asked.limits
    kind = mode(config, config.info(asked.effect.request.model))
    if kind is Microcompact.OFF:
        return "off"
    tally, least = asked.state.data.context.tally, least_freed(config, limits)
    words = f"{tally.clearable_tokens} tokens of old results could go, {least} are needed"
    if kind is Microcompact.CACHED:
        expected = asked.state.data.context.deferred
        return f"left to the API, which is to clear about {expected}" if expected else f"left to the API; {words}"
    return words


def _compact(asked: Asked) -> str:
    control, limits = asked.state.control, asked.limits
    facts = control.context
    if facts.tokens < limits.auto_compact_at:
        return f"{facts.tokens} is below {limits.auto_compact_at}"
    if exempt(control):
        return f"runs of source {control.tool_use_context.source} make room themselves"
    if not asked.config.context.auto_compact:
        return "off"
    if facts.compact_off:
        return "one was tried in this pass already"
    if breaker_is_open(control, asked.config):
        return f"the breaker is open after {facts.tracking.failures} failures"
    return "nothing stands before the protected tail"
