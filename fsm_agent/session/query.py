"""``query``: one run whose queued commands are settled when it ends (spec 03)."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

from ..core.outputs import Output, TerminalOutput
from ..core.phases import Cause
from ..runtime.commands import CommandStatus
from ..runtime.prompt import Prompt
from ..runtime.run import Run
from .agent import Agent


class Query:
    """A run whose started commands are completed when it has ended.

    ``completed`` goes to the listener for each command that went into the history, after any ending but
    ``consumer_closed``, and not at all when the run raised. Use it like a :class:`Run`, which is ``run``.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self._settled = False

    async def __aenter__(self) -> Query:
        await self.run.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.run.__aexit__(kind, error, trace)
        self._settle()

    def __aiter__(self) -> Query:
        return self

    async def __anext__(self) -> Output:
        """Give the next output; see :meth:`Run.__anext__`."""
        output = await self.run.__anext__()
        if isinstance(output, TerminalOutput):
            self._settle()
        return output

    def _settle(self) -> None:
        terminal = self.run.terminal
        if self._settled or terminal is None or terminal.cause is Cause.CONSUMER_CLOSED:
            return
        self._settled = True
        for command_id, status in tuple(self.run.commands.items()):
            if status is CommandStatus.STARTED:
                self.run.complete(command_id)


def query(
    agent: Agent, prompt: Prompt, *, on_command: Callable[[str, CommandStatus], None] | None = None, **options: Any
) -> Query:
    """Make a run whose queued commands are settled.

    Args:
        agent: what runs it.
        prompt: what the user asks.
        on_command: told of (command id, status) whenever a queued command moves on.
        options: further arguments of :meth:`Agent.run`.

    Raises:
        ValueError: for a blank prompt.
    """
    return Query(agent.run(prompt, on_command=on_command, **options))
