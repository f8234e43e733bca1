"""Short constructors for the declaration, so that a row reads as one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..events import EventKind
from ..phases import Cause, ContinueReason, Phase, TerminalReason
from ..table import Guard, Move, Row, RowKind

AUTO = EventKind.AUTO
type_predicate = Callable[..., bool]
type_action = Callable[..., Any]


def _move(action: type_action) -> Move:
    return Move(name=action.__name__, act=action)


def internal(
    name: str, source: Phase, event: EventKind, when: type_predicate | None, target: Phase, does: type_action, text: str
) -> Row:
    """Declare a row that neither continues nor ends the loop."""
    guard = Guard(name=when.__name__, holds=when) if when is not None else None
    return Row(
        name=name,
        source=source,
        event=event,
        guard=guard,
        target=target,
        move=_move(does),
        kind=RowKind.INTERNAL,
        text=text,
    )


def again(
    reason: ContinueReason,
    source: Phase,
    event: EventKind,
    when: type_predicate | None,
    does: type_action,
    text: str,
    name: str = "",
) -> Row:
    """Declare a row that begins another pass."""
    guard = Guard(name=when.__name__, holds=when) if when is not None else None
    return Row(
        name=name or reason.value,
        source=source,
        event=event,
        guard=guard,
        target=Phase.PREPARING,
        move=_move(does),
        kind=RowKind.CONTINUE,
        text=text,
        reason=reason,
    )


def ends(
    name: str,
    source: Phase,
    event: EventKind,
    when: type_predicate | None,
    reason: TerminalReason,
    causes: tuple[Cause, ...],
    does: type_action,
    text: str,
) -> Row:
    """Declare a row that ends the run."""
    guard = Guard(name=when.__name__, holds=when) if when is not None else None
    return Row(
        name=name,
        source=source,
        event=event,
        guard=guard,
        target=Phase(reason.value),
        move=_move(does),
        kind=RowKind.TERMINAL,
        text=text,
        reason=reason,
        causes=causes,
    )


def first_match(*rows: Row) -> tuple[Row, ...]:
    """Declare the rows of one cell in order: each holds where its condition holds and none before it does."""
    earlier: list[str] = []
    declared = []
    for row in rows:
        assert row.guard is not None
        guard = Guard(name=row.guard.name, holds=row.guard.holds, earlier=tuple(earlier))
        earlier.append(row.guard.name)
        declared.append(
            Row(
                name=row.name,
                source=row.source,
                event=row.event,
                guard=guard,
                target=row.target,
                move=row.move,
                kind=row.kind,
                text=row.text,
                reason=row.reason,
                causes=row.causes,
            )
        )
    return tuple(declared)
