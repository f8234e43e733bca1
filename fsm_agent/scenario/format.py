"""What a scenario says, as frozen values (spec 04, testing kit). The YAML form is described in :mod:`.loading`.

A scenario is one run: what the model replies, how tools behave, what hooks, the compactor and the user do, and how the
run must end. Times are milliseconds; the pure driver and the tests on virtual time wait for none of them.
"""

from __future__ import annotations

from enum import StrEnum

from attrs import field, frozen

from ..core.config import LoopConfig
from ..core.events import EventKind, Outcome
from ..core.failures import ErrorKind
from ..core.phases import Cause, CompactKind, ContinueReason, Phase, TerminalReason


class ScenarioError(ValueError):
    """A scenario that cannot be read or played; the text names the place."""


class Way(StrEnum):
    """A way to play a scenario."""

    REDUCER = "reducer"
    INTERPRETER = "interpreter"
    HTTP = "http"


@frozen
class Failing:
    """How a model call fails.

    Attributes:
        kind: the closed kind.
        message: words of the API; empty for the usual words of the kind.
        retry_after_ms: wait that the server asks for, or None.
        over_tokens: tokens by which the prompt is over, 0 if the API does not say.
        media_path: ``messages.N.content.M`` of the refused medium, or empty.
    """

    kind: ErrorKind
    message: str = ""
    retry_after_ms: int | None = None
    over_tokens: int = 0
    media_path: str = ""


@frozen
class TextItem:
    """A text block; ``open`` when the stream never closes it."""

    text: str
    open: bool = False


@frozen
class ThinkingItem:
    """A thinking block with a signature; ``open`` when the stream never closes it."""

    text: str
    open: bool = False


@frozen
class ToolItem:
    """A call.

    Attributes:
        name: the tool.
        raw: input text as it is streamed, well-formed or not.
        id: the call's id; None for a fresh one. An empty or odd id is sent as it is.
        open: the stream never closes it.
    """

    name: str
    raw: str
    id: str | None = None
    open: bool = False


@frozen
class OtherItem:
    """Any other block, as JSON text, sent as it is."""

    json: str


@frozen
class Settle:
    """Time for what runs beside the stream (tools, background work) to finish before the next block."""


Item = TextItem | ThinkingItem | ToolItem | OtherItem | Settle


class Ending(StrEnum):
    """How a reply ends: with a stop reason, by a failure, or never."""

    COMPLETE = "complete"
    FAILS = "fails"
    HANGS = "hangs"


@frozen
class Reply:
    """One answer of the model to one call.

    Attributes:
        items: blocks and settle points in order.
        ending: how it ends.
        stop_reason: the API's word, or None; only for a complete reply.
        streamed: the stream began before the failure: an event in the stream, not an HTTP status.
        failure: why it fails, None for another ending.
        input_tokens: uncached prompt tokens.
        output_tokens: tokens of the reply.
        pace_ms: pause between two pieces of text.
        stop_details: JSON text, or empty.
        cleared_tokens: tokens that clearing edits of the API removed, 0 if none.
    """

    items: tuple[Item, ...] = ()
    ending: Ending = Ending.COMPLETE
    stop_reason: str | None = "end_turn"
    streamed: bool = True
    failure: Failing | None = None
    input_tokens: int = 100
    output_tokens: int = 20
    pace_ms: int = 0
    stop_details: str = ""
    cleared_tokens: int = 0


@frozen
class ToolResultSpec:
    """One result of a scripted tool: its text, how the call ended, and filler to reach ``chars`` characters."""

    text: str = "done"
    outcome: Outcome = Outcome.OK
    chars: int = 0


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


class SummaryWord(StrEnum):
    """What the summariser does."""

    SUMMARY = "summary"
    FAILS = "fails"
    EMPTY = "empty"
    CUT = "cut"
    REFUSED = "refused"
    HANG = "hang"


@frozen
class SummarySpec:
    """One answer of the summariser.

    Attributes:
        word: what it does.
        text: the summary.
        chars: filler to reach this length, 0 for none.
        failure: how it fails, None if it does not.
        duration_ms: how long it takes.
    """

    word: SummaryWord
    text: str = ""
    chars: int = 0
    failure: Failing | None = None
    duration_ms: int = 0


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
        replies: of the model, one a call.
        tools: scripted tools; with ``real_tools`` they stand in where nothing real can run.
        real_tools: the real way uses the built-in tools in a temporary project.
        files: (path, text) of that project.
        stop_hooks: one answer a call; then they pass.
        attachments: one text a round, empty for none; then none.
        compactor: answers of the summariser to compactions.
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
    replies: tuple[Reply, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    real_tools: bool = False
    files: tuple[tuple[str, str], ...] = ()
    stop_hooks: tuple[HookSpec, ...] = ()
    attachments: tuple[str, ...] = ()
    compactor: tuple[SummarySpec, ...] = ()
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
