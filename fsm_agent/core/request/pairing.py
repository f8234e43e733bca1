"""Every call is answered by exactly one result, in the very next user message, results first (api-facts A19, rules 2 and 4)."""

from __future__ import annotations

import json
import re

from ..blocks import Block, dumps, tool_result
from ..evolving import evolve
from ..frozen import frozen
from ..messages import Message, MessageKind, message

MISSING = "No result was recorded for this call: its outcome is unknown. Check the state of things before running it again."
"""Text of a result for a call whose result is nowhere in the messages."""
_ID = re.compile(r"[A-Za-z0-9_-]{1,128}\Z")
_ELSEWHERE = (-1, -1)
"""The place of a call that stands before the messages in hand."""
_SERVER_CALLS = frozenset({"server_tool_use", "mcp_tool_use"})
_BAD = re.compile(r"[^A-Za-z0-9_-]")


@frozen
class _Answers:
    """Results matched to calls, by (message, block) position of the call."""

    results: dict[tuple[int, int], Block]
    ids: dict[tuple[int, int], str]


def is_used(identity: str, used: tuple[frozenset[str], ...]) -> bool:
    """Tell whether one of the sets holds an id."""
    return True in [identity in ids for ids in used]


def repair(messages: tuple[Message, ...], used: tuple[frozenset[str], ...] = ()) -> tuple[Message, ...]:
    """Repair the pairing of calls and results.

    A call with an empty, ill-formed or used id gets a fresh one. A result answers the newest message before it that
    has an unanswered call of its id; it is moved to where it belongs, in the order of the calls. Other results are
    dropped; a call without one gets an error result that says so. Whatever else stands in the messages stays.

    Args:
        messages: any messages.
        used: ids of calls in messages that stand before these.

    Returns:
        The messages; the same object where nothing had to change. Repairing twice changes nothing more.
    """
    if is_paired(messages, used):
        return messages
    answers = _match(messages, used)
    repaired: list[Message] = []
    pending: tuple[Block, ...] = ()
    owner = ""
    for position, item in enumerate(messages):
        if item.role == "assistant":
            if pending:
                repaired.append(message(f"{owner}/results", "user", MessageKind.TOOL_RESULTS, pending))
            kept, pending = _reply(item, position, answers)
            owner = item.id
            if kept.blocks or not item.blocks:
                repaired.append(kept)
            continue
        rest = tuple(block for block in item.blocks if block.type not in ("tool_result", "tool_use"))
        if pending and item.role == "user":
            blocks, pending = pending + rest, ()
        else:
            blocks = rest
        if pending:
            # A system message may not stand between a call and its result.
            repaired.append(message(f"{owner}/results", "user", MessageKind.TOOL_RESULTS, pending))
            pending = ()
        if blocks == item.blocks:
            repaired.append(item)
        elif blocks:
            repaired.append(message(item.id, item.role, item.kind, blocks, model=item.model, span=item.span))
    if pending:
        repaired.append(message(f"{owner}/results", "user", MessageKind.TOOL_RESULTS, pending))
    return tuple(repaired)


def is_paired(messages: tuple[Message, ...], used: tuple[frozenset[str], ...]) -> bool:
    """Tell, quickly, whether there is nothing to repair."""
    waiting: list[str] = []
    seen: set[str] = set()
    for item in messages:
        if item.role == "assistant":
            if waiting:
                return False
            calls: list[str] = []
            for block in item.blocks:
                if block.type == "tool_result":
                    return False
                if block.type == "tool_use":
                    if block.id in seen or is_used(block.id, used) or not _ID.match(block.id):
                        return False
                    seen.add(block.id)
                    calls.append(block.id)
                elif block.type in _SERVER_CALLS:
                    seen.add(block.id)
            waiting = calls
            continue
        results: list[str] = []
        for position, block in enumerate(item.blocks):
            if block.type == "tool_use":
                return False
            if block.type == "tool_result":
                if position != len(results):
                    return False  # results stand in front
                results.append(block.id)
        if results != waiting or (waiting and item.role != "user"):
            return False
        waiting = []
    return not waiting


def _match(messages: tuple[Message, ...], used: tuple[frozenset[str], ...]) -> _Answers:
    results: dict[tuple[int, int], Block] = {}
    ids: dict[tuple[int, int], str] = {}
    seen: set[str] = set()
    open_calls: dict[str, list[tuple[int, int]]] = {}
    for position, item in enumerate(messages):
        for index, block in enumerate(item.blocks):
            if block.type == "tool_use" and item.role == "assistant":
                identity = _fresh(block.id, seen, used)
                seen.add(identity)
                ids[position, index] = identity
                open_calls.setdefault(block.id, []).append((position, index))
            elif block.type in _SERVER_CALLS:
                seen.add(block.id)
            elif block.type == "tool_result" and item.role == "user" and open_calls.get(block.id):
                places = open_calls[block.id]
                newest = places[-1][0]
                first = next(number for number, place in enumerate(places) if place[0] == newest)
                place = places.pop(first)
                results[place] = _with_id(block, ids[place])
    return _Answers(results, ids)


def _fresh(identity: str, seen: set[str], used: tuple[frozenset[str], ...]) -> str:
    if _ID.match(identity) and identity not in seen and not is_used(identity, used):
        return identity
    stem = _BAD.sub("_", identity)[:100] or "call"
    number = 2
    while f"{stem}-{number}" in seen or is_used(f"{stem}-{number}", used):
        number += 1
    return f"{stem}-{number}"


def _reply(item: Message, position: int, answers: _Answers) -> tuple[Message, tuple[Block, ...]]:
    """Give a reply with good ids, and the results that must follow it."""
    blocks: list[Block] = []
    results: list[Block] = []
    for index, block in enumerate(item.blocks):
        if block.type == "tool_result":
            continue
        if block.type != "tool_use":
            blocks.append(block)
            continue
        identity = answers.ids[position, index]
        blocks.append(_with_id(block, identity))
        found = answers.results.get((position, index))
        results.append(found if found is not None else tool_result(identity, MISSING, is_error=True))
    kept = tuple(blocks)
    if kept == item.blocks:
        return item, tuple(results)
    return message(item.id, item.role, item.kind, kept, model=item.model, span=item.span), tuple(results)


def _with_id(block: Block, identity: str) -> Block:
    """Give a call or a result another id."""
    if block.id == identity:
        return block
    key = "id" if block.type == "tool_use" else "tool_use_id"
    value = json.loads(block.json)
    value[key] = identity
    return evolve(block, json=dumps(value), id=identity)


def is_server_result(block: Block) -> bool:
    """Tell whether this is the result of a call that the API runs itself."""
    return block.type.endswith("_tool_result") and block.type != "tool_result"


@frozen
class _Pending:
    """Unanswered server calls by id: those of the assistant's turn in hand, and those of the turn before."""

    new: dict[str, tuple[int, int]]
    old: dict[str, tuple[int, int]]


def has_open_server_calls(messages: tuple[Message, ...]) -> bool:
    """Tell whether a call that the API runs itself has no answer in these messages."""
    asked = {block.id for item in messages for block in item.blocks if block.type in _SERVER_CALLS}
    return bool(asked) and not asked.issubset(block.id for item in messages for block in item.blocks if is_server_result(block))


def open_server_calls(messages: tuple[Message, ...]) -> tuple[str, ...]:
    """Give the ids of calls that the API runs itself and may still answer, behind these messages.

    Words of the user end them, results of client tools do not, but the next turn that has ended does: so only the last
    turns are looked at, whatever the length of the history.
    """
    asked: list[str] = []
    answered: set[str] = set()
    turns = 0
    most = 2 if messages and messages[-1].role == "assistant" else 1
    after = ""
    for item in reversed(messages):
        if item.role == "user" and not all(block.type == "tool_result" for block in item.blocks):
            break
        turns += item.role == "assistant" and after != "assistant"
        if turns > most:
            break
        after = item.role if item.role != "system" else after
        for block in item.blocks:
            if block.type in _SERVER_CALLS:
                asked.append(block.id)
            elif is_server_result(block):
                answered.add(block.id)
    return tuple(identity for identity in reversed(asked) if identity not in answered)


def settle_server_calls(messages: tuple[Message, ...], pending_before: tuple[str, ...] = ()) -> tuple[Message, ...]:
    """Drop calls that the API runs itself and never answered, and answers without their call.

    While nothing but results of client tools follows, and the next reply has not ended, such a call is pending and stays:
    the API goes on with it.

    Args:
        messages: a part of the conversation up to its end.
        pending_before: ids of calls before that part which it may answer.

    Returns:
        The messages; the same object where nothing had to change.
    """
    if not any(block.type in _SERVER_CALLS or is_server_result(block) for item in messages for block in item.blocks):
        return messages
    drop: set[tuple[int, int]] = set()
    seen: set[str] = set()
    pending = _Pending(dict.fromkeys(pending_before, _ELSEWHERE), {})
    before = ""
    for position, item in enumerate(messages):
        if item.role == "assistant":
            _server_blocks(item, position, pending, seen, drop)
        elif item.role == "user":
            alone = all(block.type == "tool_result" for block in item.blocks)
            if before == "assistant":
                drop.update(pending.old.values())
                pending = _Pending({}, dict(pending.new))
            if not alone:
                drop.update(pending.old.values())
                pending.old.clear()
        if item.role != "system":
            before = item.role
    if before == "assistant":
        drop.update(pending.old.values())
    drop.discard(_ELSEWHERE)
    return _without(messages, drop) if drop else messages


def _server_blocks(item: Message, position: int, pending: _Pending, seen: set[str], drop: set[tuple[int, int]]) -> None:
    for index, block in enumerate(item.blocks):
        if block.type in _SERVER_CALLS:
            if block.id in seen or not _ID.match(block.id):
                drop.add((position, index))
            else:
                pending.new[block.id] = (position, index)
        elif is_server_result(block):
            if pending.new.pop(block.id, None) is None and pending.old.pop(block.id, None) is None:
                drop.add((position, index))
            continue
        if block.type in _SERVER_CALLS or block.type == "tool_use":
            seen.add(block.id)


def _without(messages: tuple[Message, ...], drop: set[tuple[int, int]]) -> tuple[Message, ...]:
    touched = {position for position, _ in drop}
    kept: list[Message] = []
    for position, item in enumerate(messages):
        if position in touched:
            blocks = tuple(block for index, block in enumerate(item.blocks) if (position, index) not in drop)
            if not blocks:
                continue
            item = message(item.id, item.role, item.kind, blocks, model=item.model, span=item.span)
        kept.append(item)
    return tuple(kept)
