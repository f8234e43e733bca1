"""Rules on parameters and limits that depend on the model (api-facts A7, A8, A9, A13, A19.12)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .base import Rule, Wire, at, rule

_KINDS = ("adaptive", "enabled", "disabled", "between_tools")
_DISPLAYS = ("summarized", "omitted", "updates")
_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_EDITS = ("clear_tool_uses_20250919", "clear_thinking_20251015", "compact_20260112")
_MIN_THINKING = 1_024
_MIN_TASK_BUDGET = 20_000
_MIN_COMPACT_TRIGGER = 50_000

_BETAS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("context_management", ("context-management-", "compact-2026-01-12")),
    ("compaction", ("compact-2026-09-04",)),
    ("thread", ("message-threads-",)),
    ("fallbacks", ("server-side-fallback-",)),
    ("fallback_credit_token", ("fallback-credit-",)),
    ("mcp_servers", ("mcp-client-",)),
)


@rule("sampling", "api-facts A19.12")
def sampling(wire: Wire) -> Iterator[tuple[str, str]]:
    """There are no sampling parameters."""
    for name in ("temperature", "top_p", "top_k"):
        if name in wire.body:
            yield name, "this parameter is no longer supported"


@rule("thinking_parameter", "api-facts A8, A19.12, wire checker 7")
def thinking_parameter(wire: Wire) -> Iterator[tuple[str, str]]:
    """The kind of thinking is one that the model takes, and its budget is below max_tokens."""
    asked = wire.body.get("thinking")
    if asked is None:
        return
    kind = asked.get("type") if isinstance(asked, Mapping) else None
    if kind not in _KINDS:
        yield "thinking.type", f"Input should be one of {', '.join(_KINDS)}"
        return
    # A model that cannot think takes the word that says so.
    if kind not in wire.info.thinking and not (kind == "disabled" and not wire.info.thinking):
        yield "thinking.type", f"thinking type '{kind}' is not supported by this model"
    budget = asked.get("budget_tokens")
    if kind == "enabled":
        if not isinstance(budget, int) or budget < _MIN_THINKING:
            yield "thinking.enabled.budget_tokens", f"Input should be greater than or equal to {_MIN_THINKING}"
        elif isinstance(wire.body.get("max_tokens"), int) and budget >= wire.body["max_tokens"]:
            yield "max_tokens", "`max_tokens` must be greater than `thinking.budget_tokens`"
    elif budget is not None:
        yield f"thinking.{kind}.budget_tokens", "Extra inputs are not permitted"
    display = asked.get("display")
    if display is not None and display not in _DISPLAYS:
        yield "thinking.display", f"Input should be one of {', '.join(_DISPLAYS)}"


@rule("tool_choice", "api-facts A13, A19.12")
def tool_choice(wire: Wire) -> Iterator[tuple[str, str]]:
    """Forced tool use only where the model takes it, and not with manual thinking."""
    choice = wire.body.get("tool_choice")
    if choice is None:
        return
    kind = choice.get("type") if isinstance(choice, Mapping) else None
    if kind not in ("auto", "any", "tool", "none"):
        yield "tool_choice.type", "Input should be 'auto', 'any', 'tool' or 'none'"
    elif kind in ("any", "tool"):
        if not wire.info.forced_tool_choice:
            yield "tool_choice.type", f"tool_choice '{kind}' is not supported by this model"
        elif wire.thinking_mode == "enabled":
            yield "", "Thinking may not be enabled when tool_choice forces tool use."


@rule("output_config", "api-facts A7")
def output_config(wire: Wire) -> Iterator[tuple[str, str]]:
    """Effort is a level of the model; the format is a JSON schema; a task budget is large enough."""
    asked = wire.body.get("output_config")
    if asked is None:
        return
    if not isinstance(asked, Mapping):
        yield "output_config", "Input should be a valid dictionary"
        return
    yield from _effort(wire, asked, "output_config.effort")
    form = asked.get("format")
    if form is not None and (
        not isinstance(form, Mapping) or form.get("type") != "json_schema" or not isinstance(form.get("schema"), Mapping)
    ):
        yield "output_config.format", "Input should be a json_schema with a schema"
    budget = asked.get("task_budget")
    if budget is not None:
        total = budget.get("total") if isinstance(budget, Mapping) else None
        if not isinstance(total, int) or total < _MIN_TASK_BUDGET:
            yield "output_config.task_budget.total", f"Input should be greater than or equal to {_MIN_TASK_BUDGET}"
        if not wire.beta("task-budgets-"):
            yield "output_config.task_budget", "Extra inputs are not permitted"


def _effort(wire: Wire, holder: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    effort = holder.get("effort")
    if effort is None:
        return
    if effort not in _EFFORTS:
        yield path, f"Input should be one of {', '.join(_EFFORTS)}"
    elif effort not in wire.info.efforts:
        levels = ", ".join(wire.info.efforts) or "none"
        yield "", f"This model does not support effort level '{effort}'. Supported levels: {levels}."


@rule("context_management", "api-facts A9")
def context_management(wire: Wire) -> Iterator[tuple[str, str]]:
    """Edits are known ones, clearing of thinking first, on a model that takes them."""
    asked = wire.body.get("context_management")
    if asked is None:
        return
    edits = asked.get("edits") if isinstance(asked, Mapping) else None
    if not isinstance(edits, list):
        yield "context_management.edits", "Input should be a valid list"
        return
    if edits and not wire.info.context_edits:
        yield "context_management", "context management is not supported by this model"
    for place, edit in enumerate(edits):
        kind = edit.get("type") if isinstance(edit, Mapping) else None
        path = f"context_management.edits.{place}"
        if kind not in _EDITS:
            yield path, f"Input tag '{kind}' found using 'type' does not match any of the expected tags"
        elif kind == "clear_thinking_20251015":
            if place:
                yield path, "`clear_thinking_20251015` must be the first edit"
            if wire.thinking_mode == "off":
                yield path, "`clear_thinking_20251015` requires thinking to be enabled"
        elif kind == "compact_20260112":
            trigger = edit.get("trigger")
            value = trigger.get("value") if isinstance(trigger, Mapping) else None
            if isinstance(value, int) and value < _MIN_COMPACT_TRIGGER:
                yield f"{path}.trigger.value", f"Input should be greater than or equal to {_MIN_COMPACT_TRIGGER}"
            if not wire.beta("compact-2026-01-12"):
                yield path, "Extra inputs are not permitted"


@rule("betas", "api-facts A2, A16")
def betas(wire: Wire) -> Iterator[tuple[str, str]]:
    """A parameter that belongs to a beta comes with its header."""
    for name, prefixes in _BETAS:
        if wire.body.get(name) is not None and not wire.beta(*prefixes):
            yield name, "Extra inputs are not permitted"
    if wire.body.get("speed") == "fast" and not wire.beta("fast-mode-"):
        yield "speed", "Extra inputs are not permitted"
    thinking = wire.body.get("thinking")
    if isinstance(thinking, Mapping) and thinking.get("display") == "updates" and not wire.beta("thinking-display-updates-"):
        yield "thinking.display", "Extra inputs are not permitted"
    for number, message in enumerate(wire.messages):
        if message.get("clear_at") is not None and not wire.beta("mid-conversation-system-clear-at-"):
            yield at(number, more="clear_at"), "Extra inputs are not permitted"
        config = message.get("output_config")
        if isinstance(config, Mapping):
            if not wire.beta("mid-conversation-output-config-"):
                yield at(number, more="output_config"), "Extra inputs are not permitted"
            yield from _effort(wire, config, at(number, more="output_config.effort"))
    for turn in wire.turns:
        for number, place, block in turn.blocks:
            kind = block.get("type")
            if kind in ("tool_addition", "tool_removal") and not wire.beta("mid-conversation-tool-changes-", "inline-tools-"):
                yield at(number, place), f"`{kind}` blocks need a beta that is not on"
            if kind == "compaction" and not wire.beta("compact-"):
                yield at(number, place), "`compaction` blocks need a beta that is not on"


@rule("max_tokens", "api-facts A17, wire checker 7")
def max_tokens(wire: Wire) -> Iterator[tuple[str, str]]:
    """max_tokens is within the model's output limit."""
    limit = wire.body.get("max_tokens")
    if isinstance(limit, int) and limit > wire.info.max_output:
        yield (
            "max_tokens",
            f"{limit} > {wire.info.max_output}, which is the maximum allowed number of output tokens for {wire.info.name}",
        )


@rule("window", "wire checker 7")
def window(wire: Wire) -> Iterator[tuple[str, str]]:
    """Prompt and max_tokens fit the window. Estimates lean high: nine tenths of one must not be too much."""
    limit = wire.body.get("max_tokens")
    if wire.tokens is None or not isinstance(limit, int):
        return
    prompt = wire.tokens * 9 // 10
    if prompt + limit > wire.info.context_window:
        yield (
            "",
            f"input length and `max_tokens` exceed context limit: {prompt} + {limit} > {wire.info.context_window}, decrease "
            "input length or `max_tokens` and try again",
        )


RULES: tuple[Rule, ...] = (
    sampling,
    thinking_parameter,
    tool_choice,
    output_config,
    context_management,
    betas,
    max_tokens,
    window,
)
