"""Judging a whole run: each state, each edge, and what only the whole shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ..core.config import LoopConfig
from ..core.events import Event
from ..core.state import LoopState
from ..core.step import step
from .law import Edge, Law, LawError, Over, need_laws, need_words, raised, run_law


def edges_of(state: LoopState, events: Iterable[Event], config: LoopConfig) -> tuple[Edge, ...]:
    """Take events one after the other from a state, and give the edges."""
    edges: list[Edge] = []
    for event in events:
        made = step(state, event, config)
        edges.append(Edge(state, event, made, config))
        state = made.state
    return tuple(edges)


def judge_run(edges: Sequence[Edge], config: LoopConfig, laws: Iterable[Law]) -> list[tuple[Law, int, str]]:
    """Judge a run by laws of any kind.

    Args:
        edges: the steps of the run, in order.
        config: its configuration.
        laws: what is to be kept.

    Returns:
        (law, number of the edge, what is wrong) for each fault, in order; -1 for the run as a whole.

    Raises:
        LawError: for a law that raises, or gives what is no text.
    """
    found: list[tuple[Law, int, str]] = []
    for law in need_laws(laws):
        if law.over is Over.RUN:
            words = _asked(law, -1, tuple(edges), config)
            if words:
                found.append((law, -1, words))
            continue
        for number, edge in enumerate(edges):
            if law.over is Over.STATE:
                words = _asked(law, number, edge.made.state, config)
            elif edge.quiet and not law.quiet:
                words = ""
            else:
                words = _asked(law, number, edge)
            if words:
                found.append((law, number, words))
    return found


def _asked(law: Law, number: int, *arguments: object) -> str:
    where = "over the whole run" if number < 0 else f"at event {number}"
    try:
        return need_words(law, law.check(*arguments), where)
    except LawError:
        raise
    except Exception as problem:
        raise raised(law, problem, where) from problem


@run_law("I5")
def one_end(edges: tuple[Edge, ...], config: LoopConfig) -> str:
    """A run shows at most one terminal."""
    count = sum(len(edge.terminals) for edge in edges)
    return "" if count <= 1 else f"{count} terminals were shown"


@run_law("I10")
def nothing_dies_twice(edges: tuple[Edge, ...], config: LoopConfig) -> str:
    """Over a whole run nothing is emitted twice under one id, and nothing has two tombstones."""
    shown = Counter(item.id for edge in edges for item in edge.blocks)
    shown.update(item.id for edge in edges for item in edge.results)
    dead = Counter(name for edge in edges for name in edge.tombstones)
    twice = [name for name, count in (shown | dead).items() if count > 1]
    if twice:
        return f"twice: {twice}"
    never = set(dead) - set(shown)
    return f"a tombstone for what was never emitted: {sorted(never)}" if never else ""


@run_law("I12")
def a_call_is_run_once(edges: tuple[Edge, ...], config: LoopConfig) -> str:
    """Over a whole run no call begins twice."""
    began = Counter(
        (edge.old.call.id, call.id)
        for edge in edges
        for call, now in zip(edge.old.tools.calls, edge.new.tools.calls, strict=False)
        if edge.old.call.id == edge.new.call.id and now.started and not call.started
    )
    twice = [name for name, count in began.items() if count > 1]
    return f"began twice: {twice}" if twice else ""


RUN_LAWS: tuple[Law, ...] = (one_end, nothing_dies_twice, a_call_is_run_once)
"""What only a whole run shows."""
