"""Layer 3: clears the content of old tool results (spec 02). It goes by tool_use_id and never touches thinking."""

from __future__ import annotations

import json
from typing import Any

from ..blocks import Block, dumps
from ..config import LoopConfig, Microcompact
from ..evolving import evolve
from ..messages import Message, message
from ..models import ModelInfo, Thresholds
from ..outputs import Boundary
from .report import LayerReport
from .store import ContextState, Tally
from .tally import CLEARED, CLEARED_TOKENS

LAYER = "microcompact"


def mode(config: LoopConfig, info: ModelInfo) -> Microcompact:
    """Tell how results are cleared for this model.

    ``cached`` needs clearing edits, else it is ``local``. Left open, a model that binds thinking to its history has its
    results cleared by the API, which leaves that history alone; for others nothing is cleared.
    """
    wanted = config.context.microcompact
    if wanted is Microcompact.AUTO:
        return Microcompact.CACHED if info.binds_thinking and info.context_edits else Microcompact.OFF
    return Microcompact.LOCAL if wanted is Microcompact.CACHED and not info.context_edits else wanted


def least_freed(config: LoopConfig, limits: Thresholds) -> int:
    """Tell how many tokens a clearing must free to be worth a cut."""
    return max(limits.effective_window * config.context.microcompact_percent // 100, 1)


def due(tally: Tally, config: LoopConfig, limits: Thresholds) -> tuple[tuple[str, int], ...]:
    """Give (tool_use_id, tokens freed) of the results to clear now; empty while they free too little.

    Results that no request has shown yet stay, however many they are: the model asked for them just now.
    """
    keep = max(config.context.keep_results, _unseen(tally.view)) if tally.clearable_tokens else 0
    if tally.clearable_tokens < least_freed(config, limits) or len(tally.clearable) <= keep:
        return ()
    old = tally.clearable[: len(tally.clearable) - keep]
    return old if sum(freed for _, freed in old) >= least_freed(config, limits) else ()


def _unseen(view: tuple[Message, ...]) -> int:
    """Count the results behind the last reply."""
    count = 0
    for item in reversed(view):
        if item.role == "assistant":
            break
        count += len(item.results)
    return count


def clear_result(block: Block) -> Block:
    """Replace a result's content by the one-line marker."""
    value: dict[str, Any] = json.loads(block.json)
    value["content"] = CLEARED
    return evolve(block, json=dumps(value), tokens=CLEARED_TOKENS, chars=len(CLEARED), media=(), blank=False)


def microcompact(
    view: tuple[Message, ...], tally: Tally, config: LoopConfig, limits: Thresholds
) -> tuple[tuple[Message, ...], LayerReport | None]:
    """Clear old results in the view (the ``local`` kind).

    Returns:
        The view, and a report if something was cleared.
    """
    old = due(tally, config, limits)
    if not old:
        return view, None
    ids = frozenset(tool_use_id for tool_use_id, _ in old)
    shown: list[Message] = []
    for item in view:
        if any(block.type == "tool_result" and block.id in ids for block in item.blocks):
            blocks = tuple(
                clear_result(block) if block.type == "tool_result" and block.id in ids else block for block in item.blocks
            )
            item = message(item.id, item.role, item.kind, blocks, model=item.model, span=item.span)
        shown.append(item)
    freed = sum(tokens for _, tokens in old)
    names = tuple(tool_use_id for tool_use_id, _ in old)
    return tuple(shown), LayerReport(LAYER, freed=freed, ids=names, cut=True, detail=f"{len(names)} results cleared")


def applied(context: ContextState, cleared_tokens: int, before: int) -> tuple[ContextState, Boundary | None]:
    """Take what the API says that its clearing edits freed (the ``cached`` kind).

    Args:
        context: the memory of the layers.
        cleared_tokens: tokens of the response's ``applied_edits``, those that earlier requests were relieved of included:
            the API clears each request from its start.
        before: tokens of the request, as counted from the last usage, which knows what was cleared before.

    Returns:
        The context without a deferred boundary, and the boundary to emit if more was cleared than before.
    """
    freed = cleared_tokens - context.cleared
    if context.deferred == 0 and freed == 0:
        return context, None
    boundary = None
    if freed > 0:
        boundary = Boundary(LAYER, "cached", before, max(before - freed, 0), f"{freed} tokens cleared by the API")
    return evolve(context, deferred=0, cleared=max(cleared_tokens, 0)), boundary
