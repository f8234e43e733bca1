"""The Grep tool: ripgrep where it is present, else Python with the same meaning for the basics (spec 03, Tools)."""

from __future__ import annotations

import os
import shutil
from typing import Any

from ...core.events import Outcome
from ..threads import run_on_thread
from .base import Access, AccessKind, Call, JsonObject, Tool, ToolContext, ToolError, ToolOutput, object_schema
from .bounded import decode
from .grepping import Hit, Query, search
from .paths import Workspace
from .process import Spawn, run_process

MAX_OUTPUT = 2_000_000
MAX_LINE = 500
DEFAULT_LIMIT = 250
_TYPES = {
    "py": ("*.py", "*.pyi"),
    "js": ("*.js", "*.jsx", "*.mjs", "*.cjs"),
    "ts": ("*.ts", "*.tsx", "*.mts", "*.cts"),
    "rust": ("*.rs",),
    "go": ("*.go",),
    "java": ("*.java",),
    "c": ("*.c", "*.h"),
    "cpp": ("*.cpp", "*.cc", "*.cxx", "*.hpp", "*.hh", "*.h"),
    "md": ("*.md", "*.markdown"),
    "json": ("*.json",),
    "yaml": ("*.yaml", "*.yml"),
    "toml": ("*.toml",),
    "html": ("*.html", "*.htm"),
    "css": ("*.css", "*.scss"),
    "sh": ("*.sh", "*.bash"),
    "rb": ("*.rb",),
    "txt": ("*.txt",),
}


class Grep(Tool):
    """Searches the contents of files."""

    name = "Grep"
    description = (
        "Searches files by a regular expression. `output_mode`: `files_with_matches` (default) lists paths, `content` shows "
        "lines with numbers, `count` counts matching lines. Ignored files and directories of version control are left out."
    )
    input_schema = object_schema(
        {
            "pattern": {"type": "string", "minLength": 1, "description": "The regular expression"},
            "path": {"type": "string", "description": "File or directory, the working directory by default"},
            "glob": {"type": "string", "description": "Only files whose path matches, e.g. *.py"},
            "type": {"type": "string", "enum": sorted(_TYPES), "description": "Only files of this kind"},
            "output_mode": {"type": "string", "enum": ["content", "files_with_matches", "count"]},
            "-i": {"type": "boolean", "description": "Ignore case"},
            "-n": {"type": "boolean", "description": "Line numbers in content mode, on by default"},
            "-A": {"type": "integer", "minimum": 0, "maximum": 100, "description": "Lines after a match"},
            "-B": {"type": "integer", "minimum": 0, "maximum": 100, "description": "Lines before a match"},
            "-C": {"type": "integer", "minimum": 0, "maximum": 100, "description": "Lines around a match"},
            "multiline": {"type": "boolean", "description": "Matches may span lines"},
            "head_limit": {"type": "integer", "minimum": 1, "description": f"Lines or paths shown, {DEFAULT_LIMIT} by default"},
        },
        required=("pattern",),
    )
    idempotent = True
    max_result_chars = 40_000
    timeout = 60.0
    compactable = True

    def __init__(self, *, ripgrep: str | None = "rg") -> None:
        """Make the tool; ``ripgrep`` names the program, None searches in Python."""
        self._ripgrep = shutil.which(ripgrep) if ripgrep else None

    def is_read_only(self, tool_input: JsonObject) -> bool:
        """Always."""
        return True

    def is_concurrency_safe(self, tool_input: JsonObject) -> bool:
        """Always."""
        return True

    def prepare(self, tool_input: JsonObject, workspace: Workspace) -> Call:
        """Resolve the path."""
        place = workspace.resolve(str(tool_input.get("path") or "."))
        return Call(input={**tool_input, "path": place.real}, access=(Access(AccessKind.READ, place.real, place.given),))

    async def run(self, tool_input: JsonObject, context: ToolContext) -> ToolOutput:
        """Search."""
        path = str(tool_input["path"])
        if not os.path.exists(path):
            raise ToolError(f"{path} does not exist.")
        around = int(tool_input.get("-C") or 0)
        globs = _TYPES.get(str(tool_input.get("type", "")), ())
        mode = str(tool_input.get("output_mode") or "files_with_matches")
        query = Query(
            pattern=str(tool_input["pattern"]),
            path=path,
            globs=(str(tool_input["glob"]),) if tool_input.get("glob") else globs,
            ignore_case=bool(tool_input.get("-i")),
            multiline=bool(tool_input.get("multiline")),
            before=int(tool_input.get("-B") or around) if mode == "content" else 0,
            after=int(tool_input.get("-A") or around) if mode == "content" else 0,
        )
        if self._ripgrep:
            hits, cut = await _ripgrep(self._ripgrep, query, context)
        else:
            hits, cut = await run_on_thread(search, query, context)
        return _shown(hits, cut, mode, dict(tool_input), context)


async def _ripgrep(program: str, query: Query, context: ToolContext) -> tuple[list[Hit], bool]:
    arguments = [program, "--no-config", "--color=never", "--no-heading", "--with-filename", "--line-number", "--null"]
    arguments += [
        "--hidden",
        "--glob=!.git",
        "--glob=!.hg",
        "--glob=!.svn",
        "--glob=!.jj",
        "--sort=path",
        "--no-messages",
        "--crlf",
    ]
    arguments += [f"--max-columns={MAX_LINE}", "--max-columns-preview", f"--before-context={query.before}"]
    arguments += [f"--after-context={query.after}", *(f"--glob={item}" for item in query.globs)]
    arguments += ["--ignore-case"] if query.ignore_case else []
    arguments += ["--multiline", "--multiline-dotall"] if query.multiline else []
    arguments += [f"--regexp={query.pattern}", "--", query.path]
    spawn = Spawn(argv=arguments, cwd=context.workspace.cwd, env=context.env, timeout=45, head=MAX_OUTPUT, tail=0, split=True)
    result = await run_process(spawn)
    if result.timed_out:
        raise ToolError("The search took longer than 45 s; use a narrower path or glob.")
    if result.exit_code not in (0, 1) and not result.output.total:
        words = result.errors.text().strip()[:1_000]
        if words:
            raise ToolError(f"The search failed: {words}")
    data = result.output.head
    cut = result.output.dropped > 0
    if cut:
        data = data[: data.rfind(b"\n") + 1]
    return _parse(data, context), cut


def _parse(data: bytes, context: ToolContext) -> list[Hit]:
    """Read ``path NUL line (: or -) text`` lines; files that may not be read are left out."""
    hits: list[Hit] = []
    allowed: dict[bytes, str] = {}
    for line in data.split(b"\n"):
        name, mark, rest = line.partition(b"\0")
        if not mark:
            continue
        if name not in allowed:
            real = os.fsdecode(name)
            allowed[name] = real if context.readable(real) else ""
        real = allowed[name]
        digits = 0
        while rest[digits : digits + 1].isdigit():
            digits += 1
        if real and digits:
            hits.append(
                Hit(real, int(rest[:digits]), decode(rest[digits + 1 :].rstrip(b"\r")), rest[digits : digits + 1] == b":")
            )
    return hits


def _shown(hits: list[Hit], cut: bool, mode: str, tool_input: dict[str, Any], context: ToolContext) -> ToolOutput:
    limit = int(tool_input.get("head_limit") or DEFAULT_LIMIT)
    counts: dict[str, int] = {}
    for hit in hits:
        if hit.is_match:
            counts[hit.path] = counts.get(hit.path, 0) + 1
    if not counts:
        return ToolOutput("No matches found.", Outcome.OK)
    if mode == "content":
        lines = _content(hits, bool(tool_input.get("-n", True)), context)
    elif mode == "count":
        lines = [f"{_name(path, context)}:{count}" for path, count in counts.items()]
    else:
        lines = [_name(path, context) for path in counts]
    more = len(lines) - limit
    tail = [f"... [{more} more lines]"] if more > 0 else []
    tail += ["... [the search was cut; use a narrower pattern or path]"] if cut else []
    return ToolOutput("\n".join(lines[:limit] + tail))


def _name(path: str, context: ToolContext) -> str:
    return decode(os.fsencode(context.workspace.show(path)))


def _content(hits: list[Hit], numbers: bool, context: ToolContext) -> list[str]:
    lines: list[str] = []
    previous: Hit | None = None
    around = any(not hit.is_match for hit in hits)
    for hit in hits:
        if around and previous is not None and (previous.path != hit.path or hit.line > previous.line + 1):
            lines.append("--")
        mark = ":" if hit.is_match else "-"
        lines.append(f"{_name(hit.path, context)}{mark}{f'{hit.line}{mark}' if numbers else ''}{hit.text}")
        previous = hit
    return lines
