"""The committed pictures: written together, and found stale together (spec 04)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from .dot import write_dot
from .mermaid import write_mermaid
from .model import MACHINE, DiagramError, picture
from .paths import Paint
from .render import carried_digest, digest, render_png, render_svg
from .scxml import write_scxml

FORMATS = ("svg", "png", "dot", "mermaid", "scxml")
SUFFIXES = {"svg": "svg", "png": "png", "dot": "dot", "mermaid": "mmd", "scxml": "scxml"}
COMMITTED: Mapping[str, tuple[str, ...]] = {
    MACHINE: FORMATS,
    "recovery": ("svg", "png", "dot", "mermaid"),
    "tools": ("svg", "png", "dot", "mermaid"),
    "context": ("svg", "dot", "mermaid"),
    "ending": ("svg", "dot", "mermaid"),
}
"""What ``diagrams/`` holds: the formats of each focus."""


def draw(focus: str = MACHINE, fmt: str = "svg", paint: Paint | None = None) -> bytes:
    """Make one picture.

    Args:
        focus: ``machine`` or a name of ``FOCI``.
        fmt: one of ``FORMATS``.
        paint: counts to paint on it; SCXML has no paint.

    Returns:
        The content of the file; texts are UTF-8.

    Raises:
        DiagramError: for an unknown focus or format, or if Graphviz is needed and missing.
    """
    shown = picture(focus)
    match fmt:
        case "svg":
            return render_svg(write_dot(shown, paint))
        case "png":
            return render_png(write_dot(shown, paint))
        case "dot":
            return write_dot(shown, paint).encode()
        case "mermaid":
            return write_mermaid(shown, paint).encode()
        case "scxml":
            return write_scxml(shown).encode()
    raise DiagramError(f"no format is named {fmt!r}; there are: {', '.join(FORMATS)}")


def write_all(directory: Path) -> tuple[Path, ...]:
    """Write all committed pictures.

    Args:
        directory: made if it is missing.

    Returns:
        The files written.

    Raises:
        DiagramError: if Graphviz is missing; nothing is written then.
    """
    drawn = {f"{focus}.{SUFFIXES[fmt]}": draw(focus, fmt) for focus, formats in COMMITTED.items() for fmt in formats}
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in drawn.items():
        (directory / name).write_bytes(content)
    return tuple(directory / name for name in drawn)


def stale(directory: Path) -> tuple[str, ...]:
    """Compare the committed pictures with the table; needs no Graphviz.

    Args:
        directory: where they are.

    Returns:
        One sentence for each file that is missing, differs as text, or was drawn from another DOT.
    """
    found: list[str] = []
    for focus, formats in COMMITTED.items():
        current = digest(write_dot(picture(focus)))
        for fmt in formats:
            path = directory / f"{focus}.{SUFFIXES[fmt]}"
            if not path.is_file():
                found.append(f"{path.name} is missing")
            elif fmt in ("svg", "png"):
                if carried_digest(path.read_bytes()) != current:
                    found.append(f"{path.name} was drawn from another table")
            elif path.read_bytes() != draw(focus, fmt):
                found.append(f"{path.name} differs from the table")
    return tuple(found)
