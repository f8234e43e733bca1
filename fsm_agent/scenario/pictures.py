"""Pictures of scenarios: plain PNG files of a given size, and what their headers say of them."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from ..runtime.tools.media import sniff

MAX_SIDE = 8_000
"""Pixels that the API takes on one side."""
_HEAD = 64
"""Characters of base64 by which :func:`fsm_agent.core.blocks.read_block` knows a picture; they hold a PNG's header."""


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


@lru_cache(maxsize=8)
def png(width: int, height: int) -> str:
    """Make a grey PNG, in base64.

    It is not compressed, so it has about three bytes a pixel, as a photograph would.

    Args:
        width: pixels.
        height: pixels.
    """
    rows = (b"\x00" + b"\x80\x80\x80" * width) * height
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows, 0)) + _chunk(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + chunks).decode("ascii")


def image(data: str) -> dict[str, Any]:
    """Make the block of a PNG, given in base64."""
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


def measured(blocks: Iterable[object]) -> dict[str, tuple[int, int, int]]:
    """Give (width, height, pages) of the pictures among decoded blocks, in the form that ``read_block`` takes.

    The runtime measures what comes in from tools and users; the core cannot.
    """
    found: dict[str, tuple[int, int, int]] = {}
    for block in blocks:
        source = block.get("source") if isinstance(block, Mapping) else None
        data = source.get("data") if isinstance(source, Mapping) else None
        if not isinstance(data, str):
            continue
        try:
            info = sniff(base64.b64decode(data[:_HEAD], validate=True))
        except ValueError:
            continue
        if info is not None:
            found[data[:_HEAD]] = (info.width, info.height, info.pages)
    return found
