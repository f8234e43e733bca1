"""The Edit tool: exact replacement, once or everywhere; encoding and line ends stay (spec 03, Tools)."""

from __future__ import annotations

import re

from anyio import to_thread

from ...core.blocks import clean_text
from .base import Access, AccessKind, Call, JsonObject, Tool, ToolContext, ToolError, ToolOutput, object_schema
from .files import MAX_EDIT_BYTES, decode_file, read_bytes
from .paths import PathProblem, Workspace, write_atomic


class Edit(Tool):
    """Replaces a text in one file."""

    name = "Edit"
    description = (
        "Replaces `old_string` by `new_string` in a file. `old_string` must be in the file exactly as written, white space "
        "included and without the line numbers that Read shows, and only once unless `replace_all` is true. The file must "
        "have been read first, and must not have changed since. Encoding and line ends stay as they are."
    )
    input_schema = object_schema(
        {
            "file_path": {"type": "string", "description": "Path of the file, absolute or relative to the working directory"},
            "old_string": {"type": "string", "minLength": 1, "description": "The text to replace"},
            "new_string": {"type": "string", "description": "The text to put in its place"},
            "replace_all": {"type": "boolean", "description": "Replace every occurrence"},
        },
        required=(
            "file_path",
            "old_string",
            "new_string",
        ),
    )
    timeout = 60.0

    def prepare(self, tool_input: JsonObject, workspace: Workspace) -> Call:
        """Resolve the path."""
        place = workspace.resolve(str(tool_input["file_path"]))
        return Call(input={**tool_input, "file_path": place.real}, access=(Access(AccessKind.WRITE, place.real, place.given),))

    async def run(self, tool_input: JsonObject, context: ToolContext) -> ToolOutput:
        """Edit the file."""
        return await to_thread.run_sync(
            _edit,
            str(tool_input["file_path"]),
            clean_text(str(tool_input["old_string"])),
            clean_text(str(tool_input["new_string"])),
            bool(tool_input.get("replace_all", False)),
            context,
        )


def replace(text: str, old: str, new: str, everywhere: bool) -> tuple[str, int, int]:
    r"""Replace ``old`` by ``new`` in ``text``, where a line end of ``old`` stands for ``\n`` and ``\r\n`` alike.

    Returns:
        The new text, its line ends like those around them, how many places were replaced, and where the first was.

    Raises:
        ToolError: if ``old`` is not there, or more than once and not ``everywhere``.
    """
    lines = old.replace("\r\n", "\n").split("\n")
    pattern = re.compile("\r?\n".join(re.escape(line) for line in lines))
    found = [match.span() for match in pattern.finditer(text)]
    if not found:
        raise ToolError("The text to replace is not in the file. It must match exactly, white space included.")
    if len(found) > 1 and not everywhere:
        at = ", ".join(str(text.count("\n", 0, start) + 1) for start, _ in found[:5])
        raise ToolError(
            f"The text to replace is in the file {len(found)} times (lines {at}). "
            "Give more of what is around it, or set replace_all."
        )
    dominant = "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"
    plain = new.replace("\r\n", "\n")
    pieces, last = [], 0
    for start, end in found:
        taken = text[start:end]
        ending = dominant if "\n" not in taken else "\r\n" if "\r\n" in taken else "\n"
        pieces += [text[last:start], plain.replace("\n", ending)]
        last = end
    return "".join([*pieces, text[last:]]), len(found), found[0][0]


def _edit(real: str, old: str, new: str, everywhere: bool, context: ToolContext) -> ToolOutput:
    if old == new:
        raise ToolError("old_string and new_string are the same; nothing was changed.")
    try:
        data = read_bytes(real, MAX_EDIT_BYTES)
        problem = context.files.problem(real, data)
        if problem:
            raise ToolError(f"{real} was not changed. {problem}")
        decoded = decode_file(data)
        if decoded is None:
            raise ToolError(f"{real} is a binary file; it was not changed.")
        text, count, start = replace(decoded.text, old, new, everywhere)
        try:
            changed = decoded.encode(text)
        except UnicodeEncodeError as bad:
            raise ToolError(
                f"{real} is encoded in {decoded.encoding}, which has no form for {bad.object[bad.start]!r}."
            ) from None
        write_atomic(real, changed)
        context.files.note(real, changed)
    except FileNotFoundError:
        raise ToolError(f"{real} does not exist. Use Write to make it.") from None
    except PathProblem as refused:
        raise ToolError(f"{refused}.") from None
    except OSError as failed:
        raise ToolError(f"{real} cannot be changed: {failed.strerror or failed}.") from None
    return ToolOutput(f"Replaced {count} {'place' if count == 1 else 'places'} in {real}." + _around(text, start))


def _around(text: str, at: int) -> str:
    """Show the lines around the first change, so that the model sees what is there now."""
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    number = text.count("\n", 0, at)
    first, last = max(0, number - 2), min(len(lines), number + 4)
    shown = "\n".join(f"{index + 1:>6}\t{lines[index][:200]}" for index in range(first, last))
    return "\n" + shown if shown else ""
