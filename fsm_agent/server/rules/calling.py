"""Rules on tool calls and their results, client tools and server tools."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .base import Rule, Turn, Wire, at, rule

_ID = re.compile(r"[a-zA-Z0-9_-]+\Z")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}\Z")
_SERVER_CALLS = ("server_tool_use", "mcp_tool_use")
_CALLS = ("tool_use", *_SERVER_CALLS)
_UNEXPECTED = "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."


@rule("pairing", "api-facts A19.2, A19.4, wire checker 2")
def pairing(wire: Wire) -> Iterator[tuple[str, str]]:
    """Each call is answered once, in the very next user message, by one leading run of results; no result without a call."""
    before: Turn | None = None
    for number, turn in enumerate(wire.turns):
        after = wire.turns[number + 1] if number + 1 < len(wire.turns) else None
        if turn.role == "assistant":
            yield from _unanswered(turn, after)
        elif turn.role == "user":
            yield from _results(turn, before)
        before = turn


def _leading(turn: Turn | None) -> list[tuple[int, int, Mapping[str, Any]]]:
    """Give the results that open the first message of a user turn."""
    run: list[tuple[int, int, Mapping[str, Any]]] = []
    for message, place, block in turn.blocks if turn is not None and turn.role == "user" else ():
        if message != turn.first or block.get("type") != "tool_result":  # type: ignore[union-attr]
            break
        run.append((message, place, block))
    return run


def _unanswered(turn: Turn, after: Turn | None) -> Iterator[tuple[str, str]]:
    answered = {block.get("tool_use_id") for _, _, block in _leading(after)}
    calls = [(message, block.get("id")) for message, _, block in turn.blocks if block.get("type") == "tool_use"]
    missing = [(message, str(identity)) for message, identity in calls if identity not in answered]
    if missing:
        names = ", ".join(identity for _, identity in missing)
        yield (
            at(missing[0][0]),
            f"`tool_use` ids were found without `tool_result` blocks immediately after: {names}. Each `tool_use` block must "
            "have a corresponding `tool_result` block in the next message.",
        )


def _results(turn: Turn, before: Turn | None) -> Iterator[tuple[str, str]]:
    blocks = before.blocks if before is not None and before.role == "assistant" else ()
    calls = {block.get("id") for _, _, block in blocks if block.get("type") == "tool_use"}
    leading = {(message, place) for message, place, _ in _leading(turn)}
    seen: set[Any] = set()
    for message, place, block in turn.blocks:
        if block.get("type") != "tool_result":
            continue
        identity = block.get("tool_use_id")
        if identity not in calls:
            yield at(message, place), f"unexpected `tool_use_id` found in `tool_result` blocks: {identity}. {_UNEXPECTED}"
        elif identity in seen:
            yield (
                at(message, place),
                f"each tool_use must have a single result. Found multiple `tool_result` blocks with id: {identity}",
            )
        elif (message, place) not in leading:
            yield at(message, place), f"`tool_result` blocks must come first in the message behind their calls: {identity}"
        seen.add(identity)


@rule("tool_ids", "wire checker 3")
def tool_ids(wire: Wire) -> Iterator[tuple[str, str]]:
    """Ids of calls are well-formed and unique in the whole request; their input is an object; they have a name."""
    seen: set[str] = set()
    for turn in wire.turns:
        for message, place, block in turn.blocks:
            kind = block.get("type")
            if kind not in _CALLS:
                continue
            identity = block.get("id")
            if not isinstance(identity, str) or not _ID.match(identity):
                yield at(message, place, f"{kind}.id"), "String should match pattern '^[a-zA-Z0-9_-]+$'"
            elif identity in seen:
                yield at(message, place, f"{kind}.id"), f"`{kind}` ids must be unique: {identity}"
            else:
                seen.add(identity)
            if not isinstance(block.get("input"), Mapping):
                yield at(message, place, f"{kind}.input"), "Input should be a valid dictionary"
            if not isinstance(block.get("name"), str) or not block.get("name"):
                yield at(message, place, f"{kind}.name"), "Field required"


@rule("server_tools", "api-facts A19.3, wire checker 2")
def server_tools(wire: Wire) -> Iterator[tuple[str, str]]:
    """Server tool calls pair up inside the assistant's turn; while one is open, or a programmatic call, only results go in."""
    spoken = [turn for turn in wire.turns if turn.role != "system"]
    open_before: set[Any] = set()
    for number, turn in enumerate(spoken):
        if turn.role != "assistant":
            continue
        after = spoken[number + 1] if number + 1 < len(spoken) else None
        pending = dict.fromkeys(open_before, at(turn.first))
        for message, place, block in turn.blocks:
            kind = str(block.get("type"))
            if kind in _SERVER_CALLS:
                pending[block.get("id")] = at(message, place)
            elif kind.endswith("_tool_result") and kind != "tool_result":
                identity = block.get("tool_use_id")
                if identity not in pending:
                    yield at(message, place), f"unexpected `tool_use_id` found in `{kind}` blocks: {identity}"
                pending.pop(identity, None)
        programmatic = any(_programmatic(block) for _, _, block in turn.blocks)
        if after is not None and (pending or programmatic):
            yield from _only_results(after)
        goes_on = number + 2 < len(spoken)
        answered = after is not None and any(block.get("type") == "tool_result" for _, _, block in after.blocks)
        if after is not None and not answered and pending:
            for identity, path in pending.items():
                yield path, f"server tool use with id `{identity}` was found without a corresponding result block"
            pending = {}
        stale = [identity for identity in pending if identity in open_before]
        for identity in stale:
            yield pending.pop(identity), f"server tool use with id `{identity}` was found without a corresponding result block"
        open_before = set(pending) if goes_on else set()


def _programmatic(block: Mapping[str, Any]) -> bool:
    caller = block.get("caller")
    return block.get("type") == "tool_use" and isinstance(caller, Mapping) and caller.get("type") != "direct"


def _only_results(turn: Turn) -> Iterator[tuple[str, str]]:
    if not any(block.get("type") == "tool_result" for _, _, block in turn.blocks):
        return
    for message, place, block in turn.blocks:
        if block.get("type") != "tool_result":
            yield (
                at(message, place),
                "only `tool_result` blocks are allowed while a server tool use or a programmatic call is open",
            )


@rule("tools", "api-facts A13, A19.9, wire checker 8")
def tools(wire: Wire) -> Iterator[tuple[str, str]]:
    """Tool names match the pattern and are unique; schemas are objects; not every tool is deferred."""
    listed = wire.body.get("tools")
    if listed is None:
        return
    if not isinstance(listed, list):
        yield "tools", "Input should be a valid list"
        return
    seen: set[str] = set()
    for place, tool in enumerate(listed):
        if not isinstance(tool, Mapping):
            yield f"tools.{place}", "Input does not match the expected shape."
            continue
        custom = tool.get("type") in (None, "custom")
        prefix = f"tools.{place}.custom" if custom else f"tools.{place}"
        name = tool.get("name")
        if custom or name is not None:
            if not isinstance(name, str) or not _NAME.match(name):
                yield f"{prefix}.name", "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"
            elif name in seen:
                yield "tools", f"Tool names must be unique: {name}"
            else:
                seen.add(name)
        if custom:
            yield from _schema(tool.get("input_schema"), f"{prefix}.input_schema")
    if listed and all(isinstance(tool, Mapping) and tool.get("defer_loading") is True for tool in listed):
        yield "tools", "at least one tool must have defer_loading=false"


def _schema(schema: Any, path: str) -> Iterator[tuple[str, str]]:
    if not isinstance(schema, Mapping):
        yield path, "Field required" if schema is None else "Input does not match the expected shape."
    elif schema.get("type") != "object":
        yield f"{path}.type", "Input should be 'object'"


@rule("tool_references", "api-facts A19.9")
def tool_references(wire: Wire) -> Iterator[tuple[str, str]]:
    """Tools that tool_choice and tool references name are defined."""
    listed = wire.body.get("tools")
    names = [tool.get("name") for tool in listed if isinstance(tool, Mapping)] if isinstance(listed, list) else []
    choice = wire.body.get("tool_choice")
    if isinstance(choice, Mapping):
        if not names and choice.get("type") != "none":
            yield "tool_choice", "tool_choice may only be specified while providing tools"
        elif choice.get("type") == "tool" and choice.get("name") not in names:
            yield "tool_choice", f"Tool '{choice.get('name')}' not found in provided tools"
    for turn in wire.turns:
        for message, place, block in turn.blocks:
            content = block.get("content") if block.get("type") == "tool_result" else None
            for deep, part in enumerate(content if isinstance(content, list) else ()):
                if isinstance(part, Mapping) and part.get("type") == "tool_reference" and part.get("tool_name") not in names:
                    yield (
                        at(message, place, f"content.{deep}"),
                        f"Tool reference '{part.get('tool_name')}' not found in available tools",
                    )


RULES: tuple[Rule, ...] = (pairing, tool_ids, server_tools, tools, tool_references)
