"""The picture of the whole machine in DOT, with every place declared (``layout``)."""

from __future__ import annotations

from html import escape

from ..core.phases import Phase
from .dot import FONT, defaults, frame, node_text, opening, stroke, tip
from .dot_legend import EDGE_SIZE, LETTER, LINE, at, legend, numbered, path
from .layout import ABORTS, ENDS_BOX, HEIGHT, PLACES, Place, Route, route
from .model import Arrow, Bundle, Look, Node, Picture, Role
from .paths import Ink, Paint, short
from .style import PAPER, box, line, names, visited, wrap

NUMBER_SIZE = 9
"""Size of the number of an edge without a name."""


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
        f"    {frame(paint)}",
        f"    {_frame_box()}",
    ]
    lines += ["  " + _node(node, paint, seen) for node in picture.nodes if node.role is Role.TERMINAL]
    lines += ["  }"]
    lines += [_node(node, paint, seen) for node in picture.nodes if node.role is not Role.TERMINAL]
    nameless = [arrow for arrow in picture.arrows if route(arrow.source, arrow.target, arrow.look).label is None]
    numbers, listed = numbered(picture, paint, nameless)
    lines += [_arrow(arrow, picture, paint, numbers.get(arrow)) for arrow in picture.arrows]
    for bundle in picture.bundles:
        lines += _bundle(bundle, paint)
    lines += [*legend(picture, paint), *listed]
    return "\n".join([*lines, "}", ""])


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
        f'  {node.phase} [pos="{at((place.x, place.y))}", {_size(place)}, label=<{text}>, '
        f'style="{look.style}", fillcolor="{look.fill}", color="{look.border}"{size}{hint}];'
    )


def _label(lines: list[str], place: Route) -> str:
    """A label whose left side stands at the point of a route."""
    assert place.label is not None
    left, y = place.label
    if place.narrow:
        lines = [part for text in lines for part in text.replace(" ×", "\n×").split("\n")]
    if place.above:
        y -= LINE * (len(lines) - 1) / 2
    width = LETTER * EDGE_SIZE * max(len(text) for text in lines)
    text = "".join(f"{escape(word)}\\l" for word in lines)
    return f', label="{text}", lp="{at((left + width / 2, y))}"'


def _number(number: int | None, place: Route) -> str:
    """The number of an edge without a name, on the line right before its head."""
    if number is None:
        return ""
    x, y = place.points[-1]
    cell = f'<TABLE BORDER="0" CELLSPACING="0" CELLPADDING="0" BGCOLOR="{PAPER}"><TR><TD>{number}</TD></TR></TABLE>'
    return f', label=<{cell}>, fontsize={NUMBER_SIZE}, lp="{at((x - 16, y))}"'


def _arrow(arrow: Arrow, picture: Picture, paint: Paint | None, number: int | None) -> str:
    way = route(arrow.source, arrow.target, arrow.look)
    nameless = way.label is None
    label = _number(number, way) if nameless else _label(names(arrow, paint, detailed=picture.detailed), way)
    drawn = stroke(line(arrow.look, arrow.rows, paint))
    return f'  {arrow.source} -> {arrow.target} [pos="{path(way)}", {drawn}{label}, tooltip="{tip(arrow.rows, paint)}"];'


def _bundle(bundle: Bundle, paint: Paint | None) -> list[str]:
    """Draw aborts that end alike: the phases in which they may come, and one edge."""
    place, target = ABORTS[bundle.target], PLACES[bundle.target]
    drawn = line(Look.ABORT, bundle.rows, paint)
    lacking = paint.missing(bundle.rows) if paint is not None and paint.covers else ()
    said = "never an abort" if lacking else "an abort"
    if paint is not None and paint.count(bundle.rows) and not lacking:
        said += f" ×{_count(bundle, paint)}"
    text = "\\n".join(wrap((row.source.value for row in lacking or bundle.rows), 44))
    name = f"aborts_{bundle.target}"
    way = Route(((place.x + place.width / 2, place.y), (target.x - target.width / 2, target.y)))
    return [
        f'  {name} [pos="{at((place.x, place.y))}", {_size(place)}, shape=plaintext, fontsize=9.5, '
        f'fontcolor="{drawn.text}", label="{said} in\\n{text}"];',
        f'  {name} -> {bundle.target} [pos="{path(way)}", {stroke(drawn)}, tooltip="{tip(bundle.rows, paint)}"];',
    ]


def _count(bundle: Bundle, paint: Paint) -> str:
    count = paint.count(bundle.rows)
    return short(count) if paint.ink is Ink.WEIGHT else str(count)


def _title(picture: Picture, paint: Paint | None) -> str:
    """The line above a picture that says how much was covered."""
    if paint is None or paint.ink is not Ink.WEIGHT:
        return ""
    return f', label="{picture.title}: {paint.summary(picture.rows)}", labelloc=t, labeljust=l, fontsize=17'
