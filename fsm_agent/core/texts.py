"""Words of the engine that the model reads. One place, so that they can be read and judged together."""

from __future__ import annotations

OUTPUT_LIMIT = (
    "Your reply was cut off by the output limit. Go on exactly where it stopped: no apology, no recap of what you "
    "already wrote. Work in smaller pieces from here on."
)
WINDOW_LIMIT = (
    "Your reply was cut off because the context window was full. Go on exactly where it stopped: no apology, no recap. "
    "Work in smaller pieces from here on."
)
EMPTY_REPLY = "Your last reply was empty. Go on with the task, or say that it is done."
INTERRUPTED = "[The user interrupted this turn. What had not finished by then was not done. Do not repeat it unasked.]"
INTERRUPTED_TOOLS = (
    "[The user interrupted this turn while tools were running. The results above say which calls finished and which did "
    "not. Do not repeat them unasked.]"
)
CLOSED = "[The session was closed before this turn finished. What had not finished by then was not done.]"
CLOSED_TOOLS = (
    "[The session was closed while tools were running. The results above say which calls finished and which did not.]"
)
NOT_RUN_INTERRUPTED = "Not run: the turn was interrupted before this call started."
NOT_RUN_HOOK = "Not run: a hook stopped this turn before the call started."
NOT_RUN_CRASH = "Not run: the model's reply broke off before this call could start."
NOT_RUN_DUPLICATE = "Not run: an earlier call of the same reply has the same id. Make the call again if it is needed."
NOT_RUN_REFUSED = "Not run: the reply ended with a refusal."
UNKNOWN_OUTCOME = "Interrupted while running: its outcome is unknown, it may have taken effect. Check before you repeat it."
UNKNOWN_CRASH = (
    "The process ended while this call was running: its outcome is unknown, it may have taken effect. Check before you "
    "repeat it."
)
LOOP_WARNING = (
    "[The last rounds made the same calls with the same results. Repeating them will not help: try something else, or "
    "say what keeps you from going on. The turn will be stopped if it goes on like this.]"
)
EMPTY_HOOK_WORDS = "(the hook gave no reason)"


def not_whole(raw: str, problem: str, cut: bool, limit: int = 2_000) -> str:
    """Say why a call was not run because its input is no whole object, showing the raw text up to ``limit`` characters."""
    shown = raw if len(raw) <= limit else raw[:limit] + f"... ({len(raw) - limit} more characters)"
    if cut:
        why = "the reply hit the output limit, so its input may be cut. Send it again in smaller pieces"
    else:
        why = f"its input is not a valid JSON object ({problem or 'it was not closed'}). Send it again with valid input"
    return f"Not run: {why}.\nReceived input:\n{shown}"


def sibling_failed(name: str) -> str:
    """Say that a call was not run, or was stopped, because a sibling failed."""
    return f"Cancelled: the call to {name} in the same batch failed."


def unknown_with_tail(tail: str) -> str:
    """Say that a running call was interrupted, with the tail of its progress."""
    return UNKNOWN_OUTCOME if not tail.strip() else f"{UNKNOWN_OUTCOME}\nLast output:\n{tail}"


def stop_hook_errors(words: tuple[str, ...]) -> str:
    """Tell the model which stop hooks want more work."""
    lines = "\n".join(f"- {text.strip() or EMPTY_HOOK_WORDS}" for text in words)
    return f"Stop hooks say that the work is not done:\n{lines}"


def budget_nudge(spent: int, budget: int) -> str:
    """Tell the model how much of the token budget is left."""
    return (
        f"You have used {spent:,} of {budget:,} output tokens of the budget ({100 * spent // budget} %); "
        f"{budget - spent:,} are left. Keep working on the task; do not sum up."
    )


def fallback_notice(old: str, new: str, why: str) -> str:
    """Tell the user that the model was switched."""
    return f"{old} failed ({why}); the rest of this run uses {new}."
