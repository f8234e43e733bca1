"""What a call of Edit or Write is going to change, as a diff."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from ..console import Paint, clean

SHOWN = 40
"""Lines of a diff that are shown."""
_WIDEST = 200


def diff_lines(name: str, given: Mapping[str, Any], paint: Paint) -> list[str]:
    """Give the lines of what a call changes; empty for a call that changes no file.

    Args:
        name: the tool.
        given: the call's input.
        paint: colours.
    """
    if name == "Edit":
        before, after = str(given.get("old_string", "")), str(given.get("new_string", ""))
    elif name == "Write":
        before, after = "", str(given.get("content", ""))
    else:
        return []
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=2))[2:]
    shown = [_line(line, paint) for line in lines[:SHOWN]]
    if len(lines) > SHOWN:
        shown.append(paint(f"  ({len(lines) - SHOWN} more lines)", dim=True))
    return shown


def _line(line: str, paint: Paint) -> str:
    text = clean(line[:_WIDEST])
    if line.startswith("+"):
        return "  " + paint(text, "green")
    if line.startswith("-"):
        return "  " + paint(text, "red")
    return "  " + paint(text, dim=True)
