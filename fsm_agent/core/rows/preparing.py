"""Rows of ``ready`` and ``preparing``, and of the waits for a compaction and a timer (spec 01, sections 2, 5, 14)."""

from __future__ import annotations

from ..events import EventKind
from ..guards import budget, context, failing, tools
from ..moves import compaction, ending, prepare, resume, start
from ..phases import Cause, ContinueReason, Phase, TerminalReason
from .cells import AUTO, again, ends, first_match, internal

READY = (
    internal(
        "run_started",
        Phase.READY,
        EventKind.RUN_STARTED,
        None,
        Phase.PREPARING,
        start.start_run,
        "A prompt was submitted.",
    ),
)

PREPARING = first_match(
    ends(
        "invalid_history",
        Phase.PREPARING,
        AUTO,
        context.unsendable,
        TerminalReason.MODEL_ERROR,
        (Cause.INVALID_HISTORY,),
        ending.end_invalid_history,
        "No valid request can be made of the history.",
    ),
    ends(
        "budget_usd",
        Phase.PREPARING,
        AUTO,
        budget.over_budget,
        TerminalReason.BLOCKING_LIMIT,
        (Cause.BUDGET_USD,),
        ending.end_budget_usd,
        "The money is spent.",
    ),
    internal(
        "compact_forced",
        Phase.PREPARING,
        AUTO,
        context.forced_due,
        Phase.COMPACTING,
        prepare.compact_forced,
        "A full window forces a compaction.",
    ),
    internal(
        "compact_manual",
        Phase.PREPARING,
        AUTO,
        context.manual_due,
        Phase.COMPACTING,
        prepare.compact_manual,
        "The user asked for a compaction.",
    ),
    internal(
        "compact_auto",
        Phase.PREPARING,
        AUTO,
        context.auto_due,
        Phase.COMPACTING,
        prepare.compact_auto,
        "The view is at the threshold.",
    ),
    ends(
        "context_irreducible",
        Phase.PREPARING,
        AUTO,
        context.blocked_irreducible,
        TerminalReason.BLOCKING_LIMIT,
        (Cause.CONTEXT_IRREDUCIBLE,),
        ending.end_irreducible,
        "What cannot be left out is over the hard limit.",
    ),
    ends(
        "compaction_no_progress",
        Phase.PREPARING,
        AUTO,
        context.blocked_by_breaker,
        TerminalReason.BLOCKING_LIMIT,
        (Cause.COMPACTION_NO_PROGRESS,),
        ending.end_no_progress,
        "Over the hard limit while the breaker is open.",
    ),
    ends(
        "hard_limit",
        Phase.PREPARING,
        AUTO,
        context.blocked_without_compaction,
        TerminalReason.BLOCKING_LIMIT,
        (Cause.HARD_LIMIT,),
        ending.end_hard_limit,
        "Over the hard limit, with compaction off.",
    ),
    ends(
        "model_calls_exhausted",
        Phase.PREPARING,
        AUTO,
        budget.too_many_calls,
        TerminalReason.MODEL_ERROR,
        (Cause.ATTEMPTS_EXHAUSTED,),
        ending.end_calls,
        "Too many model calls without a finished round of tools in between.",
    ),
    internal(
        "salvage_backoff",
        Phase.PREPARING,
        AUTO,
        tools.salvage_wait,
        Phase.BACKING_OFF,
        prepare.salvage_backoff,
        "A reply was salvaged after a transient failure: wait before the next call.",
    ),
    internal(
        "call_model",
        Phase.PREPARING,
        AUTO,
        budget.always,
        Phase.CALLING_MODEL,
        prepare.call_model,
        "All is well: call the model.",
    ),
)

COMPACTING = (
    *first_match(
        internal(
            "compaction_applied",
            Phase.COMPACTING,
            EventKind.COMPACTION_FINISHED,
            context.made_progress,
            Phase.PREPARING,
            compaction.use_summary,
            "The summary takes the place of what it stands for.",
        ),
        internal(
            "compaction_without_progress",
            Phase.COMPACTING,
            EventKind.COMPACTION_FINISHED,
            context.compaction_valid,
            Phase.PREPARING,
            compaction.use_summary_without_progress,
            "The summary is used, but it freed too little: it counts as a failure too.",
        ),
        internal(
            "compaction_refused",
            Phase.COMPACTING,
            EventKind.COMPACTION_FINISHED,
            budget.always,
            Phase.PREPARING,
            compaction.refuse_summary,
            "The summary cannot be used; the history stays as it was.",
        ),
    ),
    internal(
        "compaction_failed",
        Phase.COMPACTING,
        EventKind.COMPACTION_FAILED,
        None,
        Phase.PREPARING,
        compaction.note_failure,
        "The compactor gave up; the history stays as it was.",
    ),
    internal(
        "compaction_reissued",
        Phase.COMPACTING,
        EventKind.EFFECT_LOST,
        None,
        Phase.COMPACTING,
        resume.reissue_compaction,
        "A crash lost the compaction: summarise again.",
    ),
)

REACTIVE = (
    *first_match(
        again(
            ContinueReason.REACTIVE_COMPACT_RETRY,
            Phase.REACTIVE_COMPACTING,
            EventKind.COMPACTION_FINISHED,
            context.compaction_valid,
            compaction.retry_compacted,
            "The compacted messages are sent instead.",
        ),
        ends(
            "reactive_refused_media",
            Phase.REACTIVE_COMPACTING,
            EventKind.COMPACTION_FINISHED,
            failing.media_withheld,
            TerminalReason.IMAGE_ERROR,
            (Cause.TOO_LARGE,),
            compaction.end_reactive_media,
            "The summary cannot be used, and the media is too large.",
        ),
        ends(
            "reactive_refused",
            Phase.REACTIVE_COMPACTING,
            EventKind.COMPACTION_FINISHED,
            budget.always,
            TerminalReason.PROMPT_TOO_LONG,
            (Cause.USED_UP, Cause.CONTEXT_IRREDUCIBLE),
            compaction.end_reactive_prompt,
            "The summary cannot be used, and the prompt is too long.",
        ),
    ),
    *first_match(
        ends(
            "reactive_failed_media",
            Phase.REACTIVE_COMPACTING,
            EventKind.COMPACTION_FAILED,
            failing.media_withheld,
            TerminalReason.IMAGE_ERROR,
            (Cause.TOO_LARGE,),
            compaction.end_reactive_media,
            "The compactor gave up, and the media is too large.",
        ),
        ends(
            "reactive_failed",
            Phase.REACTIVE_COMPACTING,
            EventKind.COMPACTION_FAILED,
            budget.always,
            TerminalReason.PROMPT_TOO_LONG,
            (Cause.USED_UP, Cause.CONTEXT_IRREDUCIBLE),
            compaction.end_reactive_prompt,
            "The compactor gave up, and the prompt is too long.",
        ),
    ),
    internal(
        "reactive_reissued",
        Phase.REACTIVE_COMPACTING,
        EventKind.EFFECT_LOST,
        None,
        Phase.REACTIVE_COMPACTING,
        resume.reissue_compaction,
        "A crash lost the compaction: summarise again.",
    ),
)

BACKING_OFF = (
    internal(
        "timer_fired",
        Phase.BACKING_OFF,
        EventKind.TIMER_FIRED,
        None,
        Phase.PREPARING,
        prepare.timer_fired,
        "The wait is over: the same request again, if the budget allows.",
    ),
    internal(
        "timer_armed_again",
        Phase.BACKING_OFF,
        EventKind.EFFECT_LOST,
        None,
        Phase.BACKING_OFF,
        resume.reissue_timer,
        "A crash lost the timer: wait again.",
    ),
)
