"""Transcripts of other agents, as an initial history: session files and stream-json captures (spec 04, import).

A transcript is JSON lines; each ``user`` or ``assistant`` entry holds one message, or one block of a reply, under
``message``. Entries know the one before them (``parentUuid``): where a session was rewound, only the last branch counts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

from ..core.blocks import Block, read_block, text_block
from ..core.messages import Message, MessageKind, message
from ..core.request.pairing import repair

_SYNTHETIC = "<synthetic>"
"""Model of replies that the other agent wrote itself; no model has seen them."""
_LOCAL = ("<command-name>", "<command-message>", "<local-command-", "<bash-input>", "<bash-stdout>", "<bash-stderr>")
"""How words of commands that the user ran begin."""


class TranscriptError(ValueError):
    """A file that is no transcript, or holds no conversation; the text is one clear sentence that names the file."""


@frozen
class Transcript:
    """What a transcript holds.

    Attributes:
        messages: the conversation, ready to go on from: calls and results are paired, thinking is signed or gone.
        model: the model that replied last, empty if none is named.
        session: the other agent's session id, empty if none is named.
        cwd: where it worked, empty if it does not say.
        notes: what was left out or mended, one sentence each.
    """

    messages: tuple[Message, ...]
    model: str = ""
    session: str = ""
    cwd: str = ""
    notes: tuple[str, ...] = ()


@frozen
class _Entry:
    """One line with a message in it. ``line`` counts from 1."""

    line: int
    value: Mapping[str, Any]
    role: str
    content: tuple[Mapping[str, Any], ...]

    @property
    def reply(self) -> Mapping[str, Any]:
        return self.value["message"]  # type: ignore[no-any-return]

    @property
    def reply_id(self) -> str:
        return _word(self.reply.get("id"))

    @property
    def answered(self) -> frozenset[str]:
        return frozenset(_word(block.get("tool_use_id")) for block in self.content if block.get("type") == "tool_result")

    @property
    def called(self) -> frozenset[str]:
        return frozenset(_word(block.get("id")) for block in self.content if block.get("type") == "tool_use")


def import_transcript(path: str | os.PathLike[str]) -> Transcript:
    """Read a transcript from a file.

    Args:
        path: JSON lines; a JSON file that holds the same entries in a list is taken too.

    Returns:
        The conversation.

    Raises:
        TranscriptError: if the file is none, is damaged, or holds no user or no assistant entry.
        OSError: if it cannot be read.
    """
    return read_transcript(Path(path).read_bytes(), str(path))


def read_transcript(data: bytes, name: str = "transcript") -> Transcript:
    """Read a transcript from bytes; ``name`` stands in errors. See :func:`import_transcript`."""
    notes: list[str] = []
    values = _values(data, name, notes)
    said = _main_entries(_entries(values, name), name, notes)
    entries = _last_branch(said, values, notes)
    made = _messages(entries, notes)
    paired = repair(made)
    if paired != made:
        notes.append("calls and results were paired anew")
    if not any(item.role == "user" for item in paired):
        raise TranscriptError(f"{name}: nothing of the conversation can be sent")
    facts = [value for _, value in values]
    return Transcript(
        messages=paired,
        model=next((model for entry in reversed(said) if (model := _word(entry.reply.get("model")))), ""),
        session=_first(facts, "sessionId") or _first(facts, "session_id"),
        cwd=_first(facts, "cwd"),
        notes=tuple(notes),
    )


def _word(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _first(values: list[Mapping[str, Any]], key: str) -> str:
    return next((word for value in values if (word := _word(value.get(key)))), "")


def _values(data: bytes, name: str, notes: list[str]) -> list[tuple[int, Mapping[str, Any]]]:
    """Parse the lines, or the one JSON value; give the objects with their line numbers."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TranscriptError(f"{name}: this is no transcript: not UTF-8 at byte {error.start}") from None
    whole = _whole(text)
    if whole is not None:
        return list(enumerate(whole, 1))
    values: list[tuple[int, Mapping[str, Any]]] = []
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            if values and number == len(lines):
                notes.append(f"line {number} was cut off while it was written, and is left out")
                continue
            raise TranscriptError(f"{name}: line {number} is no JSON; this is no transcript, or it is damaged") from None
        if isinstance(value, Mapping):
            values.append((number, value))
    return values


def _whole(text: str) -> list[Mapping[str, Any]] | None:
    """Give the entries of a file that is one JSON value, None if it is not."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, Mapping):
        lists = [part for part in value.values() if isinstance(part, list)]
        value = [value] if "message" in value or len(lists) != 1 else lists[0]
    return [part for part in value if isinstance(part, Mapping)] if isinstance(value, list) else []


def _entries(values: list[tuple[int, Mapping[str, Any]]], name: str) -> list[_Entry]:
    entries: list[_Entry] = []
    for line, value in values:
        role = _word(value.get("type"))
        if role not in ("user", "assistant"):
            continue
        reply = value.get("message")
        content = reply.get("content") if isinstance(reply, Mapping) else None
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        if not isinstance(content, list):
            raise TranscriptError(f"{name}: entry {line} is a {role} entry without a message")
        entries.append(_Entry(line, value, role, tuple(block for block in content if _is_block(block))))
    return entries


def _is_block(block: Any) -> bool:
    return isinstance(block, Mapping) and isinstance(block.get("type"), str)


def _main_entries(entries: list[_Entry], name: str, notes: list[str]) -> list[_Entry]:
    """Leave out side chains, and what no model has said; a file of side chains alone is a sub-agent's own transcript."""
    users = sum(entry.role == "user" for entry in entries)
    if not users or users == len(entries):
        raise TranscriptError(
            f"{name}: there is no conversation to go on from: {_count(users, 'user entry')}, "
            f"{_count(len(entries) - users, 'assistant entry')}"
        )
    aside = [entry for entry in entries if entry.value.get("isSidechain") is True]
    if aside and len(aside) < len(entries):
        notes.append(f"{_count(len(aside), 'entry')} of sub-agents left out")
        entries = [entry for entry in entries if entry.value.get("isSidechain") is not True]
    said = [entry for entry in entries if not _synthetic(entry)]
    if len(said) < len(entries):
        notes.append(f"{_count(len(entries) - len(said), 'reply')} that no model made left out")
    return said


def _synthetic(entry: _Entry) -> bool:
    return entry.role == "assistant" and (
        entry.reply.get("model") == _SYNTHETIC or entry.value.get("isApiErrorMessage") is True
    )


def _count(number: int, word: str) -> str:
    plural = word[:-1] + "ies" if word.endswith(("ry", "ly")) else word + "s"
    return f"{number} {word if number == 1 else plural}"


def _last_branch(entries: list[_Entry], values: list[tuple[int, Mapping[str, Any]]], notes: list[str]) -> list[_Entry]:
    """Follow the parents from the last entry; where they lead nowhere, the order of the lines holds.

    Replies whose calls ran side by side lie on several branches: blocks of a reply that is on the way, and results of its
    calls, belong to it wherever they hang.
    """
    known = {_word(value.get("uuid")): value for _, value in values if value.get("uuid")}
    if not entries or sum(entry.value.get("parentUuid") is not None for entry in entries) == 0:
        return entries
    way: set[int] = set()
    numbers = {id(entry.value): number for number, entry in enumerate(entries)}
    value: Mapping[str, Any] | None = entries[-1].value
    seen: set[str] = set()
    while value is not None:
        number = numbers.get(id(value))
        if number is not None:
            way.add(number)
        seen.add(_word(value.get("uuid")))
        parent = _word(value.get("parentUuid"))
        after = known.get(parent)
        if parent and (after is None or parent in seen):
            # The parent is in another file, or the chain runs in a circle: go on with the line before.
            before = min(way, default=0) - 1
            after = entries[before].value if before >= 0 and before not in way else None
        value = after
    replies = {entries[number].reply_id for number in way} - {""}
    way |= {number for number, entry in enumerate(entries) if entry.role == "assistant" and entry.reply_id in replies}
    calls = frozenset[str]().union(*(entries[number].called for number in way))
    way |= {number for number, entry in enumerate(entries) if entry.role == "user" and entry.answered & calls}
    if len(way) < len(entries):
        notes.append(f"{_count(len(entries) - len(way), 'entry')} before a compaction or on abandoned branches left out")
    return [entry for number, entry in enumerate(entries) if number in way]


@frozen(slots=True)
class _Reply:
    """A reply that is put together from its entries."""

    entry: _Entry
    blocks: list[Block] = field(factory=list)


def _messages(entries: list[_Entry], notes: list[str]) -> tuple[Message, ...]:
    parts: list[_Reply] = []
    open_replies: dict[str, _Reply] = {}
    for entry in entries:
        reply = open_replies.get(entry.reply_id) if entry.role == "assistant" and entry.reply_id else None
        if reply is None:
            reply = _Reply(entry)
            parts.append(reply)
            if entry.role == "user" and not entry.answered:
                open_replies.clear()
            if entry.role == "assistant":
                open_replies[entry.reply_id] = reply
        known = {block.json for block in reply.blocks} | {block.id for block in reply.blocks if block.type == "tool_use"}
        for block in _blocks(entry):
            # One reply may have been written several times while it streamed.
            if block.json not in known and (block.type != "tool_use" or block.id not in known):
                reply.blocks.append(block)
    return tuple(_finished(parts, notes))


def _blocks(entry: _Entry) -> Iterator[Block]:
    for value in entry.content:
        if value["type"] == "text":
            block = text_block(_word(value.get("text"))) if set(value) <= {"type", "text"} else read_block(value)
            if not block.blank:
                yield block
        elif value["type"] == "tool_use" and not isinstance(value.get("input"), Mapping):
            yield read_block({**value, "input": {}})
        else:
            yield read_block(value)


def _finished(parts: list[_Reply], notes: list[str]) -> Iterator[Message]:
    unsigned = 0
    for number, part in enumerate(parts, 1):
        blocks = tuple(part.blocks)
        if any(block.is_thinking and not block.signed for block in blocks):
            unsigned += sum(block.is_thinking for block in blocks)
            blocks = tuple(block for block in blocks if not block.is_thinking)
        if part.entry.role == "assistant":
            while blocks and blocks[-1].is_thinking:
                blocks = blocks[:-1]
        if blocks:
            model = _word(part.entry.reply.get("model")) if part.entry.role == "assistant" else ""
            yield message(f"import/{number}", part.entry.role, _kind(part.entry, blocks), blocks, model=model)
    if unsigned:
        notes.append(f"{_count(unsigned, 'thinking block')} left out for want of a signature")


def _kind(entry: _Entry, blocks: tuple[Block, ...]) -> MessageKind:
    if entry.role == "assistant":
        return MessageKind.ASSISTANT
    if any(block.type == "tool_result" for block in blocks):
        return MessageKind.TOOL_RESULTS
    if entry.value.get("isCompactSummary") is True:
        return MessageKind.SUMMARY
    if entry.value.get("isMeta") is True:
        return MessageKind.META
    first = next((_word(block.get("text")).lstrip() for block in entry.content if block["type"] == "text"), "")
    return MessageKind.LOCAL_OUTPUT if first.startswith(_LOCAL) else MessageKind.PROMPT
