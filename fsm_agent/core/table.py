"""Shape of the declared table: rows, ignores, rejects (spec 04). The rows themselves are in ``core/rows``."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING

from .config import LoopConfig
from .control import Control
from .events import EventKind
from .frozen import frozen
from .phases import Cause, ContinueReason, Phase, TerminalReason

if TYPE_CHECKING:
    from .effects import Effect
    from .events import Event
    from .state import LoopState


class RowKind(StrEnum):
    """What an edge of the diagram means."""

    CONTINUE = "continue"
    TERMINAL = "terminal"
    INTERNAL = "internal"


@frozen
class Guard:
    """A named predicate over (control, event, config). ``earlier`` are the guards of a first-match list before it."""

    name: str
    holds: Callable[[Control, Event, LoopConfig], bool]
    earlier: tuple[str, ...] = ()


@frozen
class Move:
    """A named function from (state, event, config) to the next state, phase aside, and effects."""

    name: str
    act: Callable[[LoopState, Event, LoopConfig], tuple[LoopState, tuple[Effect, ...]]]


@frozen
class Row:
    """One edge of the machine.

    Attributes:
        name: unique; the word in the log.
        source: the phase it leaves.
        event: its trigger; ``auto`` needs no event.
        guard: when it is taken; None means always.
        target: the phase it enters.
        move: what it does.
        kind: continue, terminal or internal.
        reason: the continue or terminal reason, None for internal rows.
        causes: causes that a terminal row may end with.
        text: one sentence for people.
    """

    name: str
    source: Phase
    event: EventKind
    guard: Guard | None
    target: Phase
    move: Move
    kind: RowKind
    text: str
    reason: ContinueReason | TerminalReason | None = None
    causes: tuple[Cause, ...] = ()


@frozen
class Ignore:
    """A cell whose event changes nothing, and why."""

    name: str
    source: Phase
    event: EventKind
    because: str


@frozen
class Reject:
    """A cell whose event is refused, and why."""

    name: str
    source: Phase
    event: EventKind
    because: str


@frozen
class Entry:
    """What is done each time a phase is entered, before its rows are looked at."""

    phase: Phase
    move: Move
    text: str


@frozen
class Table:
    """The whole declaration; made and checked once, at import.

    Attributes:
        rows: in order; within one cell the order is that of the first-match list.
        ignores: cells that ignore.
        rejects: cells that reject.
        entries: what is done on entering a phase.
    """

    rows: tuple[Row, ...]
    ignores: tuple[Ignore, ...]
    rejects: tuple[Reject, ...]
    entries: tuple[Entry, ...] = ()
