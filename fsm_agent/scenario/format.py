"""What a scenario says, as frozen values (spec 04, testing kit). The YAML form is described in :mod:`.loading`.

A scenario is one run: what the model replies, how tools behave, what hooks, the compactor and the user do, and how the
run must end. Times are milliseconds; the pure driver and the tests on virtual time wait for none of them.
"""

from __future__ import annotations

from enum import StrEnum

from attrs import field, frozen

from ..core.config import LoopConfig
from ..core.events import EventKind, Outcome
from ..core.messages import Message
from ..core.phases import Cause, CompactKind, ContinueReason, Phase, TerminalReason
from .answers import Reply, SummarySpec


class ScenarioError(ValueError):
    """A scenario that cannot be read or played; the text names the place."""


class Way(StrEnum):
    """A way to play a scenario."""

    REDUCER = "reducer"
    INTERPRETER = "interpreter"
    HTTP = "http"


@frozen
class ToolResultSpec:
    """One result of a scripted tool.

    Attributes:
        text: what it says.
        outcome: how the call ended.
        chars: filler to reach this length.
        image: width and height of a picture behind the text, None for no picture.
    """

    text: str = "done"
    outcome: Outcome = Outcome.OK
    chars: int = 0
    image: tuple[int, int] | None = None


@frozen
class ToolSpec:
    """How a scripted tool behaves.

    Attributes:
        name: the tool's name.
        read_only: it changes nothing outside.
        concurrency_safe: it may run beside others.
        idempotent: running it again does no harm.
        cancels_siblings: its failure cancels the batch.
        compactable: microcompact may clear its old results.
        duration_ms: how long it runs.
        results: one for each call; the last one repeats.
        progress: texts while it runs.
        stop: words of a hook that stops the run after it, None if none does.
        denied: permission is refused: it never starts.
        hang: it never ends.
        max_result_chars: limit of its result; None exempts it from the result budget.
    """

    name: str
    read_only: bool = False
    concurrency_safe: bool = False
    idempotent: bool = False
    cancels_siblings: bool = False
    compactable: bool = False
    duration_ms: int = 10
    results: tuple[ToolResultSpec, ...] = (ToolResultSpec(),)
    progress: tuple[str, ...] = ()
    stop: str | None = None
    denied: bool = False
    hang: bool = False
    max_result_chars: int | None = 50_000


class HookWord(StrEnum):
    """What the stop hooks say."""

    PASS = "pass"
    BLOCK = "block"
    PREVENT = "prevent"
    CRASH = "crash"
    HANG = "hang"


@frozen
class HookSpec:
    """One answer of the stop hooks; ``cause`` is that of a prevention."""

    word: HookWord
    text: str = ""
    cause: Cause = Cause.HOOK


@frozen
class Background:
    """What a background effect brings: its text, empty for nothing, after ``duration_ms``."""

    text: str = ""
    duration_ms: int = 20


class UserWord(StrEnum):
    """What the user does."""

    QUEUE = "queue"
    INTERRUPT = "interrupt"
    SUBMIT = "submit"
    CLOSE = "close"
    COMPACT = "compact"
    SWITCH = "switch"


@frozen
class UserSpec:
    """One action of the user.

    Attributes:
        word: what is done.
        text: the command, the instructions, or the model.
        event: act right after the ``nth`` event of this kind, or None.
        phase: act right after the ``nth`` time that the run comes to rest in this phase, or None.
        nth: which one, from 1.
    """

    word: UserWord
    text: str = ""
    event: EventKind | None = None
    phase: Phase | None = None
    nth: int = 1


@frozen
class Expect:
    """How the run must go.

    Attributes:
        reason: the terminal reason.
        cause: its cause.
        continues: continue reasons in order, None to leave them open.
        rows: names of rows that are taken in this order, among others.
        outputs: outputs that appear in this order, among others, as words of spec 03.
        absent: outputs that never appear.
        compactions: kinds of compaction that are asked for, in order; None to leave them open.
        models: models called, in order, repeats left out; None to leave them open.
    """

    reason: TerminalReason
    cause: Cause
    continues: tuple[ContinueReason, ...] | None = None
    rows: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    compactions: tuple[CompactKind, ...] | None = None
    models: tuple[str, ...] | None = None


@frozen
class Scenario:
    """One run, scripted.

    Attributes:
        name: its name in the catalog, kebab case.
        title: one sentence that says what it shows.
        expect: how it must go.
        config: the run's configuration, complete, the schemas of scripted tools included.
        prompt: blocks of the prompt, each as JSON text.
        history: what the conversation holds before this run.
        replies: of the model, one a call.
        tools: scripted tools; with ``real_tools`` they stand in where nothing real can run.
        real_tools: the real way uses the built-in tools in a temporary project.
        files: (path, text) of that project.
        stop_hooks: one answer a call; then they pass.
        attachments: one text a round, empty for none; then none.
        compactor: answers of the summariser to compactions.
        summariser: the model that writes summaries, None for the one in use.
        reread: (path, text) of files in use, which are shown again behind a compaction, the most recent first.
        collapses: answers of the summariser to collapses.
        memory: what the memory prefetch brings, None if there is none.
        skills: what the skill prefetch brings on each pass, None if there is none.
        summary: what the summary of a round of tools brings, None if there is none.
        user: what the user does.
        source: where the run comes from.
        token_budget: output tokens to be spent, or None.
        depth: 0 for a main run.
        ways: the ways in which it can be played.
    """

    name: str
    title: str
    expect: Expect
    config: LoopConfig
    prompt: tuple[str, ...]
    history: tuple[Message, ...] = ()
    replies: tuple[Reply, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    real_tools: bool = False
    files: tuple[tuple[str, str], ...] = ()
    stop_hooks: tuple[HookSpec, ...] = ()
    attachments: tuple[str, ...] = ()
    compactor: tuple[SummarySpec, ...] = ()
    summariser: str | None = None
    reread: tuple[tuple[str, str], ...] = ()
    collapses: tuple[SummarySpec, ...] = ()
    memory: Background | None = None
    skills: Background | None = None
    summary: Background | None = None
    user: tuple[UserSpec, ...] = ()
    source: str = "sdk"
    token_budget: int | None = None
    depth: int = 0
    ways: tuple[Way, ...] = field(default=tuple(Way))

    def tool(self, name: str) -> ToolSpec | None:
        """Give the scripted tool of this name, or None."""
        return next((tool for tool in self.tools if tool.name == name), None)
