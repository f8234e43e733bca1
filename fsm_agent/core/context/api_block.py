"""What the view becomes after the API's own compaction: its block, and the tail untouched (api-facts A9(3)).

The block stands for exactly the messages that were sent for it. Nothing may come between it and the tail, else the
thinking in the tail no longer fits what stands before it; so what must be said again is said behind the tail.
"""

from __future__ import annotations

import json

from ..blocks import Block, block_text, text_block
from ..config import LoopConfig
from ..messages import Message, MessageKind, message
from ..request.prompt import USER_CONTEXT_ID, user_context
from .rounds import newest_request

SUMMARY_INTRO = "[Summary of the conversation so far. What it calls done is done.]"
AGAIN = "[The request that is being worked on, again word for word. What follows the summary above has been done for it.]"


def own_block(blocks: tuple[Block, ...]) -> Block | None:
    """Give the API's compaction block with content, None if there is none."""
    return next((block for block in blocks if block.type == "compaction" and summary_text(block) != ""), None)


def summary_text(block: Block) -> str | None:
    """Give the readable summary of a compaction block.

    Returns:
        The text; empty for a summary that failed; None for one that only the API can read.
    """
    value = json.loads(block.json)
    content = value.get("content")
    if isinstance(content, str) and content.strip():
        return content
    return None if not isinstance(content, str) and (content or value.get("encrypted_content")) else ""


def tail_of_block(view: tuple[Message, ...], start: int, config: LoopConfig, run_prefix: str) -> tuple[Message, ...]:
    """Give the tail of a view as it follows the API's block.

    Args:
        view: the view that was compacted.
        start: index from which on it is kept.
        config: gives the user context, which the block swallowed with the front of the conversation.
        run_prefix: unique prefix for ids.

    Returns:
        The tail, every message of it as it was. Behind its last reply and results stands the user context; the newest
        real request comes last among the user's words where the block swallowed it.
    """
    tail = [item for item in view[start:] if item.kind is not MessageKind.BOUNDARY]
    context = user_context(config)
    # An earlier copy in the tail keeps its place, as all that was sent does.
    if context is not None and not any(map(holds_user_context, tail)):
        made = message(f"{run_prefix}/{USER_CONTEXT_ID}", "user", MessageKind.META, context.blocks)
        tail.insert(_behind_last_round(tail), made)
    newest = newest_request(view)
    if 0 <= newest < start:
        old = view[newest]
        blocks = old.blocks[1:] if old.blocks and block_text(old.blocks[0]) == AGAIN else old.blocks
        tail.append(message(f"{run_prefix}/request", "user", old.kind, (text_block(AGAIN), *blocks)))
    return tuple(tail)


def holds_user_context(item: Message) -> bool:
    """Tell whether a message of the working list is a copy of the user context."""
    return item.kind is MessageKind.META and item.id.endswith(f"/{USER_CONTEXT_ID}")


def _behind_last_round(tail: list[Message]) -> int:
    place = max((index + 1 for index, item in enumerate(tail) if item.role == "assistant"), default=0)
    while place < len(tail) and tail[place].kind is MessageKind.TOOL_RESULTS:
        place += 1
    return place
