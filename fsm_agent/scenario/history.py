"""Read what a conversation holds before the run of a scenario: exchanges of messages.

Each has any of ``user`` (a text, or ``{text, repeat, chars}``), ``assistant`` (the same, or the blocks of a reply) and
``results`` (of its calls, in order); one with ``times`` stands for so many.
"""

from __future__ import annotations

from typing import Any

from ..core.blocks import read_block, text_block
from ..core.messages import Message, MessageKind, message
from .answering import filled, result_block
from .answers import Settle, ToolItem
from .environment import read_result
from .format import ToolResultSpec
from .playing import block_value, call_id
from .reading import Fields, fail, need_list
from .replies import read_item


def read_history(value: Any, place: str, model: str) -> tuple[Message, ...]:
    """Read the messages of a history.

    Args:
        value: the decoded list.
        place: named in complaints.
        model: the model that wrote the replies.

    Returns:
        The messages, with ids and call ids of their own.

    Raises:
        ScenarioError: if anything is wrong, such as a call without a result.
    """
    messages: list[Message] = []
    number = 0
    for item, where in need_list(value, place):
        fields = Fields(item, where)
        for _ in range(fields.whole("times", 1, 1)):
            number += 1
            messages += _exchange(fields, number, model)
        fields.done()
    return tuple(messages)


def _exchange(fields: Fields, number: int, model: str) -> list[Message]:
    made: list[Message] = []
    if "user" in fields:
        words = _words(fields.take("user"), fields.at("user"))
        made.append(message(f"history-{number}/user", "user", MessageKind.PROMPT, (text_block(words),)))
    value = fields.take("assistant", None)
    results = [read_result(item, where) for item, where in fields.each("results")]
    if isinstance(value, list):
        made += _reply(value, results, fields, number, model)
    elif value is not None:
        words = _words(value, fields.at("assistant"))
        made.append(
            message(f"history-{number}/assistant", "assistant", MessageKind.ASSISTANT, (text_block(words),), model=model)
        )
    elif results:
        raise fail(fields.at("results"), "need calls of the assistant before them")
    return made


def _reply(value: list[Any], results: list[ToolResultSpec], fields: Fields, number: int, model: str) -> list[Message]:
    items = [read_item(item, where) for item, where in need_list(value, fields.at("assistant"))]
    if any(isinstance(item, Settle) for item in items):
        raise fail(fields.at("assistant"), "nothing settles in what has been")
    # Numbered far above the calls of the run, so that no id is there twice.
    call = 1_000_000 + number
    calls = [call_id(item, call, index) for index, item in enumerate(items) if isinstance(item, ToolItem)]
    if len(calls) != len(results):
        raise fail(fields.at("results"), f"must be one for each of the {len(calls)} calls, not {len(results)}")
    blocks = tuple(read_block(block_value(item, call, index)) for index, item in enumerate(items))
    made = [message(f"history-{number}/assistant", "assistant", MessageKind.ASSISTANT, blocks, model=model)]
    if calls:
        answers = tuple(result_block(identity, spec) for identity, spec in zip(calls, results, strict=True))
        made.append(message(f"history-{number}/results", "user", MessageKind.TOOL_RESULTS, answers))
    return made


def _words(value: Any, place: str) -> str:
    if isinstance(value, str):
        return value
    fields = Fields(value, place)
    words = filled(fields.text("text") * fields.whole("repeat", 1, 1), fields.whole("chars", 0))
    fields.done()
    return words
