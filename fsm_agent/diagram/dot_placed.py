"""The picture of the whole machine in DOT, with every place declared (``layout``)."""

from __future__ import annotations

from html import escape

from ..core.phases import Phase
from .dot import FONT, defaults, frame, node_text, opening, stroke, tip
from .layout import ABORTS, ENDS_BOX, HEIGHT, LEGEND, PLACES, Place, Point, Route, route, spline
from .model import Arrow, Bundle, Look, Node, Picture, Role
from .paths import Ink, Paint, short
from .style import BOXES, LINES, MEANINGS, PAPER, ROLES, box, line, names, visited, wrap

EDGE_SIZE = 11
LETTER = 0.515
"""Mean width of a letter in the size of its font; labels are set from their left side by it."""
ARROW = 8.0
"""Length of an arrow head of size 0.8, in points."""


def write_placed(picture: Picture, paint: Paint | None = None) -> str:
    """Write the picture of the whole machine.

    Args:
        picture: of the whole machine.
        paint: counts to paint on it.

    Returns:
        DOT that holds its layout: ``dot -n2`` draws it as it is.
    """
    seen = visited(picture.rows, paint)
    lines = [
        *opening(picture, "dot -n2 -Tsvg"),
        f'  graph [layout=neato, pad=0.15, bgcolor="{PAPER}", fontname="{FONT}", outputorder=nodesfirst'
        f"{_title(picture, paint)}];",
        *defaults(),
        "  subgraph cluster_ends {",
        f"    {frame()}",
        f"    {_frame_box()}",
    ]
    lines += ["  " + _node(node, paint, seen) for node in picture.nodes if node.role is Role.TERMINAL]
    lines += ["  }"]
    lines += [_node(node, paint, seen) for node in picture.nodes if node.role is not Role.TERMINAL]
    lines += [_arrow(arrow, picture, paint) for arrow in picture.arrows]
    for bundle in picture.bundles:
        lines += _bundle(bundle, paint)
    lines += _legend(picture, paint)
    return "\n".join([*lines, "}", ""])


def _at(point: Point) -> str:
    return f"{point[0]:.4g},{HEIGHT - point[1]:.4g}"


def _frame_box() -> str:
    left, top, right, bottom = ENDS_BOX
    return f'bb="{left:g},{HEIGHT - bottom:g},{right:g},{HEIGHT - top:g}"; lp="{left + 42:g},{HEIGHT - top - 12:g}";'


def _size(place: Place) -> str:
    return f"width={place.width / 72:.3f}, height={place.height / 72:.3f}, fixedsize=true"


def _node(node: Node, paint: Paint | None, seen: frozenset[Phase]) -> str:
    look, place = box(node, paint, seen), PLACES[node.phase]
    text = node_text(node, paint, detailed=False, width=33)
    size = ", fontsize=11.5" if node.role is Role.TERMINAL else ""
    hint = f', tooltip="{tip(node.stays, paint)}"' if node.stays else ""
    return (
        f'  {node.phase} [pos="{_at((place.x, place.y))}", {_size(place)}, label=<{text}>, '
        f'style="{look.style}", fillcolor="{look.fill}", color="{look.border}"{size}{hint}];'
    )


def _pos(path: Route) -> str:
    end, points = spline(path, ARROW)
    return " ".join([f"e,{_at(end)}", *(_at(point) for point in points)])


def _label(lines: list[str], left: Point) -> str:
    """A label whose left side stands at a point."""
    width = LETTER * EDGE_SIZE * max(len(text) for text in lines)
    text = "".join(f"{escape(word)}\\l" for word in lines)
    return f', label="{text}", lp="{_at((left[0] + width / 2, left[1]))}"'


def _arrow(arrow: Arrow, picture: Picture, paint: Paint | None) -> str:
    path = route(arrow.source, arrow.target, arrow.look)
    label = _label(names(arrow, paint, detailed=picture.detailed), path.label) if path.label is not None else ""
    drawn = stroke(line(arrow.look, arrow.rows, paint))
    return f'  {arrow.source} -> {arrow.target} [pos="{_pos(path)}", {drawn}{label}, tooltip="{tip(arrow.rows, paint)}"];'


def _bundle(bundle: Bundle, paint: Paint | None) -> list[str]:
    """Draw aborts that end alike: the phases in which they may come, and one edge."""
    place, target = ABORTS[bundle.target], PLACES[bundle.target]
    drawn = line(Look.ABORT, bundle.rows, paint)
    count = "" if paint is None or not paint.count(bundle.rows) else f" ×{_count(bundle, paint)}"
    text = "\\n".join(wrap((phase.value for phase in bundle.sources), 44))
    name = f"aborts_{bundle.target}"
    path = Route(((place.x + place.width / 2, place.y), (target.x - target.width / 2, target.y)))
    return [
        f'  {name} [pos="{_at((place.x, place.y))}", {_size(place)}, shape=plaintext, fontsize=9.5, '
        f'fontcolor="{drawn.text}", label="an abort{count} in\\n{text}"];',
        f'  {name} -> {bundle.target} [pos="{_pos(path)}", {stroke(drawn)}, tooltip="{tip(bundle.rows, paint)}"];',
    ]


def _count(bundle: Bundle, paint: Paint) -> str:
    count = paint.count(bundle.rows)
    return short(count) if paint.ink is Ink.WEIGHT else str(count)


def _legend(picture: Picture, paint: Paint | None) -> list[str]:
    left, top = LEGEND
    lines: list[str] = []
    y = top
    for number, (role, meaning) in enumerate(ROLES.items()):
        fill = BOXES[role]
        lines.append(
            f'  box_{role} [pos="{_at((left + 15, y))}", width=0.40, height=0.18, fixedsize=true, label="", '
            f'style="{fill.style}", fillcolor="{fill.fill}", color="{fill.border}"];'
        )
        lines.append(_note(f"box_{role}_text", [meaning], (left + 38, y)))
        y += 20 if number + 1 < len(ROLES) else 28
    for look in Look:
        start, end = (left, y), (left + 30, y)
        lines.append(f'  line_{look}_a [pos="{_at(start)}", shape=point, style=invis, width=0.01];')
        lines.append(f'  line_{look}_b [pos="{_at(end)}", shape=point, style=invis, width=0.01];')
        lines.append(f'  line_{look}_a -> line_{look}_b [pos="{_pos(Route((start, end)))}", {stroke(LINES[look])}];')
        lines.append(_note(f"line_{look}_text", [MEANINGS[look]], (left + 38, y), LINES[look].text))
        y += 20
    y += 14
    words = wrap((word for word, _ in picture.everywhere), 36)
    lines.append(_note("everywhere", ["every waiting phase also takes", *words], (left, y + 6 * len(words))))
    y += 12 * len(words) + 26
    if paint is not None:
        lines.append(_note("painted", _painted(picture, paint), (left, y)))
    return lines


def _painted(picture: Picture, paint: Paint) -> list[str]:
    said = [paint.summary(picture.rows)]
    if paint.ink is Ink.WEIGHT:
        said = ["darker and wider: taken more often", "(a few times to a hundred thousand)"]
    if paint.ink is not Ink.PATH:
        said.append("red: the rows named were never taken")
    return said


def _title(picture: Picture, paint: Paint | None) -> str:
    """The line above a picture that says how much was covered."""
    if paint is None or paint.ink is not Ink.WEIGHT:
        return ""
    return f', label="{picture.title}: {paint.summary(picture.rows)}", labelloc=t, labeljust=l, fontsize=17'


def _note(name: str, said: list[str], left: Point, color: str = "#374151") -> str:
    """A text whose left side stands at a point."""
    width = LETTER * EDGE_SIZE * max(len(text) for text in said)
    text = "".join(f"{escape(word)}\\l" for word in said)
    height = 13.5 * len(said) + 2
    return (
        f'  {name} [pos="{_at((left[0] + width / 2, left[1]))}", shape=plaintext, margin=0, fontsize={EDGE_SIZE:g}, '
        f'fontcolor="{color}", width={width / 72:.3f}, height={height / 72:.3f}, fixedsize=true, label="{text}"];'
    )
