"""The machine as SCXML, the W3C's notation for state machines."""

from __future__ import annotations

from xml.sax.saxutils import quoteattr

from ..core.events import EventKind
from ..core.phases import Phase
from ..core.table import Row
from .model import Node, Picture, Role

NAMESPACE = "urn:fsm-agent:table"
"""The names of rows and reasons are attributes of this namespace."""


def write_scxml(picture: Picture) -> str:
    """Write a picture's states and transitions in SCXML.

    Rows stand in the order of their first-match lists, which is SCXML's document order, so a row's condition is its guard
    alone. A row that stays in its phase is a transition without target: nothing is left or entered.

    Args:
        picture: which part of the machine.

    Returns:
        The document, ended by a newline.
    """
    rows = picture.rows
    initial = next((node.phase for node in picture.nodes if node.role is Role.START), picture.nodes[0].phase)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f"<!-- {picture.title}. Made from the declared table; not to be edited. -->",
        f'<scxml xmlns="http://www.w3.org/2005/07/scxml" xmlns:fsm="{NAMESPACE}" version="1.0" datamodel="ecmascript"',
        f"       name={quoteattr(picture.name)} initial={quoteattr(initial.value)}>",
    ]
    for node in picture.nodes:
        lines += _state(node, [row for row in _ordered(rows) if row.source is node.phase])
    return "\n".join([*lines, "</scxml>", ""])


def _ordered(rows: tuple[Row, ...]) -> list[Row]:
    """Bring rows into the order of their cells: fewer exclusions first."""
    return sorted(rows, key=lambda row: (row.event is EventKind.AUTO, row.event, len(row.guard.earlier) if row.guard else 0))


def _state(node: Node, rows: list[Row]) -> list[str]:
    if node.role is Role.TERMINAL:
        return [f"  <final id={quoteattr(node.phase.value)}/>"]
    if not rows:
        return [f"  <state id={quoteattr(node.phase.value)}/>"]
    return [f"  <state id={quoteattr(node.phase.value)}>", *(_transition(row, node.phase) for row in rows), "  </state>"]


def _transition(row: Row, phase: Phase) -> str:
    said = {"fsm:row": row.name, "fsm:kind": row.kind.value}
    if row.reason is not None:
        said["fsm:reason"] = row.reason.value
    if row.event is not EventKind.AUTO:
        said["event"] = row.event.value
    if row.guard is not None and row.guard.name != "always":
        said["cond"] = row.guard.name
    if row.target is not phase:
        said["target"] = row.target.value
    attributes = " ".join(f"{name}={quoteattr(value)}" for name, value in said.items())
    return f"    <transition {attributes}/>"
