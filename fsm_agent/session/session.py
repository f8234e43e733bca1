"""``Session``: one conversation over many submitted prompts (spec 03, first form)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ..core.events import AbortRequested, CommandQueued
from ..core.outputs import InitOutput, Notice, Output, ResultOutput, Terminal, TerminalOutput
from ..core.phases import TERMINAL_SET, AbortReason
from ..core.state import LoopState, initial
from ..core.usage import ModelUsage, add_usage
from ..runtime.commands import CommandStatus
from ..runtime.faults import RunBusy, RunEnded
from ..runtime.prompt import Prompt, prompt_blocks
from ..runtime.run import Run
from .agent import Agent, new_id
from .query import Query
from .result import Facts, build_result

if TYPE_CHECKING:
    from ..log.format import Parent
    from ..log.resume import Standing


class Session:
    """Owns a conversation: its messages, usage and denials. One prompt at a time.

    Args:
        agent: what runs it.
        session_id: by default a new one.
        state: a conversation to go on from; None for a new one.

    Attributes:
        id: the session's id.
        state: where the conversation stands: before the first prompt the given one, later that of the last run's end.
        interrupted: where the log of a run stands that has to go on first, None if there is none.
        undelivered: commands of the last run that no model has seen.
        result: the last result object, None before the first.
    """

    def __init__(self, agent: Agent, *, session_id: str | None = None, state: LoopState | None = None) -> None:
        self.agent = agent
        self.id = session_id or new_id()
        self.state = state if state is not None else initial(agent.config)
        self.undelivered: tuple[CommandQueued, ...] = ()
        self.result: Mapping[str, Any] | None = None
        self.interrupted: Standing | None = None
        self._active: Submission | None = None
        self._warned = False
        self._news: tuple[str, ...] = ()
        self._parent: Callable[[Path], Parent | None] | None = None

    @classmethod
    def resume(cls, agent: Agent, log: str | os.PathLike[str]) -> Session:
        """Take up a conversation where its log stands.

        A run that ended is gone on from by the next prompt, in a log that names this one as its parent. One that was
        interrupted is ``interrupted``, and has to go on first: see :meth:`go_on`.

        Args:
            agent: what runs it.
            log: the log of its newest run.

        Raises:
            LogError: if the log cannot be gone on with.
            OSError: if it cannot be read.
        """
        from ..log.journal import parent_link
        from ..log.resume import stand

        standing = stand(log)
        session = cls(agent, session_id=standing.header.session, state=standing.state)
        if standing.torn:
            session._news = (f"the last record of {standing.path} was torn; its effects were never performed",)
        if standing.begun and not standing.finished:
            session.interrupted = standing
        else:
            end = (standing.seq, standing.chain)
            session._parent = lambda child: parent_link(standing.path, child, end, standing.behind)
        return session

    def go_on(self, *, on_command: Callable[[str, CommandStatus], None] | None = None, **options: Any) -> Submission:
        """Let the interrupted run go on to its end, like a submission whose prompt was given before.

        Args:
            on_command: told of (command id, status) when a queued command moves on.
            options: further arguments of :meth:`Agent.resume`.

        Raises:
            RunBusy: the session works on a prompt.
            RunEnded: there is no interrupted run.
        """
        if self._active is not None:
            raise RunBusy("the session works on a prompt")
        if self.interrupted is None:
            raise RunEnded("no run of this session was interrupted")
        return Submission(self, None, {"on_command": on_command, **options})

    @property
    def usage(self) -> tuple[ModelUsage, ...]:
        """Usage of the whole session, by model."""
        return add_usage(self.state.data.session_usage, self.state.data.usage)

    @property
    def denials(self) -> tuple[Mapping[str, Any], ...]:
        """Calls that were denied so far, in the form of the result object."""
        return tuple(_denial(denial) for denial in getattr(self.agent.deps.tools, "denials", ()))

    def submit(
        self,
        prompt: Prompt,
        *,
        token_budget: int | None = None,
        log: str | os.PathLike[str] | None = None,
        on_command: Callable[[str, CommandStatus], None] | None = None,
        **options: Any,
    ) -> Submission:
        """Submit a prompt. Its outputs begin with ``init`` and end with ``terminal`` and ``result``.

        Args:
            prompt: what the user asks.
            token_budget: output tokens to be spent.
            log: the log's file, by default one in the agent's ``logs``.
            on_command: told of (command id, status) when a queued command moves on.
            options: further arguments of :meth:`Agent.run`.

        Raises:
            RunBusy: the last prompt is still worked on; queue the message in its run instead.
            ValueError: for a blank prompt.
        """
        if self._active is not None:
            raise RunBusy("the session works on a prompt; queue the message in that run, or submit it there")
        if self.interrupted is not None:
            raise RunBusy("the last run was interrupted; let it go on to its end first: session.go_on()")
        prompt_blocks(prompt)
        return Submission(self, prompt, {"token_budget": token_budget, "log": log, "on_command": on_command, **options})

    def describe(self) -> str:
        """Give the details of the ``init`` output as JSON text (api-facts B4)."""
        agent = self.agent
        try:
            release = version("fsm_agent")
        except PackageNotFoundError:
            release = "unknown"
        return json.dumps(
            {
                "session_id": self.id,
                "cwd": str(agent.cwd),
                "model": self.state.control.tool_use_context.model,
                "permissionMode": agent.permission_mode,
                "tools": [tool.name for tool in agent.config.tools],
                "mcp_servers": [],
                "agents": [],
                "slash_commands": [],
                "skills": [],
                "plugins": [],
                "betas": list(agent.config.betas),
                "fsm_agent_version": release,
            },
            ensure_ascii=False,
        )

    def _unsaid_warnings(self) -> tuple[str, ...]:
        """Give the agent's warnings once in a session."""
        said, self._warned = self._warned, True
        news, self._news = self._news, ()
        return news if said else (*self.agent.warnings, *news)

    def _begin(self, submission: Submission) -> LoopState:
        if self._active is not None:
            raise RunBusy("the session works on another prompt")
        self._active = submission
        return next_state(self.state, self.agent)

    def _end(self, run: Run) -> None:
        self._active = None
        if not run.begun:
            return
        self.state = settled_state(run)
        self.undelivered = run.undelivered
        self.interrupted = None
        # A state that was settled in memory does not follow from the log, so the next log holds its own.
        follows = self.state is run.state
        self._parent = getattr(run.recorder, "as_parent", None) if follows else None


def _denial(denial: Any) -> Mapping[str, Any]:
    names = ("tool_name", "tool_use_id", "tool_input")
    if isinstance(denial, Mapping):
        return {name: denial[name] for name in names}
    return {name: getattr(denial, name) for name in names}


def next_state(state: LoopState, agent: Agent) -> LoopState:
    """Give the state from which the next run starts; a conversation that never ran is taken as it is."""
    if state.phase not in TERMINAL_SET:
        return state
    from ..core.step import next_run

    return next_run(state, agent.config)


def settled_state(run: Run) -> LoopState:
    """Give the state in which a run left the conversation.

    A run that was stopped from outside its table (the log could not be written) stands in the middle of a round; its
    history is closed in memory as by a consumer that left, so that the conversation can go on.
    """
    state = run.state
    if state.phase in TERMINAL_SET:
        return state
    from ..core.step import step

    with suppress(Exception):
        closed = step(state, AbortRequested(AbortReason.CLOSE), run.config).state
        if closed.phase in TERMINAL_SET:
            return closed
    return run.begin_state


class Submission:
    """One submitted prompt, or an interrupted run that goes on.

    An async context manager that is iterated over, like a :class:`Run`.

    Attributes:
        value: the result object, None before the end.
    """

    def __init__(self, session: Session, prompt: Prompt | None, options: Mapping[str, Any]) -> None:
        self.session = session
        self.value: Mapping[str, Any] | None = None
        self._prompt = prompt
        self._options = dict(options)
        self._query: Query | None = None
        self._announced = False
        self._warnings: list[str] = []
        self._denied_before = 0
        self._log: str | None = None
        self._last: ResultOutput | None = None

    @property
    def run(self) -> Run:
        """The run behind it, for steering; there is none before ``async with``."""
        if self._query is None:
            raise RunEnded("enter the submission first: async with session.submit(...) as submission")
        return self._query.run

    @property
    def terminal(self) -> Terminal | None:
        """How the run ended, None before that."""
        return None if self._query is None else self._query.run.terminal

    async def __aenter__(self) -> Submission:
        session = self.session
        state = session._begin(self)
        try:
            self._query = Query(self._make_run(state))
            self._denied_before = len(session.denials)
            await self._query.__aenter__()
        except BaseException:
            session._active = None
            raise
        return self

    def _make_run(self, state: LoopState) -> Run:
        session = self.session
        if self._prompt is None:
            assert session.interrupted is not None
            self._log = str(session.interrupted.path)
            return session.agent.resume(session.interrupted, **self._options)
        options = {**self._options, "session_id": session.id}
        run_id = options.setdefault("run_id", new_id())
        path = options.get("log") or session.agent.log_path(session.id, run_id)
        self._log = None if path is None else os.path.abspath(path)
        return session.agent.run(self._prompt, state=state, parent=session._parent, **options)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        query = self._query
        assert query is not None
        try:
            await query.__aexit__(kind, error, trace)
        finally:
            self._conclude()
            self.session._end(query.run)

    def __aiter__(self) -> Submission:
        return self

    async def __anext__(self) -> Output:
        """Give the next output; see :meth:`Run.__anext__`."""
        query = self._query
        if query is None:
            raise RunEnded("enter the submission first: async with session.submit(...) as submission")
        if not self._announced:
            self._announced = True
            self._warnings = list(self.session._unsaid_warnings())
            return InitOutput(session_id=self.session.id, details=self.session.describe())
        if self._warnings:
            return Notice(text=self._warnings.pop(0), level="warning")
        if self._last is not None:
            last, self._last = self._last, None
            return last
        output = await query.__anext__()
        if isinstance(output, TerminalOutput):
            self._conclude()
            if self.value is not None:
                self._last = ResultOutput(value=json.dumps(self.value, ensure_ascii=False), terminal=output.terminal)
        return output

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
