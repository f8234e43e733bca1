"""I9: how rounds are compared, and what is remembered of them (spec 01, section 11, loop detection)."""

from __future__ import annotations

import json
from hashlib import sha256

from ..core.blocks import dumps
from ..core.loops import round_digest
from ..core.state import CallData
from .choices import repeats
from .law import Edge, edge_law
from .micro import Micro, micros

Part = tuple[str, str, str]
CLOSING = ("tool_finished", "tool_reissued", "run_tools", "malformed_answered", "salvage", "salvage_and_end")
"""Rows with which a round may be complete."""


def part(data: CallData) -> Part:
    """Give what is compared of a call: its name, its input, and its result without what is volatile."""
    result = data.digest
    if not result and data.result is not None:
        result = sha256(dumps(json.loads(data.result.json).get("content")).encode()).hexdigest()
    return data.use.name, data.use.input_json or data.use.raw, result


def _others(parts: tuple[Part, ...]) -> list[tuple[Part, ...]]:
    """Give rounds that differ from this one in one thing: a name, an input, a result, where one ends, how many there are."""
    name, text, result = parts[0]
    found = [((f"{name}x", text, result), *parts[1:]), ((name, f"{text} ", result), *parts[1:])]
    found += [((name, text, f"{result}x"), *parts[1:]), ((name + text[:1], text[1:], result), *parts[1:])]
    found += [(*parts, parts[0]), ((name, text + result[:1], result[1:]), *parts[1:])]
    if len(parts) > 1 and parts[0] != parts[-1]:
        found.append((parts[-1], *parts[1:-1], parts[0]))
    return [other for other in found if other != parts]


def _closed(one: Micro) -> bool:
    tools = one.new.tools
    return bool(tools.calls) and tools.after_stream and tools.yielded == len(tools.calls)


@edge_law("I9", costly=True)
def rounds_are_remembered_once(edge: Edge) -> str:
    """A round that is complete is remembered, once; so many are kept as the end of a loop of pairs needs."""
    for one in micros(edge):
        if one.name not in CLOSING:
            continue
        old, new = one.old.guards, one.new.guards
        if not _closed(one):
            if (new.rounds, new.loop_warned) != (old.rounds, old.loop_warned):
                return f"{one.row.name}: a round that is not complete was remembered"
            continue
        need = 2 * (one.config.loop_rounds + 2)
        if not new.rounds or new.rounds != (*old.rounds, new.rounds[-1])[-need:]:
            return f"{one.row.name}: {len(new.rounds)} rounds are remembered"
        if new.loop_warned != (old.loop_warned and repeats(new.rounds) >= one.config.loop_rounds):
            return f"{one.row.name}: the warning counts as {'given' if new.loop_warned else 'not given'}"
    return ""


@edge_law("I9", costly=True)
def equal_rounds_have_equal_digests(edge: Edge) -> str:
    """A round is known by the names, inputs and results of its calls in order, and by nothing else."""
    for one in micros(edge):
        if one.name not in CLOSING or not _closed(one):
            continue
        parts = tuple(part(data) for data in one.after.data.iteration.calls)
        mine = one.new.guards.rounds[-1]
        if round_digest(parts) != mine or len(mine) != 16:
            return f"{one.row.name}: the round is known as {mine!r}"
        if not set(mine) <= set("0123456789abcdef"):
            return f"{one.row.name}: {mine!r} is no digest"
        same = [other for other in _others(parts) if round_digest(other) == mine]
        if same:
            return f"{one.row.name}: another round has the same digest: {same[0]}"
    return ""
