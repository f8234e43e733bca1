"""Texts of a log on their way into a page: secrets masked, control characters and direction marks made visible, bounded."""

from __future__ import annotations

import re
from collections.abc import Callable

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
LONGEST = 100_000
"""Characters of one text that a page holds; the log has the rest."""


_NAMES = {0x00: "NUL", 0x07: "BEL", 0x08: "BS", 0x0D: "CR", 0x1B: "ESC", 0x7F: "DEL"}


def visible(text: str) -> str:
    """Show what would be invisible, steer the direction of text, or not be a character at all, in angle quotes.

    A carriage return before a newline is left out; lone surrogates become U+FFFD.
    """
    return _HIDDEN.sub(_shown, text.replace("\r\n", "\n"))


def _shown(found: re.Match[str]) -> str:
    code = ord(found[0])
    return "\ufffd" if 0xD800 <= code <= 0xDFFF else f"‹{_NAMES.get(code, f'U+{code:04X}')}›"


class Words:
    """Makes texts fit for a page.

    Args:
        mask: masks secrets in a text.
        longest: characters after which a text is cut.
    """

    def __init__(self, mask: Callable[[str], str], longest: int = LONGEST) -> None:
        self._mask = mask
        self._longest = longest
        self._known: dict[str, str] = {}

    def __call__(self, text: str) -> str:
        """Give the text masked, visible and bounded; where it was cut it says so."""
        if len(text) <= 64:
            known = self._known.get(text)
            if known is None:
                known = self._known[text] = visible(self._mask(text))
            return known
        # Masked before it is cut: half a secret has no known shape.
        shown = visible(self._mask(text))
        if len(shown) <= self._longest:
            return shown
        return f"{shown[: self._longest]}\n… {len(shown) - self._longest:,} more characters; the log has them"


def one_line(text: str, limit: int) -> str:
    """Give the text on one line, cut to ``limit`` characters."""
    line = " ".join(text[: 8 * limit].split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
