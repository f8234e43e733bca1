"""Layer 0: the view starts at the newest compaction boundary (spec 02)."""

from __future__ import annotations

from ..blocks import Block, dumps
from ..messages import Message, MessageKind, message
from .report import LayerReport

LAYER = "after_boundary"


def boundary_message(message_id: str, kind: str, trigger: str, before: int, after: int, detail: str = "") -> Message:
    """Make a boundary: a message that is never sent and marks a cut.

    Args:
        message_id: its id.
        kind: ``compact`` or ``snip``; only a compaction's boundary starts a view.
        trigger: what asked for the cut.
        before: tokens of the view before it.
        after: tokens of the view after it.
        detail: a short text for people.
    """
    value = {"type": "boundary", "kind": kind, "trigger": trigger, "before": before, "after": after, "detail": detail}
    block = Block(type="boundary", json=dumps(value), tokens=0, name=kind)
    made = message(message_id, "user", MessageKind.BOUNDARY, (block,))
    return Message(id=made.id, role=made.role, kind=made.kind, blocks=made.blocks, tokens=0)


def is_compact_boundary(item: Message) -> bool:
    """Tell whether this message marks a compaction."""
    return item.kind is MessageKind.BOUNDARY and any(block.name == "compact" for block in item.blocks)


def after_boundary(messages: tuple[Message, ...], known: int = 0) -> tuple[tuple[Message, ...], LayerReport | None]:
    """Cut what stands before the newest compaction boundary.

    Args:
        messages: the working list.
        known: messages at the front that the last pass has seen; they hold no boundary but at index 0.

    Returns:
        The view, and a report if something was cut. The cut hides what the boundary already replaced, so nothing that
        was sent changes.
    """
    for index in range(len(messages) - 1, max(known, 1) - 1, -1):
        if is_compact_boundary(messages[index]):
            freed = sum(item.tokens for item in messages[:index])
            return messages[index:], LayerReport(LAYER, freed=freed, ids=(messages[index].id,))
    return messages, None
