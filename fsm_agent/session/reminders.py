"""Texts of files and programs inside the element that marks them as background, which they cannot close."""

from __future__ import annotations

import re

_TAG = re.compile(r"<(?=\s*/?\s*system-reminder\b)", re.IGNORECASE)


def harmless(text: str) -> str:
    """Make the element's tags inside a text plain text."""
    return _TAG.sub("&lt;", text)


def reminder(text: str) -> str:
    """Put a text into the element."""
    return f"<system-reminder>\n{harmless(text)}\n</system-reminder>"
