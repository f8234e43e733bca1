"""Where the phases stand, and how the edges run, in the picture of the whole machine.

Automatic layout spreads this graph over twice the width of a page, so the places are declared here, in points, with y
downwards. Graphviz draws them as they are (``dot -n2``): the picture is the same with every version of it. An edge
without a declared route is drawn straight.
"""

from __future__ import annotations

from attrs import frozen

from ..core.phases import Phase
from .model import Look

P = Phase
Point = tuple[float, float]
WIDTH, HEIGHT = 1060.0, 780.0


@frozen
class Place:
    """A box: its centre and its size."""

    x: float
    y: float
    width: float
    height: float


@frozen
class Route:
    """How an edge runs.

    Attributes:
        points: from the border of its source to that of its target; corners are rounded.
        label: where the label stands: the middle of its left side; None for no label.
        curve: the last stretch is an S, level at both ends, instead of corners.
        above: the label's point is the middle of its last line, since the edge runs below it.
        narrow: counts stand below the names, since there is no room beside them.
    """

    points: tuple[Point, ...]
    label: Point | None = None
    curve: bool = False
    above: bool = False
    narrow: bool = False


_RIGHT = 968.0
_ENDS_WIDTH = 170.0

PLACES: dict[Phase, Place] = {
    P.READY: Place(530, 32, 80, 32),
    P.PREPARING: Place(528, 112, 572, 40),
    P.COMPACTING: Place(63, 112, 122, 44),
    P.CALLING_MODEL: Place(628, 232, 130, 44),
    P.BACKING_OFF: Place(757, 232, 114, 44),
    P.DECIDING: Place(561, 348, 506, 40),
    P.REACTIVE_COMPACTING: Place(735, 436, 158, 44),
    P.RUNNING_STOP_HOOKS: Place(594, 520, 158, 44),
    P.RUNNING_TOOLS: Place(450, 606, 150, 44),
    P.GATHERING_ATTACHMENTS: Place(450, 706, 172, 44),
    P.BLOCKING_LIMIT: Place(_RIGHT, 94, _ENDS_WIDTH, 44),
    P.MODEL_ERROR: Place(_RIGHT, 178, _ENDS_WIDTH, 66),
    P.PROMPT_TOO_LONG: Place(_RIGHT, 264, _ENDS_WIDTH, 34),
    P.IMAGE_ERROR: Place(_RIGHT, 320, _ENDS_WIDTH, 34),
    P.COMPLETED: Place(_RIGHT, 416, _ENDS_WIDTH, 84),
    P.STOP_HOOK_PREVENTED: Place(_RIGHT, 510, _ENDS_WIDTH, 44),
    P.HOOK_STOPPED: Place(_RIGHT, 574, _ENDS_WIDTH, 34),
    P.MAX_TURNS: Place(_RIGHT, 628, _ENDS_WIDTH, 34),
    P.ABORTED_STREAMING: Place(_RIGHT, 682, _ENDS_WIDTH, 34),
    P.ABORTED_TOOLS: Place(_RIGHT, 736, _ENDS_WIDTH, 34),
}
ENDS_BOX = (866.0, 44.0, 1062.0, 762.0)
"""Left, top, right, bottom of the frame around the terminal phases."""

_END = _RIGHT - _ENDS_WIDTH / 2
_EDGE = 814.0
"""Right border of the bars and of what stands below them."""
_I, _C, _T = Look.INTERNAL, Look.CONTINUE, Look.TERMINAL

ROUTES: dict[tuple[Phase, Phase, Look], Route] = {
    (P.READY, P.PREPARING, _I): Route(((530, 48), (530, 92)), (536, 70)),
    (P.PREPARING, P.COMPACTING, _I): Route(((242, 102), (124, 102)), (132, 92), above=True),
    (P.COMPACTING, P.PREPARING, _I): Route(((124, 122), (242, 122)), (84, 162)),
    (P.PREPARING, P.CALLING_MODEL, _I): Route(((628, 132), (628, 210)), (634, 170), narrow=True),
    (P.PREPARING, P.BACKING_OFF, _I): Route(((706, 132), (706, 210)), (711, 155), narrow=True),
    (P.BACKING_OFF, P.PREPARING, _I): Route(((808, 210), (808, 132)), (724, 189)),
    (P.CALLING_MODEL, P.DECIDING, _I): Route(((628, 254), (628, 328)), (634, 290)),
    (P.DECIDING, P.BACKING_OFF, _I): Route(((757, 328), (757, 254)), (763, 290)),
    (P.DECIDING, P.PREPARING, _C): Route(((318, 328), (318, 132)), (324, 230)),
    (P.DECIDING, P.PREPARING, _I): Route(((492, 328), (492, 132)), (498, 182)),
    (P.DECIDING, P.REACTIVE_COMPACTING, _I): Route(((704, 368), (704, 414)), (710, 391)),
    (P.DECIDING, P.RUNNING_STOP_HOOKS, _I): Route(((594, 368), (594, 498)), (600, 391)),
    (P.DECIDING, P.RUNNING_TOOLS, _I): Route(((450, 368), (450, 584)), (456, 467)),
    (P.RUNNING_TOOLS, P.GATHERING_ATTACHMENTS, _I): Route(((450, 628), (450, 684)), (456, 656)),
    (P.REACTIVE_COMPACTING, P.PREPARING, _C): Route(((656, 436), (292, 436), (292, 132)), (300, 427), above=True),
    (P.RUNNING_STOP_HOOKS, P.PREPARING, _C): Route(((515, 520), (274, 520), (274, 132)), (282, 511), above=True),
    (P.GATHERING_ATTACHMENTS, P.PREPARING, _C): Route(((364, 706), (256, 706), (256, 132)), (264, 678), above=True),
    (P.PREPARING, P.BLOCKING_LIMIT, _T): Route(((_EDGE, 104), (_END, 94)), curve=True),
    (P.PREPARING, P.MODEL_ERROR, _T): Route(((_EDGE, 120), (_END, 162)), curve=True),
    (P.DECIDING, P.MODEL_ERROR, _T): Route(((_EDGE, 336), (_END, 178)), curve=True),
    (P.DECIDING, P.PROMPT_TOO_LONG, _T): Route(((_EDGE, 344), (_END, 259)), curve=True),
    (P.DECIDING, P.IMAGE_ERROR, _T): Route(((_EDGE, 352), (_END, 315)), curve=True),
    (P.DECIDING, P.COMPLETED, _T): Route(((_EDGE, 360), (_END, 400)), curve=True),
    (P.REACTIVE_COMPACTING, P.PROMPT_TOO_LONG, _T): Route(((_EDGE, 430), (_END, 270)), curve=True),
    (P.REACTIVE_COMPACTING, P.IMAGE_ERROR, _T): Route(((_EDGE, 442), (_END, 326)), curve=True),
    (P.RUNNING_STOP_HOOKS, P.COMPLETED, _T): Route(((673, 513), (790, 513), (_END, 440)), curve=True),
    (P.RUNNING_STOP_HOOKS, P.STOP_HOOK_PREVENTED, _T): Route(((673, 526), (_END, 510)), curve=True),
    (P.RUNNING_TOOLS, P.MODEL_ERROR, _T): Route(((525, 606), (850, 606), (850, 194), (_END, 194))),
    (P.RUNNING_TOOLS, P.HOOK_STOPPED, _T): Route(((525, 595), (720, 595), (_END, 574)), curve=True),
    (P.RUNNING_TOOLS, P.MAX_TURNS, _T): Route(((525, 617), (720, 617), (_END, 628)), curve=True),
}

ABORTS: dict[Phase, Place] = {
    P.ABORTED_STREAMING: Place(744, 682, 200, 50),
    P.ABORTED_TOOLS: Place(744, 736, 200, 40),
}
"""Where the bundles of aborts stand."""

LEGEND: Point = (14.0, 220.0)
"""The left upper corner of the legend."""
LIST: Point = (14.0, 800.0)
"""The left upper corner of what is listed below the picture."""


def route(source: Phase, target: Phase, look: Look) -> Route:
    """Give the declared route of an edge, or a straight one."""
    known = ROUTES.get((source, target, look))
    if known is not None:
        return known
    a, b = PLACES[source], PLACES[target]
    middle = ((a.x + b.x) / 2 + 4, (a.y + b.y) / 2)
    return Route((_border(a, b), _border(b, a)), middle)


def _border(box: Place, towards: Place) -> Point:
    """The point of a box's border on the line between two centres."""
    dx, dy = towards.x - box.x, towards.y - box.y
    scale = max(2 * abs(dx) / box.width, 2 * abs(dy) / box.height, 1e-9)
    return box.x + dx / scale, box.y + dy / scale


def spline(path: Route, arrow: float) -> tuple[Point, tuple[Point, ...]]:
    """Turn a route into the control points of a cubic B-spline.

    Args:
        path: the route.
        arrow: length of the arrow head, in points.

    Returns:
        The tip of the arrow, and 3 n + 1 control points that end where the head begins.
    """
    tip = path.points[-1]
    if path.curve:
        begin, start = path.points[0], path.points[-2]
        base = (tip[0] - arrow, tip[1])
        bend = max(24.0, 0.5 * (base[0] - start[0]))
        straight = _straight(begin, start) if begin != start else []
        return tip, (begin, *straight, (start[0] + bend, start[1]), (base[0] - bend, base[1]), base)
    points = [*path.points[:-1], _towards(tip, path.points[-2], arrow)]
    made: list[Point] = [points[0]]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        enter, leave = _towards(corner, before, 10.0), _towards(corner, after, 10.0)
        made += _straight(made[-1], enter)
        made += [_towards(corner, before, 4.5), _towards(corner, after, 4.5), leave]
    made += _straight(made[-1], points[-1])
    return tip, tuple(made)


def _straight(start: Point, end: Point) -> list[Point]:
    dx, dy = (end[0] - start[0]) / 3, (end[1] - start[1]) / 3
    return [(start[0] + dx, start[1] + dy), (end[0] - dx, end[1] - dy), end]


def _towards(start: Point, end: Point, distance: float) -> Point:
    """The point at a distance from one point on the way to another."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    length = max((dx * dx + dy * dy) ** 0.5, 1e-9)
    share = min(distance / length, 1.0)
    return start[0] + dx * share, start[1] + dy * share
