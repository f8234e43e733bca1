"""A trial: the user's own tools, hooks and settings in a real agent, against a model by script, with everything looked at.

The agent is the real one, over real HTTP, on a server of its own on loopback that refuses what the API would. What is
judged besides the laws and both checkers: a call that claims to be read-only leaves the workspace as it is, and hooks
let the run come to its end.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from attrs import field, frozen

from ..core.config import LoopConfig
from ..core.control import CallState
from ..core.events import Event, ToolFinished, ToolStarted
from ..core.outputs import Terminal
from ..core.phases import Cause
from ..core.state import LoopState, Step
from ..laws import LAWS, Law, Over
from ..laws.runs import RUN_LAWS
from .injection import judged
from .run_checker import Evidence

if TYPE_CHECKING:
    from ..runtime.hooks.config import Hook
    from ..runtime.tools.base import Tool
    from ..server.replies import Reply

MODEL = "claude-sonnet-5-5"
MOST_CALLS = 100
"""Model calls after which a trial gives up."""

Files = dict[str, tuple[int, int, bytes | str]]


@frozen
class Trial:
    """How a trial went.

    Attributes:
        terminal: how the run ended, None if it did not.
        steps: events with the steps that took them.
        problems: what the laws, the checkers and the trial itself found; empty if all holds.
        requests: the decoded bodies of the requests, in order.
    """

    terminal: Terminal | None
    steps: tuple[tuple[Event, Step], ...]
    problems: tuple[str, ...]
    requests: tuple[dict[str, Any], ...] = field(factory=tuple)

    @property
    def taken(self) -> tuple[str, ...]:
        """Names of the rows taken, in order."""
        return tuple(name for _, made in self.steps for name in made.taken)

    def check(self) -> Trial:
        """Fail if anything is wrong.

        Raises:
            AssertionError: with all problems, one a line.
        """
        if self.problems:
            raise AssertionError("\n".join(self.problems))
        return self


def _files(folder: Path) -> Files:
    """Remember what is in a folder: mode, size and content of each file, where links lead."""
    found: Files = {}
    for place in sorted(folder.rglob("*")):
        name = place.relative_to(folder).as_posix()
        if place.is_symlink():
            found[name] = (0, 0, str(place.readlink()))
        elif place.is_file():
            data = place.read_bytes()
            found[name] = (place.stat().st_mode, len(data), data)
        else:
            found[name] = (place.stat().st_mode, 0, "")
    return found


def _changed(before: Files, after: Files) -> list[str]:
    return sorted(name for name in {**before, **after} if before.get(name) != after.get(name))


class _Watch:
    """Looks at each step: keeps it, and compares the workspace around calls that claim to be read-only."""

    def __init__(self, folder: Path, state: LoopState, note: Callable[[str], None]) -> None:
        self.steps: list[tuple[Event, Step]] = []
        self._folder = folder
        self._state = state
        self._note = note
        self._files: Files = {}
        self._running: dict[str, str] = {}
        self._mixed = False

    def step(self, event: Event, made: Step) -> None:
        self.steps.append((event, made))
        before, self._state = self._state, made.state
        if isinstance(event, ToolStarted):
            if not self._running:
                self._files, self._mixed = _files(self._folder), False
            for number, call in enumerate(before.control.tools.calls):
                if call.effect == event.id and call.state is CallState.EXECUTING:
                    self._mixed = self._mixed or not call.traits.read_only
                    self._running[event.id] = before.data.iteration.calls[number].use.name
        elif isinstance(event, ToolFinished):
            name = self._running.pop(event.id, "")
            if name and not self._mixed:
                self._compare(name)

    def _compare(self, name: str) -> None:
        now = _files(self._folder)
        changed = _changed(self._files, now)
        if changed:
            beside = f" (or one that ran beside it: {', '.join(self._running.values())})" if self._running else ""
            self._note(f"tool {name} claims to be read-only and changed {', '.join(changed)}{beside}")
        self._files = now


def trial(
    replies: Sequence[Reply | str],
    *,
    tools: Sequence[Tool] = (),
    hooks: Sequence[Hook] = (),
    laws: Iterable[Law] = (),
    prompt: str = "Go.",
    folder: Path | None = None,
    **settings: Any,
) -> Trial:
    """Run an agent with tools and hooks of one's own against a scripted model, and judge everything.

    Args:
        replies: what the model answers, in order: texts, or replies of :mod:`fsm_agent.server.replies`. The last one
            is repeated as often as it is asked for.
        tools: the agent's tools.
        hooks: the agent's hooks.
        laws: further laws, besides those of the engine.
        prompt: what the user asks.
        folder: the workspace; by default a new one that is removed afterwards.
        settings: further settings of :class:`fsm_agent.Agent`.

    Returns:
        How it went. :meth:`Trial.check` makes a failed test of any problem.
    """
    if folder is not None:
        return anyio.run(_run, folder, replies, tools, hooks, tuple(laws), prompt, settings)
    with tempfile.TemporaryDirectory(prefix="fsm-agent-trial-") as made:
        return anyio.run(_run, Path(made), replies, tools, hooks, tuple(laws), prompt, settings)


async def _run(
    folder: Path,
    replies: Sequence[Reply | str],
    tools: Sequence[Tool],
    hooks: Sequence[Hook],
    laws: tuple[Law, ...],
    prompt: str,
    settings: dict[str, Any],
) -> Trial:
    from ..server.app import LoopbackServer
    from ..server.replies import says
    from ..session.agent import Agent

    script = [says(reply) if isinstance(reply, str) else reply for reply in replies]

    def answer(number: int, body: dict[str, Any]) -> Reply:
        return script[min(number, len(script) - 1)]

    problems: list[str] = []
    with LoopbackServer(answer) as server:
        fixed: dict[str, Any] = {
            "permission_mode": "bypassPermissions",
            "max_model_calls": MOST_CALLS,
            "max_turns": MOST_CALLS,
            **settings,
        }
        model = fixed.pop("model", MODEL)
        agent = Agent(
            model, cwd=folder, base_url=server.base_url, api_key="trial", tools=tuple(tools), hooks=tuple(hooks), **fixed
        )
        watch: _Watch | None = None

        def stepped(event: Event, made: Step) -> None:
            assert watch is not None
            watch.step(event, made)

        run = agent.run(prompt, on_step=stepped)
        begin = run.begin_state
        watch = _Watch(folder, begin, problems.append)
        async with run:
            async for _ in run:
                pass
        server.wait_idle()
        problems += [f"request {number}: {words}" for number, words in server.breaches]
        bodies = tuple(exchange.body for exchange in server.messages)
    return _judge(agent.config, begin, watch.steps, problems, laws, bodies)


def _judge(
    config: LoopConfig,
    begin: LoopState,
    steps: list[tuple[Event, Step]],
    problems: list[str],
    laws: tuple[Law, ...],
    bodies: tuple[dict[str, Any], ...],
) -> Trial:
    run = Evidence(config, tuple(steps), begin)
    cheap = tuple(law for law in LAWS if not law.costly and law.over is not Over.RUN)
    problems += judged(run, (*cheap, *RUN_LAWS, *laws))
    terminal = run.state.terminal
    if terminal is not None and terminal.cause is Cause.STOP_HOOK_CAP:
        problems.append(f"a stop hook never let the run end: {terminal.detail or 'it blocked until the cap'}")
    return Trial(terminal, tuple(steps), tuple(problems), bodies)
