"""Pictures as Mermaid flowcharts, which many pages draw by themselves."""

from __future__ import annotations

from .model import Look, Node, Picture, Role
from .paths import Paint
from .style import BOXES, TEXT, box, line, names, visited, wrap

_LINKS: dict[Look, tuple[str, str]] = {
    Look.CONTINUE: ("==", "==>"),
    Look.INTERNAL: ("--", "-->"),
    Look.TERMINAL: ("-.", ".->"),
    Look.ABORT: ("-.", ".->"),
}


def write_mermaid(picture: Picture, paint: Paint | None = None) -> str:
    """Write a picture as a Mermaid flowchart.

    Args:
        picture: what to show.
        paint: counts to paint on it, None for the machine as it is.

    Returns:
        The text, ended by a newline. Every colour is set together with that of the text on it, so that the chart can be
        read on light and on dark pages.
    """
    seen = visited(picture.rows, paint)
    lines = [f"%% {picture.title}. Made from the declared table; not to be edited.", "flowchart TB"]
    lines += [f"  {_node(node)}" for node in picture.nodes if node.role is not Role.TERMINAL]
    ends = [node for node in picture.nodes if node.role is Role.TERMINAL]
    if ends:
        lines += ['  subgraph ends["the run ends"]', *(f"    {_node(node)}" for node in ends), "  end"]
    styles: list[str] = []
    for arrow in picture.arrows:
        text = "<br/>".join(names(arrow, paint, detailed=picture.detailed))
        start, end = _LINKS[arrow.look]
        lines.append(f'  {arrow.source} {start} "{text}" {end} {arrow.target}')
        drawn = line(arrow.look, arrow.rows, paint)
        styles.append(f"  linkStyle {len(styles)} stroke:{drawn.color},stroke-width:{drawn.width:g}px")
    for bundle in picture.bundles:
        drawn = line(Look.ABORT, bundle.rows, paint)
        phases = "<br/>".join(wrap((phase.value for phase in bundle.sources), 44))
        lines.append(f'  aborts_{bundle.target}["an abort in<br/>{phases}"]:::aborts -.-> {bundle.target}')
        styles.append(f"  linkStyle {len(styles)} stroke:{drawn.color},stroke-width:{drawn.width:g}px")
    lines += styles
    for role, look in BOXES.items():
        members = [node for node in picture.nodes if node.role is role]
        if members:
            lines.append(f"  classDef {_class(role)} {_fill(look.fill, look.border)}")
            lines.append(f"  class {','.join(node.phase.value for node in members)} {_class(role)}")
    if picture.bundles:
        lines.append(f"  classDef aborts {_fill('#f3f4f6', '#9ca3af')}")
    for node in picture.nodes:
        look = box(node, paint, seen)
        if look != BOXES[node.role]:
            lines.append(f"  style {node.phase} {_fill(look.fill, look.border)}")
    if ends:
        lines.append("  style ends fill:#fffaf5,stroke:#fdba74,color:#9a3412")
    return "\n".join([*lines, ""])


def _class(role: Role) -> str:
    return f"phase_{role}"


def _fill(fill: str, border: str) -> str:
    return f"fill:{fill},stroke:{border},color:{TEXT}"


def _node(node: Node) -> str:
    match node.role:
        case Role.START:
            return f'{node.phase}(["{node.phase}"])'
        case Role.TRANSIENT:
            return f'{node.phase}{{{{"{node.phase}"}}}}'
        case Role.WAITING:
            return f'{node.phase}("{node.phase}")'
        case Role.TERMINAL:
            small = "<br/>".join(wrap(node.causes, 36))
            return f'{node.phase}["<b>{node.phase}</b><br/>{small}"]'
