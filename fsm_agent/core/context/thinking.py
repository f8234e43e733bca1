"""Removing thinking from a view: behind a cut, on models that bind it to the exact history (spec 02, append-only history)."""

from __future__ import annotations

from ..messages import Message, message
from .report import LayerReport

LAYER = "thinking"


def without_thinking(item: Message) -> Message:
    """Give the message without thinking; the message itself if it has none."""
    if item.role != "assistant" or not any(block.is_thinking for block in item.blocks):
        return item
    blocks = tuple(block for block in item.blocks if not block.is_thinking)
    return message(item.id, item.role, item.kind, blocks, model=item.model, span=item.span)


def strip_thinking(view: tuple[Message, ...], start: int = 0) -> tuple[tuple[Message, ...], LayerReport | None]:
    """Remove all thinking at ``start`` and behind it, whole rounds at a time.

    Returns:
        The view, and a report if something was removed. A reply of thinking alone goes as a whole.
    """
    shown: list[Message] = list(view[:start])
    ids: list[str] = []
    for item in view[start:]:
        bare = without_thinking(item)
        if bare is not item:
            ids.append(item.id)
            if not bare.blocks:
                continue
        shown.append(bare)
    if not ids:
        return view, None
    freed = sum(item.tokens for item in view) - sum(item.tokens for item in shown)
    detail = f"thinking of {len(ids)} replies removed"
    return tuple(shown), LayerReport(LAYER, freed=freed, ids=tuple(ids), cut=True, detail=detail)
