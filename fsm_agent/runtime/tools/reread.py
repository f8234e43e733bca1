"""Reads again what the model had read, for a compaction: only files that it really read and may still read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...core.messages import Message
from ..reattach import MAX_FILES, File, recent_paths
from .files import decode_file, read_bytes
from .paths import PathProblem
from .read import MAX_LINES, numbered

if TYPE_CHECKING:
    from .pipeline import ToolBox

MAX_BYTES = 60_000
"""Larger files are not shown again as a whole; the model reads what it needs of them."""
_TOOLS = ("Read", "Edit", "Write")


class RecentFiles:
    """Implements :data:`~fsm_agent.runtime.reattach.Reread` over the files of a toolbox.

    Args:
        box: the toolbox; its policy of the moment decides.
    """

    def __init__(self, box: ToolBox) -> None:
        self._box = box

    def __call__(self, going: Sequence[Message], tail: Sequence[Message]) -> Sequence[File]:
        """Give the files that are read again, the most recent first; those that the tail still shows are left out."""
        shown = {self._real(path) for path in recent_paths(tail, ("Read",))}
        found: dict[str, File] = {}
        for path in recent_paths(going, _TOOLS):
            real = self._real(path)
            if not real or real in shown or real in found or not self._box.files.was_read(real):
                continue
            policy = self._box.policy
            if not (policy.workspace.may_read(real) and policy.readable(real)):
                continue
            text = self._text(real)
            if text:
                found[real] = File(path, text)
            if len(found) == MAX_FILES:
                break
        return tuple(found.values())

    def _real(self, path: str) -> str:
        try:
            return self._box.policy.workspace.resolve(path).real
        except PathProblem:
            return ""

    def _text(self, real: str) -> str:
        try:
            data = read_bytes(real, MAX_BYTES)
            decoded = decode_file(data)
            if decoded is None or not decoded.text:
                return ""
            lines = numbered(decoded.text)
            if len(lines) > MAX_LINES:
                return ""
            # The model sees the file as it is now, so it may edit it without reading it again.
            self._box.files.note(real, data)
        except (OSError, PathProblem):
            return ""
        return "\n".join(lines)
