"""Layer 1: a limit on the summed size of the tool results of one user message (spec 02).

The largest results are replaced by a preview and a reference. Decisions are remembered by tool_use_id, so that the same
result is shown in the same way on each pass.
"""

from __future__ import annotations

import json
from typing import Any

from ..blocks import Block, dumps
from ..config import LoopConfig
from ..evolving import evolve
from ..messages import Message, message
from ..tokens import estimate_text
from .report import LayerReport
from .rounds import call_names
from .store import ContextState, Replacement
from .tally import exempt_tools

LAYER = "result_budget"
REFERENCE = "tool-result://"
_PREVIEWS = (1, 10, 0)
"""Divisors of the preview's length, tried in turn; 0 means no preview."""


def reference(tool_use_id: str) -> str:
    """Name the full text of a shortened result, as the model is told to ask for it."""
    return REFERENCE + tool_use_id


def shorten(block: Block, preview: int) -> Block:
    """Replace a result's text by its first ``preview`` characters and a reference; its media stay.

    Args:
        block: a ``tool_result``.
        preview: characters to keep.

    Returns:
        The shortened result; the block itself where that would not be smaller.
    """
    value: dict[str, Any] = json.loads(block.json)
    content = value.get("content")
    parts = content if isinstance(content, list) else [{"type": "text", "text": content if isinstance(content, str) else ""}]
    texts = [str(part.get("text", "")) for part in parts if isinstance(part, dict) and part.get("type") == "text"]
    others = [part for part in parts if not (isinstance(part, dict) and part.get("type") == "text")]
    whole = "\n".join(texts)
    note = f"[Shortened: {len(whole)} characters in all. The full text can be read at {reference(block.id)}]"
    text = f"{whole[:preview]}\n{note}" if preview else note
    if len(text) >= len(whole):
        return block
    value["content"] = [{"type": "text", "text": text}, *others] if others else text
    tokens = max(block.tokens - estimate_text(whole) + estimate_text(text), 1)
    return evolve(block, json=dumps(value), chars=block.chars - len(whole) + len(text), tokens=min(tokens, block.tokens))


def fit(blocks: tuple[Block, ...], skipped: frozenset[str], limit: int, preview: int) -> dict[str, Block]:
    """Choose what is shortened in one message: the largest first, until the sum of characters is within ``limit``.

    Args:
        blocks: the results of the message.
        skipped: ids of results that are left whole and not counted.
        limit: characters.
        preview: characters that a shortened result keeps at first; less where that does not do.

    Returns:
        The shortened results by tool_use_id.
    """
    counted = [block for block in blocks if block.id not in skipped]
    total = sum(block.chars for block in counted)
    chosen: dict[str, Block] = {}
    for divisor in _PREVIEWS:
        if total <= limit:
            break
        keep = preview // divisor if divisor else 0
        for block in sorted(counted, key=lambda item: -item.chars):
            if total <= limit:
                break
            shown = chosen.get(block.id, block)
            short = shorten(block, keep)
            if short.chars < shown.chars:
                total -= shown.chars - short.chars
                chosen[block.id] = short
    return chosen


def _chars(item: Message) -> int:
    total = 0
    for block in item.blocks:
        if block.type == "tool_result":
            total += block.chars
    return total


def result_budget(
    view: tuple[Message, ...], known: int, context: ContextState, config: LoopConfig
) -> tuple[tuple[Message, ...], ContextState, LayerReport | None]:
    """Bring every message after the first ``known`` ones within the budget.

    Returns:
        The view, the context with the decisions remembered, and a report if something was replaced. New messages were
        never sent, so this is a cut only where a remembered decision meets an old message again.
    """
    limit = config.context.result_chars
    news: list[Message] = list(view[known:])
    if not context.replacements and max(map(_chars, news), default=0) <= limit:
        return view, context, None
    names: dict[str, str] | None = None
    remembered: dict[str, Replacement] | None = None
    added: list[Replacement] = []
    ids: list[str] = []
    freed = 0
    for position, item in enumerate(news):
        results = item.results
        if not results:
            continue
        if remembered is None:
            remembered = {decision.tool_use_id: decision for decision in context.replacements}
        chosen = {block.id: remembered[block.id].block for block in results if block.id in remembered}
        shown = tuple(chosen.get(block.id, block) for block in results)
        if sum(block.chars for block in shown) > limit:
            names = call_names(view, known) if names is None else names
            exempt = exempt_tools(config)
            skipped = frozenset(block.id for block in shown if names.get(block.id, "") in exempt) | frozenset(chosen)
            spent = sum(chosen[block].chars for block in chosen)
            more = fit(shown, skipped, max(limit - spent, 0), config.context.preview_chars)
            added.extend(
                Replacement(block.id, more[block.id], block.tokens - more[block.id].tokens)
                for block in results
                if block.id in more
            )
            chosen.update(more)
        changed = tuple(chosen.get(block.id, block) if block.type == "tool_result" else block for block in item.blocks)
        if changed != item.blocks:
            news[position] = message(item.id, item.role, item.kind, changed, model=item.model, span=item.span)
            freed += item.tokens - news[position].tokens
            ids.extend(chosen)
    if not ids:
        return view, context, None
    report = LayerReport(LAYER, freed=freed, ids=tuple(ids), detail=f"{len(ids)} results shortened")
    return view[:known] + tuple(news), evolve(context, replacements=context.replacements + tuple(added)), report
