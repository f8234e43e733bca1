"""Full texts of tool results that the context layers show in part (spec 02, layer 1): kept by call, read again by ``Read``.

Memory is bounded: the oldest texts give way, and what is not there is looked for in the log, where every result stands.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from ...core.blocks import Block
from ...core.context.result_budget import REFERENCE
from ...core.events import Event, ToolFinished

MAX_KEPT = 32_000_000
"""Characters that are kept in memory."""
LEAST = 100
"""Shorter results are never shown in part."""
LINE = 2_000
"""Longer lines are folded, so that every part of a text can be reached by its line number."""

Finder = Callable[[str], str | None]


def result_text(block: Block) -> str:
    """Give the text of a ``tool_result`` block; media and other parts are left out."""
    content = json.loads(block.json).get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text"]
    return "\n".join(text for text in texts if isinstance(text, str))


def referred(path: str) -> str:
    """Give the tool_use_id that a ``tool-result://`` reference names; empty for any other path."""
    return path.strip().removeprefix(REFERENCE) if path.strip().startswith(REFERENCE) else ""


def folded(text: str) -> list[str]:
    """Split a text into lines of at most :data:`LINE` characters."""
    lines: list[str] = []
    for line in text.replace("\r\n", "\n").split("\n"):
        lines += [line[start : start + LINE] for start in range(0, len(line), LINE)] or [""]
    return lines


class ResultStore:
    """Texts of results by tool_use_id.

    Args:
        limit: characters that are kept; the oldest texts give way to new ones.
        finder: gives a text that is not kept (from a log), or None.
    """

    def __init__(self, limit: int = MAX_KEPT, finder: Finder | None = None) -> None:
        self._limit = limit
        self._finder = finder
        self._texts: dict[str, str] = {}
        self._size = 0

    def put(self, block: Block) -> None:
        """Keep the text of a result; an older one under the same id is replaced."""
        text = result_text(block)
        if len(text) < LEAST or not block.id:
            return
        self._size += len(text) - len(self._texts.pop(block.id, ""))
        self._texts[block.id] = text
        while self._size > self._limit and self._texts:
            self._size -= len(self._texts.pop(next(iter(self._texts))))

    def get(self, tool_use_id: str) -> str | None:
        """Give the text of a result, None if it is neither kept nor found."""
        text = self._texts.get(tool_use_id)
        if text is None and self._finder is not None:
            text = self._finder(tool_use_id)
        return text

    def look_in(self, finder: Finder | None) -> None:
        """Look for texts that are not kept in another place from now on."""
        self._finder = finder

    def take(self, events: Iterable[Event]) -> None:
        """Keep the results of recorded events, such as those of the log that a run goes on from."""
        for event in events:
            if isinstance(event, ToolFinished):
                self.put(event.result)
