"""A trial: the user's own tools, hooks and settings in a real agent, against a model by script, with everything looked at.

The agent is the real one, over real HTTP, on a server of its own on loopback that refuses what the API would. What is
judged besides the laws and both checkers: a call that claims to be read-only leaves the workspace as it is, hooks let the
run come to its end, and neither tools nor hooks fail. What the engine put right without a fault of either is a note.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread
from attrs import field, frozen

from ..core.config import LoopConfig
from ..core.events import Event
from ..core.outputs import Terminal
from ..core.phases import AbortReason
from ..core.state import LoopState, Step
from ..laws import LAWS, Law, Over, need_laws
from ..laws.runs import RUN_LAWS
from ..runtime.hooks.runner import HookSet
from .injection import judged
from .limit import limited
from .run_checker import Evidence
from .watching import Seen, Watch, counted

if TYPE_CHECKING:
    from ..runtime.hooks.config import Hook
    from ..runtime.tools.base import Tool
    from ..server.replies import Reply
    from ..session.agent import Agent

MODEL = "claude-sonnet-5-5"
MOST_CALLS = 100
"""Model calls after which a trial gives up."""
SECONDS = 30.0
"""Real time after which a trial is ended."""
_INSIDE = threading.Lock()
"""Held by the trial whose folder is the current one."""


@frozen(repr=False)
class Trial:
    """How a trial went.

    Attributes:
        terminal: how the run ended, None if it did not.
        steps: events with the steps that took them.
        problems: what the laws, the checkers and the trial itself found; empty if all holds.
        requests: the decoded bodies of the requests, in order.
        notes: what is worth knowing and no fault of a tool or hook: calls that were refused, an ending without success.
    """

    terminal: Terminal | None
    steps: tuple[tuple[Event, Step], ...]
    problems: tuple[str, ...]
    requests: tuple[dict[str, Any], ...] = field(factory=tuple)
    notes: tuple[str, ...] = ()

    @property
    def taken(self) -> tuple[str, ...]:
        """Names of the rows taken, in order."""
        return tuple(name for _, made in self.steps for name in made.taken)

    @property
    def report(self) -> str:
        """Problems and notes, one a line."""
        return "\n".join((*self.problems, *(f"note: {words}" for words in self.notes)))

    def __repr__(self) -> str:
        end = "no end" if self.terminal is None else f"{self.terminal.reason}/{self.terminal.cause}"
        counts = (("step", self.steps), ("request", self.requests), ("problem", self.problems), ("note", self.notes))
        said = ", ".join(f"{len(found)} {word}{'' if len(found) == 1 else 's'}" for word, found in counts)
        return f"<Trial: {end}, {said}>"

    def check(self) -> Trial:
        """Fail if anything is wrong.

        Raises:
            AssertionError: with all problems, one a line, and the notes behind them.
        """
        if self.problems:
            raise AssertionError(self.report)
        return self


def trial(
    replies: Sequence[Reply | str],
    *,
    tools: Sequence[Tool] = (),
    hooks: Sequence[Hook] = (),
    laws: Iterable[Law] = (),
    prompt: str = "Go.",
    folder: Path | None = None,
    tools_may_fail: bool = False,
    hooks_may_fail: bool = False,
    seconds: float = SECONDS,
    **settings: Any,
) -> Trial:
    """Run an agent with tools and hooks of one's own against a scripted model, and judge everything.

    The trial's folder is the workspace and, while it lasts, the current directory of the process; another trial that runs
    at the same time in another thread finds its own folder in ``ToolContext.workspace`` only.

    Args:
        replies: what the model answers, in order: texts, or replies of :mod:`fsm_agent.server.replies`. The last one
            is repeated as often as it is asked for.
        tools: the agent's tools.
        hooks: the agent's hooks.
        laws: further laws, besides those of the engine.
        prompt: what the user asks.
        folder: the workspace; by default a new one that is removed afterwards.
        tools_may_fail: a tool that raises or runs out of time is a note, not a problem.
        hooks_may_fail: a hook that raises, runs out of time or gives no verdict is a note, not a problem.
        seconds: real time after which the run is ended; what did not end by then is a problem.
        settings: further settings of :class:`fsm_agent.Agent`.

    Returns:
        How it went. :meth:`Trial.check` makes a failed test of any problem.

    Raises:
        RuntimeError: inside a running event loop; :func:`trial_async` is for there.
        TypeError: for a law, a tool, a hook or replies that are none.
    """
    if _in_event_loop():
        raise RuntimeError("trial() starts an event loop of its own, and one is running here: write `await trial_async(...)`")

    async def run() -> Trial:
        return await trial_async(
            replies,
            tools=tools,
            hooks=hooks,
            laws=laws,
            prompt=prompt,
            folder=folder,
            tools_may_fail=tools_may_fail,
            hooks_may_fail=hooks_may_fail,
            seconds=seconds,
            **settings,
        )

    return anyio.run(run)


async def trial_async(
    replies: Sequence[Reply | str],
    *,
    tools: Sequence[Tool] = (),
    hooks: Sequence[Hook] = (),
    laws: Iterable[Law] = (),
    prompt: str = "Go.",
    folder: Path | None = None,
    tools_may_fail: bool = False,
    hooks_may_fail: bool = False,
    seconds: float = SECONDS,
    **settings: Any,
) -> Trial:
    """Do as :func:`trial` does, inside a running event loop."""
    script, own, may_fail = _script(replies), need_laws(laws), (tools_may_fail, hooks_may_fail)
    if not seconds > 0:
        raise ValueError(f"seconds={seconds}: the limit of a trial must be above 0")
    if folder is not None:
        return await _run(folder.absolute(), script, tools, hooks, own, prompt, may_fail, seconds, settings)
    with tempfile.TemporaryDirectory(prefix="fsm-agent-trial-") as made:
        return await _run(Path(made), script, tools, hooks, own, prompt, may_fail, seconds, settings)


def _in_event_loop() -> bool:
    try:
        anyio.get_current_task()
    except RuntimeError:  # anyio's word for no event loop at all
        return False
    return True


def _script(replies: Sequence[Reply | str]) -> list[Reply]:
    from ..server.replies import Reply as Answerable
    from ..server.replies import says

    if isinstance(replies, str):
        raise TypeError(f"replies are a list of what the model answers: write [{replies!r}]")
    if not replies:
        raise TypeError("replies are empty: the model needs at least one answer")
    script = [says(reply) if isinstance(reply, str) else reply for reply in replies]
    for number, reply in enumerate(script, 1):
        if not isinstance(reply, Answerable):
            raise TypeError(
                f"reply {number} is {reply!r}, which no model answers: write a text, or what fsm_agent.server.replies makes, "
                "such as calls(tool(...))"
            )
    return script


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """Make a folder the current directory, so that what a tool writes by a relative path is seen, and does no harm."""
    if not _INSIDE.acquire(blocking=False):
        yield
        return
    try:
        before = os.getcwd()
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)
    finally:
        _INSIDE.release()


async def _run(
    folder: Path,
    script: list[Reply],
    tools: Sequence[Tool],
    hooks: Sequence[Hook],
    laws: tuple[Law, ...],
    prompt: str,
    may_fail: tuple[bool, bool],
    seconds: float,
    settings: dict[str, Any],
) -> Trial:
    from ..server.app import LoopbackServer

    def answer(number: int, body: dict[str, Any]) -> Reply:
        return script[min(number, len(script) - 1)]

    seen = Seen()
    with LoopbackServer(answer) as server:
        agent = _agent(folder, server.base_url, tools, hooks, settings)
        watch: Watch | None = None

        def stepped(event: Event, made: Step) -> None:
            assert watch is not None
            watch.step(event, made)

        run = agent.run(prompt, on_step=stepped)
        begin = run.begin_state
        watch = Watch(folder, begin, seen, tools, hooks)
        if isinstance(agent.deps.hooks, HookSet):
            agent.deps.hooks.on_answer = watch.answer

        def late() -> Callable[[], None]:
            assert watch is not None
            asked = agent.deps.hooks.asked if isinstance(agent.deps.hooks, HookSet) else []
            watch.broken_off()
            left = counted([*watch.running(), *(f"the {hook.label}" for hook in tuple(asked))])
            seen.others.append(
                f"the run was ended after {seconds:g} s, the limit of the trial (seconds={seconds:g}): "
                + (f"{', '.join(left)} did not end" if left else f"it stood in {run.state.phase}")
            )
            return lambda: run.abort(AbortReason.INTERRUPT)

        with _inside(folder), limited(seconds, late):
            async with run:
                async for _ in run:
                    pass
        await to_thread.run_sync(server.wait_idle)
        seen.others.extend(f"request {number}: {words}" for number, words in server.breaches)
        seen.others.extend(f"request {one.number}: the script failed: {one.error}" for one in server.requests if one.error)
        bodies = tuple(exchange.body for exchange in server.messages)
    watch.end(watch.steps[-1][1].state.terminal, len(bodies), len(script))
    return _judge(agent.config, begin, watch, laws, bodies, may_fail)


def _agent(folder: Path, url: str, tools: Sequence[Tool], hooks: Sequence[Hook], settings: dict[str, Any]) -> Agent:
    from ..session.agent import Agent

    fixed: dict[str, Any] = {
        "permission_mode": "bypassPermissions",
        "max_model_calls": MOST_CALLS,
        "max_turns": MOST_CALLS,
        **settings,
    }
    model = fixed.pop("model", MODEL)
    return Agent(model, cwd=folder, base_url=url, api_key="trial", tools=tuple(tools), hooks=tuple(hooks), **fixed)


def _judge(
    config: LoopConfig,
    begin: LoopState,
    watch: Watch,
    laws: tuple[Law, ...],
    bodies: tuple[dict[str, Any], ...],
    may_fail: tuple[bool, bool],
) -> Trial:
    run, seen = Evidence(config, tuple(watch.steps), begin), watch.seen
    cheap = tuple(law for law in LAWS if not law.costly and law.over is not Over.RUN)
    problems, notes = [*seen.others, *judged(run, (*cheap, *RUN_LAWS, *laws))], [*seen.notes]
    for allowed, failed in zip(may_fail, (seen.tools, seen.hooks), strict=True):
        (notes if allowed else problems).extend(failed)
    return Trial(run.state.terminal, tuple(watch.steps), counted(problems), bodies, counted(notes))
