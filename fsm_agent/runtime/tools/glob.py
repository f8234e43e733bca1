"""The Glob tool: files by the pattern of their names (spec 03, Tools)."""

from __future__ import annotations

import os

from ...core.blocks import clean_text
from ..threads import run_on_thread
from .base import Access, AccessKind, Call, JsonObject, Tool, ToolContext, ToolError, ToolOutput, object_schema
from .paths import Workspace
from .walk import glob_pattern, walk

MAX_RESULTS = 200


class Glob(Tool):
    """Finds files by name."""

    name = "Glob"
    description = (
        "Finds files by a glob such as `**/*.py` or `src/**/test_*.{js,ts}`, newest first. Ignored files and directories of "
        f"version control are left out. At most {MAX_RESULTS} paths."
    )
    input_schema = object_schema(
        {
            "pattern": {"type": "string", "minLength": 1, "description": "The glob, relative to `path`"},
            "path": {"type": "string", "description": "Directory to search, the working directory by default"},
        },
        required=("pattern",),
    )
    idempotent = True
    timeout = 60.0
    compactable = True

    def is_read_only(self, tool_input: JsonObject) -> bool:
        """Always."""
        return True

    def is_concurrency_safe(self, tool_input: JsonObject) -> bool:
        """Always."""
        return True

    def prepare(self, tool_input: JsonObject, workspace: Workspace) -> Call:
        """Resolve the directory; an absolute pattern is split into directory and rest."""
        pattern, path = str(tool_input["pattern"]), str(tool_input.get("path") or ".")
        if os.path.isabs(pattern) or pattern.startswith("~"):
            parts = pattern.split("/")
            plain = next((index for index, part in enumerate(parts) if any(mark in part for mark in "*?[{")), len(parts) - 1)
            path, pattern = "/".join(parts[:plain]) or "/", "/".join(parts[plain:])
        if ".." in pattern.split("/"):
            raise ToolError("a pattern must not hold '..'; give the directory as path")
        place = workspace.resolve(path)
        return Call(
            input={**tool_input, "pattern": pattern, "path": place.real},
            access=(Access(AccessKind.READ, place.real, place.given),),
        )

    async def run(self, tool_input: JsonObject, context: ToolContext) -> ToolOutput:
        """Search."""
        return await run_on_thread(_search, str(tool_input["path"]), str(tool_input["pattern"]), context)


def _search(root: str, pattern: str, context: ToolContext) -> ToolOutput:
    if not os.path.isdir(root):
        raise ToolError(f"{root} is not a directory." if os.path.lexists(root) else f"{root} does not exist.")
    try:
        wanted = glob_pattern(pattern)
    except ValueError as bad:
        raise ToolError(f"{bad}.") from None
    found: list[tuple[int, str]] = []
    for path in walk(root, context.readable):
        if wanted.match(os.path.relpath(path, root)):
            try:
                found.append((-os.stat(path, follow_symlinks=False).st_mtime_ns, path))
            except OSError:
                continue
    found.sort()
    lines = [clean_text(context.workspace.show(path)) for _, path in found[:MAX_RESULTS]]
    if not lines:
        return ToolOutput("No files found.")
    more = f"\n... [{len(found) - MAX_RESULTS} more files; use a narrower pattern]" if len(found) > MAX_RESULTS else ""
    # Which file is newest changes; what is there does not.
    return ToolOutput("\n".join(lines) + more, stable="\n".join(sorted(lines)) + more)
