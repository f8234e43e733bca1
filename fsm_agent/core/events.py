"""What can happen to a run: answers of effects, and what the user does (spec 01, section 6).

An answer carries the id of its effect. ``usage`` is what the answer cost, failures included.
"""

from __future__ import annotations

from enum import StrEnum

from .blocks import Block
from .failures import ModelFailure
from .frozen import frozen
from .messages import Message
from .phases import AbortReason, Cause
from .usage import ModelUsage


class EventKind(StrEnum):
    """The closed list of events; ``AUTO`` is the trigger of rows that need none."""

    AUTO = "auto"
    RUN_STARTED = "run_started"
    STREAM_STARTED = "stream_started"
    BLOCK_COMPLETED = "block_completed"
    STREAM_COMPLETED = "stream_completed"
    STREAM_FAILED = "stream_failed"
    TOOL_STARTED = "tool_started"
    TOOL_PROGRESSED = "tool_progressed"
    TOOL_FINISHED = "tool_finished"
    COMPACTION_FINISHED = "compaction_finished"
    COMPACTION_FAILED = "compaction_failed"
    COLLAPSE_STAGED = "collapse_staged"
    COLLAPSE_FAILED = "collapse_failed"
    STOP_HOOKS_FINISHED = "stop_hooks_finished"
    ATTACHMENTS_GATHERED = "attachments_gathered"
    PREFETCH_FINISHED = "prefetch_finished"
    TOOL_USE_SUMMARY_READY = "tool_use_summary_ready"
    TIMER_FIRED = "timer_fired"
    EFFECT_FAILED = "effect_failed"
    EFFECT_LOST = "effect_lost"
    COMMAND_QUEUED = "command_queued"
    COMPACT_REQUESTED = "compact_requested"
    MODEL_SWITCHED = "model_switched"
    ABORT_REQUESTED = "abort_requested"


@frozen
class ToolTraits:
    """What the core needs to know of a tool for one call; a replay needs no registry.

    Attributes:
        known: the tool exists.
        read_only: this call changes nothing outside.
        concurrency_safe: this call may run beside others.
        idempotent: running it again does no harm.
        cancels_siblings_on_error: its failure cancels the batch.
        compactable: microcompact may clear its old results.
        max_result_chars: limit of its result in characters; None exempts it from the result budget.
    """

    known: bool = True
    read_only: bool = False
    concurrency_safe: bool = False
    idempotent: bool = False
    cancels_siblings_on_error: bool = False
    compactable: bool = False
    max_result_chars: int | None = 50_000


@frozen
class ToolUse:
    """One call as the model made it.

    Attributes:
        id: the id that the model gave, whatever it looks like.
        name: the tool's name.
        raw: the raw input text as streamed, bounded by the interpreter.
        input_json: canonical JSON text of the input object, or None if the raw text is no strict object.
        problem: why it is no strict object, empty otherwise.
        traits: what the tool says of this call.
    """

    id: str
    name: str
    raw: str
    input_json: str | None
    problem: str = ""
    traits: ToolTraits = ToolTraits()


@frozen
class RunStarted:
    """A run begins.

    Attributes:
        run_id: prefix of every id of the run.
        messages: the prompt and what goes with it, in order.
        source: ``repl``, ``sdk``, ``agent:<name>``, ``compact``, ``session_memory``, ...
        permission_mode: shown to the interpreter only.
        depth: 0 for the main run, one more for each sub-agent.
        token_budget: output tokens that the user asked to be spent, or None.
        spent: micro-dollars of the session so far, for a budget over the session.
    """

    run_id: str
    messages: tuple[Message, ...]
    source: str = "sdk"
    permission_mode: str = "default"
    depth: int = 0
    token_budget: int | None = None
    spent: int = 0


@frozen
class StreamStarted:
    """``message_start`` came.

    Attributes:
        id: the CallModel.
        message_id: the API's message id.
        model: the model that answers.
    """

    id: str
    message_id: str = ""
    model: str = ""


@frozen
class BlockCompleted:
    """A block was closed, and for a call the stream has gone on.

    Attributes:
        id: the CallModel.
        index: position in the reply.
        block: the block as received.
        tool: for a ``tool_use`` block, the parsed call.
        last: a call delivered by ``message_delta``: it is the last block and never starts early.
        closed: False for the rest of a block that the stream never closed.
    """

    id: str
    index: int
    block: Block
    tool: ToolUse | None = None
    last: bool = False
    closed: bool = True


@frozen
class StreamCompleted:
    """The reply ended with a stop reason.

    Attributes:
        id: the CallModel.
        stop_reason: the API's word, known or not.
        usage: by model, per attempt.
        context_tokens: input, cache and output tokens of the last ``message`` iteration; 0 if unknown.
        applied_edits: JSON text of ``context_management.applied_edits``, empty if there were none.
        cleared_tokens: input tokens that those edits cleared.
        stop_details: JSON text of ``stop_details`` (refusals), empty if there was none.
        stop_sequence: the sequence that fired, if any.
        unresolved: a server tool call without its result, or a call made by code, is pending.
    """

    id: str
    stop_reason: str | None
    usage: tuple[ModelUsage, ...] = ()
    context_tokens: int = 0
    applied_edits: str = ""
    cleared_tokens: int = 0
    stop_details: str = ""
    stop_sequence: str = ""
    unresolved: bool = False


@frozen
class StreamFailed:
    """The call failed, before or during the stream."""

    id: str
    failure: ModelFailure
    usage: tuple[ModelUsage, ...] = ()


@frozen
class ToolStarted:
    """Hooks and permission allowed the call; its body is about to run.

    Attributes:
        id: the RunTool.
        final_input_digest: SHA-256 of the input that runs, after hooks rewrote it.
    """

    id: str
    final_input_digest: str = ""


@frozen
class ToolProgressed:
    """A tool says how far it is; ``text`` is what came since the last one, bounded."""

    id: str
    text: str


class Outcome(StrEnum):
    """How a tool ended: ``error`` ran and reports a failure, ``failed`` could not start, crashed or timed out."""

    OK = "ok"
    ERROR = "error"
    FAILED = "failed"


@frozen
class ToolFinished:
    """A tool ended.

    Attributes:
        id: the RunTool.
        outcome: how.
        result: the ``tool_result`` block for the call's stored id (given in the effect).
        digest: SHA-256 of the result without what is declared volatile.
        stop: a hook stops the run: its words; None if no hook did.
        usage: what a sub-agent used.
    """

    id: str
    outcome: Outcome
    result: Block
    digest: str = ""
    stop: str | None = None
    usage: tuple[ModelUsage, ...] = ()


@frozen
class CompactionFinished:
    """The compactor has a summary.

    Attributes:
        id: the Compact.
        summary: blocks of the summary: text, or the API's own ``compaction`` block.
        stop_reason: why the summariser stopped.
        attachments: files read again, already within the budget.
        dropped: names of attachments left out because they did not fit.
        summarised: how many of the effect's messages the summary stands for.
        usage: what it cost.
    """

    id: str
    summary: tuple[Block, ...]
    stop_reason: str | None = "end_turn"
    attachments: tuple[Message, ...] = ()
    dropped: tuple[str, ...] = ()
    summarised: int = 0
    usage: tuple[ModelUsage, ...] = ()


@frozen
class CompactionFailed:
    """The compactor gave up; the history stays as it was."""

    id: str
    failure: ModelFailure
    usage: tuple[ModelUsage, ...] = ()


@frozen
class CollapseStaged:
    """A span has a summary.

    Attributes:
        id: the StageCollapse.
        summary: its text block.
        usage: what it cost.
    """

    id: str
    summary: Block
    usage: tuple[ModelUsage, ...] = ()


@frozen
class CollapseFailed:
    """A span could not be summarised; it stays as it is."""

    id: str
    failure: ModelFailure
    usage: tuple[ModelUsage, ...] = ()


@frozen
class StopHooksFinished:
    """All stop hooks answered.

    Attributes:
        id: the RunStopHooks.
        blocking: errors of hooks that block, in order.
        prevented: words of a hook that ends the run; None if none does.
        prevented_cause: ``hook`` or ``structured_output_exhausted``.
        warnings: hooks that crashed or timed out.
        usage: what hooks used.
    """

    id: str
    blocking: tuple[str, ...] = ()
    prevented: str | None = None
    prevented_cause: Cause = Cause.HOOK
    warnings: tuple[str, ...] = ()
    usage: tuple[ModelUsage, ...] = ()


@frozen
class AttachmentsGathered:
    """Providers gave their attachments (kind ``attachment``)."""

    id: str
    messages: tuple[Message, ...] = ()
    warnings: tuple[str, ...] = ()


@frozen
class PrefetchFinished:
    """A prefetch has arrived; it is injected once, never waited for."""

    id: str
    messages: tuple[Message, ...] = ()
    usage: tuple[ModelUsage, ...] = ()


@frozen
class ToolUseSummaryReady:
    """A small model summed up a round of tools; an empty text is dropped."""

    id: str
    text: str = ""
    usage: tuple[ModelUsage, ...] = ()


@frozen
class TimerFired:
    """A timer ran out."""

    id: str


@frozen
class EffectFailed:
    """The interpreter could not perform an effect; read as the failing answer of its kind."""

    id: str
    failure: ModelFailure
    usage: tuple[ModelUsage, ...] = ()


@frozen
class EffectLost:
    """Resume found an effect without an answer."""

    id: str


@frozen
class CommandQueued:
    """The user typed while a run is on.

    Attributes:
        command_id: names it in its lifecycle.
        message: what goes into the history (kind ``command``).
        address: whom it is for: ``main`` or a sub-agent.
    """

    command_id: str
    message: Message
    address: str = "main"


@frozen
class CompactRequested:
    """The user asks for a compaction at the next pass."""

    instructions: str = ""


@frozen
class ModelSwitched:
    """The user chose another model for the next pass on."""

    model: str


@frozen
class AbortRequested:
    """The user or the consumer ends the run.

    Attributes:
        reason: how.
        usage: what runs that tools of this one made, and that end with it, used so far.
    """

    reason: AbortReason = AbortReason.INTERRUPT
    usage: tuple[ModelUsage, ...] = ()


StreamAnswer = StreamStarted | BlockCompleted | StreamCompleted | StreamFailed
ToolAnswer = ToolStarted | ToolProgressed | ToolFinished
Answer = (
    StreamAnswer
    | ToolAnswer
    | CompactionFinished
    | CompactionFailed
    | CollapseStaged
    | CollapseFailed
    | StopHooksFinished
    | AttachmentsGathered
    | PrefetchFinished
    | ToolUseSummaryReady
    | TimerFired
    | EffectFailed
    | EffectLost
)
UserEvent = RunStarted | CommandQueued | CompactRequested | ModelSwitched | AbortRequested
Event = Answer | UserEvent

EVENT_KINDS: dict[type, EventKind] = {
    RunStarted: EventKind.RUN_STARTED,
    StreamStarted: EventKind.STREAM_STARTED,
    BlockCompleted: EventKind.BLOCK_COMPLETED,
    StreamCompleted: EventKind.STREAM_COMPLETED,
    StreamFailed: EventKind.STREAM_FAILED,
    ToolStarted: EventKind.TOOL_STARTED,
    ToolProgressed: EventKind.TOOL_PROGRESSED,
    ToolFinished: EventKind.TOOL_FINISHED,
    CompactionFinished: EventKind.COMPACTION_FINISHED,
    CompactionFailed: EventKind.COMPACTION_FAILED,
    CollapseStaged: EventKind.COLLAPSE_STAGED,
    CollapseFailed: EventKind.COLLAPSE_FAILED,
    StopHooksFinished: EventKind.STOP_HOOKS_FINISHED,
    AttachmentsGathered: EventKind.ATTACHMENTS_GATHERED,
    PrefetchFinished: EventKind.PREFETCH_FINISHED,
    ToolUseSummaryReady: EventKind.TOOL_USE_SUMMARY_READY,
    TimerFired: EventKind.TIMER_FIRED,
    EffectFailed: EventKind.EFFECT_FAILED,
    EffectLost: EventKind.EFFECT_LOST,
    CommandQueued: EventKind.COMMAND_QUEUED,
    CompactRequested: EventKind.COMPACT_REQUESTED,
    ModelSwitched: EventKind.MODEL_SWITCHED,
    AbortRequested: EventKind.ABORT_REQUESTED,
}
USER_KINDS: frozenset[EventKind] = frozenset(
    {
        EventKind.RUN_STARTED,
        EventKind.COMMAND_QUEUED,
        EventKind.COMPACT_REQUESTED,
        EventKind.MODEL_SWITCHED,
        EventKind.ABORT_REQUESTED,
    }
)
