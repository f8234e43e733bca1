"""Boxes of nodes and labels in a drawn picture, read from Graphviz's JSON."""

from __future__ import annotations

import json
from itertools import combinations

from attrs import frozen

from fsm_agent.diagram.render import layout_json

SLACK = 1.0
"""Points by which two boxes may touch."""


@frozen
class Box:
    """A rectangle in points, and what it holds."""

    name: str
    left: float
    bottom: float
    right: float
    top: float

    def overlaps(self, other: Box) -> bool:
        """Say whether two boxes share more than a border."""
        across = min(self.right, other.right) - max(self.left, other.left)
        down = min(self.top, other.top) - max(self.bottom, other.bottom)
        return across > SLACK and down > SLACK

    def holds(self, other: Box) -> bool:
        """Say whether another box lies within this one."""
        wide = other.left >= self.left - SLACK and other.right <= self.right + SLACK
        return wide and other.bottom >= self.bottom - SLACK and other.top <= self.top + SLACK


@frozen
class Drawn:
    """What a picture shows: boxes of nodes, texts in them, labels and lines of edges, and its size in points."""

    nodes: tuple[Box, ...]
    texts: tuple[Box, ...]
    labels: tuple[Box, ...]
    lines: tuple[tuple[str, tuple[tuple[float, float], ...]], ...]
    width: float
    height: float


def drawn(dot: str) -> Drawn:
    """Draw a picture and read its boxes.

    Args:
        dot: the picture.

    Returns:
        The boxes, in points.
    """
    read = json.loads(layout_json(dot))
    left, bottom, right, top = (float(number) for number in read["bb"].split(","))
    nodes, texts = [], []
    for thing in read["objects"]:
        if "pos" not in thing or thing.get("style") == "invis":
            continue
        x, y = (float(number) for number in thing["pos"].split(","))
        wide, high = float(thing["width"]) * 72, float(thing["height"]) * 72
        nodes.append(Box(thing["name"], x - wide / 2, y - high / 2, x + wide / 2, y + high / 2))
        texts += _texts(thing["name"], thing.get("_ldraw_", []))
    labels, lines = [], []
    ids = {thing["_gvid"]: thing["name"] for thing in read["objects"]}
    for edge in read.get("edges", []):
        name = f"{ids[edge['tail']]} -> {ids[edge['head']]}"
        lines += [(name, _points(drawing["points"])) for drawing in edge.get("_draw_", []) if drawing["op"] == "b"]
        said = _texts(edge.get("label", ""), edge.get("_ldraw_", []))
        if said:
            labels.append(_union(said))
    return Drawn(tuple(nodes), tuple(texts), tuple(labels), tuple(lines), right - left, top - bottom)


def _points(control: list[list[float]]) -> tuple[tuple[float, float], ...]:
    """Points along a line of cubic curves, given by their control points."""
    made = []
    for start in range(0, len(control) - 1, 3):
        a, b, c, d = control[start : start + 4]
        for step in range(41):
            t = step / 40
            weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
            made.append(tuple(sum(w * p[axis] for w, p in zip(weights, (a, b, c, d), strict=True)) for axis in (0, 1)))
    return tuple(made)  # type: ignore[arg-type]


def struck(seen: Drawn) -> list[str]:
    """List the words of edges through which a line runs; numbers stand on their own line."""
    return [
        f"{name} runs through {label.name!r}"
        for label in seen.labels
        if not label.name.startswith("<")
        for name, points in seen.lines
        if any(label.left < x < label.right and label.bottom < y < label.top for x, y in points)
    ]


def _texts(name: str, operations: list[dict[str, object]]) -> list[Box]:
    size, made = 0.0, []
    for operation in operations:
        if operation["op"] == "F":
            size = float(operation["size"])  # type: ignore[arg-type]
        elif operation["op"] == "T" and str(operation["text"]).strip():
            x, y = (float(number) for number in operation["pt"])  # type: ignore[attr-defined]
            wide = float(operation["width"])  # type: ignore[arg-type]
            start = {"l": x, "c": x - wide / 2, "r": x - wide}[str(operation["align"])]
            made.append(Box(name, start, y - 0.15 * size, start + wide, y + 0.7 * size))
    return made


def _union(boxes: list[Box]) -> Box:
    return Box(
        boxes[0].name,
        min(box.left for box in boxes),
        min(box.bottom for box in boxes),
        max(box.right for box in boxes),
        max(box.top for box in boxes),
    )


def has_helvetica() -> bool:
    """Say whether the fonts here have the widths of Helvetica, for which the boxes of the whole machine are made."""
    (text,) = drawn('digraph probe { a [fontname="Helvetica", fontsize=10, label="max_output_tokens_recovery"] }').texts
    return text.right - text.left < 130


def faults(seen: Drawn, *, texts: bool = True) -> list[str]:
    """List what hides something else: boxes over boxes, labels over labels or boxes, texts that leave their box."""
    found = [f"{a.name} over {b.name}" for a, b in combinations(seen.nodes, 2) if a.overlaps(b)]
    found += [f"label {a.name!r} over label {b.name!r}" for a, b in combinations(seen.labels, 2) if a.overlaps(b)]
    found += [f"label {a.name!r} over {b.name}" for a in seen.labels for b in seen.nodes if a.overlaps(b)]
    boxes = {box.name: box for box in seen.nodes}
    if texts:
        found += [f"text of {text.name} leaves its box" for text in seen.texts if not boxes[text.name].holds(text)]
    return found
