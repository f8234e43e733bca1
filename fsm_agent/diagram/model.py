"""What a picture shows: nodes and edges chosen from the declared table, before any notation (spec 04)."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from attrs import evolve, frozen

from ..core.events import EventKind
from ..core.phases import TERMINAL_SET, TRANSIENT, WAITING, Phase
from ..core.rows import TABLE
from ..core.table import Row, RowKind, Table


class DiagramError(ValueError):
    """A picture that cannot be made; the text says what to do."""


class Role(StrEnum):
    """What a phase is to the reader of a picture."""

    START = "start"
    TRANSIENT = "transient"
    WAITING = "waiting"
    TERMINAL = "terminal"


class Look(StrEnum):
    """How an edge is drawn: what it means, and aborts apart from all else."""

    CONTINUE = "continue"
    INTERNAL = "internal"
    TERMINAL = "terminal"
    ABORT = "abort"


@frozen
class Node:
    """One phase.

    Attributes:
        phase: which.
        role: what it is.
        stays: rows that leave it where it is, without those that every waiting phase has.
        causes: of a terminal phase, in the order of the rows that end in it.
    """

    phase: Phase
    role: Role
    stays: tuple[Row, ...] = ()
    causes: tuple[str, ...] = ()


@frozen
class Arrow:
    """The rows of one look from one phase to another, merged."""

    source: Phase
    target: Phase
    look: Look
    rows: tuple[Row, ...]


@frozen
class Bundle:
    """Aborts of several phases that end alike, drawn as one."""

    target: Phase
    rows: tuple[Row, ...]

    @property
    def sources(self) -> tuple[Phase, ...]:
        """The phases in which the abort may come."""
        return tuple(row.source for row in self.rows)


@frozen
class Picture:
    """A part of the machine, ready to be written in any notation.

    Attributes:
        name: of the focus, ``machine`` for all of it.
        title: one line for people.
        nodes: the phases, in the order of the loop.
        arrows: merged rows from one phase to another.
        bundles: aborts, by the phase in which they end.
        everywhere: rows that every waiting phase has, by the word before the dot.
        detailed: every row is named; else long lists are cut.
        across: drawn from left to right.
    """

    name: str
    title: str
    nodes: tuple[Node, ...]
    arrows: tuple[Arrow, ...]
    bundles: tuple[Bundle, ...]
    everywhere: tuple[tuple[str, tuple[Row, ...]], ...]
    detailed: bool
    across: bool = False

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows that the picture shows."""
        shown = [row for arrow in self.arrows for row in arrow.rows]
        shown += [row for bundle in self.bundles for row in bundle.rows]
        shown += [row for node in self.nodes for row in node.stays]
        shown += [row for _, rows in self.everywhere for row in rows]
        return tuple(shown)


@frozen
class Focus:
    """A part of the machine that has a picture of its own.

    Attributes:
        title: one line for people.
        chooses: which rows it shows.
        across: drawn from left to right: phases on the one side, what they end in on the other.
    """

    title: str
    chooses: Callable[[Row], bool]
    across: bool = False


MACHINE = "machine"
_DECIDED = (Phase.DECIDING, Phase.BACKING_OFF, Phase.REACTIVE_COMPACTING)
_ROUND = (Phase.RUNNING_TOOLS, Phase.GATHERING_ATTACHMENTS)
_WINDOW = (Phase.BLOCKING_LIMIT, Phase.PROMPT_TOO_LONG, Phase.IMAGE_ERROR)
_SUMMING = (Phase.COMPACTING, Phase.REACTIVE_COMPACTING)


def is_abort(row: Row) -> bool:
    """Say whether a row is taken because the run was ended from outside."""
    return row.event is EventKind.ABORT_REQUESTED


def _beside(row: Row) -> bool:
    return "." in row.name


def _recovery(row: Row) -> bool:
    replies = row.target in (Phase.COMPLETED, Phase.RUNNING_STOP_HOOKS) or row.name == "run_tools"
    if is_abort(row) or _beside(row) or replies:
        return False
    return row.source in _DECIDED or row.target in _DECIDED or row.name in ("error_remembered", "call_model", "round_done")


def _tools(row: Row) -> bool:
    early = row.name.startswith("early_tool") or row.name in ("block_completed", "call_model", "stream_completed")
    in_round = row.source in _ROUND or row.target in _ROUND
    return (early or in_round) and not is_abort(row) and not _beside(row)


def _context(row: Row) -> bool:
    if is_abort(row) or _beside(row):
        return False
    summing = row.source in _SUMMING or row.target in _SUMMING
    named = row.name in ("collapse_drain_retry", "window_recovery", "window_exhausted", "call_model", "stream_failed")
    return summing or row.target in _WINDOW or named


def _ending(row: Row) -> bool:
    return row.kind is RowKind.TERMINAL and not is_abort(row)


FOCI: dict[str, Focus] = {
    "recovery": Focus("How a failed call is mended, and what ends it", _recovery),
    "tools": Focus("A round of tools, from the first block to the next turn", _tools),
    "context": Focus("How the context is kept within its window", _context),
    "ending": Focus("How a run ends by itself", _ending, across=True),
    "aborts": Focus("How a run is ended from outside", is_abort, across=True),
}
"""The parts of the machine that have a picture of their own, by name."""


def picture(focus: str = MACHINE, table: Table = TABLE) -> Picture:
    """Choose what a picture shows.

    Args:
        focus: ``machine`` for the whole, or a name of ``FOCI``.
        table: the declaration.

    Returns:
        The picture, without notation.

    Raises:
        DiagramError: for an unknown focus.
    """
    if focus == MACHINE:
        return _choose(MACHINE, "The loop of fsm_agent", table.rows, detailed=False)
    if focus not in FOCI:
        raise DiagramError(f"no picture is named {focus!r}; there are: {', '.join((MACHINE, *FOCI))}")
    chosen = FOCI[focus]
    made = _choose(focus, chosen.title, tuple(row for row in table.rows if chosen.chooses(row)), detailed=True)
    return evolve(made, across=chosen.across)


def _choose(name: str, title: str, rows: tuple[Row, ...], *, detailed: bool) -> Picture:
    everywhere = _everywhere(rows)
    shared = {row.name for _, members in everywhere for row in members}
    touched = {row.source for row in rows} | {row.target for row in rows}
    nodes = tuple(_node(phase, rows, shared) for phase in Phase if phase in touched)
    moving = [row for row in rows if row.source is not row.target]
    bundled = [row for row in moving if is_abort(row) and not detailed]
    arrows: dict[tuple[Phase, Phase, Look], list[Row]] = {}
    for row in moving:
        if detailed or not is_abort(row):
            arrows.setdefault((row.source, row.target, _look(row)), []).append(row)
    ends = tuple(dict.fromkeys(row.target for row in bundled))
    return Picture(
        name=name,
        title=title,
        nodes=nodes,
        arrows=tuple(Arrow(*key, rows=tuple(members)) for key, members in arrows.items()),
        bundles=tuple(Bundle(target, tuple(row for row in bundled if row.target is target)) for target in ends),
        everywhere=everywhere,
        detailed=detailed,
    )


def _look(row: Row) -> Look:
    return Look.ABORT if is_abort(row) else Look(row.kind.value)


def _everywhere(rows: tuple[Row, ...]) -> tuple[tuple[str, tuple[Row, ...]], ...]:
    """Rows that stay, of one word, where every waiting phase has one."""
    words: dict[str, list[Row]] = {}
    for row in rows:
        if row.source is row.target and _beside(row):
            words.setdefault(row.name.partition(".")[0], []).append(row)
    full = set(WAITING)
    return tuple((word, tuple(members)) for word, members in words.items() if full <= {row.source for row in members})


def _node(phase: Phase, rows: tuple[Row, ...], shared: set[str]) -> Node:
    stays = tuple(row for row in rows if row.source is phase and row.target is phase and row.name not in shared)
    causes = dict.fromkeys(cause.value for row in rows if row.target is phase for cause in row.causes)
    return Node(phase=phase, role=_role(phase), stays=stays, causes=tuple(causes))


def _role(phase: Phase) -> Role:
    if phase in TERMINAL_SET:
        return Role.TERMINAL
    if phase in TRANSIENT:
        return Role.TRANSIENT
    return Role.START if phase is Phase.READY else Role.WAITING
