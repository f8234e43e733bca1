"""What passes between the pipeline, the hooks around a call, and whoever is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from attrs import frozen

from ..permissions.rules import Behavior
from .base import ToolOutput


@frozen
class Question:
    """A call that the user is asked about.

    Attributes:
        tool_name: the tool.
        tool_use_id: the call.
        tool_input: a copy of exactly what will run.
        reason: why it is asked.
        rule: what decided that.
    """

    tool_name: str
    tool_use_id: str
    tool_input: Mapping[str, Any]
    reason: str
    rule: str


@frozen
class Answer:
    """The user's answer; ``message`` is for the model when it is no."""

    allow: bool
    message: str = ""


class Asker(Protocol):
    """Asks the user."""

    async def ask(self, question: Question) -> Answer:
        """Ask about one call; cancelled when the run is."""
        ...


@frozen
class Denial:
    """A call that was denied, as the result object reports it."""

    tool_name: str
    tool_use_id: str
    tool_input: Mapping[str, Any]
    reason: str
    rule: str


@frozen
class ToolEvent:
    """One call, for hooks.

    Attributes:
        tool_name: the tool.
        tool_use_id: the call.
        input_json: JSON text of the input.
        permission_mode: the mode's word.
    """

    tool_name: str
    tool_use_id: str
    input_json: str
    permission_mode: str = "default"


@frozen
class Verdict:
    """What all hooks around one call say together.

    Attributes:
        behavior: allow, ask or deny; None if no hook decides.
        reason: why.
        source: the hook that decided.
        stop: words of a hook that ends the run; None if none does.
        updated_input: the input that is to run instead; None for the same.
        updated_output: the content that the model is to see instead; None for the same.
        context: texts for the model.
        warnings: failures that decided nothing.
    """

    behavior: Behavior | None = None
    reason: str = ""
    source: str = ""
    stop: str | None = None
    updated_input: Mapping[str, Any] | None = None
    updated_output: str | None = None
    context: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class ToolHooks(Protocol):
    """The hooks around a call."""

    async def before(self, event: ToolEvent) -> Verdict:
        """Run the hooks before the call. A hook that fails denies."""
        ...

    async def after(self, event: ToolEvent, output: ToolOutput) -> Verdict:
        """Run the hooks after the call. A hook that fails is a warning."""
        ...
