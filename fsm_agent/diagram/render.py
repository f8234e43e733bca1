"""Pictures as SVG and PNG, drawn by Graphviz; each carries the digest of its DOT (spec 04)."""

from __future__ import annotations

import hashlib
import re
import shutil
import struct
import zlib

from .model import DiagramError

KEY = "fsm-agent-dot-sha256"
"""The name under which a drawn file carries the digest of its DOT."""
MISSING = (
    "Graphviz is not installed: its program 'dot' was not found. Install it ('apt-get install graphviz', 'brew install "
    "graphviz' or 'winget install graphviz'), or choose the formats dot, mermaid or scxml, which need no program."
)
_PNG = b"\x89PNG\r\n\x1a\n"
_DPI = "144"


def digest(dot: str) -> str:
    """Give the SHA-256 of a DOT text, in hexadecimal."""
    return hashlib.sha256(dot.encode()).hexdigest()


def render_svg(dot: str) -> bytes:
    """Draw DOT as SVG.

    Args:
        dot: the text; one that holds its places is drawn as it is.

    Returns:
        The file, with the digest of the DOT in a comment behind the XML declaration.

    Raises:
        DiagramError: if Graphviz is missing or refuses the text.
    """
    drawn = _draw(dot, "svg").decode()
    head, _, rest = drawn.partition("?>")
    return f"{head}?>\n<!-- {KEY}: {digest(dot)} -->{rest}".encode()


def render_png(dot: str) -> bytes:
    """Draw DOT as PNG, at twice the size of the page for sharp screens.

    Args:
        dot: the text.

    Returns:
        The file, with the digest of the DOT in a ``tEXt`` chunk.

    Raises:
        DiagramError: if Graphviz is missing or refuses the text.
    """
    return carrying(_draw(_with_dpi(dot), "png"), digest(dot))


def carrying(drawn: bytes, made_of: str) -> bytes:
    """Put the digest of what a PNG was made of into it, as a ``tEXt`` chunk."""
    # The first chunk is IHDR: 8 bytes of signature, 4 of length, 4 of type, 13 of content, 4 of check sum.
    place = len(_PNG) + 25
    return drawn[:place] + _chunk(b"tEXt", f"{KEY}\0{made_of}".encode("latin-1")) + drawn[place:]


def need_program(fmt: str) -> None:
    """See whether a format can be drawn, before any work.

    Raises:
        DiagramError: if Graphviz is needed and missing.
    """
    if fmt in ("svg", "png") and shutil.which("dot") is None:
        raise DiagramError(MISSING)


def layout_json(dot: str) -> bytes:
    """Give the boxes and texts of a drawn picture, as Graphviz's JSON.

    Raises:
        DiagramError: if Graphviz is missing or refuses the text.
    """
    return _draw(dot, "json")


def carried_digest(drawn: bytes) -> str:
    """Read the digest of its DOT out of an SVG or PNG, empty if it carries none."""
    if not drawn.startswith(_PNG):
        found = re.search(rf"<!-- {KEY}: ([0-9a-f]{{64}}) -->".encode(), drawn[:4096])
        return found.group(1).decode() if found else ""
    place = len(_PNG)
    while place + 12 <= len(drawn):
        (length,) = struct.unpack(">I", drawn[place : place + 4])
        kind, content = drawn[place + 4 : place + 8], drawn[place + 8 : place + 8 + length]
        name, _, value = content.partition(b"\0")
        if kind == b"tEXt" and name == KEY.encode():
            return value.decode("latin-1")
        place += 12 + length
    return ""


def _with_dpi(dot: str) -> str:
    return re.sub(r"^(digraph \w+ \{)$", rf"\1\n  dpi={_DPI};", dot, count=1, flags=re.MULTILINE)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _draw(dot: str, fmt: str) -> bytes:
    import graphviz

    source = graphviz.Source(dot, engine="dot")
    try:
        # The flag -n2 is for the picture that names the layout neato and holds its places; dot's own layout ignores it.
        return bytes(source.pipe(format=fmt, neato_no_op=2, quiet=True))
    except graphviz.ExecutableNotFound as error:
        raise DiagramError(MISSING) from error
    except graphviz.CalledProcessError as error:
        raise DiagramError(f"Graphviz could not draw the picture: {_said(error.stderr)}") from error


def _said(stderr: bytes | str | None) -> str:
    text = stderr.decode(errors="replace") if isinstance(stderr, bytes) else (stderr or "no reason given")
    return " ".join(text.split())
