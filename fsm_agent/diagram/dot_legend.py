"""What stands beside the picture of the whole machine: the legend, and lists of what has no room on an edge."""

from __future__ import annotations

from html import escape

from ..core.table import RowKind
from .dot import stroke
from .layout import HEIGHT, LEGEND, LIST, Point, Route, spline
from .model import Arrow, Look, Picture
from .paths import Ink, Paint
from .style import MEANINGS, PAINTED, ROLES, SHADES, Line, boxes, names, sample, shade, wrap

EDGE_SIZE = 11
LETTER = 0.515
"""Mean width of a letter in the size of its font; labels are set from their left side by it."""
ARROW = 8.0
"""Length of an arrow head of size 0.8, in points."""
LINE = 13.5
"""Height of a line of a label."""
_NARROW, _WIDE = 38, 56
"""Letters a line: beside the picture, and below it."""


def at(point: Point) -> str:
    """Write a point."""
    return f"{point[0]:.4g},{HEIGHT - point[1]:.4g}"


def path(points: Route) -> str:
    """Write how an edge runs."""
    end, found = spline(points, ARROW)
    return " ".join([f"e,{at(end)}", *(at(point) for point in found)])


def note(name: str, said: list[str], left: Point, color: str = "#374151") -> str:
    """A text whose left side stands at a point."""
    width = LETTER * EDGE_SIZE * max(len(text) for text in said)
    text = "".join(f"{escape(word)}\\l" for word in said)
    height = LINE * len(said) + 2
    return (
        f'  {name} [pos="{at((left[0] + width / 2, left[1]))}", shape=plaintext, margin=0, fontsize={EDGE_SIZE:g}, '
        f'fontcolor="{color}", width={width / 72:.3f}, height={height / 72:.3f}, fixedsize=true, label="{text}"];'
    )


def legend(picture: Picture, paint: Paint | None) -> list[str]:
    """Write what boxes, lines and colours mean."""
    left, y = LEGEND
    lines: list[str] = []
    for role, meaning in ROLES.items():
        fill = boxes(paint)[role]
        lines.append(
            f'  box_{role} [pos="{at((left + 15, y))}", width=0.40, height=0.18, fixedsize=true, label="", '
            f'style="{fill.style}", fillcolor="{fill.fill}", color="{fill.border}"];'
        )
        lines.append(note(f"box_{role}_text", [meaning], (left + 38, y)))
        y += 20
    y += 8
    for look in Look:
        drawn = sample(look, paint)
        lines += _sample(f"line_{look}", drawn, MEANINGS[look], (left, y), drawn.text)
        y += 20
    for number, (drawn, meaning) in enumerate(_colours(paint)):
        y += 8 if not number else 0
        lines += _sample(f"paint_{number}", drawn, meaning, (left, y), drawn.text)
        y += 20
    y += 4
    for name, said in _texts(picture, paint):
        lines.append(note(name, said, (left, y + LINE * len(said) / 2)))
        y += LINE * len(said) + 10
    return lines


def _sample(name: str, drawn: Line, meaning: str, start: Point, color: str) -> list[str]:
    end = (start[0] + 30, start[1])
    return [
        f'  {name}_a [pos="{at(start)}", shape=point, style=invis, width=0.01];',
        f'  {name}_b [pos="{at(end)}", shape=point, style=invis, width=0.01];',
        f'  {name}_a -> {name}_b [pos="{path(Route((start, end)))}", {stroke(drawn)}];',
        note(f"{name}_text", [meaning], (start[0] + 38, start[1]), color),
    ]


def _colours(paint: Paint | None) -> list[tuple[Line, str]]:
    """What the colours of a coverage mean."""
    if paint is None or not paint.covers:
        return []
    plain = [(Line(color, color, "solid", 1.6), meaning) for color, meaning in PAINTED]
    if paint.ink is not Ink.WEIGHT:
        return plain
    often = ((1, "taken less than ten times"), (1_000, "a thousand times"), (10 ** (len(SHADES) - 1), "100,000 and more"))
    return [*((shade(count, "solid"), words) for count, words in often), *plain[1:]]


def _texts(picture: Picture, paint: Paint | None) -> list[tuple[str, list[str]]]:
    rows = [row for _, members in picture.everywhere for row in members]
    head = "every waiting phase also takes"
    if paint is not None and paint.covers:
        head += f" ({len(rows) - len(paint.missing(rows))} of {len(rows)})"
    found = [("everywhere", [head, *wrap((word for word, _ in picture.everywhere), _NARROW)])]
    shared = [
        (row.name, row.reason.value)
        for row in picture.rows
        if row.kind is RowKind.CONTINUE and row.reason is not None and row.reason.value != row.name
    ]
    if shared:
        words = [line for name, reason in shared for line in (f"{name}", f"  goes on by {reason}")]
        found.append(("shared", ["rows that share a reason:", *words]))
    if paint is not None and paint.ink is not Ink.WEIGHT:
        found.append(("painted", wrap([paint.summary(picture.rows)], _NARROW)))
    return found


def numbered(picture: Picture, paint: Paint | None, nameless: list[Arrow]) -> tuple[dict[Arrow, int], list[str]]:
    """Number the edges that have no room for a name, where rows of theirs were never taken, and list those rows.

    Args:
        picture: the whole machine.
        paint: what is painted.
        nameless: the edges without a label.

    Returns:
        The number of each such edge, and the list, in two columns below the picture.
    """
    if paint is None or not paint.covers:
        return {}, []
    lacking = [arrow for arrow in nameless if paint.missing(arrow.rows)]
    numbers = {arrow: place for place, arrow in enumerate(lacking, 1)}
    entries: list[list[str]] = []
    for arrow, number in numbers.items():
        words = wrap(names(arrow, paint, detailed=True), _WIDE)
        entries.append([f"{number}  {arrow.source} to {arrow.target}, never taken:", *(f"    {word}" for word in words)])
    half = (len(entries) + 1) // 2
    columns = [[word for entry in part for word in entry] for part in (entries[:half], entries[half:]) if part]
    height = max((len(said) for said in columns), default=0)
    (left, top), lines = LIST, []
    for column, said in enumerate(columns):
        said += [" "] * (height - len(said))
        lines.append(note(f"numbered_{column}", said, (left + 480 * column, top + LINE * height / 2)))
    return numbers, lines
