"""``run_sync``: one run to its end from a script that has no event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
from attrs import field, frozen

from ..core.outputs import Output, Terminal
from ..core.state import LoopState
from ..runtime.faults import RunError
from ..runtime.prompt import Prompt
from .agent import Agent
from .session import Session


@frozen
class Outcome:
    """What a run came to.

    Attributes:
        text: the final answer, empty if the run did not complete.
        terminal: how it ended.
        result: the result object of spec 05.
        state: the state at the end, to go on from; too large to be shown with the rest.
    """

    text: str
    terminal: Terminal
    result: dict[str, Any]
    state: LoopState = field(repr=False)


def run_sync(
    prompt: Prompt,
    *,
    agent: Agent | None = None,
    state: LoopState | None = None,
    on_output: Callable[[Output], None] | None = None,
    backend: str = "asyncio",
    **settings: Any,
) -> Outcome:
    """Run a prompt to its end.

    Args:
        prompt: what the user asks.
        agent: what runs it; without one it is made from ``settings``.
        state: a conversation to go on from.
        on_output: called with each output as it comes.
        backend: ``asyncio`` or ``trio``.
        settings: arguments of :class:`Agent`.

    Returns:
        What the run came to; a run that failed is no exception, see ``terminal``.

    Raises:
        ConfigError: for settings that cannot hold.
        RunError: if the run could not go on, or this thread runs an event loop already.
        ValueError: for a blank prompt.
    """
    if agent is None:
        agent = Agent(**settings)
    elif settings:
        raise TypeError(f"settings belong to the agent; it is given already: {', '.join(sorted(settings))}")
    return anyio.run(_run, prompt, agent, state, on_output, backend=backend)


async def _run(prompt: Prompt, agent: Agent, state: LoopState | None, on_output: Callable[[Output], None] | None) -> Outcome:
    session = Session(agent, state=state)
    async with session.submit(prompt, literal=True) as submission:
        async for output in submission:
            if on_output is not None:
                on_output(output)
    terminal, value = submission.terminal, submission.value
    if terminal is None or value is None:
        raise RunError("the run ended without a terminal")
    return Outcome(text=value["result"], terminal=terminal, result=dict(value), state=session.state)
