"""Shortest paths of an exploration: to a state, a row, a terminal reason."""

from __future__ import annotations

from attrs import frozen

from ..core.config import LoopConfig
from ..core.events import Event
from ..core.phases import CAUSES, Cause, ContinueReason, TerminalReason
from ..core.rows import TABLE
from ..core.state import LoopState
from .environment import NextRun
from .expand import Worker
from .explore import Explored
from .words import need_word, unknown

ROWS = frozenset(row.name for row in TABLE.rows)
REASONS: tuple[TerminalReason | ContinueReason, ...] = (*TerminalReason, *ContinueReason)


@frozen
class Path:
    """A shortest way through the machine.

    Attributes:
        goal: what it leads to.
        names: the abstract events.
        events: the concrete events; :class:`NextRun` where the session goes on to its next run.
        rows: all rows taken, in order.
        start: the state that it begins with.
        config: the configuration.
    """

    goal: str
    names: tuple[str, ...]
    events: tuple[Event | NextRun, ...]
    rows: tuple[str, ...]
    start: LoopState
    config: LoopConfig


def _path(explored: Explored, goal: str, at: tuple[int, int]) -> Path:
    number, ordinal = at
    worker = Worker(explored.config, explored.bounds, (), explored.start)
    steps = worker.walk((*explored.graph.ordinals_to(number), ordinal))
    return Path(
        goal=goal,
        names=tuple(name for _, _, name in steps),
        events=tuple(event for event, _, _ in steps),
        rows=tuple(name for _, made, _ in steps for name in made.taken),
        start=worker.begin()[1],
        config=explored.config,
    )


def _first(explored: Explored, name: str) -> tuple[int, int] | None:
    at = explored.graph.first_rows.get(name)
    if at is None and name not in ROWS:
        raise ValueError(unknown("declared row", name, [row.name for row in TABLE.rows]))
    return at


def paths_to_row(explored: Explored, name: str) -> Path | None:
    """Give a shortest path that takes a declared row; None if nothing within the bounds takes it.

    Raises:
        ValueError: if no row has this name.
    """
    at = _first(explored, name)
    return _path(explored, name, at) if at is not None else None


def length_to(explored: Explored, name: str) -> int:
    """Give the length of a shortest path that takes a declared row; 0 if nothing within the bounds takes it.

    Raises:
        ValueError: if no row has this name.
    """
    at = _first(explored, name)
    return explored.graph.depth_of(at[0]) + 1 if at is not None else 0


def _reason(reason: object) -> TerminalReason | ContinueReason:
    for known in REASONS:
        if known == reason:
            return known
    raise ValueError(unknown("reason", reason, REASONS))


def paths_to(
    explored: Explored, reason: TerminalReason | ContinueReason | str, cause: Cause | str | None = None
) -> Path | None:
    """Give a shortest path to a terminal or continue reason.

    Args:
        explored: the exploration.
        reason: where to, or its word.
        cause: only with this cause of a terminal reason, or its word; None for any.

    Returns:
        The path, or None if nothing within the bounds leads there.

    Raises:
        ValueError: for an unknown word, and a cause that the reason never has.
    """
    reason = _reason(reason)
    if cause is not None:
        cause = need_word(Cause, cause, "cause")
        causes = CAUSES[reason] if isinstance(reason, TerminalReason) else ()
        if cause not in causes:
            has = f"its causes are {', '.join(causes)}" if causes else "only terminal reasons have causes"
            raise ValueError(f"{reason} never has the cause {cause}; {has}")
    if isinstance(reason, TerminalReason):
        firsts = explored.graph.first_reasons
        found = [
            firsts[name]
            for name in firsts
            if name.startswith(f"{reason.value}/") and (cause is None or name == f"{reason.value}/{cause.value}")
        ]
    else:
        rows = explored.graph.first_rows
        found = [rows[row.name] for row in TABLE.rows if row.reason is reason and row.name in rows]
    if not found:
        return None
    depth = explored.graph.depth_of
    return _path(explored, reason.value, min(found, key=lambda at: (depth(at[0]), at)))


def all_paths(explored: Explored) -> dict[str, Path]:
    """Give a shortest path for each declared row that was taken, by its name."""
    found = {row.name: paths_to_row(explored, row.name) for row in TABLE.rows}
    return {name: path for name, path in found.items() if path is not None}
