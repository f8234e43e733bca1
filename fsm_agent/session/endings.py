"""What each ending means to the one who ran it: exit code, result subtype, and what to do (spec 01, section 5; spec 05)."""

from __future__ import annotations

from types import MappingProxyType

from attrs import frozen

from ..core.outputs import Terminal
from ..core.phases import SUCCESS, Cause, TerminalReason

OK = 0
FAILED = 1
LIMIT = 4
REFUSED = 5
API = 6
INTERRUPTED = 130

ERROR = "error_during_execution"


@frozen
class Ending:
    """What one (reason, cause) means.

    Attributes:
        exit_code: of the process (spec 05).
        subtype: of the result object.
        advice: what the user can do, one sentence.
    """

    exit_code: int
    subtype: str
    advice: str


R, C = TerminalReason, Cause

ENDINGS: MappingProxyType[tuple[TerminalReason, Cause], Ending] = MappingProxyType(
    {
        (R.COMPLETED, C.END_TURN): Ending(OK, "success", "Nothing: the model finished its work."),
        (R.COMPLETED, C.BUDGET_REACHED): Ending(OK, "success", "Nothing: the token budget was spent as asked."),
        (R.COMPLETED, C.DIMINISHING_RETURNS): Ending(
            OK, "success", "Nothing: the model had nothing left to do before the token budget was spent."
        ),
        (R.COMPLETED, C.REFUSAL): Ending(REFUSED, ERROR, "The model refused: say it differently, or use another model."),
        (R.COMPLETED, C.MAX_OUTPUT_EXHAUSTED): Ending(
            FAILED, ERROR, "The reply stayed too long: ask for smaller pieces, or raise max_output_tokens."
        ),
        (R.COMPLETED, C.EMPTY_REPLY): Ending(FAILED, ERROR, "The model said nothing twice: say more, or try again."),
        (R.COMPLETED, C.MALFORMED_TOOL_USE): Ending(
            FAILED, ERROR, "The model kept making calls that are no JSON: try again, or use another model."
        ),
        (R.COMPLETED, C.PAUSE_LIMIT): Ending(FAILED, ERROR, "The API kept pausing: try again, or raise max_pauses."),
        (R.COMPLETED, C.UNKNOWN_STOP_REASON): Ending(
            FAILED, ERROR, "The API stopped for a reason that this version does not know: update it."
        ),
        (R.COMPLETED, C.STOP_HOOK_CAP): Ending(
            FAILED, ERROR, "A stop hook never let the model finish: look at the hook's condition."
        ),
        (R.BLOCKING_LIMIT, C.HARD_LIMIT): Ending(
            LIMIT, ERROR, "The context window is full and compaction is off: turn it on, or start a new session."
        ),
        (R.BLOCKING_LIMIT, C.COMPACTION_NO_PROGRESS): Ending(
            LIMIT, ERROR, "Compaction no longer frees enough: compact by hand with instructions, or start a new session."
        ),
        (R.BLOCKING_LIMIT, C.CONTEXT_IRREDUCIBLE): Ending(
            LIMIT, ERROR, "System prompt, tools and request alone fill the window: make them smaller, or use a larger model."
        ),
        (R.BLOCKING_LIMIT, C.BUDGET_USD): Ending(
            LIMIT, "error_max_budget_usd", "The money budget is spent: raise max_budget to go on."
        ),
        (R.PROMPT_TOO_LONG, C.USED_UP): Ending(
            LIMIT, ERROR, "The API found the prompt too long and no recovery is left: start a new session."
        ),
        (R.PROMPT_TOO_LONG, C.CONTEXT_IRREDUCIBLE): Ending(
            LIMIT, ERROR, "The prompt is too long and cannot be made shorter: send less at once, or use a larger model."
        ),
        (R.IMAGE_ERROR, C.TOO_LARGE): Ending(FAILED, ERROR, "An image or document is too large: send a smaller one."),
        (R.IMAGE_ERROR, C.UNREADABLE): Ending(
            FAILED, ERROR, "An image or document cannot be read: check the file and its media type."
        ),
        (R.MODEL_ERROR, C.API_ERROR): Ending(API, ERROR, "The API refused the request: see the error."),
        (R.MODEL_ERROR, C.AUTH): Ending(API, ERROR, "The API key is missing, wrong or not allowed: check it."),
        (R.MODEL_ERROR, C.RATE_LIMITED_UNTIL): Ending(
            API, ERROR, "The API asks for a longer wait than allowed: try again later, or raise retry_after_ceiling_ms."
        ),
        (R.MODEL_ERROR, C.ATTEMPTS_EXHAUSTED): Ending(
            API, ERROR, "The API kept failing: try again later, or name fallback models."
        ),
        (R.MODEL_ERROR, C.INVALID_HISTORY): Ending(
            FAILED, ERROR, "The history cannot be made a valid request: see the rule named, or start a new session."
        ),
        (R.MODEL_ERROR, C.ENGINE_ERROR): Ending(
            FAILED, ERROR, "A part of the engine failed: see the error, and report it with the log."
        ),
        (R.ABORTED_STREAMING, C.INTERRUPT): Ending(INTERRUPTED, ERROR, "You interrupted it: say what to do instead."),
        (R.ABORTED_STREAMING, C.SUBMIT): Ending(INTERRUPTED, ERROR, "Nothing: your next message goes on."),
        (R.ABORTED_STREAMING, C.CONSUMER_CLOSED): Ending(FAILED, ERROR, "The reader left: submit again to go on."),
        (R.ABORTED_TOOLS, C.INTERRUPT): Ending(
            INTERRUPTED, ERROR, "You interrupted it while tools ran: check what they changed, and say what to do instead."
        ),
        (R.ABORTED_TOOLS, C.SUBMIT): Ending(INTERRUPTED, ERROR, "Nothing: your next message goes on."),
        (R.ABORTED_TOOLS, C.CONSUMER_CLOSED): Ending(
            FAILED, ERROR, "The reader left while tools ran: check what they changed, and submit again to go on."
        ),
        (R.STOP_HOOK_PREVENTED, C.HOOK): Ending(FAILED, ERROR, "A stop hook ended the run: see its words."),
        (R.STOP_HOOK_PREVENTED, C.STRUCTURED_OUTPUT_EXHAUSTED): Ending(
            FAILED,
            "error_max_structured_output_retries",
            "The answer never fitted the schema: make the schema simpler, or allow more retries.",
        ),
        (R.HOOK_STOPPED, C.HOOK): Ending(FAILED, ERROR, "A tool hook stopped the run: see its words."),
        (R.HOOK_STOPPED, C.LOOP_DETECTED): Ending(
            FAILED, ERROR, "The model repeated the same calls with the same results: give it a hint, and go on."
        ),
        (R.MAX_TURNS, C.MAX_TURNS): Ending(LIMIT, "error_max_turns", "The turns are used up: raise max_turns to go on."),
    }
)


def ending(terminal: Terminal) -> Ending:
    """Look up what an ending means."""
    return ENDINGS[terminal.reason, terminal.cause]


def exit_code(terminal: Terminal) -> int:
    """Give the exit code of the process for an ending (spec 05)."""
    return ending(terminal).exit_code


def succeeded(terminal: Terminal) -> bool:
    """Say whether an ending is a success: ``completed`` with one of three causes."""
    return terminal.reason is TerminalReason.COMPLETED and terminal.cause in SUCCESS
