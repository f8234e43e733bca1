"""From what a tool gave to the block that the model reads: mapped, bounded, stored where it is long (spec 03, Tools)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from ...core.blocks import Block, clean_text, dumps, read_block
from ...core.events import Outcome
from .base import ToolOutput
from .bounded import clip, decode
from .paths import write_atomic

MAX_STORED = 50_000_000
"""Longest text that is stored in a file, in characters."""
_BLOCK_TYPES = frozenset({"text", "image", "document", "search_result", "tool_reference"})


def to_output(value: Any) -> ToolOutput:
    """Map what a tool's function returned.

    Args:
        value: a text, bytes, None, content blocks, a ``ToolOutput``, or anything that JSON has a form for.

    Returns:
        The output.

    Raises:
        TypeError: if there is no form for it.
        ValueError: the same, for values such as NaN.
    """
    if isinstance(value, ToolOutput):
        return value
    if value is None:
        return ToolOutput("")
    if isinstance(value, str):
        return ToolOutput(value)
    if isinstance(value, bytes | bytearray):
        return ToolOutput(decode(bytes(value)))
    if (
        isinstance(value, Sequence)
        and value
        and all(isinstance(part, Mapping) and part.get("type") in _BLOCK_TYPES for part in value)
    ):
        return ToolOutput(tuple(dict(part) for part in value))
    if attrs.has(type(value)):
        value = attrs.asdict(value)
    return ToolOutput(dumps(value))


def _plain(text: str) -> str:
    """Text without lone surrogates and control characters."""
    return decode(clean_text(text).encode("utf-8"))


def add_notes(output: ToolOutput, notes: Sequence[str]) -> ToolOutput:
    """Append texts, such as words of hooks, behind the content."""
    if not notes:
        return output
    text = "\n\n".join(notes)
    if isinstance(output.content, str):
        return attrs.evolve(output, content=f"{output.content}\n\n{text}" if output.content.strip() else text)
    return attrs.evolve(output, content=(*output.content, {"type": "text", "text": text}))


def digest_of(output: ToolOutput) -> str:
    """SHA-256 of what loop detection compares: the content without what is declared volatile."""
    text = (
        output.stable
        if output.stable is not None
        else output.content
        if isinstance(output.content, str)
        else dumps(output.content)
    )
    return hashlib.sha256(f"{output.outcome.value}\n{clean_text(text)}".encode()).hexdigest()


class Bounds:
    """Keeps results within their limits; what is cut is stored in a folder that the model can read."""

    def __init__(self, folder: str | None = None) -> None:
        """Store long results in ``folder`` (made when it is needed); None stores none."""
        self._folder = folder

    def apply(self, output: ToolOutput, limit: int | None) -> ToolOutput:
        """Bound the text of a result to about ``limit`` characters; None bounds nothing."""
        if isinstance(output.content, str):
            return attrs.evolve(output, content=self._text(_plain(output.content), limit))
        parts = []
        for part in output.content:
            text = part.get("text")
            if part.get("type") == "text" and isinstance(text, str):
                if not text.strip():
                    continue  # the API refuses blank text
                part = {**part, "text": self._text(_plain(text), limit)}
            parts.append(part)
        return attrs.evolve(output, content=tuple(parts) or "")

    def _text(self, text: str, limit: int | None) -> str:
        if limit is None or len(text) <= limit:
            return text
        stored = self._store(text)
        return clip(text, limit, f"the whole result is in {stored}; use Read" if stored else "")

    def _store(self, text: str) -> str:
        if self._folder is None or len(text) > MAX_STORED:
            return ""
        data = text.encode("utf-8")
        # Named by content, so that equal results are stored once and read the same.
        path = os.path.join(self._folder, hashlib.sha256(data).hexdigest()[:32] + ".txt")
        try:
            if not os.path.exists(path):
                os.makedirs(self._folder, mode=0o700, exist_ok=True)
                write_atomic(os.path.realpath(path), data)
        except OSError:
            return ""  # the cut result still tells that something is missing
        return path


def to_block(tool_use_id: str, output: ToolOutput) -> Block:
    """Make the ``tool_result`` block of a call."""
    content: Any = output.content
    content = list(content) if not isinstance(content, str) else content.strip() and content
    content = content or "(no output)"
    value: dict[str, Any] = {"type": "tool_result", "tool_use_id": tool_use_id, "content": content}
    if output.outcome is not Outcome.OK:
        value["is_error"] = True
    return read_block(value, output.sizes)
