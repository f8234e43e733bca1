"""How a reply ended, as its events say it: stop reason, edits, refusal details, usage, what is still pending."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.blocks import dumps
from ..core.events import StreamCompleted
from ..core.usage import ModelUsage
from .usage_reader import Price, context_tokens, merge_usage, natural, read_usage


class ReplyEnd:
    """Collects what ``message_start`` and each ``message_delta`` say; the last word on each point holds.

    Attributes:
        stop_reason: the API's word, None until it came.
        usage: the raw usage so far: the last value of each field.
    """

    __slots__ = ("_code_calls", "_details", "_edits", "_sequence", "_server_calls", "stop_reason", "usage")

    def __init__(self) -> None:
        self.stop_reason: str | None = None
        self.usage: dict[str, Any] = {}
        self._sequence = ""
        self._details = ""
        self._edits: list[Any] = []
        self._server_calls: dict[str, None] = {}
        self._code_calls = False

    def read(self, value: Mapping[str, Any]) -> None:
        """Take a ``message``, a ``message_delta`` event, or the ``delta`` in it."""
        reason = value.get("stop_reason")
        if isinstance(reason, str) and reason:
            self.stop_reason = reason
        sequence = value.get("stop_sequence")
        if isinstance(sequence, str) and sequence:
            self._sequence = sequence
        details = value.get("stop_details")
        if isinstance(details, Mapping):
            self._details = dumps(details)
        management = value.get("context_management")
        edits = management.get("applied_edits") if isinstance(management, Mapping) else None
        if isinstance(edits, list):
            self._edits = edits
        self.usage = merge_usage(self.usage, value.get("usage"))

    def track(self, kind: str, identity: str, value: Mapping[str, Any]) -> None:
        """Look at one completed block: is a call of the API's own tools, or one made by code, still without its result?"""
        if kind in ("server_tool_use", "mcp_tool_use"):
            self._server_calls[identity] = None
        elif kind == "tool_use":
            caller = value.get("caller")
            if isinstance(caller, Mapping) and caller.get("type") not in (None, "direct"):
                self._code_calls = True
        else:
            answers = value.get("tool_use_id")
            if isinstance(answers, str):
                self._server_calls.pop(answers, None)

    def used(self, model: str, price: Price) -> tuple[ModelUsage, ...]:
        """Give the usage so far, by model."""
        return read_usage(self.usage, model, price)

    def completed(self, call: str, model: str, price: Price) -> StreamCompleted:
        """Make the event of a complete reply."""
        cleared = sum(natural(edit.get("cleared_input_tokens")) for edit in self._edits if isinstance(edit, Mapping))
        return StreamCompleted(
            id=call,
            stop_reason=self.stop_reason,
            usage=self.used(model, price),
            context_tokens=context_tokens(self.usage),
            applied_edits=dumps(self._edits) if self._edits else "",
            cleared_tokens=cleared,
            stop_details=self._details,
            stop_sequence=self._sequence,
            unresolved=bool(self._server_calls) or self._code_calls,
        )
