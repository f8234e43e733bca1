"""Predicates of ``deciding``: what became of a model call (spec 01, sections 7 and 10)."""

from __future__ import annotations

from ..config import DEFAULT_MAX_OUTPUT, LoopConfig
from ..control import Control, Fault
from ..events import Event
from ..failures import ABOUT_MESSAGES, TRANSIENT_KINDS, WITHHELD_KINDS, ErrorKind
from ..phases import ContinueReason
from .context import reactive_possible

WINDOW_EXCEEDED = "model_context_window_exceeded"
CUT_REASONS: tuple[str, ...] = ("max_tokens", WINDOW_EXCEEDED)
PAUSE_REASONS: tuple[str, ...] = ("pause_turn", "compaction")
END_REASONS: tuple[str, ...] = ("end_turn", "stop_sequence", "tool_use")


def is_transient(fault: Fault) -> bool:
    """The same request may survive a moment later."""
    return fault.kind in TRANSIENT_KINDS


def above_ceiling(fault: Fault, config: LoopConfig) -> bool:
    """The server asks for a longer wait than a run may make."""
    return fault.retry_after_ms is not None and fault.retry_after_ms > config.retry_after_ceiling_ms


def next_fallback(control: Control, config: LoopConfig) -> tuple[str, int] | None:
    """Give the next fallback model and how many entries are passed with it, or None if none is left."""
    context = control.tool_use_context
    for passed in range(context.fallbacks, len(config.fallback_models)):
        if config.fallback_models[passed] != context.model:
            return config.fallback_models[passed], passed + 1
    return None


def fallback_is_due(control: Control, config: LoopConfig) -> bool:
    """The current model is given up and another one is left."""
    fault = control.call.fault
    if fault is None or fault.kind in ABOUT_MESSAGES or next_fallback(control, config) is None:
        return False
    if fault.kind in (ErrorKind.MODEL_NOT_FOUND, ErrorKind.FALLBACK_REQUESTED):
        return True
    if not is_transient(fault):
        return False
    if fault.kind is ErrorKind.OVERLOADED and control.call.overloads >= config.overload_fallback_after:
        return True
    # A wait that the run may not make leaves this model no further attempt, so this one was its last.
    return control.call.attempt >= config.max_attempts or above_ceiling(fault, config)


def counts_as_changed(control: Control) -> bool:
    """A call that may have changed something outside began, or a hook stopped the run at one."""
    tools = control.tools
    return tools.stopped or any(call.started and not call.traits.read_only for call in tools.calls)


def _salvage_due(control: Control) -> bool:
    return control.call.fault is not None and counts_as_changed(control)


def salvage_resumes(control: Control, event: Event, config: LoopConfig) -> bool:
    """Sa: the failure is transient and another call may follow the results."""
    fault = control.call.fault
    return (
        fault is not None
        and _salvage_due(control)
        and is_transient(fault)
        and control.guards.salvages < config.max_attempts
        and (not above_ceiling(fault, config) or fallback_is_due(control, config))
    )


def salvage_due(control: Control, event: Event, config: LoopConfig) -> bool:
    """Sb: what began must not be forgotten, but the run cannot go on after it."""
    return _salvage_due(control)


def _withheld_prompt(control: Control) -> bool:
    fault = control.call.fault
    return fault is not None and fault.kind is ErrorKind.PROMPT_TOO_LONG


def drain_possible(control: Control, event: Event, config: LoopConfig) -> bool:
    """0a: the prompt was too long, and staged collapses can be committed."""
    return (
        _withheld_prompt(control)
        and control.context.staged > 0
        and control.run.transition is not ContinueReason.COLLAPSE_DRAIN_RETRY
    )


def reactive_due(control: Control, event: Event, config: LoopConfig) -> bool:
    """0b: a withheld error that a compaction may mend."""
    fault = control.call.fault
    if fault is None or fault.kind not in WITHHELD_KINDS or not reactive_possible(control, config):
        return False
    return control.context.compactable or fault.kind is ErrorKind.MEDIA_TOO_LARGE


def prompt_too_long(control: Control, event: Event, config: LoopConfig) -> bool:
    """0c: the prompt was too long, and nothing mends it."""
    return _withheld_prompt(control)


def media_too_large(control: Control, event: Event, config: LoopConfig) -> bool:
    """0c: media was too large, and nothing mends it."""
    fault = control.call.fault
    return fault is not None and fault.kind is ErrorKind.MEDIA_TOO_LARGE


def media_unreadable(control: Control, event: Event, config: LoopConfig) -> bool:
    """0d: media that the API cannot read."""
    fault = control.call.fault
    return fault is not None and fault.kind is ErrorKind.MEDIA_UNREADABLE


def thinking_refused(control: Control, event: Event, config: LoopConfig) -> bool:
    """The API objects to thinking of the history; there is some in the request, and it was not yet taken out."""
    fault = control.call.fault
    refused = fault is not None and fault.kind is ErrorKind.THINKING_INVALID
    return refused and control.context.thinking and not control.guards.thinking_dropped


def fallback_due(control: Control, event: Event, config: LoopConfig) -> bool:
    """Fa: the current model is given up."""
    return fallback_is_due(control, config)


def retry_possible(control: Control, event: Event, config: LoopConfig) -> bool:
    """Fb: the same request is worth another attempt."""
    fault = control.call.fault
    return (
        fault is not None
        and is_transient(fault)
        and not above_ceiling(fault, config)
        and control.call.attempt < config.max_attempts
    )


def wait_too_long(control: Control, event: Event, config: LoopConfig) -> bool:
    """Fc: the server asks for a wait above the ceiling."""
    fault = control.call.fault
    return fault is not None and is_transient(fault) and above_ceiling(fault, config)


def attempts_used_up(control: Control, event: Event, config: LoopConfig) -> bool:
    """Fd: no attempt is left."""
    fault = control.call.fault
    return fault is not None and is_transient(fault)


def refused_access(control: Control, event: Event, config: LoopConfig) -> bool:
    """Fe: key, rights or credit."""
    fault = control.call.fault
    return fault is not None and fault.kind in (ErrorKind.AUTH, ErrorKind.BILLING)


def engine_failed(control: Control, event: Event, config: LoopConfig) -> bool:
    """Fe: a fault of ours."""
    fault = control.call.fault
    return fault is not None and fault.kind is ErrorKind.ENGINE_ERROR


def call_failed(control: Control, event: Event, config: LoopConfig) -> bool:
    """Fe: any other failure."""
    return control.call.fault is not None


def refusal_fallback(control: Control, event: Event, config: LoopConfig) -> bool:
    """1: a refusal that another model may answer: once, and only if nothing outside may have changed."""
    return (
        control.call.stop_reason == "refusal"
        and config.fallback_on_refusal
        and not control.guards.refusal_fallback
        and not counts_as_changed(control)
        and next_fallback(control, config) is not None
    )


def refusal(control: Control, event: Event, config: LoopConfig) -> bool:
    """1: a refusal."""
    return control.call.stop_reason == "refusal"


def has_whole_call(control: Control, event: Event, config: LoopConfig) -> bool:
    """2: a call is there that may run, whatever the stop reason."""
    return True in [call.whole for call in control.tools.calls]


def escalation_possible(control: Control, event: Event, config: LoopConfig) -> bool:
    """3a: the default output limit was hit, and a larger one is possible."""
    info = config.info(control.tool_use_context.model)
    room = info.context_window if config.context.context_window is None else config.context.context_window
    new = min(config.escalated_max_output_tokens, info.max_output, room - control.context.blocking_tokens)
    return (
        control.call.stop_reason == "max_tokens"
        and config.max_output_tokens == DEFAULT_MAX_OUTPUT
        and control.guards.max_output_tokens_override is None
        and new > config.max_output_tokens
    )


def _recoveries_left(control: Control, config: LoopConfig) -> bool:
    return control.guards.max_output_tokens_recovery_count < config.max_output_recoveries


def recovery_possible(control: Control, event: Event, config: LoopConfig) -> bool:
    """3b: the output limit was hit, and a recovery is left."""
    return control.call.stop_reason == "max_tokens" and _recoveries_left(control, config)


def output_exhausted(control: Control, event: Event, config: LoopConfig) -> bool:
    """3c: the output limit was hit, and nothing is left."""
    return control.call.stop_reason == "max_tokens"


def window_recovery_possible(control: Control, event: Event, config: LoopConfig) -> bool:
    """4: the window was full in the middle of a usable reply, and a recovery is left."""
    return control.call.stop_reason == WINDOW_EXCEEDED and _recoveries_left(control, config)


def window_exhausted(control: Control, event: Event, config: LoopConfig) -> bool:
    """4: the window was full, and nothing is left."""
    return control.call.stop_reason == WINDOW_EXCEEDED


def malformed_left(control: Control, event: Event, config: LoopConfig) -> bool:
    """5: calls, none whole, and the model may try again."""
    return bool(control.tools.calls) and control.guards.malformed < config.max_malformed


def malformed(control: Control, event: Event, config: LoopConfig) -> bool:
    """5: calls, none whole."""
    return bool(control.tools.calls)


def empty_first(control: Control, event: Event, config: LoopConfig) -> bool:
    """6: nothing usable, for the first time."""
    return not control.call.usable and not control.guards.empty_retried


def empty(control: Control, event: Event, config: LoopConfig) -> bool:
    """6: nothing usable."""
    return not control.call.usable


def pause_left(control: Control, event: Event, config: LoopConfig) -> bool:
    """7: the API paused, and a resume is left."""
    return control.call.stop_reason in PAUSE_REASONS and control.guards.pauses < config.max_pauses


def paused(control: Control, event: Event, config: LoopConfig) -> bool:
    """7: the API paused."""
    return control.call.stop_reason in PAUSE_REASONS


def ended(control: Control, event: Event, config: LoopConfig) -> bool:
    """8: the model is done."""
    return control.call.stop_reason in END_REASONS
