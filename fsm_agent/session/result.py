"""The result object: what one submitted prompt came to, in the field names that people know (spec 05)."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import frozen

from ..core.blocks import block_text
from ..core.config import LoopConfig
from ..core.outputs import Terminal
from ..core.phases import ContinueReason, TerminalReason
from ..core.state import LoopState
from ..core.usage import ModelUsage, total_cost
from .endings import ending, succeeded
from .structured import parse_answer

MICRO = 1_000_000


@frozen
class Facts:
    """What a result is made of, beside the final state.

    Attributes:
        session_id: the session.
        config: the run's configuration.
        rows: names of the rows taken.
        seconds: from the first pull to the end.
        api_seconds: spent in model calls.
        denials: calls that were denied, in the form of the result object.
        log: path of the log, None without one.
    """

    session_id: str
    config: LoopConfig
    rows: tuple[str, ...] = ()
    seconds: float = 0.0
    api_seconds: float = 0.0
    denials: tuple[Mapping[str, Any], ...] = ()
    log: str | None = None


def build_result(state: LoopState, terminal: Terminal, facts: Facts) -> dict[str, Any]:
    """Build the result object of spec 05.

    Args:
        state: the state in which the run ended.
        terminal: how it ended.
        facts: what else belongs in it.

    Returns:
        A mapping that JSON can hold.
    """
    good = succeeded(terminal)
    meaning = ending(terminal)
    text = final_text(state) if terminal.reason is TerminalReason.COMPLETED else ""
    error = terminal.error
    return {
        "type": "result",
        "subtype": meaning.subtype,
        "is_error": not good,
        "result": text,
        "num_turns": terminal.turn_count,
        "session_id": facts.session_id,
        "uuid": str(uuid.uuid4()),
        "duration_ms": round(facts.seconds * 1000),
        "duration_api_ms": round(facts.api_seconds * 1000),
        "stop_reason": state.control.call.stop_reason,
        "terminal_reason": terminal.reason.value,
        "total_cost_usd": total_cost(terminal.usage) / MICRO,
        "usage": _totals(terminal.usage),
        "modelUsage": {item.model: _model_usage(item, facts.config) for item in terminal.usage},
        "permission_denials": [dict(denial) for denial in facts.denials],
        "structured_output": _structured(text) if good and facts.config.output_schema is not None else None,
        "errors": [] if good else _errors(terminal, meaning.advice),
        "api_error_status": error.status if error is not None and error.status else None,
        "terminal": {
            "reason": terminal.reason.value,
            "cause": terminal.cause.value,
            "detail": terminal.detail,
            "error": None if error is None else _error_value(terminal),
        },
        "transitions": [reason.value for reason in continue_reasons(facts.rows)],
        "log": facts.log,
    }


def final_text(state: LoopState) -> str:
    """Give the text of the run's last reply, empty if it made none."""
    run = f"{state.control.run.id}/"
    for message in reversed(state.messages):
        if message.role == "assistant" and message.id.startswith(run):
            return "".join(block_text(block) for block in message.blocks)
    return ""


def continue_reasons(rows: Iterable[str]) -> tuple[ContinueReason, ...]:
    """Pick the continue reasons, in order, out of the rows that a run took."""
    from ..core.rows import TABLE

    reasons = {row.name: row.reason for row in TABLE.rows if isinstance(row.reason, ContinueReason)}
    return tuple(reasons[name] for name in rows if name in reasons)


def _errors(terminal: Terminal, advice: str) -> list[str]:
    said = [terminal.error.message if terminal.error is not None else "", terminal.detail, advice]
    return [text for text in dict.fromkeys(said) if text]


def _error_value(terminal: Terminal) -> dict[str, Any]:
    error = terminal.error
    assert error is not None
    return {
        "kind": error.kind.value,
        "message": error.message,
        "status": error.status or None,
        "code": error.code or None,
        "type": error.type or None,
        "request_id": error.request_id or None,
    }


def _structured(text: str) -> Any:
    try:
        return parse_answer(text)
    except (ValueError, RecursionError):
        return None


def _totals(usage: tuple[ModelUsage, ...]) -> dict[str, int]:
    return {
        "input_tokens": sum(item.input_tokens for item in usage),
        "cache_creation_input_tokens": sum(item.cache_creation_tokens for item in usage),
        "cache_read_input_tokens": sum(item.cache_read_tokens for item in usage),
        "output_tokens": sum(item.output_tokens for item in usage),
    }


def _model_usage(item: ModelUsage, config: LoopConfig) -> dict[str, Any]:
    info = config.info(item.model)
    return {
        "inputTokens": item.input_tokens,
        "outputTokens": item.output_tokens,
        "cacheReadInputTokens": item.cache_read_tokens,
        "cacheCreationInputTokens": item.cache_creation_tokens,
        "costUSD": item.cost / MICRO,
        "contextWindow": info.context_window,
        "maxOutputTokens": info.max_output,
    }
