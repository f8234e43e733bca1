"""Token estimates by kind of content. They lean high: an early compaction is cheaper than a refused request (spec 01, 8).

The numbers were fitted to recorded usage; ``tests/bench/calibrate_tokens.py`` measures how far they are off.
"""

from __future__ import annotations

import re
import string

_LONG_RUN = re.compile(rb"[A-Za-z0-9+/=_\-]{48,}")
_LETTERS = string.ascii_letters.encode()
_PER_LETTER, _PER_SPACE, _PER_SIGN = 100, 84, 280
"""Tokens of a letter, of a space and of any other ASCII character (digits, punctuation, line ends), in 280ths."""

MESSAGE_OVERHEAD = 4
"""Tokens that the envelope of one message costs."""
CALL_OVERHEAD = 60
"""Tokens that the frame of one tool call costs, beside its name and input."""
RESULT_OVERHEAD = 40
"""Tokens that the frame of one tool result costs, beside its content."""
PATCH = 28
"""Side in pixels of the square that costs one token of an image (api-facts A20)."""
PDF_PAGE = 3_000
"""Tokens of one PDF page, text and picture together."""


def estimate_text(text: str) -> int:
    """Estimate the tokens of ``text``.

    Letters count one token for 2.8, spaces three for ten, every other ASCII character one: code, numbers and lists are
    dense. Unbroken runs (base64, hex) count one for two characters, every character outside ASCII one.

    Returns:
        Tokens, 0 for an empty text.
    """
    if not text:
        return 0
    plain = text.encode("ascii", "ignore")
    wide = len(text) - len(plain)
    dense = 0
    if len(plain) >= 48:
        rest = _LONG_RUN.sub(b"", plain)
        dense, plain = len(plain) - len(rest), rest
    others = plain.translate(None, _LETTERS)
    spaces = others.count(b" ")
    letters, signs = len(plain) - len(others), len(others) - spaces
    return wide + (dense + 1) // 2 + (letters * _PER_LETTER + spaces * _PER_SPACE + signs * _PER_SIGN + 279) // 280


def estimate_call(name: str, input_json: str) -> int:
    """Estimate a tool call by its name and the JSON text of its input."""
    return CALL_OVERHEAD + estimate_text(name) + estimate_text(input_json)


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
