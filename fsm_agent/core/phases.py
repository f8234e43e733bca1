"""Phases of the loop, and the closed sets of reasons that lead from one to the next (spec 01, sections 2 to 5)."""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    """Where a run stands. Each waiting phase names what it waits for; transient phases are never returned."""

    READY = "ready"
    PREPARING = "preparing"
    COMPACTING = "compacting"
    CALLING_MODEL = "calling_model"
    BACKING_OFF = "backing_off"
    DECIDING = "deciding"
    REACTIVE_COMPACTING = "reactive_compacting"
    RUNNING_TOOLS = "running_tools"
    GATHERING_ATTACHMENTS = "gathering_attachments"
    RUNNING_STOP_HOOKS = "running_stop_hooks"
    COMPLETED = "completed"
    BLOCKING_LIMIT = "blocking_limit"
    PROMPT_TOO_LONG = "prompt_too_long"
    IMAGE_ERROR = "image_error"
    MODEL_ERROR = "model_error"
    ABORTED_STREAMING = "aborted_streaming"
    ABORTED_TOOLS = "aborted_tools"
    STOP_HOOK_PREVENTED = "stop_hook_prevented"
    HOOK_STOPPED = "hook_stopped"
    MAX_TURNS = "max_turns"


class ContinueReason(StrEnum):
    """Why the last pass was followed by another one (spec 01, section 4)."""

    NEXT_TURN = "next_turn"
    COLLAPSE_DRAIN_RETRY = "collapse_drain_retry"
    REACTIVE_COMPACT_RETRY = "reactive_compact_retry"
    MAX_OUTPUT_TOKENS_ESCALATE = "max_output_tokens_escalate"
    MAX_OUTPUT_TOKENS_RECOVERY = "max_output_tokens_recovery"
    STOP_HOOK_BLOCKING = "stop_hook_blocking"
    TOKEN_BUDGET_CONTINUATION = "token_budget_continuation"


class TerminalReason(StrEnum):
    """Why a run ended (spec 01, section 5). Each has a phase of the same name."""

    COMPLETED = "completed"
    BLOCKING_LIMIT = "blocking_limit"
    PROMPT_TOO_LONG = "prompt_too_long"
    IMAGE_ERROR = "image_error"
    MODEL_ERROR = "model_error"
    ABORTED_STREAMING = "aborted_streaming"
    ABORTED_TOOLS = "aborted_tools"
    STOP_HOOK_PREVENTED = "stop_hook_prevented"
    HOOK_STOPPED = "hook_stopped"
    MAX_TURNS = "max_turns"


class Cause(StrEnum):
    """The finer word behind a terminal reason."""

    END_TURN = "end_turn"
    BUDGET_REACHED = "budget_reached"
    DIMINISHING_RETURNS = "diminishing_returns"
    REFUSAL = "refusal"
    MAX_OUTPUT_EXHAUSTED = "max_output_exhausted"
    EMPTY_REPLY = "empty_reply"
    MALFORMED_TOOL_USE = "malformed_tool_use"
    PAUSE_LIMIT = "pause_limit"
    UNKNOWN_STOP_REASON = "unknown_stop_reason"
    STOP_HOOK_CAP = "stop_hook_cap"
    HARD_LIMIT = "hard_limit"
    COMPACTION_NO_PROGRESS = "compaction_no_progress"
    CONTEXT_IRREDUCIBLE = "context_irreducible"
    BUDGET_USD = "budget_usd"
    USED_UP = "used_up"
    TOO_LARGE = "too_large"
    UNREADABLE = "unreadable"
    API_ERROR = "api_error"
    AUTH = "auth"
    RATE_LIMITED_UNTIL = "rate_limited_until"
    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    INVALID_HISTORY = "invalid_history"
    ENGINE_ERROR = "engine_error"
    INTERRUPT = "interrupt"
    SUBMIT = "submit"
    CONSUMER_CLOSED = "consumer_closed"
    HOOK = "hook"
    STRUCTURED_OUTPUT_EXHAUSTED = "structured_output_exhausted"
    LOOP_DETECTED = "loop_detected"
    MAX_TURNS = "max_turns"


class AbortReason(StrEnum):
    """Who ended the run from outside (spec 01, section 12)."""

    INTERRUPT = "interrupt"
    SUBMIT = "submit"
    CLOSE = "close"


class CompactKind(StrEnum):
    """What asked for a compaction (spec 01, section 6)."""

    AUTO = "auto"
    MANUAL = "manual"
    FORCED = "forced"
    REACTIVE = "reactive"


TRANSIENT: tuple[Phase, ...] = (Phase.PREPARING, Phase.DECIDING)
TERMINAL: tuple[Phase, ...] = tuple(Phase(reason.value) for reason in TerminalReason)
TERMINAL_SET: frozenset[Phase] = frozenset(TERMINAL)
WAITING: tuple[Phase, ...] = (
    Phase.COMPACTING,
    Phase.CALLING_MODEL,
    Phase.BACKING_OFF,
    Phase.REACTIVE_COMPACTING,
    Phase.RUNNING_TOOLS,
    Phase.GATHERING_ATTACHMENTS,
    Phase.RUNNING_STOP_HOOKS,
)

CAUSES: dict[TerminalReason, tuple[Cause, ...]] = {
    TerminalReason.COMPLETED: (
        Cause.END_TURN,
        Cause.BUDGET_REACHED,
        Cause.DIMINISHING_RETURNS,
        Cause.REFUSAL,
        Cause.MAX_OUTPUT_EXHAUSTED,
        Cause.EMPTY_REPLY,
        Cause.MALFORMED_TOOL_USE,
        Cause.PAUSE_LIMIT,
        Cause.UNKNOWN_STOP_REASON,
        Cause.STOP_HOOK_CAP,
    ),
    TerminalReason.BLOCKING_LIMIT: (
        Cause.HARD_LIMIT,
        Cause.COMPACTION_NO_PROGRESS,
        Cause.CONTEXT_IRREDUCIBLE,
        Cause.BUDGET_USD,
    ),
    TerminalReason.PROMPT_TOO_LONG: (Cause.USED_UP, Cause.CONTEXT_IRREDUCIBLE),
    TerminalReason.IMAGE_ERROR: (Cause.TOO_LARGE, Cause.UNREADABLE),
    TerminalReason.MODEL_ERROR: (
        Cause.API_ERROR,
        Cause.AUTH,
        Cause.RATE_LIMITED_UNTIL,
        Cause.ATTEMPTS_EXHAUSTED,
        Cause.INVALID_HISTORY,
        Cause.ENGINE_ERROR,
    ),
    TerminalReason.ABORTED_STREAMING: (Cause.INTERRUPT, Cause.SUBMIT, Cause.CONSUMER_CLOSED),
    TerminalReason.ABORTED_TOOLS: (Cause.INTERRUPT, Cause.SUBMIT, Cause.CONSUMER_CLOSED),
    TerminalReason.STOP_HOOK_PREVENTED: (Cause.HOOK, Cause.STRUCTURED_OUTPUT_EXHAUSTED),
    TerminalReason.HOOK_STOPPED: (Cause.HOOK, Cause.LOOP_DETECTED),
    TerminalReason.MAX_TURNS: (Cause.MAX_TURNS,),
}

SUCCESS: frozenset[Cause] = frozenset({Cause.END_TURN, Cause.BUDGET_REACHED, Cause.DIMINISHING_RETURNS})
"""The causes of ``completed`` that count as a success; every other ending failed."""
