"""The Read tool: text with line numbers, images, PDF files (spec 03, Tools)."""

from __future__ import annotations

import base64
import hashlib
import os
from typing import Any

from anyio import to_thread

from ...core.blocks import clean_text
from ...core.context.result_budget import REFERENCE
from .base import Access, AccessKind, Call, JsonObject, Tool, ToolContext, ToolError, ToolOutput, object_schema
from .bounded import decode
from .files import MAX_EDIT_BYTES, Seen, decode_file
from .media import MediaInfo, sniff
from .paths import PathProblem, Workspace, open_regular
from .stored import folded, referred

MAX_LINES = 2_000
MAX_LINE_CHARS = 2_000
MAX_TEXT_CHARS = 100_000
MAX_SCAN_BYTES = 512_000_000
MAX_IMAGE_BYTES = 5_000_000
"""Encoded bytes of one image that every model takes."""
MAX_IMAGE_SIDE = 8_000
MAX_PDF_BYTES = 20_000_000
MAX_PDF_PAGES = 100


class Read(Tool):
    """Reads one file."""

    name = "Read"
    description = (
        f"Reads a file. Text comes with line numbers, at most {MAX_LINES} lines from `offset` on; longer lines are cut. "
        "Images (PNG, JPEG, GIF, WebP) and PDF files are shown as such. Directories cannot be read: use Glob. "
        f"A shortened tool result is read in full under its {REFERENCE} reference."
    )
    input_schema = object_schema(
        {
            "file_path": {"type": "string", "description": "Path of the file, absolute or relative to the working directory"},
            "offset": {"type": "integer", "minimum": 1, "description": "First line, counted from 1"},
            "limit": {"type": "integer", "minimum": 1, "description": "How many lines"},
        },
        required=("file_path",),
    )
    idempotent = True
    # It bounds itself, and a stored copy of a file would only be read by this tool again.
    max_result_chars = None
    timeout = 60.0
    compactable = True

    def is_read_only(self, tool_input: JsonObject) -> bool:
        """Always."""
        return True

    def is_concurrency_safe(self, tool_input: JsonObject) -> bool:
        """Always."""
        return True

    def prepare(self, tool_input: JsonObject, workspace: Workspace) -> Call:
        """Resolve the path."""
        path = str(tool_input["file_path"])
        if referred(path):
            return Call(input={**tool_input, "file_path": path.strip()})  # what the model has seen already: no file is touched
        place = workspace.resolve(path)
        return Call(input={**tool_input, "file_path": place.real}, access=(Access(AccessKind.READ, place.real, place.given),))

    async def run(self, tool_input: JsonObject, context: ToolContext) -> ToolOutput:
        """Read the file."""
        return await to_thread.run_sync(_read, dict(tool_input), context)


def _read(tool_input: dict[str, Any], context: ToolContext) -> ToolOutput:
    real = str(tool_input["file_path"])
    if referred(real):
        return _stored(referred(real), tool_input, context)
    try:
        handle = open_regular(real)
    except FileNotFoundError:
        raise ToolError(f"{real} does not exist.{_similar(real)}") from None
    except PathProblem as problem:
        raise ToolError(f"{problem}." + (" Use Glob to list files." if "directory" in str(problem) else "")) from None
    except OSError as problem:
        raise ToolError(f"{real} cannot be read: {problem.strerror or problem}.") from None
    with os.fdopen(handle, "rb") as file:
        size = os.fstat(handle).st_size
        mtime = os.fstat(handle).st_mtime_ns
        start = file.read(65_536)
        info = sniff(start)
        if info is not None:
            return _media(real, start + file.read(max(MAX_IMAGE_BYTES, MAX_PDF_BYTES) + 1), size)
        if size <= MAX_EDIT_BYTES:
            data = start + file.read(MAX_EDIT_BYTES + 1)
            output = _text(real, data, tool_input)
            context.files.restore([(real, Seen(len(data), mtime, hashlib.sha256(data).hexdigest()))])
            return output
        if b"\0" in start:
            raise ToolError(f"{real} is a binary file of {size} bytes; it cannot be shown.")
        file.seek(0)
        output = _large(file, size, tool_input)
        context.files.restore([(real, Seen(size, mtime))])
        return output


def _stored(tool_use_id: str, tool_input: dict[str, Any], context: ToolContext) -> ToolOutput:
    """Show the full text of an earlier result; long lines are folded, since their ends could not be reached else."""
    text = context.results.get(tool_use_id)
    if text is None:
        raise ToolError(f"The result of {tool_use_id} is no longer kept. Run the tool again if it is needed.")
    lines = folded(text)
    first, count = _range(tool_input)
    if first > len(lines):
        raise ToolError(f"The result has only {len(lines)} lines; offset {first} is behind its end.")
    return _shown(lines, first, count)


def _similar(real: str) -> str:
    """Name files that the model may have meant."""
    folder, name = os.path.split(real)
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return f" Its directory {folder} does not exist either." if not os.path.isdir(folder) else ""
    stem = os.path.splitext(name)[0].lower()
    near = [other for other in names if other.lower() == name.lower() or os.path.splitext(other)[0].lower() == stem][:3]
    return clean_text(f" Did you mean {', '.join(near)}?") if near else ""


def _range(tool_input: dict[str, Any]) -> tuple[int, int]:
    first = int(tool_input.get("offset") or 1)
    return first, min(int(tool_input.get("limit") or MAX_LINES), MAX_LINES)


def _text(real: str, data: bytes, tool_input: dict[str, Any]) -> ToolOutput:
    decoded = decode_file(data)
    if decoded is None:
        raise ToolError(f"{real} is a binary file of {len(data)} bytes; it cannot be shown.")
    if not decoded.text:
        return ToolOutput("(the file is empty)")
    first, count = _range(tool_input)
    # Only the line ends of files split lines, not every character that str.splitlines() takes for one.
    lines = _lines(decoded.text)
    if first > len(lines):
        raise ToolError(f"{real} has only {len(lines)} lines; offset {first} is behind its end.")
    return _shown(lines, first, count)


def _lines(text: str) -> list[str]:
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def numbered(text: str) -> list[str]:
    """Give the lines of a text as this tool shows them, numbered from 1."""
    return _safe("\n".join(_number(_lines(text), 1))).split("\n")


def _shown(lines: list[str], first: int, count: int) -> ToolOutput:
    numbered = _number(lines[first - 1 : first - 1 + count], first)
    last = first + len(numbered) - 1
    rest = f"\n... [{len(lines) - last} more lines; go on with offset {last + 1}]" if last < len(lines) else ""
    return ToolOutput(_safe("\n".join(numbered)) + rest)


def _safe(text: str) -> str:
    return decode(clean_text(text).encode("utf-8"))


def _number(lines: list[str], first: int) -> list[str]:
    numbered: list[str] = []
    used = 0
    for number, line in enumerate(lines, first):
        shown = (
            line
            if len(line) <= MAX_LINE_CHARS
            else f"{line[:MAX_LINE_CHARS]} ... [{len(line) - MAX_LINE_CHARS} characters cut]"
        )
        used += len(shown) + 8
        if used > MAX_TEXT_CHARS and numbered:
            break
        numbered.append(f"{number:>6}\t{shown}")
    return numbered


def _large(file: Any, size: int, tool_input: dict[str, Any]) -> ToolOutput:
    """Read lines of a file that is too large to be held; each line is bounded while it is read."""
    first, count = _range(tool_input)
    number, scanned = 0, 0
    lines: list[str] = []
    while len(lines) < count:
        line = file.readline(MAX_LINE_CHARS * 4)
        if not line:
            break
        number += 1
        cut = 0
        while not line.endswith(b"\n"):
            more = file.readline(65_536)
            if not more:
                break
            cut += len(more)
            scanned += len(more)
            if more.endswith(b"\n"):
                break
        scanned += len(line)
        if scanned > MAX_SCAN_BYTES:
            raise ToolError(f"Line {first} lies behind the first {MAX_SCAN_BYTES} bytes; search with Grep instead.")
        if number >= first:
            lines.append(decode(line.rstrip(b"\r\n"), cut_end=bool(cut)))
    if not lines:
        raise ToolError(f"The file has only {number} lines; offset {first} is behind its end.")
    numbered = _number(lines, first)
    last = first + len(numbered) - 1
    return ToolOutput("\n".join(numbered) + f"\n... [file of {size} bytes; go on with offset {last + 1}]")


def _media(real: str, data: bytes, size: int) -> ToolOutput:
    info = sniff(data) or MediaInfo("application/octet-stream")
    encoded_size = (size + 2) // 3 * 4
    if info.media_type == "application/pdf":
        if size > MAX_PDF_BYTES:
            raise ToolError(f"{real} is a PDF of {size} bytes; at most {MAX_PDF_BYTES} can be shown.")
        if info.pages > MAX_PDF_PAGES:
            raise ToolError(f"{real} is a PDF of {info.pages} pages; at most {MAX_PDF_PAGES} can be shown.")
        kind = "document"
    else:
        if encoded_size > MAX_IMAGE_BYTES:
            raise ToolError(
                f"{real} is an image of {encoded_size} encoded bytes; at most {MAX_IMAGE_BYTES} can be shown. Shrink it first."
            )
        if max(info.width, info.height) > MAX_IMAGE_SIDE:
            raise ToolError(
                f"{real} is an image of {info.width}x{info.height} pixels; a side may have {MAX_IMAGE_SIDE}. Shrink it first."
            )
        if info.width == 0 or info.height == 0:
            raise ToolError(f"{real} looks like {info.media_type} but its header is damaged; it cannot be shown.")
        kind = "image"
    text = base64.b64encode(data).decode("ascii")
    block = {"type": kind, "source": {"type": "base64", "media_type": info.media_type, "data": text}}
    return ToolOutput((block,), sizes={text[:64]: (info.width, info.height, info.pages)})
