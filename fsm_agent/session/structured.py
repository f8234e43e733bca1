"""Structured output: a built-in stop hook that lets a run end only with an answer that fits the schema (spec 03, Session)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ..core.blocks import block_text
from ..core.config import ConfigError
from ..core.effects import RunStopHooks
from ..core.events import StopHooksFinished
from ..core.messages import Message
from ..core.phases import Cause
from ..runtime.tools.validate import offline_validator, schema_problem

DEFAULT_RETRIES = 5
"""Answers that may be wrong before the run ends."""
_SHOWN = 5
_FENCE = re.compile(r"\A\s*```(?:json)?[ \t]*\n(.*?)\n?```\s*\Z", re.DOTALL)


def check_output_schema(text: str) -> None:
    """Check that a text is a JSON schema.

    Raises:
        ConfigError: if it is none.
    """
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"output_schema is no JSON: {error}") from None
    if not isinstance(schema, Mapping):
        raise ConfigError("output_schema must be a JSON object")
    wrong = schema_problem(schema)
    if wrong:
        raise ConfigError(f"output_schema is no JSON schema: {wrong}")


def parse_answer(text: str) -> Any:
    """Read an answer that is JSON, bare or in one fenced block.

    Raises:
        ValueError: if it is none.
    """
    fenced = _FENCE.match(text)
    return json.loads(fenced[1] if fenced is not None else text, parse_constant=_no_constant, parse_float=_finite)


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{text[:20]} is too large a number")
    return value


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def answer_text(reply: Message | None) -> str:
    """Give the text of a reply."""
    return "" if reply is None else "".join(block_text(block) for block in reply.blocks)


class StructuredOutput:
    """Checks the answers of main runs; the built-in stop hook of :class:`~fsm_agent.runtime.hooks.runner.HookSet`.

    An answer that does not fit is sent back with what is wrong, at most ``retries`` times in a run; then the run ends as
    ``stop_hook_prevented``.

    Args:
        schema: JSON text of the schema.
        retries: how often a wrong answer is sent back.

    Raises:
        ConfigError: if the schema is none.
    """

    def __init__(self, schema: str, *, retries: int = DEFAULT_RETRIES) -> None:
        check_output_schema(schema)
        self._validator = offline_validator(json.loads(schema))
        self._retries = retries
        self._wrong: dict[str, int] = {}

    def __call__(self, effect: RunStopHooks) -> StopHooksFinished | None:
        """Check the answer; None if it fits."""
        run = effect.id.rpartition("/")[0]
        wrong = self._wrong.pop(run, 0) + 1
        problem = self.problem(answer_text(effect.reply))
        if not problem:
            return None
        if wrong > self._retries:
            return StopHooksFinished(
                id=effect.id,
                prevented=f"The answer did not fit the schema after {self._retries} retries: {problem}",
                prevented_cause=Cause.STRUCTURED_OUTPUT_EXHAUSTED,
            )
        self._wrong[run] = wrong
        while len(self._wrong) > 1_000:  # runs that were left in the middle
            del self._wrong[next(iter(self._wrong))]
        return StopHooksFinished(
            id=effect.id, blocking=(f"{problem} Answer again, with nothing but JSON that fits the schema.",)
        )

    def problem(self, text: str) -> str:
        """Say what is wrong with an answer, empty if it fits."""
        try:
            value = parse_answer(text)
        except (ValueError, RecursionError) as error:
            return f"The answer is no JSON ({error})."
        try:
            found = sorted(self._validator.iter_errors(value), key=lambda error: list(map(str, error.absolute_path)))
        except RecursionError:
            return "The answer is nested too deeply."
        except Exception as error:  # a number beyond what can be compared, say
            return f"The answer cannot be checked ({str(error)[:200]})."
        if not found:
            return ""
        lines = [f"{error.json_path}: {error.message[:300]}" for error in found[:_SHOWN]]
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        return f"The answer does not fit the schema: {'; '.join(lines)}{more}."
