"""What a tool is: a name, a schema, traits, a way to say what it touches, and a body (spec 03, Tools)."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from attrs import field, frozen

from ...core.events import Outcome
from ...core.usage import ModelUsage
from .files import FileMemory
from .paths import Workspace
from .stored import ResultStore

JsonObject = Mapping[str, Any]


def object_schema(properties: JsonObject, required: tuple[str, ...] = ()) -> JsonObject:
    """Make the schema of an input object without further fields."""
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


class ToolError(Exception):
    """Raised by a tool's body to report an error to the model in its own words (outcome ``error``)."""


class AccessKind(StrEnum):
    """What a call touches; permission rules go by it."""

    READ = "read"
    WRITE = "write"
    SHELL = "shell"


@frozen
class Access:
    """One thing that a call touches.

    Attributes:
        kind: how.
        real: the resolved absolute path; for a shell, the command line.
        given: the absolute path as spelled, before links were resolved.
    """

    kind: AccessKind
    real: str
    given: str = ""


@frozen
class Call:
    """A call ready to be judged and run.

    Attributes:
        input: the canonical input: what is judged, shown, and run.
        access: what it touches.
    """

    input: dict[str, Any]
    access: tuple[Access, ...] = ()


@frozen
class ToolOutput:
    """What a tool's body gives back.

    Attributes:
        content: text, or content blocks (text, image, document) as the API takes them in a result.
        outcome: ``error`` if the tool ran and reports a failure, ``failed`` if it could not do its work.
        stable: the text that loop detection compares, if the content holds volatile parts; None for the content.
        sizes: (width, height, pages) of media, by the first 64 characters of their base64 data.
        usage: what model calls made by the tool used.
    """

    content: str | tuple[dict[str, Any], ...]
    outcome: Outcome = Outcome.OK
    stable: str | None = None
    sizes: Mapping[str, tuple[int, int, int]] = field(factory=dict)
    usage: tuple[ModelUsage, ...] = ()


async def _silent(text: str) -> None:
    """Drop progress that nobody listens to."""


def _any_path(real: str) -> bool:
    return True


@frozen
class ToolContext:
    """What a running body may use.

    Attributes:
        workspace: where it may work.
        files: what was read in this conversation.
        tool_use_id: the call's id.
        env: environment for child processes, without secrets.
        progress: takes text for the user as it comes.
        results: full texts of results that the model sees in part.
        readable: says of a real path whether no rule forbids to read it; searching tools filter by it.
    """

    workspace: Workspace
    files: FileMemory
    tool_use_id: str = ""
    env: Mapping[str, str] = field(factory=dict)
    progress: Callable[[str], Awaitable[None]] = _silent
    results: ResultStore = field(factory=ResultStore)
    readable: Callable[[str], bool] = _any_path


class Tool:
    """A tool. Subclasses set the attributes and write ``run``; the others have safe defaults.

    Attributes:
        name: what the model calls it.
        description: what the model reads about it.
        input_schema: JSON schema of the input object.
        idempotent: running it again does no harm.
        max_result_chars: longer results are stored and shown in part; None exempts it.
        cancels_siblings_on_error: when it fails, the calls beside it are cancelled.
        timeout: seconds, None for a tool that ends by itself.
        compactable: old results may be cleared.
        needs_permission: False for a tool that by itself touches nothing outside: no rule is needed to allow it.
    """

    name: str = ""
    description: str = ""
    input_schema: JsonObject = object_schema({})
    idempotent: bool = False
    max_result_chars: int | None = 50_000
    cancels_siblings_on_error: bool = False
    timeout: float | None = 120.0
    compactable: bool = False
    needs_permission: bool = True

    def is_read_only(self, tool_input: JsonObject) -> bool:
        """True if this call changes nothing outside."""
        return False

    def is_concurrency_safe(self, tool_input: JsonObject) -> bool:
        """True if this call may run beside others."""
        return False

    def for_agent(self) -> Tool:
        """Give the tool that a sub-agent gets: the same one, but for tools that remember something of a conversation."""
        return self

    def goes_on(self, effect_id: str, log: Path) -> bool:
        """Say whether a call that had begun when its engine died can be gone on with, and is no more to be told as lost.

        Args:
            effect_id: the effect that asked for the call.
            log: the log of the run that it belongs to.
        """
        return False

    async def go_on(self, tool_input: JsonObject, context: ToolContext) -> ToolOutput:
        """Go on with such a call, to its end. Hooks and permission were asked before it began."""
        raise NotImplementedError

    def prepare(self, tool_input: JsonObject, workspace: Workspace) -> Call:
        """Make the canonical input (on a copy) and say what the call touches.

        Raises:
            PathProblem: if a path cannot be used.
            ToolError: if the input makes no sense.
        """
        return Call(input=copy.deepcopy(dict(tool_input)))

    async def run(self, tool_input: JsonObject, context: ToolContext) -> ToolOutput:
        """Do the work on the canonical input. What it raises becomes a result for the model."""
        raise NotImplementedError
