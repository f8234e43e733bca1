"""I5, I7: what the end of a run says, and the history that it leaves (spec 01, sections 5, 7, 12)."""

from __future__ import annotations

import json
import re

from ..core import texts
from ..core.config import LoopConfig
from ..core.effects import Cancel, Emit
from ..core.events import EventKind
from ..core.failures import TRANSIENT_KINDS, ErrorKind
from ..core.outputs import Boundary, ErrorOutput, Notice
from ..core.phases import SUCCESS, TERMINAL_SET, AbortReason, Cause, Phase, TerminalReason
from ..core.state import LoopState, call_ids
from ..core.usage import add_usage
from .choices import begun, models_left, too_long_a_wait
from .keeping import AFTER_HOOKS, CLOSED, CUT, positions, shown_users, told
from .law import Edge, edge_law, state_law
from .limits import limits
from .micro import Micro, micros

_WORDS: dict[Cause, str] = {
    Cause.UNREADABLE: "cannot read",
    Cause.TOO_LARGE: "too large",
    Cause.CONTEXT_IRREDUCIBLE: "System prompt",
    Cause.USED_UP: "no compaction is left",
    Cause.PAUSE_LIMIT: "paused",
    Cause.MALFORMED_TOOL_USE: "invalid input",
    Cause.EMPTY_REPLY: "empty",
    Cause.MAX_OUTPUT_EXHAUSTED: "output limit",
    Cause.STOP_HOOK_CAP: "hooks",
    Cause.COMPACTION_NO_PROGRESS: "freed too little",
    Cause.HARD_LIMIT: "compaction is off",
    Cause.LOOP_DETECTED: "repeated",
    Cause.REFUSAL: "refused",
}
"""What the detail of a cause cannot do without."""


def _numbers(one: Micro) -> tuple[str, ...]:
    """Give what a detail must name besides."""
    control, data, config = one.old, one.before.data, one.config
    match one.name:
        case "max_turns":
            return (str(config.max_turns),)
        case "model_calls_exhausted":
            return (str(config.max_model_calls),)
        case "context_irreducible":
            return (f"{control.context.fixed_tokens:,}",)
        case "budget_usd":
            sums = (control.budget.cost + control.budget.cost_before, config.max_budget or 0)
            return tuple(f" ${value / 1_000_000:.4f}" for value in sums)
        case "refusal":
            said = _refused(data.iteration.details)
            return (f"({said}).",) if said else ("answer.",)
        case "unknown_stop_reason":
            return (repr(control.call.stop_reason),)
        case "invalid_history":
            return (data.iteration.details,)
        case "stop_hook_prevented" | "structured_output_exhausted" | "stop_hook_cap":
            return data.iteration.words
        case "hook_stopped":
            return tuple(text for text in data.iteration.words if text.strip())
        case _:
            return ()


def _refused(details: str) -> str:
    """Give category and explanation of a refusal, where the API says them."""
    try:
        value = json.loads(details or "{}")
    except ValueError:
        return ""
    said = [value.get(key) for key in ("category", "explanation")] if isinstance(value, dict) else []
    return ": ".join(text for text in said if isinstance(text, str))


def _error(one: Micro) -> object:
    """Give the error that belongs in the terminal: the one that is withheld or remembered, if a failure ends the run."""
    if one.name in ("output_exhausted", "window_exhausted"):
        return ErrorKind.MAX_OUTPUT_TOKENS
    failed = one.row.source in (Phase.DECIDING, Phase.REACTIVE_COMPACTING) and one.old.call.fault is not None
    ended = one.name in ("aborted", "aborted_tools") and one.row.source is not Phase.READY
    remembered = one.row.source is Phase.RUNNING_TOOLS
    failure = one.before.data.iteration.failure if failed or ended or remembered else None
    return failure.kind if failure is not None else None


@edge_law("I5", costly=True)
def an_end_says_what_happened(edge: Edge) -> str:
    """A terminal has the run's own rounds, usage and commands, the withheld error, and words that name the numbers."""
    for one in micros(edge):
        terminal = one.after.data.terminal
        if terminal is None or not isinstance(one.row.reason, TerminalReason):
            continue
        control, data = one.old, one.before.data
        commands = tuple(name for name, _ in data.inbox.commands)
        usage = add_usage(data.usage, getattr(one.event, "usage", ()) if one.row.event is not EventKind.AUTO else ())
        if (terminal.turn_count, terminal.undelivered, terminal.usage) != (control.run.turn_count, commands, usage):
            return f"{one.row.name}: rounds {terminal.turn_count}, undelivered {terminal.undelivered}"
        kind = terminal.error.kind if terminal.error is not None else None
        if kind is not _error(one):
            return f"{one.row.name}: the error is {kind}, not {_error(one)}"
        if terminal.cause not in SUCCESS and one.name not in ("aborted", "aborted_tools") and not terminal.detail:
            blank = one.name in ("stop_hook_prevented", "structured_output_exhausted")
            if not blank or any(data.iteration.words):
                return f"{one.row.name}: it does not say why"
        words = (_WORDS.get(terminal.cause, ""), *_numbers(one))
        missing = [word for word in words if word not in f" {terminal.detail}"]
        if one.name == "budget_usd" and re.findall(r"[$][-0-9.]+[0-9]", terminal.detail) != [
            word.strip() for word in words[1:]
        ]:
            missing.append("both sums")
        if missing:
            return f"{one.row.name}: {terminal.detail!r} does not say {missing}"
        if one.name in CUT and (control.call.stop_reason or "") not in (terminal.error.message if terminal.error else ""):
            return f"{one.row.name}: the error does not say how the reply was cut"
        warned = sum(isinstance(effect, Emit) and isinstance(effect.output, Notice) for effect in one.effects)
        if warned != (one.name == "stop_hook_cap"):
            return f"{one.row.name}: {warned} warnings were shown"
        if any(item.id for item in one.new.flight):
            return f"{one.row.name}: something is still in flight"
        if data.session_usage != one.after.data.session_usage:
            return f"{one.row.name}: the session's usage changed"
    return ""


@edge_law("I5", costly=True)
def an_end_has_the_cause_of_its_failure(edge: Edge) -> str:
    """Where a row may end with several causes, the facts choose: what is irreducible, who aborted, what is remembered."""
    for one in micros(edge):
        terminal = one.after.data.terminal
        if terminal is None or not one.row.causes:
            continue
        facts = one.old.context
        cause: Cause | None = None
        match one.row.reason:
            case TerminalReason.PROMPT_TOO_LONG:
                stuck = facts.fixed_tokens >= limits(one.old, one.config)[1] or not facts.compactable
                cause = Cause.CONTEXT_IRREDUCIBLE if stuck else Cause.USED_UP
            case TerminalReason.IMAGE_ERROR:
                fault = one.old.call.fault
                unread = fault is not None and fault.kind is ErrorKind.MEDIA_UNREADABLE
                cause = Cause.UNREADABLE if unread else Cause.TOO_LARGE
            case TerminalReason.MODEL_ERROR if one.row.source is Phase.RUNNING_TOOLS and one.old.salvage is not None:
                cause = one.old.salvage.cause
            case TerminalReason.MODEL_ERROR if one.row.source is Phase.DECIDING:
                cause = _cause(one)
            case _:
                cause = one.row.causes[0] if len(one.row.causes) == 1 else None
        if cause is not None and terminal.cause is not cause:
            return f"{one.row.name} ended as {terminal.cause}, not as {cause}"
    return ""


def _cause(one: Micro) -> Cause:
    fault = one.old.call.fault
    assert fault is not None
    if fault.kind in TRANSIENT_KINDS:
        return Cause.RATE_LIMITED_UNTIL if too_long_a_wait(one.old, one.config) else Cause.ATTEMPTS_EXHAUSTED
    named = {ErrorKind.AUTH: Cause.AUTH, ErrorKind.BILLING: Cause.AUTH, ErrorKind.ENGINE_ERROR: Cause.ENGINE_ERROR}
    return named.get(fault.kind, Cause.API_ERROR)


def _abort_words(reason: AbortReason, tools: bool) -> str:
    words = {
        (AbortReason.INTERRUPT, False): texts.INTERRUPTED,
        (AbortReason.INTERRUPT, True): texts.INTERRUPTED_TOOLS,
        (AbortReason.CLOSE, False): texts.CLOSED,
        (AbortReason.CLOSE, True): texts.CLOSED_TOOLS,
    }
    return words.get((reason, tools), "")


def _left(one: Micro) -> list[tuple[str, str]] | None:
    """Give what an end leaves behind the view; None where another law says it, or where media were taken out."""
    was, control = one.before.data.iteration, one.old
    reply = positions(one)
    calls = [("tool_results", ",".join(call.id for call in control.tools.calls))] if control.tools.calls else []
    match one.name:
        case "aborted" | "aborted_tools":
            if one.row.source is Phase.READY:
                return []
            tools = one.name == "aborted_tools"
            said = was.reply is not None or bool(reply)
            left = [("assistant", was.reply.id if was.reply is not None else control.call.id)] if said else []
            left += calls if said else []
            words = _abort_words(one.event.reason, tools)  # type: ignore[union-attr]
            any_messages = bool(one.before.data.messages) or bool(left)
            return left + ([("meta", words)] if words and any_messages else [])
        case "refusal" if begun(control):
            kept = [call.id for call in control.tools.calls if call.index in (reply or [])]
            answers = [("tool_results", ",".join(kept))] if kept else []
            return ([("assistant", control.call.id)] if reply else []) + answers
        case name if name in CUT:
            return [("assistant", control.call.id)] if reply else []
        case name if name in CLOSED:
            return ([("assistant", control.call.id)] if reply else []) + calls
        case name if name in AFTER_HOOKS or one.row.source is Phase.RUNNING_TOOLS:
            return None
        case _:
            return None if one.row.reason is TerminalReason.IMAGE_ERROR else []


@edge_law("I5", costly=True)
def an_end_leaves_a_history(edge: Edge) -> str:
    """An end leaves the view, what was kept of the reply, the answers of its calls, and what an abort is told; all shown."""
    for one in micros(edge):
        if one.after.data.terminal is None:
            continue
        left = _left(one)
        if left is None:
            continue
        view = one.before.data.iteration.view or one.before.data.messages
        messages = one.after.data.messages
        if messages[: len(view)] != view:
            return f"{one.row.name}: the view was changed"
        added = messages[len(view) :]
        if told(added) != left:
            return f"{one.row.name}: {told(added)} is left, not {left}"
        shown = shown_users(one)
        if shown != [item for item in added if item.role == "user"]:
            return f"{one.row.name}: {len(shown)} messages were shown"
    return ""


@edge_law("I5", costly=True)
def what_is_dropped_is_cancelled(edge: Edge) -> str:
    """Every effect that an end or a dropped reply takes out of flight is cancelled, once, except the one that is answered."""
    for one in micros(edge):
        gone = {item.id for item in one.old.flight} - {item.id for item in one.new.flight}
        cancels = [effect.id for effect in one.effects if isinstance(effect, Cancel)]
        gone.discard(getattr(one.event, "id", ""))
        gone.difference_update({call.effect for call in one.old.tools.calls if call.effect} - set(cancels))
        if set(cancels) != gone or len(set(cancels)) != len(cancels):
            return f"{one.row.name}: cancelled {cancels}, gone from flight {sorted(gone)}"
    return ""


@edge_law("I10", costly=True)
def switches_and_drains_are_told(edge: Edge) -> str:
    """A fallback is told with both models and why; a drain with the count before and after; thinking taken out with a word."""
    for one in micros(edge):
        notices = [effect.output for effect in one.effects if isinstance(effect, Emit) and isinstance(effect.output, Notice)]
        fault = one.old.call.fault
        if one.name in ("fallback", "refusal_fallback", "salvage") and one.new.tool_use_context != one.old.tool_use_context:
            why = fault.kind.value if fault is not None else "refusal"
            new = one.old.queue.switch or models_left(one.old, one.config)[0]
            text = texts.fallback_notice(one.old.tool_use_context.model, new, why)
            if [(item.text, item.level) for item in notices] != [(text, "warning")]:
                return f"{one.row.name}: it was told as {notices}"
        elif one.name == "collapse_drain_retry":
            marks = [
                effect.output for effect in one.effects if isinstance(effect, Emit) and isinstance(effect.output, Boundary)
            ]
            before, freed = one.old.context.tokens, one.after.data.iteration.reports[-1].freed
            due = [("collapse", "drain", before, max(0, before - freed))]
            if [(item.kind, item.trigger, item.before, item.after) for item in marks] != due:
                return f"the drain was told as {marks}"
    return ""


@edge_law("I7", costly=True)
def errors_are_withheld_until_they_are_used_up(edge: Edge) -> str:
    """An error comes out with the row that ends the run because of it, and is the one that the attempt failed with."""
    for one in micros(edge):
        shown = [effect.output.failure for effect in one.effects if isinstance(effect, Emit)
                 and isinstance(effect.output, ErrorOutput)]  # fmt: skip
        held = one.before.data.iteration.failure
        if shown and one.name not in CUT and shown != [held]:
            return f"{one.row.name}: another error came out"
    return ""


@state_law("I14", costly=True)
def ids_of_calls_are_known(state: LoopState, config: LoopConfig) -> str:
    """The ids of all calls of the working list are known while a run is on, so that a repeated one is found."""
    if state.control.phase in TERMINAL_SET:
        return ""
    return "" if state.data.call_ids == call_ids(state.data.messages) else "the known ids are not those of the messages"


@edge_law("I5", costly=True)
def a_run_counts_from_one(edge: Edge) -> str:
    """The first id of a run has the number one, and each further id of its first row the next number."""
    for one in micros(edge):
        if one.name == "run_started":
            numbers = [int(effect.id.rpartition("-")[2]) for effect in one.effects if hasattr(effect, "id")]
            if numbers != list(range(1, len(numbers) + 1)) or one.new.run.issued != len(numbers):
                return f"the first ids have the numbers {numbers}, {one.new.run.issued} were issued"
    return ""


@edge_law("I13", costly=True)
def usage_is_summed_by_model(edge: Edge) -> str:
    """Each answer's usage is added to the run's, model by model, once."""
    for place, one in enumerate(micros(edge)):
        more = getattr(one.event, "usage", ()) if place == 0 else ()
        if one.name == "run_started":
            continue
        if one.after.data.usage != add_usage(one.before.data.usage, more):
            return f"{one.row.name}: the usage is {one.after.data.usage}"
    return ""
