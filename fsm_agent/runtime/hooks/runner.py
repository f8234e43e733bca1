"""All hooks of a session: run side by side, answers in order, the strictest one counts (spec 03, Hooks).

A gate before a tool fails closed: a hook there that crashes, times out or answers nonsense denies the call, unless it
was configured to fail open. Every other failing hook is a warning.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

import anyio
from attrs import evolve

from ...core.blocks import block_text, block_value
from ...core.effects import RunPostSamplingHooks, RunStopHooks
from ...core.events import Outcome, StopHooksFinished
from ...core.messages import Message
from ..permissions.rules import Behavior
from ..tools.asking import ToolEvent, Verdict
from ..tools.base import ToolOutput
from .command import Answer, bounded, run_hook
from .config import Hook, HookConfigError, HookEvent

RUN_FIELDS: ContextVar[Mapping[str, Any]] = ContextVar("fsm_agent_hook_fields", default=MappingProxyType({}))
"""Fields of every input of the run at hand, such as ``session_id`` and ``transcript_path``; inherited by its tasks."""
_STRICTNESS = {Behavior.DENY: 3, Behavior.ASK: 2, Behavior.ALLOW: 1}


class HookSet:
    """The hooks of a session. Implements ``runtime.ports.Hooks`` and ``runtime.tools.asking.ToolHooks``.

    Attributes:
        warnings: failures of hooks that decided nothing, and messages of hooks for the user, in order.
        on_answer: told of every answer, as it was understood; None for nobody.
        asked: hooks that have not answered yet.
    """

    def __init__(
        self,
        hooks: Iterable[Hook],
        *,
        cwd: str,
        env: Mapping[str, str],
        base: Mapping[str, Any] | None = None,
        check: Callable[[RunStopHooks], StopHooksFinished | None] | None = None,
    ) -> None:
        """Take the hooks.

        Args:
            hooks: in order.
            cwd: working directory of commands.
            env: environment of commands, already without secrets.
            base: fields of every input, such as ``session_id`` and ``transcript_path``.
            check: a built-in stop hook, asked before all others; what it objects to, they do not see. It is for the main
                run: sub-agents do not have it.
        """
        self._hooks = tuple(hooks)
        for hook in self._hooks:
            if not isinstance(hook, Hook):
                shown = getattr(hook, "__name__", repr(hook))
                raise HookConfigError(f"{shown} is no hook; a function is made one by Hook(HookEvent.STOP, call={shown})")
        self._cwd = cwd
        self._env = {**env, "FSM_AGENT_PROJECT_DIR": cwd, "CLAUDE_PROJECT_DIR": cwd}
        self._base = {"cwd": cwd, **(base or {})}
        self._stop_event = HookEvent.STOP
        self._check = check
        self.warnings: list[str] = []
        self.on_answer: Callable[[Hook, Answer], None] | None = None
        self.asked: list[Hook] = []

    def for_agent(self, name: str, agent_id: str) -> HookSet:
        """Give the hooks of a sub-agent: the same ones, told which agent it is; ``SubagentStop`` stands for ``Stop``.

        Args:
            name: of the agent's definition.
            agent_id: of its run.
        """
        hooks = HookSet(
            self._hooks, cwd=self._cwd, env=self._env, base={**self._base, "agent_type": name, "agent_id": agent_id}
        )
        hooks._stop_event = HookEvent.SUBAGENT_STOP
        hooks.warnings, hooks.on_answer, hooks.asked = self.warnings, self.on_answer, self.asked
        return hooks

    def has(self, event: HookEvent) -> bool:
        """True if there is a hook for this event; the loop's config must say so."""
        return any(hook.event is event for hook in self._hooks)

    async def fire(self, event: HookEvent, fields: Mapping[str, Any], subject: str = "") -> list[tuple[Hook, Answer]]:
        """Run all matching hooks of one event side by side.

        Args:
            event: the event.
            fields: fields of the input besides the common ones.
            subject: what matchers are compared with, such as a tool's name.

        Returns:
            Hooks and answers in the order of configuration; equal commands run once.
        """
        chosen: list[Hook] = []
        seen: set[str] = set()
        for hook in self._hooks:
            if hook.event is event and hook.matches(subject) and not (hook.command and hook.command in seen):
                seen.add(hook.command)
                chosen.append(hook)
        answers: dict[int, Answer] = {}
        value = {**self._base, **RUN_FIELDS.get(), "hook_event_name": event.value, **fields}

        async def one(index: int, hook: Hook) -> None:
            self.asked.append(hook)
            try:
                answers[index] = await run_hook(hook, value, cwd=self._cwd, env=self._env)
            finally:
                self.asked.remove(hook)

        async with anyio.create_task_group() as group:
            for index, hook in enumerate(chosen):
                group.start_soon(one, index, hook)
        found = [(hook, answers[index]) for index, hook in enumerate(chosen)]
        if self.on_answer is not None:
            for hook, answer in found:
                self.on_answer(hook, answer)
        self.warnings += [bounded(answer.output["systemMessage"]) for _, answer in found if answer.output.get("systemMessage")]
        return found

    async def before(self, event: ToolEvent) -> Verdict:
        """Run the ``PreToolUse`` hooks of one call."""
        fields = {
            "tool_name": event.tool_name,
            "tool_use_id": event.tool_use_id,
            "tool_input": json.loads(event.input_json),
            "permission_mode": event.permission_mode,
        }
        verdict = Verdict()
        for hook, answer in await self.fire(HookEvent.PRE_TOOL_USE, fields, event.tool_name):
            verdict = _merge(verdict, _gate(hook, answer))
        return verdict

    async def after(self, event: ToolEvent, output: ToolOutput) -> Verdict:
        """Run the ``PostToolUse`` hooks, or those for failures if the tool reports one."""
        kind = HookEvent.POST_TOOL_USE if output.outcome is Outcome.OK else HookEvent.POST_TOOL_USE_FAILURE
        response: Any = output.content if isinstance(output.content, str) else list(output.content)
        fields = {
            "tool_name": event.tool_name,
            "tool_use_id": event.tool_use_id,
            "tool_input": json.loads(event.input_json),
            "tool_response": response,
            "permission_mode": event.permission_mode,
        }
        verdict = Verdict()
        for hook, answer in await self.fire(kind, fields, event.tool_name):
            verdict = _merge(verdict, _feedback(hook, answer))
        return verdict

    async def stop(self, effect: RunStopHooks) -> StopHooksFinished:
        """Run the ``Stop`` hooks, or ``SubagentStop`` in a sub-agent."""
        objection = None if self._check is None else self._check(effect)
        if objection is not None:
            return objection
        fields = {
            "stop_hook_active": effect.stop_hook_active,
            "last_assistant_message": _words(effect.reply),
            "turn": effect.turn,
        }
        blocking: list[str] = []
        warnings: list[str] = []
        prevented: str | None = None
        for hook, answer in await self.fire(self._stop_event, fields, self._base.get("agent_type", "")):
            if answer.failure:
                warnings.append(f"{hook.label}: {answer.failure}")
            elif _stops(answer) and prevented is None:
                prevented = _stop_words(answer)
            elif answer.blocked is not None:
                blocking.append(bounded(answer.blocked))
            elif answer.output.get("decision") == "block":
                blocking.append(bounded(answer.output.get("reason") or "A stop hook blocks, without a reason."))
        self.warnings += warnings
        return StopHooksFinished(id=effect.id, blocking=tuple(blocking), prevented=prevented, warnings=tuple(warnings))

    async def post_sampling(self, effect: RunPostSamplingHooks) -> None:
        """Run the ``PostSampling`` hooks; their answers decide nothing."""
        content = [block_value(block) for block in effect.reply.blocks]
        fields = {"reply": _words(effect.reply), "content": content, "model": effect.reply.model}
        for hook, answer in await self.fire(HookEvent.POST_SAMPLING, fields):
            if answer.failure:
                self.warnings.append(f"{hook.label}: {answer.failure}")


def _words(reply: Message | None) -> str:
    return "" if reply is None else "\n".join(text for text in map(block_text, reply.blocks) if text)


def _stops(answer: Answer) -> bool:
    return answer.output.get("continue") is False


def _stop_words(answer: Answer) -> str:
    return bounded(answer.output.get("stopReason") or "a hook ended the run")


def _gate(hook: Hook, answer: Answer) -> Verdict:
    """What one hook before a call says."""
    if answer.failure:
        text = f"{hook.label} failed: {answer.failure}"
        if hook.fail_open:
            return Verdict(warnings=(text,))
        return Verdict(behavior=Behavior.DENY, reason=text, source=hook.label)
    if answer.blocked is not None:
        return Verdict(behavior=Behavior.DENY, reason=bounded(answer.blocked), source=hook.label)
    output = answer.output
    inner = output.get("hookSpecificOutput", {})
    word = inner.get("permissionDecision") or {"block": "deny", "approve": "allow"}.get(output.get("decision") or "")
    # Nobody resolves a deferred decision later, so it is asked.
    behavior = {"allow": Behavior.ALLOW, "deny": Behavior.DENY, "ask": Behavior.ASK, "defer": Behavior.ASK}.get(word or "")
    reason = inner.get("permissionDecisionReason") or output.get("reason") or (f"{hook.label} says {word}" if word else "")
    context = inner.get("additionalContext")
    return Verdict(
        behavior=behavior,
        reason=bounded(reason),
        source=hook.label if behavior else "",
        stop=_stop_words(answer) if _stops(answer) else None,
        updated_input=inner.get("updatedInput"),
        context=(bounded(context),) if context else (),
    )


def _feedback(hook: Hook, answer: Answer) -> Verdict:
    """What one hook after a call says."""
    if answer.failure:
        return Verdict(warnings=(f"{hook.label} failed: {answer.failure}",))
    inner = answer.output.get("hookSpecificOutput", {})
    context = []
    if answer.blocked is not None:
        context.append(f"{hook.label} says: {bounded(answer.blocked)}")
    elif answer.output.get("decision") == "block":
        context.append(f"{hook.label} says: {bounded(answer.output.get('reason') or 'blocked, without a reason')}")
    if inner.get("additionalContext"):
        context.append(bounded(inner["additionalContext"]))
    return Verdict(
        stop=_stop_words(answer) if _stops(answer) else None,
        updated_output=inner.get("updatedToolOutput"),
        context=tuple(context),
    )


def _merge(old: Verdict, new: Verdict) -> Verdict:
    """Join two verdicts: the stricter decision, the first stop, the last rewrite."""
    merged = evolve(
        old,
        stop=old.stop if old.stop is not None else new.stop,
        updated_input=new.updated_input if new.updated_input is not None else old.updated_input,
        updated_output=new.updated_output if new.updated_output is not None else old.updated_output,
        context=old.context + new.context,
        warnings=old.warnings + new.warnings,
    )
    if new.behavior is not None and (old.behavior is None or _STRICTNESS[new.behavior] > _STRICTNESS[old.behavior]):
        merged = evolve(merged, behavior=new.behavior, reason=new.reason, source=new.source)
    return merged
