"""The machine as SVG for a page: the places of the diagram, with classes and row numbers that the page paints by."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from ..core.table import Row
from ..diagram.layout import ABORTS, ENDS_BOX, HEIGHT, LEGEND, PLACES, WIDTH, Place, Point, Route, route, spline
from ..diagram.model import Arrow, Bundle, Look, Node, Role, picture
from ..diagram.style import MEANINGS, ROLES

_ARROW = 9.0
_LINE = 15.0
"""Height of a line of a label."""


def machine_svg(numbers: Mapping[str, int]) -> str:
    """Draw the whole machine, unpainted.

    Args:
        numbers: the number of each row, by name; the page counts by them.

    Returns:
        An ``svg`` element. It holds nothing but what the declared table says.
    """
    shown = picture()
    shared = {row.name for _, rows in shown.everywhere for row in rows}
    everywhere = [row for _, rows in shown.everywhere for row in rows]
    size = f"0 0 {WIDTH + 16:g} {HEIGHT:g}"
    parts = [
        f'<svg id="machine" viewBox="{size}" role="img" aria-label="The machine and the path of this run">',
        "<defs>",
        *(_head(look) for look in Look),
        "</defs>",
        _frame(),
    ]
    parts += [_arrow(arrow, numbers) for arrow in shown.arrows]
    parts += [_bundle(bundle, numbers) for bundle in shown.bundles]
    parts += [_node(node, [row for row in everywhere if row.source is node.phase], numbers) for node in shown.nodes]
    parts += _legend(len(shared))
    return "".join([*parts, "</svg>"])


def _head(look: Look) -> str:
    return (
        f'<marker id="head-{look}" class="{look}" viewBox="0 0 10 8" refX="1" refY="4" markerWidth="{_ARROW:g}" '
        f'markerHeight="{_ARROW * 0.8:g}" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0 10 4 0 8z"/></marker>'
    )


def _frame() -> str:
    left, top, right, bottom = ENDS_BOX
    return (
        f'<g class="ends"><rect x="{left:g}" y="{top:g}" width="{right - left:g}" height="{bottom - top:g}" rx="12"/>'
        f'<text x="{left + 12:g}" y="{top + 19:g}">the run ends</text></g>'
    )


def _rows(rows: list[Row] | tuple[Row, ...], numbers: Mapping[str, int]) -> str:
    return " ".join(str(numbers[row.name]) for row in rows if row.name in numbers)


def _node(node: Node, everywhere: list[Row], numbers: Mapping[str, int]) -> str:
    place = PLACES[node.phase]
    stays = [*node.stays, *everywhere]
    corner = 3 if node.role is Role.TERMINAL else 10
    box = (
        f'<rect x="{place.x - place.width / 2:g}" y="{place.y - place.height / 2:g}" width="{place.width:g}" '
        f'height="{place.height:g}" rx="{corner}"/>'
    )
    hint = "\n".join(f"{row.name}: {row.text}" for row in stays)
    title = f"<title>{escape(hint)}</title>" if hint else ""
    return (
        f'<g class="node {node.role}" data-phase="{node.phase}" data-stays="{_rows(stays, numbers)}">{title}{box}'
        f'<text class="name" x="{place.x:g}" y="{place.y:g}">{node.phase}</text>'
        f'<text class="small" x="{place.x:g}" y="{place.y + 13.5:g}"></text></g>'
    )


def _path(points: tuple[Point, ...]) -> str:
    first, *rest = [f"{x:.1f} {y:.1f}" for x, y in points]
    return f"M{first}C{' '.join(rest)}"


def _edge(look: Look, rows: tuple[Row, ...], path: Route, numbers: Mapping[str, int], label: Point | None) -> str:
    _, points = spline(path, _ARROW)
    hint = escape("\n".join(f"{row.name}: {row.text}" for row in rows))
    lines = len(rows)
    where = "" if label is None else f' data-x="{label[0]:g}" data-y="{label[1]:g}" data-lines="{lines}"'
    where += ' data-above="1"' * path.above + ' data-narrow="1"' * path.narrow
    return (
        f'<g class="edge {look}" data-rows="{_rows(rows, numbers)}"{where}><title>{hint}</title>'
        f'<path class="reach" d="{_path(points)}"/><path class="line" d="{_path(points)}" marker-end="url(#head-{look})"/>'
        f'<text class="label"></text></g>'
    )


def _arrow(arrow: Arrow, numbers: Mapping[str, int]) -> str:
    path = route(arrow.source, arrow.target, arrow.look)
    return _edge(arrow.look, arrow.rows, path, numbers, path.label)


def _bundle(bundle: Bundle, numbers: Mapping[str, int]) -> str:
    place, target = ABORTS[bundle.target], PLACES[bundle.target]
    path = Route(((place.x + place.width / 2 - 30, place.y), (target.x - target.width / 2, target.y)))
    text = _abort_text(place)
    return _edge(Look.ABORT, bundle.rows, path, numbers, None).replace("</g>", f"{text}</g>")


def _abort_text(place: Place) -> str:
    return f'<text class="abort-word" x="{place.x + place.width / 2 - 36:g}" y="{place.y + 4:g}">an abort</text>'


def _legend(shared: int) -> list[str]:
    left, top = LEGEND
    lines: list[str] = []
    y = top
    for role, meaning in ROLES.items():
        lines.append(
            f'<g class="node {role} key"><rect x="{left:g}" y="{y - 7:g}" width="30" height="14" rx="4"/>'
            f'<text class="note" x="{left + 40:g}" y="{y + 4:g}">{escape(meaning)}</text></g>'
        )
        y += 22
    y += 8
    for look in Look:
        lines.append(
            f'<g class="edge {look} key"><path class="line" d="M{left:g} {y:g}H{left + 22:g}" marker-end="url(#head-{look})"/>'
            f'<text class="note" x="{left + 40:g}" y="{y + 4:g}">{escape(MEANINGS[look])}</text></g>'
        )
        y += 22
    if shared:
        lines.append(f'<text class="note faint" x="{left:g}" y="{y + 14:g}">×n: taken so often up to here</text>')
    return lines
