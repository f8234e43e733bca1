"""``--output-format json`` and ``stream-json`` (spec 05; shapes of api-facts B4)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

from ..core.blocks import block_value, clean_text
from ..core.messages import MessageKind
from ..core.outputs import (
    BlockOutput,
    Boundary,
    CallEnd,
    ErrorOutput,
    InitOutput,
    Notice,
    Output,
    RawStreamEvent,
    RejectedOutput,
    RequestStart,
    Retrying,
    Tombstone,
    ToolProgress,
    ToolResult,
    ToolUseSummary,
    UserOutput,
)


def line_of(value: Mapping[str, Any]) -> str:
    """Give one JSON object on one line."""
    return clean_text(json.dumps(value, ensure_ascii=False)) + "\n"


class ResultView:
    """``json``: one object, at the end."""

    def show(self, output: Output) -> str:
        """Nothing is written before the end."""
        return ""

    def end(self, result: Mapping[str, Any]) -> str:
        """Give the result object."""
        return line_of(result)


class LinesView:
    """``stream-json``: one object a line, the last of which is the result object.

    A line of a block or a result has an ``output_id``; a ``tombstone`` line names those that are not part of the
    conversation, and the ``uuid`` of their lines.

    Args:
        partial: raw stream events have lines too, and ``call_end`` says which calls' pieces are to be dropped.
    """

    def __init__(self, *, partial: bool = False) -> None:
        self._partial = partial
        self._session = ""
        self._model = ""
        self._uuids: dict[str, str] = {}
        self._answered: dict[str, str] = {}

    def show(self, output: Output) -> str:
        """Give the lines of one output."""
        return "".join(line_of(value) for value in self._values(output))

    def end(self, result: Mapping[str, Any]) -> str:
        """Give the result object."""
        return line_of(result)

    def _values(self, output: Output) -> list[dict[str, Any]]:
        match output:
            case InitOutput():
                self._session = output.session_id
                return [self._system("init", **json.loads(output.details))]
            case RequestStart():
                self._model = output.model
            case BlockOutput():
                return [self._assistant(output)]
            case ToolResult():
                self._answered[output.tool_use_id] = output.id
                return [self._user([block_value(output.block)], output.id)]
            case UserOutput():
                return self._user_lines(output)
            case RawStreamEvent() if self._partial:
                return [self._line("stream_event", event=json.loads(output.event), parent_tool_use_id=None, call=output.call)]
            case CallEnd() if self._partial:
                return [self._system("call_end", call=output.call, ending=output.ending.value)]
            case Tombstone():
                return [self._tombstone(output.ids)]
            case _:
                return self._others(output)
        return []

    def _others(self, output: Output) -> list[dict[str, Any]]:
        match output:
            case Retrying():
                error = {"error_status": output.failure.status or None, "error": output.failure.kind.value}
                attempts = {"attempt": output.attempt, "max_retries": output.max_attempts, "retry_delay_ms": output.delay_ms}
                return [self._system("api_retry", **attempts, **error, message=output.failure.message)]
            case Boundary():
                sizes = {"trigger": output.trigger, "pre_tokens": output.before, "post_tokens": output.after}
                key = f"{output.kind}_metadata"
                return [self._system(f"{output.kind}_boundary", **{key: {**sizes, "detail": output.detail}})]
            case Notice():
                return [self._system("notice", level=output.level, text=output.text)]
            case ErrorOutput():
                failure = output.failure
                return [self._system("error", error=failure.kind.value, message=failure.message, status=failure.status or None)]
            case RejectedOutput():
                return [self._system("rejected", event=output.event, phase=output.phase, because=output.because)]
            case ToolProgress():
                return [self._line("tool_progress", tool_use_id=output.tool_use_id, text=output.text, parent_tool_use_id=None)]
            case ToolUseSummary():
                return [self._line("tool_use_summary", summary=output.text)]
            case _:
                return []

    def _line(self, kind: str, **fields: Any) -> dict[str, Any]:
        return {"type": kind, **fields, "session_id": self._session, "uuid": str(uuid.uuid4())}

    def _system(self, subtype: str, **fields: Any) -> dict[str, Any]:
        return self._line("system", subtype=subtype, **fields)

    def _named(self, line: dict[str, Any], output_id: str) -> dict[str, Any]:
        self._uuids[output_id] = line["uuid"]
        return {**line, "output_id": output_id}

    def _assistant(self, output: BlockOutput) -> dict[str, Any]:
        message = {
            "id": output.message_id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [block_value(output.block)],
            "stop_reason": None,
        }
        return self._named(self._line("assistant", message=message, parent_tool_use_id=None), output.id)

    def _user(self, blocks: list[Any], output_id: str, **fields: Any) -> dict[str, Any]:
        line = self._line("user", message={"role": "user", "content": blocks}, parent_tool_use_id=None, **fields)
        return self._named(line, output_id)

    def _user_lines(self, output: UserOutput) -> list[dict[str, Any]]:
        """Results had their lines when they came; those that the engine made (not run, interrupted) have them now."""
        message = output.message
        if message.kind is not MessageKind.TOOL_RESULTS:
            made = message.kind is not MessageKind.COMMAND
            return [self._user([block_value(block) for block in message.blocks], message.id, isSynthetic=made)]
        missing = [block for block in message.blocks if block.id not in self._answered]
        return [self._user([block_value(block)], f"{message.id}/{block.id}") for block in missing]

    def _tombstone(self, ids: tuple[str, ...]) -> dict[str, Any]:
        for call, output_id in tuple(self._answered.items()):
            if output_id in ids:
                del self._answered[call]
        uuids = [self._uuids[output_id] for output_id in ids if output_id in self._uuids]
        return self._line("tombstone", ids=list(ids), uuids=uuids)
