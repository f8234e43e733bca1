"""Messages of the working list: a role, blocks, and where they came from."""

from __future__ import annotations

from enum import StrEnum

from .blocks import Block
from .frozen import frozen
from .tokens import MESSAGE_OVERHEAD


class MessageKind(StrEnum):
    """Where a message came from; layers and normalisation go by it, never by wording."""

    PROMPT = "prompt"
    """What the user asked: a real user request."""
    COMMAND = "command"
    """What the user typed while a run was on: a real user request too."""
    ASSISTANT = "assistant"
    TOOL_RESULTS = "tool_results"
    META = "meta"
    """Words of the engine to the model: nudges, recoveries, hook errors, interruptions."""
    ATTACHMENT = "attachment"
    NOTICE = "notice"
    """A warning of the engine that the model must see (loops)."""
    SUMMARY = "summary"
    """What a compaction or a collapse put in place of older messages."""
    BOUNDARY = "boundary"
    """Marks where a compaction or a snip cut; never sent."""
    DISPLAY = "display"
    """For people only; never sent."""
    LOCAL_OUTPUT = "local_output"
    """Output of a command that the user ran; sent."""


REAL_REQUESTS: frozenset[MessageKind] = frozenset({MessageKind.PROMPT, MessageKind.COMMAND})
UNSENT_KINDS: frozenset[MessageKind] = frozenset({MessageKind.BOUNDARY, MessageKind.DISPLAY})


@frozen
class Message:
    """One message of the working list.

    Attributes:
        id: unique in the session.
        role: ``user``, ``assistant`` or ``system``.
        kind: where it came from.
        blocks: its content.
        tokens: estimated size in tokens, envelope included.
        model: the model that made an assistant message.
        span: of a summary made by a collapse: the id of the span that it stands for.
    """

    id: str
    role: str
    kind: MessageKind
    blocks: tuple[Block, ...]
    tokens: int
    model: str = ""
    span: str = ""

    @property
    def calls(self) -> tuple[Block, ...]:
        """The tool calls in it."""
        return tuple([block for block in self.blocks if block.type == "tool_use"])

    @property
    def results(self) -> tuple[Block, ...]:
        """The tool results in it."""
        return tuple(block for block in self.blocks if block.type == "tool_result")


def message(
    message_id: str, role: str, kind: MessageKind, blocks: tuple[Block, ...], *, model: str = "", span: str = ""
) -> Message:
    """Make a message; its size is the sum of its blocks' estimates and the envelope."""
    size = MESSAGE_OVERHEAD
    for block in blocks:
        size += block.tokens
    return Message(message_id, role, kind, blocks, size, model, span)
