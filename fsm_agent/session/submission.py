"""One submitted prompt: prepared, run, and brought to its result (spec 03, Session)."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

import anyio

from ..core.outputs import InitOutput, Notice, Output, ResultOutput, Terminal, TerminalOutput
from ..core.phases import AbortReason, Cause, TerminalReason
from ..core.state import LoopState
from ..runtime.faults import RunEnded
from ..runtime.hooks.config import HookEvent
from ..runtime.hooks.runner import RUN_FIELDS
from ..runtime.permissions.grants import GRANTS
from ..runtime.permissions.rules import NO_RULES, RuleSet
from ..runtime.prompt import Prompt
from ..runtime.run import Run
from .lifecycle import fire
from .preparing import Plan, prepare
from .query import Query
from .result import Facts, build_result

if TYPE_CHECKING:
    from .session import Session

_NOT_ENTERED = "enter the submission first: async with session.submit(...) as submission"


class Submission:
    """One submitted prompt, or an interrupted run that goes on.

    An async context manager that is iterated over, like a :class:`Run`. A prompt that is a command of the session itself, or
    that was refused, has no run: its outputs are ``init``, notices and ``result``.

    Attributes:
        session: the session.
        value: the result object, None before the end.
    """

    def __init__(self, session: Session, prompt: Prompt | None, options: Mapping[str, Any], *, literal: bool = False) -> None:
        """Use :meth:`Session.submit` or :meth:`Session.go_on`."""
        self.session = session
        self.value: Mapping[str, Any] | None = None
        self._prompt = prompt
        self._literal = literal
        self._options = dict(options)
        self._query: Query | None = None
        self._entered = False
        self._announced = False
        self._waiting: deque[Output] = deque()
        self._local: tuple[str, str] | None = None
        self._work: anyio.CancelScope | None = None
        self._terminal: Terminal | None = None
        self._grants: RuleSet = NO_RULES
        self._fields: Mapping[str, Any] = {}
        self._denied_before = 0
        self._log: str | None = None

    # -- steering -----------------------------------------------------------------------------------------------

    @property
    def run(self) -> Run:
        """The run behind it, for steering.

        Raises:
            RunEnded: there is none: the submission was not entered yet, or its prompt needs no run.
        """
        if self._query is None:
            raise RunEnded("this prompt has no run" if self._entered else _NOT_ENTERED)
        return self._query.run

    @property
    def has_run(self) -> bool:
        """There is a run behind it."""
        return self._query is not None

    @property
    def terminal(self) -> Terminal | None:
        """How it ended, None before that."""
        return self._terminal if self._query is None else self._query.run.terminal

    def interrupt(self) -> None:
        """End it as Ctrl-C does."""
        self.abort(AbortReason.INTERRUPT)

    def abort(self, reason: AbortReason) -> None:
        """End it from outside."""
        if self._query is not None:
            self._query.run.abort(reason)
        elif self._work is not None:
            self._work.cancel()

    async def queue(self, prompt: Prompt) -> str:
        """Queue a message for the run that is on: its mentions are attached and the hooks are asked, as for a prompt.

        Returns:
            Its id.

        Raises:
            RunEnded: the run has ended; the message stays with the caller.
            ValueError: for a blank message, or one that a hook dropped.
        """
        run = self.run
        plan = await prepare(prompt, self.session.surroundings(local=False), literal=self._literal)
        if plan.refused:
            raise ValueError(plan.refused)
        self._waiting.extend(Notice(text=text, level="warning") for text in plan.warnings)
        return run.queue((*plan.blocks, *plan.attachments))

    # -- reading ------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Submission:
        session = self.session
        state = session._begin(self)
        self._entered = True
        try:
            self._fields = {"session_id": session.id}
            with self._context():
                plan = await self._prepared()
                if plan is not None and (plan.refused or plan.local is not None):
                    self._local = plan.local
                    if plan.refused:
                        self._refuse(state, plan.refused)
                    return self
                self._query = Query(self._make_run(state, plan))
            self._denied_before = len(session.denials)
            await self._query.__aenter__()
        except BaseException:
            self._query = None
            session._active = None
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        query = self._query
        if query is None:
            self.session._active = None
            with anyio.CancelScope(shield=True):  # a compaction by hand leaves a connection
                await self.session.agent._after_run()
            return
        try:
            await query.__aexit__(kind, error, trace)
        finally:
            self._conclude()
            self.session._end(query.run)

    def __aiter__(self) -> Submission:
        return self

    async def __anext__(self) -> Output:
        """Give the next output; see :meth:`Run.__anext__`."""
        if not self._entered:
            raise RunEnded(_NOT_ENTERED)
        if not self._announced:
            self._announced = True
            warnings = [Notice(text=text, level="warning") for text in self.session._unsaid_warnings()]
            self._waiting.extendleft(reversed(warnings))
            return InitOutput(session_id=self.session.id, details=self.session.describe())
        if self._waiting:
            return self._waiting.popleft()
        if self._query is None:
            if self._local is None:
                raise StopAsyncIteration
            await self._run_local(*self._local)
            return self._waiting.popleft()
        with self._context():  # the run's task is made at the first pull, and inherits what is set here
            output = await self._query.__anext__()
            if isinstance(output, TerminalOutput):
                await self._ended(output)
                output = self._waiting.popleft()
        return output

    # -- inside -------------------------------------------------------------------------------------------------

    @contextmanager
    def _context(self) -> Iterator[None]:
        fields, grants = RUN_FIELDS.set(self._fields), GRANTS.set(self._grants)
        try:
            yield
        finally:
            GRANTS.reset(grants)
            RUN_FIELDS.reset(fields)

    async def _prepared(self) -> Plan | None:
        if self._prompt is None:
            return None
        session = self.session
        greeting = await session._greet()
        plan = await prepare(self._prompt, session.surroundings(), literal=self._literal)
        notices = (*greeting.warnings, *plan.warnings)
        self._waiting.extend(Notice(text=text, level="warning") for text in notices)
        self._grants = plan.grants
        if plan.local is None and not plan.refused:
            self._options.setdefault("attachments", (*session._take_context(), *plan.attachments))
        if plan.token_budget is not None and self._options.get("token_budget") is None:
            self._options["token_budget"] = plan.token_budget
        return plan

    def _make_run(self, state: LoopState, plan: Plan | None) -> Run:
        session = self.session
        if plan is None:
            assert session.interrupted is not None
            self._log = str(session.interrupted.path)
            return session.agent.resume(session.interrupted, **self._options)
        options = {**self._options, "session_id": session.id}
        run_id = options.setdefault("run_id", session._new_id())
        path = options.get("log") or session.agent.log_path(session.id, run_id)
        self._log = None if path is None else os.path.abspath(path)
        self._fields = {"session_id": session.id, "transcript_path": self._log or "", "prompt_id": run_id}
        run = session.agent.run(plan.blocks, state=state, parent=session._parent, **options)
        model = plan.model or session.model
        if model != session.agent.config.model:
            session.learn_model(model)
            run.switch_model(model)
        return run

    async def _ended(self, output: TerminalOutput) -> None:
        """Tell the hooks, then give the terminal and the result."""
        self._conclude()
        terminal, session = output.terminal, self.session
        fields = {"terminal_reason": terminal.reason.value, "cause": terminal.cause.value, "turn": terminal.turn_count}
        said = await fire(session.hooks, HookEvent.TURN_END, fields, terminal.reason.value, speaks=False)
        self._waiting.extend(Notice(text=text, level="warning") for text in said.warnings)
        self._waiting.append(output)
        if self.value is not None:
            self._waiting.append(ResultOutput(value=json.dumps(self.value, ensure_ascii=False), terminal=terminal))

    def _refuse(self, state: LoopState, why: str) -> None:
        """End without a run: the prompt was dropped."""
        self._waiting.append(Notice(text=why, level="warning"))
        self._close(state, Terminal(TerminalReason.HOOK_STOPPED, Cause.HOOK, detail=why), "")

    async def _run_local(self, name: str, arguments: str) -> None:
        """Run a command of the session itself."""
        session = self.session
        with anyio.CancelScope() as self._work, self._context():
            answer = await session.local[name].run(session, arguments)
        if self._work.cancelled_caught:
            terminal = Terminal(TerminalReason.ABORTED_STREAMING, Cause.INTERRUPT, detail=f"/{name} was interrupted")
            self._close(session.state, terminal, "")
            return
        if answer.boundary is not None:
            self._waiting.append(answer.boundary)
        self._waiting.append(Notice(text=answer.text, level="info" if answer.good else "warning"))
        good = Terminal(TerminalReason.COMPLETED, Cause.END_TURN, usage=answer.usage)
        bad = Terminal(TerminalReason.MODEL_ERROR, Cause.ENGINE_ERROR, detail=answer.text, usage=answer.usage)
        self._close(session.state, good if answer.good else bad, answer.text if answer.good else "")

    def _close(self, state: LoopState, terminal: Terminal, text: str) -> None:
        """Give the result of a prompt that had no run."""
        session = self.session
        self._local = None
        self._terminal = terminal
        value = build_result(state, terminal, Facts(session_id=session.id, config=session.agent.config))
        # No run ended, so what a run's ending advises does not apply.
        errors = [terminal.detail] if terminal.detail else []
        value.update(result=text, stop_reason=None, structured_output=None, errors=errors)
        self.value = session.result = value
        self._waiting.append(ResultOutput(value=json.dumps(value, ensure_ascii=False), terminal=terminal))

    def _conclude(self) -> None:
        """Build the result, once the run has ended."""
        run = self.run
        terminal = run.terminal
        if terminal is None or self.value is not None:
            return
        facts = Facts(
            session_id=self.session.id,
            config=run.config,
            rows=run.rows,
            seconds=run.seconds,
            api_seconds=run.api_seconds,
            denials=self.session.denials[self._denied_before :],
            log=self._log,
        )
        self.value = build_result(run.state, terminal, facts)
        self.session.result = self.value
