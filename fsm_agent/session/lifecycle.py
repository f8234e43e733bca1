"""Hooks around a session: prompts, start and end, compactions, questions, the end of a turn (spec 03, Hooks)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve, frozen

from ..core.config import LoopConfig
from ..core.effects import Compact, StageCollapse
from ..core.events import CollapseFailed, CollapseStaged, CompactionFailed, CompactionFinished
from ..core.failures import ErrorKind, ModelFailure
from ..core.phases import CompactKind
from ..runtime.compactor import ModelCompactor
from ..runtime.hooks.command import Answer, bounded
from ..runtime.hooks.config import Hook, HookEvent
from ..runtime.hooks.runner import HookSet
from ..runtime.notices import warn
from ..runtime.ports import Compactor, Model
from ..runtime.tools.asking import Answer as UserAnswer
from ..runtime.tools.asking import Asker, Question


@frozen
class Said:
    """What all hooks of one event say together.

    Attributes:
        blocked: words of the first hook that blocks, None if none does.
        context: texts for the model, in order.
        warnings: failures that decided nothing, and messages for the user.
    """

    blocked: str | None = None
    context: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


async def fire(hooks: HookSet | None, event: HookEvent, fields: Mapping[str, Any], subject: str = "", *, speaks: bool) -> Said:
    """Run the hooks of one event.

    Args:
        hooks: the session's hooks, None without any.
        event: the event.
        fields: of the input.
        subject: what matchers are compared with.
        speaks: what a command prints becomes context, as for ``SessionStart`` and ``UserPromptSubmit``.

    Returns:
        What they say. A hook that fails is a warning.
    """
    said = Said()
    if hooks is None or not hooks.has(event):
        return said
    for hook, answer in await hooks.fire(event, fields, subject):
        said = _join(said, hook, answer, speaks)
    return said


def _join(said: Said, hook: Hook, answer: Answer, speaks: bool) -> Said:
    if answer.failure:
        return evolve(said, warnings=(*said.warnings, f"{hook.label}: {answer.failure}"))
    output = answer.output
    blocked = said.blocked
    if blocked is None and answer.blocked is not None:
        blocked = bounded(answer.blocked)
    elif blocked is None and output.get("continue") is False:
        blocked = bounded(output.get("stopReason") or f"{hook.label} stopped it")
    elif blocked is None and output.get("decision") == "block":
        blocked = bounded(output.get("reason") or f"{hook.label} blocks, without a reason")
    texts = [output.get("hookSpecificOutput", {}).get("additionalContext") or ""]
    if speaks:
        texts.append(answer.text)
    shown = output.get("systemMessage")
    return Said(
        blocked=blocked,
        context=(*said.context, *(bounded(text) for text in texts if text.strip())),
        warnings=(*said.warnings, bounded(shown)) if shown else said.warnings,
    )


class HookedCompactor:
    """Asks the ``PreCompact`` hooks before a compaction; a hook that blocks cancels it. Implements ``Compactor``."""

    def __init__(self, inner: Compactor, hooks: HookSet) -> None:
        self._inner = inner
        self._hooks = hooks

    def using(self, model: Model, config: LoopConfig) -> HookedCompactor:
        """Give the same for another model and configuration, as a sub-agent has them."""
        inner = self._inner
        return HookedCompactor(inner.using(model, config) if isinstance(inner, ModelCompactor) else inner, self._hooks)

    async def compact(self, effect: Compact) -> CompactionFinished | CompactionFailed:
        """Ask the hooks, then sum up; what the hooks say goes to the summariser."""
        trigger = "manual" if effect.kind is CompactKind.MANUAL else "auto"
        fields = {"trigger": trigger, "custom_instructions": effect.instructions}
        said = await fire(self._hooks, HookEvent.PRE_COMPACT, fields, trigger, speaks=True)
        for text in said.warnings:
            warn(text)
        if said.blocked is not None:
            words = f"a PreCompact hook cancelled it: {said.blocked}"
            return CompactionFailed(id=effect.id, failure=ModelFailure(kind=ErrorKind.INVALID_REQUEST, message=words))
        if said.context:
            effect = evolve(effect, instructions="\n".join(part for part in (effect.instructions, *said.context) if part))
        return await self._inner.compact(effect)

    async def collapse(self, effect: StageCollapse) -> CollapseStaged | CollapseFailed:
        """Sum up one span; no hook is asked."""
        return await self._inner.collapse(effect)


class NotifyingAsker:
    """Runs the ``Notification`` hooks whenever the user is asked. Implements ``Asker``."""

    def __init__(self, inner: Asker, hooks: HookSet) -> None:
        self._inner = inner
        self._hooks = hooks

    async def ask(self, question: Question) -> UserAnswer:
        """Tell the hooks, then ask."""
        kind = "permission_prompt"
        fields = {
            "notification_type": kind,
            "message": f"{question.tool_name} needs your permission: {question.reason}",
            "tool_name": question.tool_name,
        }
        said = await fire(self._hooks, HookEvent.NOTIFICATION, fields, kind, speaks=False)
        for text in said.warnings:
            warn(text)
        return await self._inner.ask(question)
