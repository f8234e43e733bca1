"""The parameters of a request, computed from config and state in one place (spec 02; api-facts A2, A7 to A9)."""

from __future__ import annotations

from ..blocks import dumps
from ..config import LoopConfig, Microcompact, thresholds
from ..context.microcompact import least_freed, mode
from ..context.store import ContextState
from ..frozen import frozen
from ..memo import by_identity, by_identity_and
from ..models import ModelInfo
from .encode import CACHE_MARK
from .prompt import system_texts

MARK = CACHE_MARK.decode()
BETA_EDITS = "context-management-2025-06-27"
BETA_COMPACT = "compact-2026-09-04"
BETA_BUDGET = "task-budgets-2026-03-13"
BETA_BINDING = "thinking-binding-controls-2026-08-01"
BETA_DISPLAY = "thinking-display-updates-2026-08-18"
LEAST_TASK_BUDGET = 20_000
"""The API's smallest task budget in tokens; a smaller one is left out."""
LEAST_THINKING = 1_024
"""The API's smallest thinking budget in tokens."""


@frozen
class Head:
    """Parameters of a call: the JSON object without messages, and the beta values that go with it."""

    json: bytes
    betas: tuple[str, ...]


def max_tokens(config: LoopConfig, model: str, override: int | None, estimate: int) -> int:
    """Compute the output limit of a call (spec 01, section 7).

    Args:
        config: settings.
        model: the model that is called.
        override: an escalated limit, None for the configured one.
        estimate: estimated prompt tokens.

    Returns:
        min(override or configured value, the model's limit, what the window leaves), at least 1.
    """
    info = config.info(model)
    window = config.context.context_window if config.context.context_window is not None else info.context_window
    wanted = override if override is not None else config.max_output_tokens
    return max(1, min(wanted, info.max_output, window - estimate))


def thinking_kind(config: LoopConfig, info: ModelInfo) -> str:
    """Choose the thinking kind to ask for: what config says, or the nearest that the model takes; empty for none."""
    wanted = config.thinking
    if wanted is None or wanted in info.thinking:
        return wanted or ""
    nearest = {"disabled": ("between_tools",), "adaptive": ("enabled",), "enabled": ("adaptive",)}
    for kind in nearest.get(wanted, ("adaptive",)):
        if kind in info.thinking:
            return kind
    return ""


def keeps_thinking(config: LoopConfig, info: ModelInfo) -> bool:
    """Tell whether a request to this model may hold thinking blocks: thinking is on, or can be switched on."""
    kind = thinking_kind(config, info)
    if kind:
        return kind != "disabled"
    if config.thinking == "disabled":
        return info.thinking_default
    return info.thinking_default or "adaptive" in info.thinking or "enabled" in info.thinking


def _thinking(config: LoopConfig, info: ModelInfo, cut: bool, holds: bool, limit: int) -> dict[str, object] | None:
    kind = thinking_kind(config, info)
    binding = info.binds_thinking and cut
    if not kind and keeps_thinking(config, info) and (binding or holds or (config.thinking_display and info.thinking_default)):
        kind = next((item for item in ("adaptive", "enabled") if item in info.thinking), "")
    if not kind:
        return None
    value: dict[str, object] = {"type": kind}
    if kind == "enabled":
        budget = min(max(LEAST_THINKING, min(config.max_output_tokens, info.max_output) // 2), limit - 1)
        if budget < LEAST_THINKING:
            return None
        value["budget_tokens"] = budget
    if kind in ("adaptive", "enabled"):
        if config.thinking_display:
            value["display"] = config.thinking_display
        if binding:
            value["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
    return value


def manual_only(config: LoopConfig, info: ModelInfo) -> bool:
    """Tell whether thinking, where it is on, is of the manual kind, which asks more of the history (api-facts A8)."""
    kind = thinking_kind(config, info)
    return kind == "enabled" or (not kind and "adaptive" not in info.thinking and "enabled" in info.thinking)


def betas(config: LoopConfig, info: ModelInfo) -> tuple[str, ...]:
    """Give the beta values that hold for every request to this model in a run, the configured ones first."""
    return _betas(config, info.name)


@by_identity_and
def _betas(config: LoopConfig, model: str) -> tuple[str, ...]:
    info = config.info(model)
    values = list(config.betas)
    if mode(config, info) is Microcompact.CACHED:
        values.append(BETA_EDITS)
    if info.api_compaction:
        values.append(BETA_COMPACT)
    if config.task_budget is not None:
        values.append(BETA_BUDGET)
    if config.thinking_display == "updates":
        values.append(BETA_DISPLAY)
    return tuple(dict.fromkeys(values))


@by_identity
def _system_json(config: LoopConfig) -> str:
    blocks = [f'{{"type":"text","text":{dumps(text)}}}' for text in system_texts(config)]
    if blocks and config.prompt_caching:
        blocks[-1] = blocks[-1][:-1] + MARK + "}"
    return ",".join(blocks)


@by_identity
def _tools_json(config: LoopConfig) -> str:
    tools = [tool.json.strip() for tool in config.tools]
    if config.prompt_caching:
        for index in range(len(tools) - 1, -1, -1):
            # A deferred tool is not part of the cached prefix and takes no mark.
            if '"defer_loading":true' in tools[index].replace(" ", ""):
                continue
            if '"cache_control"' not in tools[index]:
                tools[index] = tools[index][:-1] + MARK + "}"
            break
    return ",".join(tools)


def _output_config(config: LoopConfig, info: ModelInfo, remaining: int | None, *, schema: bool) -> str:
    parts: list[str] = []
    if config.effort is not None and config.effort in info.efforts:
        parts.append(f'"effort":{dumps(config.effort)}')
    if schema and config.output_schema is not None:
        parts.append(f'"format":{{"type":"json_schema","schema":{config.output_schema}}}')
    if config.task_budget is not None and config.task_budget >= LEAST_TASK_BUDGET:
        left = "" if remaining is None else f',"remaining":{remaining}'
        parts.append(f'"task_budget":{{"type":"tokens","total":{config.task_budget}{left}}}')
    return ",".join(parts)


def _edits(config: LoopConfig, info: ModelInfo) -> str:
    if mode(config, info) is not Microcompact.CACHED:
        return ""
    limits = thresholds(config, info.name)
    edit: dict[str, object] = {
        "type": "clear_tool_uses_20250919",
        "trigger": {"type": "input_tokens", "value": max(limits.auto_compact_at // 2, 1)},
        "keep": {"type": "tool_uses", "value": config.context.keep_results},
        "clear_at_least": {"type": "input_tokens", "value": least_freed(config, limits)},
    }
    spared = [tool.name for tool in config.tools if not tool.compactable]
    if spared:
        edit["exclude_tools"] = spared
    return dumps({"edits": [edit]})


def head_of(
    config: LoopConfig,
    model: str,
    context: ContextState,
    limit: int,
    *,
    thinking: bool | None,
    compaction: str | None = None,
) -> Head:
    """Encode the parameters of a call.

    Args:
        config: settings.
        model: the model that is called.
        context: the memory of the layers.
        limit: ``max_tokens``.
        thinking: whether the messages hold thinking, so that it must be enabled; None switches it off, since they
            cannot be sent with it.
        compaction: the request asks for a compaction, with these wishes of the user (may be empty); None for a reply.
            What the API does not take beside it is left out.

    Returns:
        A JSON object of everything but the messages, and the beta values.
    """
    return _head(config, model, limit, thinking, compaction, context.thinking_cut, context.task_remaining)


@by_identity_and
def _head(
    config: LoopConfig,
    model: str,
    limit: int,
    thinking: bool | None,
    compaction: str | None,
    thinking_cut: bool,
    task_remaining: int | None,
) -> Head:
    info = config.info(model)
    parts = [f'"model":{dumps(model)}', f'"max_tokens":{limit}', '"stream":true']
    values = betas(config, info)
    system = _system_json(config)
    if system:
        parts.append(f'"system":[{system}]')
    tools = _tools_json(config)
    if tools:
        parts.append(f'"tools":[{tools}]')
    mind = _thinking(config, info, thinking_cut, thinking, limit) if thinking is not None else None
    if mind is not None:
        parts.append(f'"thinking":{dumps(mind)}')
        if "block_binding" in mind:
            values = tuple(dict.fromkeys((*values, BETA_BINDING)))
    output = _output_config(config, info, task_remaining, schema=compaction is None)
    if output:
        parts.append(f'"output_config":{{{output}}}')
    edits = _edits(config, info) if compaction is None else ""
    if edits:
        parts.append(f'"context_management":{edits}')
    if compaction is not None:
        wishes = f',"instructions":{dumps(compaction)}' if compaction.strip() else ""
        parts.append(f'"compaction":{{"type":"summarize"{wishes}}}')
    return Head(json=("{" + ",".join(parts) + "}").encode(), betas=values)
