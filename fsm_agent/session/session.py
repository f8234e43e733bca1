"""``Session``: one conversation over many submitted prompts (spec 03, Session)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from attrs import evolve

from ..core.blocks import Block, text_block
from ..core.events import AbortRequested, CommandQueued
from ..core.phases import TERMINAL_SET, AbortReason
from ..core.state import LoopState, initial
from ..core.usage import ModelUsage, add_usage
from ..runtime.commands import CommandStatus
from ..runtime.faults import RunBusy, RunEnded
from ..runtime.hooks.config import HookEvent
from ..runtime.hooks.runner import RUN_FIELDS, HookSet
from ..runtime.model_data import find_model
from ..runtime.prompt import Prompt, prompt_blocks
from ..runtime.run import Run
from ..runtime.tools.pipeline import ToolBox
from .agent import Agent, new_id
from .lifecycle import Said, fire
from .local_commands import LOCAL_COMMANDS, LocalCommand
from .markdown_commands import Commands
from .preparing import Surroundings
from .submission import Submission

if TYPE_CHECKING:
    from ..log.format import Parent
    from ..log.resume import Standing


class Session:
    """Owns a conversation: its messages, usage and denials. One prompt at a time.

    Used as an async context manager, it tells the ``SessionEnd`` hooks when it is left.

    Args:
        agent: what runs it.
        session_id: by default a new one.
        state: a conversation to go on from; None for a new one.
        commands: the user's Markdown commands.

    Attributes:
        id: the session's id.
        state: where the conversation stands: before the first prompt the given one, later that of the last run's end.
        interrupted: where the log of a run stands that has to go on first, None if there is none.
        undelivered: commands of the last run that no model has seen.
        result: the last result object, None before the first.
        model: the model of the next runs.
        commands: the user's Markdown commands.
        local: commands of the session itself by name; they call no model but the compactor's.
        rows: rows of the last run.
        described: what else the ``init`` output says, such as the agents, skills and MCP servers there are.
    """

    def __init__(
        self,
        agent: Agent,
        *,
        session_id: str | None = None,
        state: LoopState | None = None,
        commands: Commands | None = None,
    ) -> None:
        self.agent = agent
        self.id = session_id or new_id()
        self.state = state if state is not None else initial(agent.config)
        self.undelivered: tuple[CommandQueued, ...] = ()
        self.result: Mapping[str, Any] | None = None
        self.interrupted: Standing | None = None
        self.model = agent.config.model
        self.commands = commands if commands is not None else Commands()
        self.local: dict[str, LocalCommand] = dict(LOCAL_COMMANDS)
        self.rows: tuple[str, ...] = ()
        self.described: dict[str, Any] = {}
        self._active: Submission | None = None
        self._warned = False
        self._news: tuple[str, ...] = ()
        self._parent: Callable[[Path], Parent | None] | None = None
        self._greeting = "startup" if state is None else "resume"
        self._context: tuple[str, ...] = ()

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self, reason: str = "other") -> tuple[str, ...]:
        """Tell the ``SessionEnd`` hooks, if the session began.

        Args:
            reason: why it ends, such as ``clear`` or ``prompt_input_exit``.

        Returns:
            Warnings of the hooks.
        """
        if self._greeting:
            return ()
        self._greeting = "resume"
        token = RUN_FIELDS.set({"session_id": self.id})
        try:
            said = await fire(self.hooks, HookEvent.SESSION_END, {"reason": reason}, reason, speaks=False)
        finally:
            RUN_FIELDS.reset(token)
        return said.warnings

    @classmethod
    def resume(cls, agent: Agent, log: str | os.PathLike[str] | Standing) -> Session:
        """Take up a conversation where its log stands.

        A run that ended is gone on from by the next prompt, in a log that names this one as its parent. One that was
        interrupted is ``interrupted``, and has to go on first: see :meth:`go_on`.

        Args:
            agent: what runs it.
            log: the log of its newest run, or where that stands.

        Raises:
            LogError: if the log cannot be gone on with.
            OSError: if it cannot be read.
        """
        from ..log.journal import parent_link
        from ..log.resume import Standing, stand

        standing = log if isinstance(log, Standing) else stand(log)
        session = cls(agent, session_id=standing.header.session, state=standing.state)
        if standing.torn:
            what = "closing line" if standing.finished else "last record"
            lost = "the run had ended" if standing.finished else "its effects were never performed"
            session._news = (f"the {what} of {standing.path} was torn; {lost}",)
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
        literal: bool = False,
        **options: Any,
    ) -> Submission:
        """Submit a prompt. Its outputs begin with ``init`` and end with ``terminal`` and ``result``.

        A text is read as people type it: ``/name`` is a command, ``@path`` attaches a file, and ``+500k`` at the end is a token
        budget. A text from elsewhere, which nobody typed, should be ``literal``.

        Args:
            prompt: what the user asks, as text or as content blocks.
            token_budget: output tokens to be spent.
            log: the log's file, by default one in the agent's ``logs``.
            on_command: told of (command id, status) when a queued command moves on.
            literal: take a text as it is.
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
        given = {"token_budget": token_budget, "log": log, "on_command": on_command, **options}
        return Submission(self, prompt, given, literal=literal)

    @property
    def active(self) -> Submission | None:
        """The submission that is worked on, None at rest."""
        return self._active

    @property
    def hooks(self) -> HookSet | None:
        """The agent's hooks, None without any."""
        hooks = self.agent.deps.hooks
        return hooks if isinstance(hooks, HookSet) else None

    def surroundings(self, *, local: bool = True) -> Surroundings:
        """Give what prompts are prepared with; without ``local`` its own commands are unknown."""
        tools = self.agent.deps.tools
        return Surroundings(
            cwd=self.agent.cwd,
            session_id=self.id,
            tools=tools if isinstance(tools, ToolBox) else None,
            hooks=self.hooks,
            commands=self.commands,
            local=frozenset(self.local) if local else frozenset(),
        )

    def replace(self, state: LoopState) -> None:
        """Put another conversation in place of this one, between runs.

        Raises:
            RunBusy: a run is on.
        """
        if self._active is not None and self._active.has_run:
            raise RunBusy("the session works on a prompt")
        self.state = state
        self.interrupted = None
        self._parent = None  # it does not follow from a log, so the next log holds all of it

    def restart(self) -> None:
        """Begin a new conversation under a new id; nothing of the old one is kept in memory.

        Raises:
            RunBusy: a run is on.
        """
        self.replace(initial(self.agent.config))
        self.id = new_id()
        self.undelivered = ()
        self.rows = ()
        self._greeting = "clear"

    def take_up(self, log: str | os.PathLike[str]) -> None:
        """Go on with the conversation of a log instead; see :meth:`resume`.

        Raises:
            LogError: if the log cannot be gone on with.
            OSError: if it cannot be read.
            RunBusy: a run is on.
        """
        other = Session.resume(self.agent, log)
        self.replace(other.state)
        self.id, self.interrupted = other.id, other.interrupted
        self._parent, self._news = other._parent, other._news
        self.undelivered = ()
        self.rows = ()
        self._greeting = "resume"

    def learn_model(self, name: str) -> bool:
        """Take in the data of a model that a run is to switch to; False for an unknown one, which gets safe defaults."""
        info = find_model(name)
        if all(known.name != name for known in self.agent.config.models):
            self.agent.config = evolve(self.agent.config, models=(*self.agent.config.models, info))
        return info.known

    def next_state(self) -> LoopState:
        """Give the state from which the next run starts."""
        return next_state(self.state, self.agent)

    async def _greet(self) -> Said:
        """Tell the ``SessionStart`` hooks, once for each conversation; what they say goes to the model with the prompt."""
        source, self._greeting = self._greeting, ""
        if not source:
            return Said()
        said = await fire(self.hooks, HookEvent.SESSION_START, {"source": source}, source, speaks=True)
        self._context += said.context
        return said

    def _take_context(self) -> tuple[Block, ...]:
        texts, self._context = self._context, ()
        return tuple(map(text_block, texts))

    @staticmethod
    def _new_id() -> str:
        return new_id()

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
                "model": self.model,
                "permissionMode": agent.permission_mode,
                "tools": [tool.name for tool in agent.config.tools],
                "mcp_servers": [],
                "agents": [],
                "slash_commands": [*self.local, *self.commands.by_name],
                "skills": [],
                "plugins": [],
                "betas": list(agent.config.betas),
                "fsm_agent_version": release,
                **self.described,
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
        self.rows = run.rows
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
