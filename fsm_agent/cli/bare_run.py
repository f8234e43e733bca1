"""A run that is handed to the loop as it is, without the session's check of its prompt, for scenarios about bad input."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from attrs import evolve

from ..core.events import Event, RunStarted
from ..core.outputs import Output, Terminal, TerminalOutput
from ..core.state import LoopState, Step
from ..log.journal import Journal
from ..runtime.run import Run
from ..session.agent import Agent
from ..session.recording import LazyJournal
from ..session.result import Facts, build_result


class BareRun:
    """Looks like a :class:`~fsm_agent.session.session.Submission`.

    Args:
        agent: whose parts perform the effects.
        start: the first event.
        state: where the conversation stands before it.
        log: file of the log.
        session_id: the session.
        on_step: told of every recorded step.

    Attributes:
        run: the run.
        value: the result object, None before the end.
    """

    def __init__(
        self,
        agent: Agent,
        start: RunStarted,
        state: LoopState,
        *,
        log: Path,
        session_id: str,
        on_step: Callable[[Event, Step], None],
    ) -> None:
        create = partial(Journal.create, config=agent.config, state=state, session_id=session_id, run_id=start.run_id)
        deps = evolve(agent.deps, recorder=LazyJournal(log, create))
        self.run = Run(deps, agent.config, state, start, on_step=on_step)
        self.value: Mapping[str, Any] | None = None
        self._session_id = session_id
        self._log = str(log)

    @property
    def terminal(self) -> Terminal | None:
        """How the run ended, None before that."""
        return self.run.terminal

    def interrupt(self) -> None:
        """End it as Ctrl-C does."""
        self.run.interrupt()

    async def __aenter__(self) -> BareRun:
        await self.run.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.run.__aexit__(kind, error, trace)

    def __aiter__(self) -> BareRun:
        return self

    async def __anext__(self) -> Output:
        """Give the next output."""
        output = await self.run.__anext__()
        if isinstance(output, TerminalOutput):
            run = self.run
            facts = Facts(
                session_id=self._session_id,
                config=run.config,
                rows=run.rows,
                seconds=run.seconds,
                api_seconds=run.api_seconds,
                log=self._log,
            )
            self.value = build_result(run.state, output.terminal, facts)
        return output
