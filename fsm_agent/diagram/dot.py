"""Pictures in the DOT language of Graphviz: parts of the machine, laid out by Graphviz; the whole is in ``dot_placed``."""

from __future__ import annotations

from html import escape

from ..core.phases import Phase
from ..core.table import Row
from .model import MACHINE, Look, Node, Picture, Role
from .paths import Paint
from .style import MEANINGS, PAINTED, PAPER, TEXT, Line, box, is_success, line, names, sample, stays, visited, wrap

FONT = "Helvetica,Arial,sans-serif"
SMALL = 9.5
"""Size of the second line of a phase, in points."""
_ENDS = ("#9a3412", "#fdba74", "#fffaf5")
"""Text, border and paper of the frame around the terminal phases."""
_STROKES = {Look.CONTINUE: "━━", Look.INTERNAL: "──", Look.TERMINAL: "╌╌", Look.ABORT: "┈┈"}


def write_dot(picture: Picture, paint: Paint | None = None) -> str:
    """Write a picture in DOT.

    Args:
        picture: what to show.
        paint: counts to paint on it, None for the machine as it is.

    Returns:
        The text, ended by a newline; equal arguments give equal text. The picture of the whole machine holds the places
        of everything (``dot -n2`` draws it as it is), the others are laid out by ``dot``.
    """
    if picture.name == MACHINE:
        from .dot_placed import write_placed

        return write_placed(picture, paint)
    seen = visited(picture.rows, paint)
    caption = _caption(picture, paint)
    rankdir, ranksep = ("LR", 0.9) if picture.across else ("TB", 0.45)
    lines = [
        *opening(picture, "dot -Tsvg"),
        f'  graph [rankdir={rankdir}, nodesep=0.3, ranksep={ranksep}, pad=0.25, bgcolor="{PAPER}", fontname="{FONT}",',
        f'         fontsize=10, fontcolor="{TEXT}", labelloc=b, labeljust=l, label=<{caption}>];',
        *defaults(),
    ]
    inner = [node for node in picture.nodes if node.role is not Role.TERMINAL]
    ends = [node for node in picture.nodes if node.role is Role.TERMINAL]
    lines += [_node(node, picture, paint, seen) for node in inner]
    lines += [_node(node, picture, paint, seen) for node in ends]
    if ends:
        lines.append(f"  {{ rank=max; {'; '.join(node.phase.value for node in ends)} }}")
    for arrow in picture.arrows:
        hint = f'tooltip="{tip(arrow.rows, paint)}"'
        label = "".join(f"  {name}\\l" for name in names(arrow, paint, detailed=picture.detailed))
        drawn = stroke(line(arrow.look, arrow.rows, paint))
        lines.append(f'  {arrow.source} -> {arrow.target} [label="{label}", {drawn}, {hint}];')
    return "\n".join([*lines, "}", ""])


def opening(picture: Picture, command: str) -> list[str]:
    """Give the first lines: what it is, how to draw it."""
    return [
        f"// {picture.title}. Made from the declared table; not to be edited. Draw with: {command}",
        f"digraph {picture.name} {{",
    ]


def defaults() -> list[str]:
    """Give the attributes of all nodes and edges."""
    return [
        f'  node [shape=box, fontname="{FONT}", fontsize=13.5, fontcolor="{TEXT}", margin="0.12,0.06", penwidth=1.3];',
        f'  edge [fontname="{FONT}", fontsize=11, arrowsize=0.8];',
    ]


def frame(paint: Paint | None) -> str:
    """Give the attributes of the frame around the terminal phases."""
    text, border, fill = ("#374151", "#9ca3af", "#fafafa") if paint is not None and paint.covers else _ENDS
    return (
        f'label="the run ends"; labeljust=l; labelloc=t; fontname="{FONT}"; fontsize=11; fontcolor="{text}"; '
        f'style=rounded; color="{border}"; bgcolor="{fill}";'
    )


def stroke(drawn: Line) -> str:
    """Give the attributes of an edge."""
    return f'color="{drawn.color}", fontcolor="{drawn.text}", style={drawn.style}, penwidth={drawn.width:g}'


def tip(rows: tuple[Row, ...], paint: Paint | None) -> str:
    """Give the text that shows when the pointer rests on something: every row, with its count if counts are painted."""
    counts = {row.name: "" if paint is None else f" ×{paint.counts.get(row.name, 0)}" for row in rows}
    return "&#10;".join(escape(f"{row.name}{counts[row.name]}: {row.text}") for row in rows)


def node_text(node: Node, paint: Paint | None, *, detailed: bool, width: int) -> str:
    """Give the text of a phase: its name, what stays in it, and the causes of a terminal one, ``width`` letters a line."""
    small: list[str] = []
    if node.role is Role.TERMINAL:
        small = [_causes(text) for text in wrap(node.causes, width)]
    elif detailed:
        small = [escape(text) for text in wrap((row.name for row in node.stays), width)]
        small = [f"stays: {small[0]}", *small[1:]] if small else []
    elif stays(node, paint):
        small = [escape(stays(node, paint))]
    below = "".join(f'<BR/><FONT POINT-SIZE="{SMALL:g}">{text}</FONT>' for text in small)
    return f"<B>{node.phase}</B>{below}"


def _causes(text: str) -> str:
    """Set the causes that count as a success in bold."""
    words = [word.strip(",") for word in text.split()]
    shown = ", ".join(f"<B>{word}</B>" if is_success(word) else word for word in words)
    return f"{shown}," if text.endswith(",") else shown


def _node(node: Node, picture: Picture, paint: Paint | None, seen: frozenset[Phase]) -> str:
    look = box(node, paint, seen)
    text = node_text(node, paint, detailed=picture.detailed, width=30)
    size = ", fontsize=11" if node.role is Role.TERMINAL else ""
    return f'  {node.phase} [label=<{text}>, style="{look.style}", fillcolor="{look.fill}", color="{look.border}"{size}];'


def _caption(picture: Picture, paint: Paint | None) -> str:
    looks = dict.fromkeys(arrow.look for arrow in picture.arrows)
    strokes = "   ".join(
        f'<FONT COLOR="{sample(look, paint).color}"><B>{_STROKES[look]}</B> {MEANINGS[look]}</FONT>'
        for look in Look
        if look in looks
    )
    words = [f"<B>{escape(picture.title)}</B>"]
    if paint is not None:
        words.append(escape(paint.summary(picture.rows)))
    if paint is not None and paint.covers:
        words.append("   ".join(f'<FONT COLOR="{color}">{escape(text)}</FONT>' for color, text in PAINTED))
    return '<BR ALIGN="LEFT"/>'.join([" ", *words, strokes, ""])
