"""The run checker: seven points that hold after any run, each a named function (field reports, "Run checker").

What a point needs and the evidence lacks it leaves out: a run of the bare reducer has no processes, one without a log
none to replay. :func:`check_run` judges all points.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from attrs import frozen

from ..core.blocks import block_text
from ..core.config import LoopConfig
from ..core.effects import CallModel, Emit, NotifyCommand
from ..core.events import CommandQueued, Event, ToolStarted
from ..core.messages import MessageKind
from ..core.outputs import Terminal, TerminalOutput
from ..core.phases import SUCCESS, TERMINAL_SET, TerminalReason
from ..core.rank import calls_bound
from ..core.request.encode import body_of
from ..core.rows import STALE
from ..core.state import LoopState, Step, initial
from ..core.usage import add_usage


@frozen
class Alive:
    """What runs in this process besides its code: compare before and after a run.

    Attributes:
        threads: names of the threads.
        children: ids of child processes.
        pipes: open descriptors that are pipes or sockets.
    """

    threads: tuple[str, ...] = ()
    children: tuple[int, ...] = ()
    pipes: tuple[str, ...] = ()

    @staticmethod
    def now() -> Alive:
        """Look at this process. Children and descriptors are known where the system shows them below ``/proc``."""
        threads = tuple(sorted(thread.name for thread in threading.enumerate() if thread.is_alive()))
        return Alive(threads, _children(), _pipes())


def _children() -> tuple[int, ...]:
    found: list[int] = []
    for task in Path("/proc/self/task").glob("*/children"):
        try:
            found += [int(word) for word in task.read_text().split()]
        except OSError:
            continue
    return tuple(sorted(found))


def _pipes() -> tuple[str, ...]:
    found: list[str] = []
    for place in Path("/proc/self/fd").glob("*"):
        try:
            target = os.readlink(place)
        except OSError:
            continue
        if target.startswith(("pipe:", "socket:")):
            found.append(target)
    return tuple(sorted(found))


@frozen
class Evidence:
    """What is known of a run.

    Attributes:
        config: its configuration.
        steps: events with the steps that took them.
        begin: the state before the first step; None for that of a new conversation.
        log: its log, if it has one.
        exit_code: of the process, if there was one.
        executed: ids of the calls whose bodies ran, one for each time; None if only the steps tell.
        before: what was alive before it.
        after: what is alive after it.
    """

    config: LoopConfig
    steps: tuple[tuple[Event, Step], ...]
    begin: LoopState | None = None
    log: Path | None = None
    exit_code: int | None = None
    executed: tuple[str, ...] | None = None
    before: Alive | None = None
    after: Alive | None = None

    @property
    def start(self) -> LoopState:
        """The state before the first step."""
        return initial(self.config) if self.begin is None else self.begin

    @property
    def state(self) -> LoopState:
        """The last state."""
        return self.steps[-1][1].state if self.steps else self.start

    @property
    def terminals(self) -> tuple[Terminal, ...]:
        """The endings that were shown."""
        effects = (effect for _, made in self.steps for effect in made.effects)
        return tuple(
            effect.output.terminal
            for effect in effects
            if isinstance(effect, Emit) and isinstance(effect.output, TerminalOutput)
        )


def calls_are_bounded(run: Evidence) -> str:
    """1. Between two exempt ones stand no more model calls than B(config), and the steps are finite."""
    budget = run.state.control.budget.token_budget
    bound = calls_bound(run.config, budget)
    row = 0
    for _, made in run.steps:
        if any(isinstance(effect, CallModel) for effect in made.effects):
            row = made.state.control.guards.model_calls
            if row > bound:
                return f"{row} model calls between two exempt ones; at most {bound}"
    return ""


def it_ends_once(run: Evidence) -> str:
    """2. There is exactly one ending, its reason is the last phase, and the exit code and the success agree with it."""
    ends = run.terminals
    if len(ends) != 1:
        return f"{len(ends)} endings"
    end = ends[0]
    if run.state.phase not in TERMINAL_SET or end.reason.value != run.state.phase.value:
        return f"it ended as {end.reason}, and rests in {run.state.phase}"
    if run.exit_code is None:
        return ""
    from ..session.endings import exit_code

    success = end.reason is TerminalReason.COMPLETED and end.cause in SUCCESS
    if (run.exit_code == 0) != success or run.exit_code != exit_code(end):
        return f"exit code {run.exit_code} for {end.reason}/{end.cause}"
    return ""


def calls_run_once(run: Evidence) -> str:
    """3. Each call began at most once, and one that was cut, malformed or denied never."""
    began: Counter[tuple[str, str]] = Counter()
    allowed: set[str] = set()
    before = run.start
    for event, made in run.steps:
        if isinstance(event, ToolStarted) and made.taken != (STALE,) and made.rejected is None:
            for call in before.control.tools.calls:
                if call.effect == event.id:
                    began[before.control.call.id, call.id] += 1
                    allowed.add(call.id)
                    if not call.whole or not call.traits.known:
                        return f"{call.id} began, though it is not whole or its tool is unknown"
        before = made.state
    twice = [name for (_, name), count in began.items() if count > 1]
    if twice:
        return f"began more than once: {', '.join(twice)}"
    if run.executed is None:
        return ""
    ran = Counter(run.executed)
    wrong = sorted(name for name, count in ran.items() if count > 1 or name not in allowed)
    return f"ran more than once, or without having begun: {', '.join(wrong)}" if wrong else ""


def inputs_are_not_lost(run: Evidence) -> str:
    """4. Each accepted input stands once in the history and no request twice, in order, or is handed back."""
    accepted: list[str] = []
    texts: dict[str, str] = {}
    taken: list[str] = list(run.start.control.queue.commands)[:0]
    for event, made in run.steps:
        if isinstance(event, CommandQueued) and made.rejected is None:
            accepted.append(event.command_id)
            texts[event.command_id] = "".join(block_text(block) for block in event.message.blocks)
        taken += [effect.command_id for effect in made.effects if isinstance(effect, NotifyCommand)]
        for effect in made.effects:
            if isinstance(effect, CallModel) and texts:
                body = body_of(effect.request).decode("utf-8", "replace")
                for name, text in texts.items():
                    if text and body.count(text) > 1 and texts_are_unique(texts, text):
                        return f"input {name} stands {body.count(text)} times in one request"
    terminal = run.state.terminal
    back = list(terminal.undelivered) if terminal is not None else list(run.state.control.queue.commands)
    if taken + back != accepted:
        return f"accepted {accepted}, taken up {taken}, handed back {back}"
    return ""


def texts_are_unique(texts: dict[str, str], text: str) -> bool:
    """Tell whether no other input holds this text."""
    return sum(text in other for other in texts.values()) == 1


def nothing_is_left(run: Evidence) -> str:
    """5. After the end nothing is in flight, and no child process, thread or open pipe is there that was not before."""
    if run.state.phase in TERMINAL_SET and run.state.control.flight:
        return f"in flight after the end: {[item.id for item in run.state.control.flight]}"
    if run.before is None or run.after is None:
        return ""
    left = Counter(run.after.threads) - Counter(run.before.threads)
    left.update(str(child) for child in run.after.children if child not in run.before.children)
    left.update(pipe for pipe in run.after.pipes if pipe not in run.before.pipes)
    return f"left behind: {', '.join(sorted(left))}" if left else ""


def its_log_replays(run: Evidence) -> str:
    """6. Its log folds back into the very same states, and each prefix of it can be resumed to an end."""
    if run.log is None:
        return ""
    from ..log.replay import replay
    from .resuming import faults_of_prefixes

    found = replay(run.log)
    if found.divergence is not None:
        return str(found.divergence)
    if found.state != run.state:
        return "the log folds to another state"
    return faults_of_prefixes(run.log)


def usage_adds_up(run: Evidence) -> str:
    """7. The usage of the run is the sum over all answers, cut attempts included, each once."""
    total = run.start.data.usage
    if run.start.phase in TERMINAL_SET or not run.start.control.run.id:
        total = ()
    for event, made in run.steps:
        if made.rejected is None:
            total = add_usage(total, getattr(event, "usage", ()) or ())
    held = run.state.data.usage
    return "" if sorted(map(str, total)) == sorted(map(str, held)) else f"usage {held}, its answers say {total}"


RUN_CHECKS: tuple[Callable[[Evidence], str], ...] = (
    calls_are_bounded,
    it_ends_once,
    calls_run_once,
    inputs_are_not_lost,
    nothing_is_left,
    its_log_replays,
    usage_adds_up,
)
"""The seven points, in order."""


def check_run(run: Evidence, checks: Iterable[Callable[[Evidence], str]] = RUN_CHECKS) -> tuple[str, ...]:
    """Judge a run by each point.

    Args:
        run: what is known of it.
        checks: the points, by default all seven.

    Returns:
        Name of the point and what is wrong, for each that does not hold.
    """
    found = ((check.__name__, check(run)) for check in checks)
    return tuple(f"{name}: {words}" for name, words in found if words)


def newest_request(state: LoopState) -> str:
    """Give the text of the newest request of the user in a history, empty if there is none."""
    for item in reversed(state.messages):
        if item.kind in (MessageKind.PROMPT, MessageKind.COMMAND):
            return "".join(block_text(block) for block in item.blocks)
    return ""
