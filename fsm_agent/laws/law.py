"""What a law is: a named pure function that finds fault with a state or an edge, or says nothing (spec 04, laws)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any

from attrs import frozen

from ..core.config import LoopConfig
from ..core.control import Control
from ..core.effects import (
    CallModel,
    Cancel,
    Compact,
    Effect,
    Emit,
    GatherAttachments,
    NotifyCommand,
    RunPostSamplingHooks,
    RunStopHooks,
    RunTool,
    StageCollapse,
    StartPrefetch,
    StartTimer,
    SummarizeToolUse,
)
from ..core.events import Event
from ..core.outputs import (
    AssistantOutput,
    BlockOutput,
    CallEnd,
    ErrorOutput,
    Output,
    TerminalOutput,
    Tombstone,
    ToolResult,
)
from ..core.phases import TERMINAL_SET, Phase
from ..core.rows import TABLE
from ..core.state import LoopState, Step
from ..core.table import Ignore, Row

ANSWERED = (
    CallModel,
    RunTool,
    Compact,
    StageCollapse,
    GatherAttachments,
    StartPrefetch,
    SummarizeToolUse,
    RunStopHooks,
    StartTimer,
)
"""Effects that are in flight until they are answered or cancelled."""

ROWS: dict[str, Row] = {row.name: row for row in TABLE.rows}
IGNORES: dict[str, Ignore] = {ignore.name: ignore for ignore in TABLE.ignores}


class Edge:
    """One step, laid out for laws: what was before, the event, what was made, and the effects by kind.

    Attributes:
        before: the state before.
        event: the event.
        made: what ``step`` gave.
        config: the run's configuration.
        old: the control before.
        new: the control after.
        taken: names of the rows taken.
        ended: this step ended the run.
        issued: effects that now wait for an answer, in order.
        calls: those of them that call the model.
        tools: those of them that run a tool.
        cancels: ids of cancelled effects, in order.
        outputs: what the consumer sees, in order.
        blocks: emitted blocks of a reply.
        results: emitted results of calls.
        tombstones: ids that were invalidated, in order.
        ends: calls whose reply was decided.
        errors: errors that were shown.
        terminals: endings that were shown.
        kept: replies that were kept, as they stand in the history.
        notified: ids of commands that were taken up.
        sampled: replies handed to post-sampling hooks.
    """

    __slots__ = (
        "before",
        "blocks",
        "calls",
        "cancels",
        "config",
        "ended",
        "ends",
        "errors",
        "event",
        "issued",
        "kept",
        "made",
        "new",
        "notified",
        "old",
        "outputs",
        "results",
        "sampled",
        "taken",
        "terminals",
        "tombstones",
        "tools",
    )

    def __init__(self, before: LoopState, event: Event, made: Step, config: LoopConfig) -> None:
        self.before = before
        self.event = event
        self.made = made
        self.config = config
        self.old: Control = before.control
        self.new: Control = made.state.control
        self.taken: tuple[str, ...] = made.taken
        self.ended: bool = self.new.phase in TERMINAL_SET and self.old.phase not in TERMINAL_SET
        self.issued: list[Any] = []
        self.calls: list[CallModel] = []
        self.tools: list[RunTool] = []
        self.cancels: list[str] = []
        self.outputs: list[Output] = []
        self.blocks: list[BlockOutput] = []
        self.results: list[ToolResult] = []
        self.tombstones: list[str] = []
        self.ends: list[CallEnd] = []
        self.errors: list[ErrorOutput] = []
        self.terminals: list[TerminalOutput] = []
        self.kept: list[AssistantOutput] = []
        self.notified: list[str] = []
        self.sampled: list[RunPostSamplingHooks] = []
        for effect in made.effects:
            self._sort(effect)

    def _sort(self, effect: Effect) -> None:
        kind = type(effect)
        if kind is Emit:
            output: Any = effect.output  # type: ignore[union-attr]
            self.outputs.append(output)
            place = _PLACES.get(type(output))
            if place is not None:
                getattr(self, place).append(output)
            elif type(output) is Tombstone:
                self.tombstones.extend(output.ids)
        elif kind is Cancel:
            self.cancels.append(effect.id)  # type: ignore[union-attr]
        elif kind is NotifyCommand:
            self.notified.append(effect.command_id)  # type: ignore[union-attr]
        elif kind is RunPostSamplingHooks:
            self.sampled.append(effect)  # type: ignore[arg-type]
        else:
            self.issued.append(effect)
            if kind is CallModel:
                self.calls.append(effect)  # type: ignore[arg-type]
            elif kind is RunTool:
                self.tools.append(effect)  # type: ignore[arg-type]

    @property
    def quiet(self) -> bool:
        """True if nothing happened: the very same state, and no effects."""
        return self.made.state is self.before and not self.made.effects

    @property
    def source(self) -> Phase:
        """The phase before."""
        return self.old.phase

    def took(self, *names: str) -> bool:
        """Tell whether one of these rows was taken."""
        for name in self.taken:  # noqa: SIM110 - laws ask this at every edge of an exploration, and any() costs thrice
            if name in names:
                return True
        return False


_PLACES: dict[type, str] = {
    BlockOutput: "blocks",
    ToolResult: "results",
    CallEnd: "ends",
    ErrorOutput: "errors",
    TerminalOutput: "terminals",
    AssistantOutput: "kept",
}


class Over(StrEnum):
    """What a law judges."""

    STATE = "state"
    EDGE = "edge"
    RUN = "run"


@frozen
class Law:
    """One law.

    Attributes:
        name: the function's name.
        group: the law of spec 04 that it is part of, ``I1`` to ``I17``.
        over: what it judges.
        check: gives an empty text, or says what is wrong. A state law takes (state, config), an edge law an
            :class:`Edge`, a run law (edges, config).
        text: one sentence.
        costly: too dear for every state or edge of a large exploration; judged on a sample there.
        quiet: it judges edges on which nothing happened, too.
    """

    name: str
    group: str
    over: Over
    check: Callable[..., str]
    text: str
    costly: bool = False
    quiet: bool = False


class LawError(RuntimeError):
    """A law could not judge: it raised, which is the cause then, or it gave what is no text.

    Attributes:
        law: its name.
        words: what it did.
        where: at what it was asked; empty if that is not known.
        state: number of the state of an exploration, -1 elsewhere.
        ordinal: the place among the events offered there of the one that led to the edge; -1 for the state itself.
    """

    def __init__(self, law: str, words: str, where: str = "") -> None:
        super().__init__(law, words, where)
        self.law, self.words, self.where = law, words, where
        self.state = self.ordinal = -1

    def __str__(self) -> str:
        return f"the law {self.law} {self.words}" + (f", {self.where}" if self.where else "")


def raised(law: Law, problem: Exception, where: str = "") -> LawError:
    """Make the error of a law that raised; it is to be raised from ``problem``."""
    said = f"{type(problem).__name__}: {problem}" if str(problem) else type(problem).__name__
    return LawError(law.name, f"raised {said}", where)


def need_words(law: Law, words: object, where: str = "") -> str:
    """Give what a law gave.

    Raises:
        LawError: if it is no text.
    """
    if isinstance(words, str):
        return words
    raise LawError(law.name, f"gave {words!r}; a law gives a text: what is wrong, and an empty one where nothing is", where)


def need_laws(given: Iterable[Law]) -> tuple[Law, ...]:
    """Give some laws as a tuple.

    Raises:
        TypeError: for what is no law; says how a function is made one.
    """
    if isinstance(given, Law):
        raise TypeError(f"one law is given where several may be: write ({given.name},)")
    laws = tuple(given)
    for one in laws:
        if not isinstance(one, Law):
            name = getattr(one, "__name__", repr(one))
            raise TypeError(
                f"{name} is no law; a function is made one by @state_law(), @edge_law() or @run_law(), with the parentheses"
            )
    return laws


def _law(group: str, over: Over, costly: bool, quiet: bool = False) -> Callable[[Callable[..., str]], Law]:
    if not isinstance(group, str):
        raise TypeError(f"the decorator of {getattr(group, '__name__', group)} needs parentheses: @{over}_law()")

    def make(check: Callable[..., str]) -> Law:
        text = (check.__doc__ or "").strip().split("\n")[0]
        return Law(check.__name__, group, over, check, text, costly, quiet)

    return make


def state_law(group: str = "own", *, costly: bool = False) -> Callable[[Callable[[LoopState, LoopConfig], str]], Law]:
    """Make a law of a function from (state, config) to what is wrong; empty if nothing is."""
    return _law(group, Over.STATE, costly)


def edge_law(group: str = "own", *, costly: bool = False, quiet: bool = False) -> Callable[[Callable[[Edge], str]], Law]:
    """Make a law of a function from an edge to what is wrong; empty if nothing is."""
    return _law(group, Over.EDGE, costly, quiet)


def run_law(group: str = "own") -> Callable[[Callable[[tuple[Edge, ...], LoopConfig], str]], Law]:
    """Make a law of a function from (edges of a run, config) to what is wrong; empty if nothing is."""
    return _law(group, Over.RUN, False)
