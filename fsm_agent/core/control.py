"""The half of the state that decides: small hashable records (spec 01, section 1). Guards read nothing else of a state."""

from __future__ import annotations

from enum import StrEnum

from .effects import EffectKind
from .events import Outcome, ToolTraits
from .failures import ErrorKind
from .frozen import frozen
from .phases import AbortReason, Cause, CompactKind, ContinueReason, Phase


@frozen
class Flight:
    """An effect in flight.

    Attributes:
        id: the effect.
        kind: what it does.
        call: the tool_use id of a tool, the span of a collapse, else empty.
    """

    id: str
    kind: EffectKind
    call: str = ""


@frozen
class Run:
    """Identity and progress of the run.

    Attributes:
        id: the run id, empty before the first run.
        issued: ids issued so far.
        turn_count: rounds, from 1.
        transition: why the last pass continued.
    """

    id: str = ""
    issued: int = 0
    turn_count: int = 1
    transition: ContinueReason | None = None


@frozen
class ToolUseContext:
    """What the run's tools and calls are told.

    Attributes:
        model: the current model.
        permission_mode: as given at the start.
        abort: who ended the run, if anybody.
        depth: 0 for the main run.
        source: where the run came from.
        fallbacks: how many entries of ``fallback_models`` have been passed.
    """

    model: str
    permission_mode: str = "default"
    abort: AbortReason | None = None
    depth: int = 0
    source: str = "sdk"
    fallbacks: int = 0


@frozen
class Fault:
    """The deciding part of a failure: withheld, or remembered after a salvage.

    Attributes:
        kind: the closed kind.
        retry_after_ms: what the server asked for, None if nothing.
    """

    kind: ErrorKind
    retry_after_ms: int | None = None


@frozen
class Call:
    """The attempt in flight, and what is known of its reply.

    Attributes:
        id: the CallModel, empty if none was made in this pass.
        attempt: attempts made on this model in this pass.
        overloads: overloads in a row on this model.
        streaming: the reply has begun and not ended.
        usable: a block besides thinking and calls holds something (text that is not blank, server blocks, ...).
        stop_reason: the API's word, None before it came.
        fault: why the attempt failed.
        unresolved: a server tool call waits for its result, so nothing but results may go in.
    """

    id: str = ""
    attempt: int = 0
    overloads: int = 0
    streaming: bool = False
    usable: bool = False
    stop_reason: str | None = None
    fault: Fault | None = None
    unresolved: bool = False


class CallState(StrEnum):
    """Life of a tool call (spec 01, section 11)."""

    QUEUED = "queued"
    EXECUTING = "executing"
    COMPLETED = "completed"
    YIELDED = "yielded"
    DISCARDED = "discarded"


QUEUED, EXECUTING, COMPLETED, YIELDED, DISCARDED = CallState
"""The states by their own names: Python looks up a member of an enumeration ten times as long as a name."""


@frozen
class ToolCall:
    """One call of the reply in flight.

    Attributes:
        id: the id in the history.
        index: block position in the reply.
        state: where it is in its life.
        effect: the RunTool in flight, or empty.
        started: its body ran, or a hook stopped the run at it.
        whole: closed and strictly an object; the last one of a cut reply is no longer whole once the reply is decided.
        last: the stream ended with it.
        outcome: how it ended, None before.
        traits: what the tool said of it.
    """

    id: str
    index: int
    state: CallState
    effect: str
    started: bool
    whole: bool
    last: bool
    outcome: Outcome | None
    traits: ToolTraits


@frozen
class Tools:
    """The calls of the reply in flight.

    Attributes:
        calls: in block order.
        yielded: how many results were emitted, from the front.
        stopped: a hook stops the run after this round.
        failed: id of the call whose failure cancelled its batch, or empty.
        after_stream: the reply is complete, so every call may start.
    """

    calls: tuple[ToolCall, ...] = ()
    yielded: int = 0
    stopped: bool = False
    failed: str = ""
    after_stream: bool = False


@frozen
class Guards:
    """Counters and flags that make the loop end (spec 01, section 14).

    Attributes:
        max_output_tokens_recovery_count: recoveries of cut replies in a row.
        has_attempted_reactive_compact: a reactive compaction was tried since the last round.
        max_output_tokens_override: escalated output limit in tokens, or None.
        stop_hook_active: a stop hook forced the round in hand.
        blocks_in_row: stop-hook blocks without a round of tools between them.
        blocks_in_run: stop-hook blocks of this run.
        salvages: salvaged replies in a row.
        pauses: paused replies that were gone on with, in a row.
        malformed: replies in a row all of whose calls were malformed.
        empty_retried: an empty reply was asked for again.
        thinking_dropped: thinking was taken out of the history.
        refusal_fallback: a refusal led to the next model.
        model_calls: model calls since the last round that tools completed.
        rounds: digests of the last rounds, for loop detection.
        loop_warned: the model was warned that it repeats itself.
    """

    max_output_tokens_recovery_count: int = 0
    has_attempted_reactive_compact: bool = False
    max_output_tokens_override: int | None = None
    stop_hook_active: bool = False
    blocks_in_row: int = 0
    blocks_in_run: int = 0
    salvages: int = 0
    pauses: int = 0
    malformed: int = 0
    empty_retried: bool = False
    thinking_dropped: bool = False
    refusal_fallback: bool = False
    model_calls: int = 0
    rounds: tuple[str, ...] = ()
    loop_warned: bool = False


@frozen
class Salvage:
    """A reply was salvaged: what its failure asks for after the tools (spec 01, section 10).

    Attributes:
        fault: the failure.
        resume: True if the loop goes on after the results; False if the run ends with the remembered error.
        cause: the cause of that end.
        delay_ms: wait before the next call, 0 after a fallback.
    """

    fault: Fault
    resume: bool
    cause: Cause
    delay_ms: int = 0


@frozen
class Budget:
    """Token budget and money.

    Attributes:
        token_budget: output tokens to be spent, or None.
        continuations: nudges given.
        spent_at_check: output tokens at the last check.
        last_delta: output tokens between the last two checks.
        output_tokens: of all attempts of this run.
        cost: micro-dollars of this run.
        cost_before: micro-dollars of the session before this run.
    """

    token_budget: int | None = None
    continuations: int = 0
    spent_at_check: int = 0
    last_delta: int = 500
    output_tokens: int = 0
    cost: int = 0
    cost_before: int = 0


@frozen
class Queue:
    """What waits for a safe place.

    Attributes:
        commands: ids of queued commands of this address, in order.
        compact: a manual compaction was asked for.
        forced: a compaction is forced before the next call.
        switch: a model to switch to at the next pass, or empty.
        pending_tool_use_summary: the SummarizeToolUse in flight, or empty.
    """

    commands: tuple[str, ...] = ()
    compact: bool = False
    forced: bool = False
    switch: str = ""
    pending_tool_use_summary: str = ""


@frozen
class AutoCompactTracking:
    """Compaction breaker (spec 01, section 14).

    Attributes:
        compacted: a compaction happened in this conversation.
        turns_since: rounds since the last one.
        failures: failures in a row.
        opened_at: tokens of the view when the breaker opened, 0 while it is closed.
    """

    compacted: bool = False
    turns_since: int = 0
    failures: int = 0
    opened_at: int = 0


@frozen
class ContextFacts:
    """What the pipeline found out about the view in hand, in tokens.

    Attributes:
        tokens: count of the view for the auto-compact test.
        blocking_tokens: the same, user context included, for the blocking test.
        fixed_tokens: system prompt, tools and newest request alone.
        compactable: there is something before the protected tail.
        sendable: normalisation made a valid request.
        thinking: the request in hand holds thinking of the history.
        staged: collapses staged and not committed.
        tracking: the breaker.
        tried: kinds of compaction that are not tried in this pass any more: they were, or were asked for too late for it.
        compact_off: no further automatic compaction in this pass.
        compacted_in_pass: one succeeded in this pass.
        compacting: the kind in flight, None if none.
        replacing: tokens of what the compaction in flight is to replace.
    """

    tokens: int = 0
    blocking_tokens: int = 0
    fixed_tokens: int = 0
    compactable: bool = False
    sendable: bool = True
    thinking: bool = False
    staged: int = 0
    tracking: AutoCompactTracking = AutoCompactTracking()
    tried: tuple[CompactKind, ...] = ()
    compact_off: bool = False
    compacted_in_pass: bool = False
    compacting: CompactKind | None = None
    replacing: int = 0


@frozen
class Wait:
    """Answer of the wait in hand (attachments, stop hooks) and how often it was issued again.

    Attributes:
        answered: the answer has come, or there was nothing to wait for.
        blocking: stop hooks that block.
        prevented: cause of a stop hook that ends the run, None if none does.
        resumes: re-issues after crashes.
    """

    answered: bool = False
    blocking: int = 0
    prevented: Cause | None = None
    resumes: int = 0


@frozen
class Control:
    """All that decides.

    Attributes:
        phase: where the run stands.
        flight: the effects in flight, in order.
    """

    phase: Phase
    run: Run
    tool_use_context: ToolUseContext
    call: Call
    tools: Tools
    guards: Guards
    budget: Budget
    queue: Queue
    context: ContextFacts
    wait: Wait
    salvage: Salvage | None
    flight: tuple[Flight, ...]
