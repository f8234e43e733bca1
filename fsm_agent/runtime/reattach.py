"""Files that are shown again behind a compaction: those that the model read last, as they are now (spec 02, layer 5)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from attrs import frozen

from ..core.blocks import text_block
from ..core.config import LoopConfig, thresholds
from ..core.context.usage import static_tokens, user_context_tokens
from ..core.messages import Message, MessageKind, message

MAX_FILES = 5
"""Files that are shown again at most."""
_WORDS = (
    "<system-reminder>\nThis file was in use before the summary above was written. Its content now:\n\n{path}\n{text}\n"
    "</system-reminder>"
)


@frozen
class File:
    """One file as it is now: its name for people and for the model, and its text, lines numbered."""

    path: str
    text: str


Reread = Callable[[Sequence[Message], Sequence[Message]], Sequence[File]]
"""Gives the files to show again, the most recent first, from the messages that go and those that stay."""


def recent_paths(messages: Sequence[Message], names: Sequence[str]) -> list[str]:
    """Give the ``file_path`` of calls of these tools, as the model wrote them, the most recent first, each once."""
    found: list[str] = []
    for item in reversed(messages):
        for block in reversed(item.calls):
            if block.name not in names:
                continue
            path = json.loads(block.json).get("input", {}).get("file_path")
            if isinstance(path, str) and path not in found:
                found.append(path)
    return found


def room_for_files(going: Sequence[Message], tail: Sequence[Message], summary: int, config: LoopConfig, model: str) -> int:
    """Give the tokens that re-attached files may take.

    Args:
        going: the messages that the summary replaces.
        tail: the protected tail.
        summary: tokens of the summary.
        config: settings.
        model: the model in use.

    Returns:
        Tokens within the budget, such that files take at most half of what the compaction frees, never make it count as
        one that freed too little, and leave the view well below the threshold (field report 2). 0 or more.
    """
    replaced, kept = sum(item.tokens for item in going), sum(item.tokens for item in tail)
    fixed = static_tokens(config) + user_context_tokens(config)
    fair = (replaced + kept + fixed) * config.context.min_freed_percent // 100
    below = thresholds(config, model).auto_compact_at * 9 // 10 - fixed - summary - kept
    return max(0, min(config.context.attachment_tokens, (replaced - summary) // 2, replaced - summary - fair, below))


def attach(prefix: str, files: Sequence[File], room: int) -> tuple[tuple[Message, ...], tuple[str, ...]]:
    """Make messages of the files that fit into ``room`` tokens, whole and in order.

    Args:
        prefix: unique prefix for ids; they end with the path, since reports name what fills the context.
        files: the most recent first.
        room: tokens.

    Returns:
        The messages, and the paths of files that were left out.
    """
    kept: list[Message] = []
    dropped: list[str] = []
    for file in files[:MAX_FILES]:
        words = text_block(_WORDS.format(path=file.path, text=file.text))
        made = message(f"{prefix}/{file.path}", "user", MessageKind.ATTACHMENT, (words,))
        if made.tokens <= room:
            kept.append(made)
            room -= made.tokens
        else:
            dropped.append(file.path)
    return tuple(kept), tuple(dropped)
