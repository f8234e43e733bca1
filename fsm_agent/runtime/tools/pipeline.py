"""The pipeline of one call: find, validate, prepare, hooks, permission, start, run, hooks, bound (spec 03, Tools).

Every outcome is a result for the model. The final input is held as JSON text from the moment it is judged: what was
approved is exactly what runs, whoever keeps a reference to a copy.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NoReturn

import anyio
from attrs import evolve, frozen

from ...core.blocks import dumps
from ...core.config import ToolSchema
from ...core.effects import RunTool
from ...core.events import Outcome, ToolFinished, ToolTraits
from ..permissions.decide import Decision, Policy
from ..permissions.grants import with_grants
from ..permissions.rules import Behavior
from ..ports import ToolPorts
from .asking import Answer, Asker, Denial, Question, ToolEvent, ToolHooks, Verdict
from .base import Call, Tool, ToolContext, ToolError, ToolOutput
from .body import Body, failure_text, run_body
from .files import FileMemory
from .paths import PathProblem
from .results import Bounds, add_notes, digest_of, to_block
from .stored import ResultStore
from .validate import check_schema, describe_fields, problems

Around = Callable[[RunTool], AbstractContextManager[Callable[[ToolFinished], None]]]
"""Looks on while a call runs."""


class ToolBoxError(ValueError):
    """Tools that cannot be offered: a name twice, a schema that is none."""


class _Refused(Exception):
    """Ends the pipeline with a result before the body started."""

    def __init__(self, text: str, stop: str | None = None, outcome: Outcome = Outcome.FAILED) -> None:
        super().__init__(text)
        self.output = ToolOutput(text, outcome)
        self.stop = stop


@frozen
class _Approved:
    """A call that may run: its input as JSON text, and what hooks want to tell the model."""

    input_json: str
    notes: tuple[str, ...]


class ToolBox:
    """The tools of a session, and the way every call of them takes. Implements ``runtime.ports.ToolRunner``.

    Attributes:
        policy: permission mode and rules; may be replaced between calls.
        files: what was read in this conversation.
        results: full texts of the results so far, for the model to read again where it sees a part.
        denials: calls that were denied, in order.
        decisions: what was decided on each call by its id, the last few hundred.
        warnings: failures of hooks that decided nothing.
        env: environment of child processes, without secrets.
    """

    def __init__(
        self,
        tools: Iterable[Tool],
        *,
        policy: Policy,
        hooks: ToolHooks | None = None,
        asker: Asker | None = None,
        env: Mapping[str, str] | None = None,
        files: FileMemory | None = None,
        results_folder: str | None = None,
        results: ResultStore | None = None,
        on_warning: Callable[[str], None] | None = None,
        around: Around | None = None,
    ) -> None:
        """Make a toolbox.

        Args:
            tools: in the order in which the model sees them.
            policy: permission mode, rules and workspace.
            hooks: hooks before and after each call.
            asker: asks the user; without one, what would be asked is denied.
            env: environment of child processes, already without secrets.
            files: what was read before.
            results_folder: where long results are stored; should be a read root of the workspace.
            results: what was kept of an earlier part of the conversation.
            on_warning: called with each warning.
            around: entered around each call; what it gives takes the result (traces).

        Raises:
            ToolBoxError: for what is no tool, two tools of one name, or a schema that is none.
        """
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            if not isinstance(tool, Tool):
                raise ToolBoxError(f"{getattr(tool, '__name__', tool)!r} is no tool; a function is made one by @tool")
            wrong = check_schema(tool.input_schema)
            if not tool.name or wrong:
                raise ToolBoxError(f"tool {tool.name or type(tool).__name__!r}: {wrong or 'it has no name'}")
            if tool.name in self._tools:
                raise ToolBoxError(f"two tools are called {tool.name!r}")
            self._tools[tool.name] = tool
        self.policy = policy
        self.files = files if files is not None else FileMemory()
        self.results = results if results is not None else ResultStore()
        self.denials: list[Denial] = []
        self.decisions: dict[str, Decision] = {}
        self.warnings: list[str] = []
        self._hooks = hooks
        self._asker = asker
        self._asking = anyio.Lock()
        self.env = dict(env or {})
        self._bounds = Bounds(results_folder)
        self._on_warning = on_warning
        self._around = around

    def for_agent(self, keep: Callable[[str], bool], *, policy: Policy, hooks: ToolHooks | None) -> ToolBox:
        """Make the toolbox of a sub-agent.

        It has what ``keep`` keeps of the tools, a memory of files of its own, and shares the rest: whoever is asked, one
        question at a time, where long results are stored, and the list of denials.

        Args:
            keep: takes a tool's name.
            policy: permission mode and rules.
            hooks: hooks before and after each call.
        """
        box = ToolBox(
            [tool.for_agent() for name, tool in self._tools.items() if keep(name)],
            policy=policy,
            hooks=hooks,
            asker=self._asker,
            env=self.env,
            on_warning=self._on_warning,
            around=self._around,
        )
        box._asking, box._bounds, box.denials = self._asking, self._bounds, self.denials
        return box

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the tools, hidden ones too."""
        return tuple(self._tools)

    def schemas(self) -> tuple[ToolSchema, ...]:
        """Give the definitions for the model; a tool that a bare deny rule names is left out."""
        return tuple(
            ToolSchema(
                name,
                dumps({"name": name, "description": tool.description, "input_schema": tool.input_schema}),
                compactable=tool.compactable,
                exempt=tool.max_result_chars is None,
            )
            for name, tool in self._tools.items()
            if not self.policy.hidden(name)
        )

    def traits(self, name: str, input_json: str | None) -> ToolTraits:
        """Say of a call what the core needs to know; never raises."""
        tool = self._tools.get(name)
        if tool is None:
            return ToolTraits(known=False)
        read_only = safe = False
        if input_json is not None:
            read_only = _predicate(tool.is_read_only, input_json)
            safe = _predicate(tool.is_concurrency_safe, input_json)
        return ToolTraits(
            known=True,
            read_only=read_only,
            concurrency_safe=safe,
            idempotent=tool.idempotent,
            cancels_siblings_on_error=tool.cancels_siblings_on_error,
            compactable=tool.compactable,
            max_result_chars=tool.max_result_chars,
        )

    async def run(self, effect: RunTool, ports: ToolPorts) -> ToolFinished:
        """Run one call through the whole pipeline. Raises only what ``ports`` raises, and cancellation."""
        return await self._watched(effect, self._run(effect, ports))

    def goes_on(self, effect: RunTool, log: Path) -> bool:
        """Say whether a call that had begun when its engine died can be gone on with; never raises.

        Args:
            effect: the call.
            log: the log of the run that it belongs to.
        """
        tool = self._tools.get(effect.name)
        try:
            return tool is not None and not self.policy.hidden(effect.name) and tool.goes_on(effect.id, log) is True
        except Exception as problem:
            self._warn((f"{effect.name} cannot say whether it goes on: {failure_text(problem)}",))
            return False

    async def go_on(self, effect: RunTool, ports: ToolPorts) -> ToolFinished:
        """Go on with a call that had begun: it was approved, and its start is recorded."""
        tool = self._tools[effect.name]
        return await self._watched(effect, self._run_body(tool, effect, _Approved(effect.input_json, ()), ports, tool.go_on))

    async def _watched(self, effect: RunTool, work: Awaitable[ToolFinished]) -> ToolFinished:
        if self._around is None:
            return await work
        with self._around(effect) as note:
            finished = await work
            note(finished)
        return finished

    async def _run(self, effect: RunTool, ports: ToolPorts) -> ToolFinished:
        try:
            tool = self._find(effect.name)
            approved = await self._approve(tool, effect)
        except _Refused as refused:
            return _finished(effect, refused.output, refused.stop)
        if not await ports.started(hashlib.sha256(approved.input_json.encode()).hexdigest()):
            return _finished(effect, ToolOutput("The call was cancelled before it ran.", Outcome.FAILED))
        return await self._run_body(tool, effect, approved, ports, tool.run)

    async def _run_body(self, tool: Tool, effect: RunTool, approved: _Approved, ports: ToolPorts, work: Body) -> ToolFinished:
        context = ToolContext(
            workspace=self.policy.workspace,
            files=self.files,
            tool_use_id=effect.tool_use_id,
            env=self.env,
            progress=ports.progress,
            results=self.results,
            readable=self.policy.readable,
        )
        output = await run_body(tool, json.loads(approved.input_json), context, work)
        digest = digest_of(output)
        output = self._bounds.apply(output, tool.max_result_chars)
        verdict = await self._after(tool, effect, approved.input_json, output)
        if verdict.updated_output is not None:
            output = self._bounds.apply(evolve(output, content=verdict.updated_output), tool.max_result_chars)
        output = self._bounds.apply(add_notes(output, (*approved.notes, *verdict.context)), None)
        finished = _finished(effect, output, verdict.stop, digest)
        self.results.put(finished.result)
        return finished

    def _find(self, name: str) -> Tool:
        tool = self._tools.get(name)
        if tool is None or self.policy.hidden(name):
            known = [other for other in self._tools if not self.policy.hidden(other)]
            near = [other for other in known if other.lower() == name.lower()]
            hint = f" Did you mean {near[0]}?" if near else ""
            raise _Refused(f"There is no tool {name[:100]!r}.{hint} Tools: {', '.join(known) or 'none'}.")
        return tool

    async def _approve(self, tool: Tool, effect: RunTool) -> _Approved:
        call = self._prepare(tool, effect.input_json)
        verdict = await self._before(tool, effect, call)
        self._warn(verdict.warnings)
        if verdict.stop is not None:
            raise _Refused(f"A hook stopped the run before this call: {verdict.stop}", verdict.stop)
        if verdict.behavior is Behavior.DENY:
            self._deny(tool, effect, call, Decision(Behavior.DENY, verdict.reason, f"hook: {verdict.source}"))
        if verdict.updated_input is not None:
            call = self._prepare(tool, dumps(verdict.updated_input))
            self._no_less_safe(tool, effect, call)
        decision = self._judge(tool, call, verdict.behavior)
        self._remember(effect.tool_use_id, decision)
        if decision.behavior is Behavior.ASK:
            call = await self._ask(tool, effect, call, verdict.reason or decision.reason, decision)
        elif decision.behavior is Behavior.DENY:
            self._deny(tool, effect, call, decision)
        return _Approved(dumps(call.input), verdict.context)

    def _prepare(self, tool: Tool, input_json: str) -> Call:
        try:
            value = json.loads(input_json)
        except ValueError:
            raise _Refused(f"The input of {tool.name} is not valid JSON.") from None
        wrong = problems(tool.input_schema, value)
        if wrong:
            raise _Refused(f"Invalid input for {tool.name}: {'; '.join(wrong)}. {describe_fields(tool.input_schema)}")
        try:
            return tool.prepare(value, self.policy.workspace)
        except (PathProblem, ToolError) as problem:
            raise _Refused(f"Invalid input for {tool.name}: {problem}.") from None
        except Exception as problem:
            raise _Refused(f"{tool.name} could not take this input: {failure_text(problem)}") from None

    def _no_less_safe(self, tool: Tool, effect: RunTool, call: Call) -> None:
        """Refuse a rewrite that makes the call do more than the core was told when it let it start (spec 01, section 10)."""
        now = self.traits(tool.name, dumps(call.input))
        if (effect.traits.read_only and not now.read_only) or (effect.traits.concurrency_safe and not now.concurrency_safe):
            raise _Refused("A hook rewrote this call into one that is not as safe; it was not run.")

    def _judge(self, tool: Tool, call: Call, hook: Behavior | None) -> Decision:
        harmless = not tool.needs_permission or _predicate(tool.is_read_only, dumps(call.input))
        try:
            decision = with_grants(self.policy).judge(tool.name, call, read_only=harmless, hook=hook)
        except Exception as problem:  # what cannot be judged is not allowed
            return Decision(Behavior.ASK, f"it could not be judged: {failure_text(problem)}", "engine")
        if decision.rule == "read-only" and not tool.needs_permission:
            return Decision(Behavior.ALLOW, "it touches nothing outside by itself", f"tool: {tool.name}")
        return decision

    def _remember(self, tool_use_id: str, decision: Decision) -> None:
        self.decisions[tool_use_id] = decision
        while len(self.decisions) > 500:
            del self.decisions[next(iter(self.decisions))]

    def _deny(self, tool: Tool, effect: RunTool, call: Call, decision: Decision) -> NoReturn:
        self._remember(effect.tool_use_id, decision)
        self.denials.append(
            Denial(tool.name, effect.tool_use_id, json.loads(dumps(call.input)), decision.reason, decision.rule)
        )
        # Nothing broke: a denial is no reason to cancel the calls beside it.
        words = f"Permission to use {tool.name} was denied: {decision.reason} [{decision.rule}]. The call was not run."
        raise _Refused(words, outcome=Outcome.ERROR)

    async def _ask(self, tool: Tool, effect: RunTool, call: Call, reason: str, decision: Decision) -> Call:
        if self._asker is None:
            self._deny(tool, effect, call, evolve(decision, reason=f"{reason}, and nobody can be asked"))
        question = Question(tool.name, effect.tool_use_id, json.loads(dumps(call.input)), reason, decision.rule)
        frozen_json = dumps(call.input)
        try:
            # One question at a time: calls that run beside each other must not talk over one another.
            async with self._asking:
                answer = await self._asker.ask(question)
        except Exception as problem:
            answer = Answer(False, f"the question could not be asked: {failure_text(problem)}")
        if not answer.allow:
            self._deny(tool, effect, call, Decision(Behavior.DENY, answer.message or "the user refused", "user"))
        self._remember(effect.tool_use_id, Decision(Behavior.ALLOW, "the user allowed it", "user"))
        return evolve(call, input=json.loads(frozen_json))

    async def _before(self, tool: Tool, effect: RunTool, call: Call) -> Verdict:
        if self._hooks is None:
            return Verdict()
        try:
            return await self._hooks.before(ToolEvent(tool.name, effect.tool_use_id, dumps(call.input), self.policy.mode.value))
        except Exception as problem:  # a gate that breaks stays shut
            return Verdict(behavior=Behavior.DENY, reason=f"the hooks failed: {failure_text(problem)}", source="PreToolUse")

    async def _after(self, tool: Tool, effect: RunTool, input_json: str, output: ToolOutput) -> Verdict:
        if self._hooks is None:
            return Verdict()
        event = ToolEvent(tool.name, effect.tool_use_id, input_json, self.policy.mode.value)
        try:
            verdict = await self._hooks.after(event, output)
        except Exception as problem:
            verdict = Verdict(warnings=(f"PostToolUse hooks failed: {failure_text(problem)}",))
        self._warn(verdict.warnings)
        return verdict

    def _warn(self, texts: Iterable[str]) -> None:
        for text in texts:
            self.warnings.append(text)
            if self._on_warning is not None:
                self._on_warning(text)


def _predicate(ask: Callable[[Any], bool], input_json: str) -> bool:
    """Ask a tool about an input; one that raises or answers anything but True counts as no."""
    try:
        value = json.loads(input_json)
        return isinstance(value, dict) and ask(value) is True
    except Exception:
        return False


def _finished(effect: RunTool, output: ToolOutput, stop: str | None = None, digest: str = "") -> ToolFinished:
    return ToolFinished(
        id=effect.id,
        outcome=output.outcome,
        result=to_block(effect.tool_use_id, output),
        digest=digest or digest_of(output),
        stop=stop,
        usage=output.usage,
    )
