"""A few words on each event, for the list of steps."""

from __future__ import annotations

from typing import Any

from ..core.blocks import Block, block_text, block_value
from ..core.events import (
    AbortRequested,
    AttachmentsGathered,
    BlockCompleted,
    CommandQueued,
    CompactionFailed,
    CompactionFinished,
    Event,
    ModelSwitched,
    PrefetchFinished,
    RunStarted,
    StopHooksFinished,
    StreamCompleted,
    StreamFailed,
    StreamStarted,
    ToolFinished,
    ToolProgressed,
    ToolUseSummaryReady,
)
from ..core.messages import Message


def said(messages: tuple[Message, ...]) -> str:
    """Give the texts of messages."""
    return " ".join(block_text(block) or f"[{block.type}]" for message in messages for block in message.blocks)


def result_words(block: Block) -> str:
    """Give the readable content of a tool result."""
    content: Any = block_value(block).get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return " ".join(str(part.get("text") or f"[{part.get('type')}]") for part in content if isinstance(part, dict))


def brief(event: Event) -> str:
    """Say in a few words what an event holds; unmasked, and of any length."""
    match event:
        case RunStarted():
            return said(event.messages)
        case CommandQueued():
            return said((event.message,))
        case StreamStarted():
            return event.model
        case BlockCompleted(tool=tool) if tool is not None:
            return f"{tool.name} {tool.raw}"
        case BlockCompleted():
            value = block_value(event.block)
            return str(value.get("text") or value.get("thinking") or f"[{event.block.type}]")
        case StreamCompleted():
            return event.stop_reason or "no stop reason"
        case StreamFailed(failure=failure) | CompactionFailed(failure=failure):
            return f"{failure.kind.value}: {failure.message}"
        case ToolProgressed():
            return event.text
        case ToolFinished():
            return f"{event.outcome.value}: {result_words(event.result)}"
        case CompactionFinished():
            return " ".join(block_text(block) for block in event.summary)
        case StopHooksFinished():
            return event.prevented or "; ".join(event.blocking) or "passed"
        case AttachmentsGathered() | PrefetchFinished():
            return said(event.messages) or "nothing"
        case ToolUseSummaryReady():
            return event.text
        case ModelSwitched():
            return event.model
        case AbortRequested():
            return event.reason.value
        case _:
            return ""
