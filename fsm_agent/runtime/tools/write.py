"""The Write tool: a whole file (spec 03, Tools)."""

from __future__ import annotations

import os

from anyio import to_thread

from ...core.blocks import clean_text
from .base import Access, AccessKind, Call, JsonObject, Tool, ToolContext, ToolError, ToolOutput, object_schema
from .files import MAX_EDIT_BYTES, read_bytes
from .paths import PathProblem, Workspace, write_atomic


class Write(Tool):
    """Writes one file as a whole."""

    name = "Write"
    description = (
        "Writes a file as a whole, making missing directories. A file that exists must have been read first, and must not "
        "have changed since. Prefer Edit for changes."
    )
    input_schema = object_schema(
        {
            "file_path": {"type": "string", "description": "Path of the file, absolute or relative to the working directory"},
            "content": {"type": "string", "description": "The whole content"},
        },
        required=(
            "file_path",
            "content",
        ),
    )
    timeout = 60.0

    def prepare(self, tool_input: JsonObject, workspace: Workspace) -> Call:
        """Resolve the path."""
        place = workspace.resolve(str(tool_input["file_path"]))
        return Call(input={**tool_input, "file_path": place.real}, access=(Access(AccessKind.WRITE, place.real, place.given),))

    async def run(self, tool_input: JsonObject, context: ToolContext) -> ToolOutput:
        """Write the file."""
        return await to_thread.run_sync(_write, str(tool_input["file_path"]), str(tool_input["content"]), context)


def _write(real: str, content: str, context: ToolContext) -> ToolOutput:
    data = clean_text(content).encode("utf-8")
    try:
        exists = os.path.lexists(real)
        if exists:
            problem = context.files.problem(real, read_bytes(real, MAX_EDIT_BYTES))
            if problem:
                raise ToolError(f"{real} exists. {problem}")
        write_atomic(real, data)
        context.files.note(real, data)
    except PathProblem as refused:
        raise ToolError(f"{refused}.") from None
    except OSError as failed:
        raise ToolError(f"{real} cannot be written: {failed.strerror or failed}.") from None
    lines = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    return ToolOutput(f"{'Replaced' if exists else 'Made'} {real} ({lines} lines, {len(data)} bytes).")
