"""The shell tool: one command line, judged part by part, run in a session of its own (spec 03, Tools)."""

from __future__ import annotations

import os
import shutil
from typing import Any

import anyio

from ...core.events import Outcome
from .base import Access, AccessKind, Call, JsonObject, Tool, ToolContext, ToolOutput, object_schema
from .bounded import decode
from .paths import Workspace
from .process import ProcessResult, Spawn, describe, run_process

DEFAULT_TIMEOUT_MS = 120_000
MAX_TIMEOUT_MS = 600_000
_PROGRESS_EVERY = 1.0
"""Seconds between two progress texts."""
_PROGRESS_CHARS = 2_000


class _Progress:
    """Hands output on at most once a second, the newest part only, so that a flood costs the log little."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._pending = b""
        self._next = anyio.current_time() + _PROGRESS_EVERY

    async def __call__(self, data: bytes) -> None:
        self._pending = (self._pending + data[-_PROGRESS_CHARS:])[-_PROGRESS_CHARS:]
        now = anyio.current_time()
        if now >= self._next:
            text, self._pending = decode(self._pending, cut_start=True), b""
            self._next = now + _PROGRESS_EVERY
            await self._context.progress(text)


class Bash(Tool):
    """Runs a command line with bash."""

    name = "Bash"
    description = (
        "Runs one bash command line in the working directory and gives back its output (standard error included) and exit "
        "code. Each call is a new shell: a directory change or a variable does not last. Nothing can be typed in: standard "
        "input is empty and there is no terminal. Background processes end with the command. Long output is shown with its "
        "beginning and its end. Use Read, Glob, Grep and Edit for files rather than cat, find, grep and sed."
    )
    input_schema = object_schema(
        {
            "command": {"type": "string", "description": "The command line", "minLength": 1},
            "timeout": {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_TIMEOUT_MS,
                "description": f"Milliseconds until it is ended, {DEFAULT_TIMEOUT_MS} by default",
            },
            "description": {"type": "string", "description": "What it does, in a few words"},
        },
        required=("command",),
    )
    max_result_chars = 40_000
    cancels_siblings_on_error = True
    compactable = True
    timeout = None  # it ends its process itself and keeps what was printed

    def __init__(
        self, *, default_timeout_ms: int = DEFAULT_TIMEOUT_MS, max_timeout_ms: int = MAX_TIMEOUT_MS, grace: float = 1.0
    ) -> None:
        """Make the tool.

        Args:
            default_timeout_ms: milliseconds, if the model sets none.
            max_timeout_ms: milliseconds, more are cut to this.
            grace: seconds between TERM and KILL.
        """
        self._default = default_timeout_ms
        self._max = max_timeout_ms
        self._grace = grace
        self._shell = shutil.which("bash") or "/bin/sh"

    def is_read_only(self, tool_input: JsonObject) -> bool:
        """True if every command of the line is known to change nothing."""
        # Imported here: the parser is slow to load, and not every program that imports the tools runs a shell.
        from ..permissions.readonly import is_read_only_line

        return is_read_only_line(str(tool_input["command"]))

    def is_concurrency_safe(self, tool_input: JsonObject) -> bool:
        """True for read-only lines."""
        return self.is_read_only(tool_input)

    def prepare(self, tool_input: JsonObject, workspace: Workspace) -> Call:
        """A command line touches what its parts touch; the permission rules look at them."""
        command = str(tool_input["command"])
        return Call(input=dict(tool_input), access=(Access(AccessKind.SHELL, command),))

    async def run(self, tool_input: JsonObject, context: ToolContext) -> ToolOutput:
        """Run the line; a non-zero exit is an ``error``, a timeout ``failed``, with the output so far."""
        command = str(tool_input["command"])
        if "\0" in command:
            return ToolOutput("The command holds a NUL character.", Outcome.FAILED)
        timeout = min(int(tool_input.get("timeout") or self._default), self._max) / 1000
        arguments = ["--noprofile", "--norc", "-c", command] if os.path.basename(self._shell) == "bash" else ["-c", command]
        spawn = Spawn(
            argv=[self._shell, *arguments],
            cwd=context.workspace.cwd,
            env=context.env,
            timeout=timeout,
            grace=self._grace,
        )
        try:
            result = await run_process(spawn, _Progress(context))
        except OSError as problem:
            return ToolOutput(f"The shell could not be started: {problem.strerror or problem}", Outcome.FAILED)
        return _output(result, timeout)


def _output(result: ProcessResult, timeout: float) -> ToolOutput:
    text = result.output.text().rstrip("\n")
    notes = describe(result, timeout)
    parts: list[Any] = [part for part in (text, notes) if part.strip()]
    if result.timed_out:
        return ToolOutput("\n".join([notes, *parts[:-1]]), Outcome.FAILED, stable="timed out\n" + text)
    if result.exit_code != 0:
        return ToolOutput(
            "\n".join([f"Exit code {result.exit_code}", *parts]), Outcome.ERROR, stable=f"{result.exit_code}\n{text}"
        )
    return ToolOutput("\n".join(parts), stable=text)
