"""Colours, lines and words that all notations share."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from ..core.phases import SUCCESS, Phase
from ..core.table import Row
from .model import Arrow, Look, Node, Role
from .paths import Ink, Paint, short

PAPER, TEXT, MUTED = "#ffffff", "#1f2937", "#9ca3af"
COVERED, PARTLY, MISSED = "#15803d", "#b45309", "#dc2626"
SHADES = ("#65a30d", "#4d9a1f", "#2f8a2f", "#15803d", "#166534", "#14532d")
"""Coverage by weight: from a few times to a hundred thousand times and more."""
PAINTED = (
    (COVERED, "each of its rows was taken"),
    (PARTLY, "in part; named: those never taken"),
    (MISSED, "none of its rows was taken"),
)
"""What the colours of a coverage mean."""
SHORT = 3
"""So many row names stand on an edge of a picture that is not detailed; the rest is counted."""


@frozen
class Line:
    """How an edge is drawn: told apart by its colour and by its line."""

    color: str
    text: str
    style: str
    width: float


@frozen
class Box:
    """How a phase is drawn."""

    fill: str
    border: str
    style: str


LINES: dict[Look, Line] = {
    Look.CONTINUE: Line("#1d4ed8", "#1d4ed8", "bold", 2.4),
    Look.INTERNAL: Line("#4b5563", "#374151", "solid", 1.1),
    Look.TERMINAL: Line("#c2410c", "#c2410c", "dashed", 1.3),
    Look.ABORT: Line("#9ca3af", "#6b7280", "dotted", 1.6),
}
MEANINGS: dict[Look, str] = {
    Look.CONTINUE: "begins another pass",
    Look.INTERNAL: "goes on within the pass",
    Look.TERMINAL: "ends the run",
    Look.ABORT: "ended from outside",
}
BOXES: dict[Role, Box] = {
    Role.START: Box("#dcfce7", "#15803d", "rounded,filled"),
    Role.TRANSIENT: Box("#fef3c7", "#a16207", "rounded,filled,dashed"),
    Role.WAITING: Box("#dbeafe", "#1d4ed8", "rounded,filled"),
    Role.TERMINAL: Box("#ffedd5", "#c2410c", "filled"),
}
ROLES: dict[Role, str] = {
    Role.START: "waits for a prompt",
    Role.WAITING: "waits for an answer",
    Role.TRANSIENT: "decides at once, never rests",
    Role.TERMINAL: "the run is over",
}
GOOD = Box("#dcfce7", "#15803d", "filled")
"""The terminal phase that may be a success."""


NEUTRAL: dict[Role, Box] = {
    Role.START: Box("#ffffff", "#374151", "rounded,filled"),
    Role.TRANSIENT: Box("#ffffff", "#374151", "rounded,filled,dashed"),
    Role.WAITING: Box("#e5e7eb", "#374151", "rounded,filled"),
    Role.TERMINAL: Box("#f3f4f6", "#6b7280", "filled"),
}
"""Phases where colours say what was taken."""


def boxes(paint: Paint | None) -> dict[Role, Box]:
    """Give the looks of phases by their role."""
    return NEUTRAL if paint is not None and paint.covers else BOXES


def sample(look: Look, paint: Paint | None) -> Line:
    """Give the look of an edge as a legend shows it: without colour where colours say what was taken."""
    usual = LINES[look]
    return usual if paint is None or not paint.covers else Line("#374151", "#374151", usual.style, usual.width)


def box(node: Node, paint: Paint | None, visited: frozenset[Phase]) -> Box:
    """Give the look of a phase; what a painted run did not visit is muted."""
    if paint is not None and paint.covers:
        return NEUTRAL[node.role]
    if paint is not None and node.phase not in visited:
        return Box("#f3f4f6", MUTED, BOXES[node.role].style)
    if node.phase is Phase.COMPLETED:
        return GOOD
    return BOXES[node.role]


def line(look: Look, rows: tuple[Row, ...], paint: Paint | None) -> Line:
    """Give the look of an edge."""
    usual = LINES[look]
    if paint is None:
        return usual
    if paint.ink is Ink.PATH:
        return Line(usual.color, usual.text, usual.style, usual.width + 1.2) if paint.count(rows) else _muted(usual)
    missing = paint.missing(rows)
    if paint.ink is Ink.WEIGHT and not missing:
        return shade(paint.count(rows), usual.style)
    color = COVERED if not missing else PARTLY if len(missing) < len(rows) else MISSED
    return Line(color, color, usual.style, usual.width)


def shade(count: int, style: str) -> Line:
    """Give the look of an edge that was taken so often."""
    magnitude = min(len(str(count)), len(SHADES)) - 1
    return Line(SHADES[magnitude], SHADES[magnitude], style, 0.9 + 0.5 * magnitude)


def _muted(usual: Line) -> Line:
    return Line("#d1d5db", MUTED, usual.style, usual.width)


def names(arrow: Arrow, paint: Paint | None, *, detailed: bool) -> list[str]:
    """Name the rows of an edge, one a line; cut after a few unless all are wanted.

    On a path only the rows taken are named, with their counts, and where some rows lack coverage only those.
    """
    rows = list(arrow.rows)
    missing = list(paint.missing(rows)) if paint is not None and paint.covers else []
    if paint is not None and not paint.covers and paint.count(rows):
        rows = [row for row in rows if row.name in paint.counts]
    rows = missing or rows
    counts = paint.counts if paint is not None and paint.ink is Ink.PATH else {}
    lines = [f"{row.name} ×{counts[row.name]}" if row.name in counts else row.name for row in rows]
    # Counts of an edge have a line of their own, since there is more room above and below a label than beside it.
    weight = [f"×{short(paint.count(rows))}"] if paint is not None and paint.ink is Ink.WEIGHT and not missing else []
    if detailed or len(lines) + len(weight) <= SHORT + 1:
        return [*lines, *weight]
    return [*lines[:SHORT], " ".join([f"+ {len(lines) - SHORT} more", *weight])]


def stays(node: Node, paint: Paint | None) -> str:
    """Sum up the rows that leave a phase where it is, empty if it has none."""
    rows = node.stays
    if not rows:
        return ""
    if paint is not None:
        covered = len(rows) - len(paint.missing(rows))
        if paint.ink is Ink.COVERAGE:
            return f"stays: {covered} of {len(rows)} rows"
        if paint.ink is Ink.WEIGHT:
            return f"stays: {covered} of {len(rows)} rows ×{short(paint.count(rows))}"
        return f"stays ×{paint.count(rows)}" if covered else ""
    return f"stays: {rows[0].name}" + (f" + {len(rows) - 1}" if len(rows) > 1 else "")


def visited(rows: Iterable[Row], paint: Paint | None) -> frozenset[Phase]:
    """Give the phases that a painted run entered or left."""
    if paint is None:
        return frozenset(Phase)
    taken = [row for row in rows if paint.counts.get(row.name, 0)]
    return frozenset(phase for row in taken for phase in (row.source, row.target))


def wrap(words: Iterable[str], width: int) -> list[str]:
    """Set words in lines of at most a width, parted by commas; one that is longer has its own line."""
    lines: list[str] = []
    for word in words:
        if lines and len(lines[-1]) + 2 + len(word) <= width:
            lines[-1] += f", {word}"
        else:
            lines.append(word)
    return [f"{text}," if place + 1 < len(lines) else text for place, text in enumerate(lines)]


def is_success(cause: str) -> bool:
    """Say whether a cause counts as a success."""
    return cause in {good.value for good in SUCCESS}
