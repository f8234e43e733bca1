"""Token estimates by kind of content. They lean high: an early compaction is cheaper than a refused request (spec 01, 8)."""

from __future__ import annotations

import re

_LONG_RUN = re.compile(r"[A-Za-z0-9+/=_\-]{48,}")
_WIDE = re.compile(r"[^\x00-\x7f]")

MESSAGE_OVERHEAD = 4
"""Tokens that the envelope of one message costs."""
PATCH = 28
"""Side in pixels of the square that costs one token of an image (api-facts A20)."""
PDF_PAGE = 3_000
"""Tokens of one PDF page, text and picture together."""


def estimate_text(text: str) -> int:
    """Estimate the tokens of ``text``.

    Plain ASCII counts one token for three characters, unbroken runs (base64, hex, digits) one for two, every
    character outside ASCII at least one.

    Returns:
        Tokens, 0 for an empty text.
    """
    size = len(text)
    if size == 0:
        return 0
    wide = 0 if text.isascii() else len(_WIDE.findall(text))
    dense = sum(m.end() - m.start() for m in _LONG_RUN.finditer(text)) if size >= 48 else 0
    plain = size - wide - dense
    return wide + (dense + 1) // 2 + (plain + 2) // 3


def estimate_image(width: int, height: int, cap: int = 4_784) -> int:
    """Estimate the tokens of an image of ``width`` x ``height`` pixels; unknown sizes (0) cost the cap."""
    if width <= 0 or height <= 0:
        return cap
    return min(cap, -(-width // PATCH) * -(-height // PATCH))


def estimate_document(pages: int) -> int:
    """Estimate the tokens of a PDF of ``pages`` pages; an unknown count (0) is taken for one page."""
    return max(1, pages) * PDF_PAGE


def estimate_schema(text: str) -> int:
    """Estimate the tokens of a tool schema or another piece of JSON, dense in punctuation."""
    return (len(text) + 1) // 2 if text.isascii() else estimate_text(text)
