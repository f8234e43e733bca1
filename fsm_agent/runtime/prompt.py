"""What a user may say: text, or content blocks in the API's form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.blocks import Block, read_block, text_block
from ..core.messages import Message, MessageKind, message

Prompt = str | Sequence[Block | Mapping[str, Any]]


def prompt_blocks(prompt: Prompt) -> tuple[Block, ...]:
    """Turn a prompt into blocks.

    Raises:
        ValueError: if nothing in it could be read by a model.
        TypeError: for a block that is neither a mapping nor a block.
    """
    if isinstance(prompt, str):
        blocks: tuple[Block, ...] = (text_block(prompt),)
    else:
        blocks = tuple(_block(part) for part in prompt)
    if all(block.blank for block in blocks):
        raise ValueError("the prompt is empty")
    return blocks


def user_message(message_id: str, prompt: Prompt, kind: MessageKind = MessageKind.PROMPT) -> Message:
    """Make a user's message from a prompt.

    Raises:
        ValueError: for a blank prompt.
        TypeError: for a block that is neither a mapping nor a block.
    """
    return message(message_id, "user", kind, prompt_blocks(prompt))


def _block(part: Block | Mapping[str, Any]) -> Block:
    if isinstance(part, Block):
        return part
    if isinstance(part, Mapping):
        return read_block(part)
    raise TypeError(f"a prompt is text, or blocks as mappings, not {type(part).__name__}")
