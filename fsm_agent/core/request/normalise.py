"""Normalisation: from messages of the working list to messages that the API takes (spec 02, building the request).

The rules run in the order of the spec until nothing changes any more, so normalising twice gives what once gives.
"""

from __future__ import annotations

from ..blocks import Block, text_block
from ..context.api_block import SUMMARY_INTRO, own_block, summary_text
from ..evolving import evolve
from ..frozen import frozen
from ..messages import UNSENT_KINDS, Message, MessageKind, message
from .cleaning import SYSTEM_ONLY, clean_block, is_clean
from .pairing import is_paired, is_server_result, repair, settle_server_calls

_ROUNDS = 8
"""More than the rules can ever need: each pass but the last removes or joins something."""

_PLAIN_KINDS = frozenset(MessageKind) - UNSENT_KINDS - {MessageKind.ATTACHMENT, MessageKind.SUMMARY}

_BUBBLE_STOPS = frozenset({MessageKind.TOOL_RESULTS, MessageKind.SUMMARY})


@frozen
class Rules:
    """What normalisation depends on beside the messages.

    Attributes:
        model: the model that is called; thinking of another one is not sent.
        thinking: the request may hold thinking.
        system_messages: the model takes a ``system`` role among the messages.
        betas: values of the beta header.
        used: ids of calls in messages sent before these.
        first: nothing was sent before these.
        pending: ids of calls in messages sent before these that the API runs itself and has not answered.
    """

    model: str
    thinking: bool = True
    system_messages: bool = False
    betas: tuple[str, ...] = ()
    used: tuple[frozenset[str], ...] = ()
    first: bool = True
    pending: tuple[str, ...] = ()


def is_plain(messages: tuple[Message, ...], used: tuple[frozenset[str], ...]) -> bool:
    """Tell whether no rule has anything to do, as in most rounds: one look at each block in place of two passes of all rules.

    Args:
        messages: what follows messages that were sent, the last of which is no system message.
        used: ids of calls in messages sent before these.
    """
    before = ""
    for item in messages:
        role = item.role
        if role == before or role == "system" or item.kind not in _PLAIN_KINDS or not item.blocks:
            return False
        before = role
        for block in item.blocks:
            if not is_clean(block, role):
                return False
    return is_paired(messages, used)


def normalise(messages: tuple[Message, ...], rules: Rules) -> tuple[Message, ...]:
    """Normalise messages that were not sent yet.

    Args:
        messages: a part of the working list up to its end.
        rules: what the result depends on beside them.

    Returns:
        Messages as they are encoded. A message made of several has the id of its first one. Never raises for any
        content; an empty tuple if nothing can be sent.
    """
    for _ in range(_ROUNDS):
        after = _once(messages, rules)
        if after == messages:
            break
        messages = after
    return messages


def _once(messages: tuple[Message, ...], rules: Rules) -> tuple[Message, ...]:
    messages = tuple(item for item in messages if item.kind not in UNSENT_KINDS)
    messages = _readable(_places_of_system(messages, rules), rules)
    messages = _bubble(messages)
    messages = _drop_empty(tuple(_clean(item, rules) for item in messages))
    messages = _merge(_places_of_compactions(messages, rules))
    messages = repair(messages, rules.used)
    messages = settle_server_calls(messages, rules.pending)
    return _drop_empty(tuple(_thinking(item, rules) for item in messages))


def _rebuilt(item: Message, blocks: tuple[Block, ...]) -> Message:
    if blocks == item.blocks:
        return item
    return message(item.id, item.role, item.kind, blocks, model=item.model, span=item.span)


def _drop_empty(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    return tuple(item for item in messages if item.blocks)


def _places_of_system(messages: tuple[Message, ...], rules: Rules) -> tuple[Message, ...]:
    """Turn system messages into user messages where the model or their place does not allow them (api-facts A2)."""
    if not any(item.role == "system" for item in messages):
        return messages
    shown = list(messages)
    for index in range(len(shown) - 1, -1, -1):
        item = shown[index]
        if item.role != "system":
            continue
        after = shown[index + 1] if index + 1 < len(shown) else None
        before = shown[index - 1] if index else None
        legal = rules.system_messages and (after is None or after.role in ("assistant", "system"))
        legal = legal and (before is None or _takes_system_behind(before)) and not (before is None and rules.first)
        legal = legal and all(block.type == "text" or block.type in SYSTEM_ONLY for block in item.blocks)
        if not legal:
            shown[index] = evolve(item, role="user")
    return tuple(shown)


def _takes_system_behind(item: Message) -> bool:
    return item.role != "assistant" or (bool(item.blocks) and is_server_result(item.blocks[-1]))


def _readable(messages: tuple[Message, ...], rules: Rules) -> tuple[Message, ...]:
    """Say in words what the API's compaction block says, for a model that does not take it: its memory must not be lost."""
    if any(beta.startswith("compact-") for beta in rules.betas):
        return messages
    shown: list[Message] = []
    for item in messages:
        block = own_block(item.blocks) if item.kind is MessageKind.SUMMARY and item.role == "assistant" else None
        text = summary_text(block) if block is not None else None
        shown.append(message(item.id, "user", item.kind, (text_block(f"{SUMMARY_INTRO}\n{text}"),)) if text else item)
    return tuple(shown)


def _places_of_compactions(messages: tuple[Message, ...], rules: Rules) -> tuple[Message, ...]:
    """Drop compaction blocks but that at the very front; only compaction by threshold leaves them elsewhere."""
    if any(beta.startswith("compact-2026-01-12") for beta in rules.betas):
        return messages
    shown: list[Message] = []
    for index, item in enumerate(messages):
        front = rules.first and index == 0
        blocks = tuple(block for place, block in enumerate(item.blocks) if block.type != "compaction" or (front and place == 0))
        shown.append(_rebuilt(item, blocks))
    return _drop_empty(tuple(shown))


def _bubble(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Move attachments up to the nearest tool result, assistant message or summary."""
    shown: list[Message] = []
    for item in messages:
        if item.kind is not MessageKind.ATTACHMENT or item.role != "user":
            shown.append(item)
            continue
        index = len(shown)
        while index > 0 and not _stops(shown[index - 1]):
            index -= 1
        shown.insert(index, item)
    return tuple(shown) if shown != list(messages) else messages


def _stops(item: Message) -> bool:
    return item.role != "user" or item.kind in _BUBBLE_STOPS or item.kind is MessageKind.ATTACHMENT or bool(item.results)


def _clean(item: Message, rules: Rules) -> Message:
    """Make every block one that may stand in a message of this role."""
    shown = (clean_block(block, item.role, rules.betas) for block in item.blocks)
    return _rebuilt(item, tuple(block for block in shown if block is not None))


def _merge(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Join neighbours of one role; results come first and together."""
    shown: list[Message] = []
    for item in messages:
        last = shown[-1] if shown else None
        if last is None or last.role != item.role or item.role == "system" or last.model != item.model:
            shown.append(_results_first(item))
            continue
        joined = evolve(last, blocks=last.blocks + item.blocks)
        kind = MessageKind.TOOL_RESULTS if joined.results else item.kind
        kind = last.kind if last.kind is MessageKind.SUMMARY else kind
        made = message(last.id, last.role, kind, joined.blocks, model=last.model, span=last.span)
        shown[-1] = _results_first(made)
    return tuple(shown)


def _results_first(item: Message) -> Message:
    if item.role != "user":
        return item
    results = item.results
    if not results or item.blocks[: len(results)] == results:
        return item
    rest = tuple(block for block in item.blocks if block.type != "tool_result")
    return _rebuilt(item, results + rest)


def _thinking(item: Message, rules: Rules) -> Message:
    """Keep the thinking of a reply untouched or remove it as a whole; never leave it last (spec 01, section 13)."""
    if item.role != "assistant" or not any(block.is_thinking for block in item.blocks):
        return item
    blocks = _behind_fallback(item.blocks)
    sendable = rules.thinking and item.model == rules.model
    if not sendable or any(block.is_thinking and not block.signed for block in blocks[: _last_word(blocks) + 1]):
        return _rebuilt(item, tuple(block for block in blocks if not block.is_thinking))
    return _rebuilt(item, blocks[: _last_word(blocks) + 1])


def _behind_fallback(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """Leave out thinking before the last change of the model inside one reply (api-facts A14)."""
    last = max((index for index, block in enumerate(blocks) if block.type == "fallback"), default=-1)
    return tuple(block for index, block in enumerate(blocks) if index > last or not block.is_thinking)


def _last_word(blocks: tuple[Block, ...]) -> int:
    index = len(blocks) - 1
    while index >= 0 and blocks[index].is_thinking:
        index -= 1
    return index


def opening(first: Message | None) -> Message | None:
    """Give the message that must stand in front of ``first``, if any: a conversation begins with the user.

    A reply may come first only if it is the API's own compaction block.
    """
    if first is None or first.role == "user":
        return None
    if first.role == "assistant" and first.blocks and first.blocks[0].type == "compaction":
        return None
    return message("opening", "user", MessageKind.META, (text_block("[The beginning of this conversation is not shown.]"),))
