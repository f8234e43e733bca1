"""From a scenario to events: what the pure driver and the scripted parts of the interpreter have in common.

A call's answer is computed from its number among the calls of its kind, so that both give the same one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256

from attrs import frozen

from ..core.blocks import dumps, read_block
from ..core.config import LoopConfig
from ..core.events import (
    BlockCompleted,
    RunStarted,
    StreamCompleted,
    StreamFailed,
    StreamStarted,
    ToolTraits,
    ToolUse,
)
from ..core.failures import ErrorKind
from ..core.messages import Message, MessageKind, message
from ..core.state import LoopState, initial
from ..core.usage import ModelUsage
from ..runtime.strict_json import parse_input
from .answering import no_answer
from .answers import Ending, Item, OtherItem, Reply, Settle, TextItem, ThinkingItem, ToolItem
from .faults import failure_of
from .format import Scenario, ToolSpec
from .pictures import measured

Traits = Callable[[str, str | None], ToolTraits]


class ScenarioCrash(RuntimeError):
    """An exception that a scenario asks for."""


def prompt_message(scenario: Scenario, run_id: str) -> Message:
    """Make the message of the prompt."""
    values = [json.loads(text) for text in scenario.prompt]
    sizes = measured(values)
    blocks = tuple(read_block(value, sizes) for value in values)
    return message(f"{run_id}/prompt", "user", MessageKind.PROMPT, blocks)


def first_state(scenario: Scenario) -> LoopState:
    """Give the state before the run: that of a new conversation, or of one with a history."""
    return initial(scenario.config, scenario.history)


def run_started(scenario: Scenario, run_id: str) -> RunStarted:
    """Make the event that starts the run."""
    return RunStarted(
        run_id=run_id,
        messages=(prompt_message(scenario, run_id),),
        source=scenario.source,
        depth=scenario.depth,
        token_budget=scenario.token_budget,
    )


def traits_of(spec: ToolSpec | None) -> ToolTraits:
    """Give what a scripted tool says of a call; None stands for a tool that does not exist."""
    if spec is None:
        return ToolTraits(known=False)
    return ToolTraits(
        read_only=spec.read_only,
        concurrency_safe=spec.concurrency_safe,
        idempotent=spec.idempotent,
        cancels_siblings_on_error=spec.cancels_siblings,
        compactable=spec.compactable,
        max_result_chars=spec.max_result_chars,
    )


def scripted_traits(scenario: Scenario) -> Traits:
    """Give the function that names the traits of a call."""
    return lambda name, input_json: traits_of(scenario.tool(name))


def cost_of(config: LoopConfig, model: str, input_tokens: int, output_tokens: int) -> int:
    """Compute the price of one attempt in micro-dollars."""
    info = config.info(model)
    return (input_tokens * info.input_price + output_tokens * info.output_price) // 1_000_000


def usage_of(reply: Reply, config: LoopConfig, model: str) -> tuple[ModelUsage, ...]:
    """Give the usage of one attempt; one that failed before its stream began used nothing."""
    if reply.ending is not Ending.COMPLETE and not reply.streamed:
        return ()
    output = reply.output_tokens if reply.ending is Ending.COMPLETE else 1
    cost = cost_of(config, model, reply.input_tokens, output)
    return (ModelUsage(model=model, input_tokens=reply.input_tokens, output_tokens=output, cost=cost),)


def call_id(item: ToolItem, call: int, index: int) -> str:
    """Give the id of a call: the scenario's, or one made from the number of the model call and the block's place."""
    return f"toolu_{call + 1:04d}_{index}" if item.id is None else item.id


def block_value(item: Item, call: int, index: int) -> dict[str, object]:
    """Give a block in the shape of the API; the input of a call that is no object is empty, as the API would show it."""
    match item:
        case TextItem(text=text):
            return {"type": "text", "text": text}
        case ThinkingItem(text=text):
            return {"type": "thinking", "thinking": text, "signature": "sig-" + sha256(text.encode()).hexdigest()[:16]}
        case ToolItem(name=name, raw=raw):
            canonical = parse_input(raw).json
            value = json.loads(canonical) if canonical is not None else {}
            return {"type": "tool_use", "id": call_id(item, call, index), "name": name, "input": value}
        case OtherItem(json=text):
            other = json.loads(text)
            assert isinstance(other, dict)
            return other
        case Settle():
            raise AssertionError("a settle point is no block")


def tool_use_of(item: ToolItem, call: int, index: int, traits: Traits) -> ToolUse:
    """Give the parsed call."""
    parsed = parse_input(item.raw)
    return ToolUse(
        id=call_id(item, call, index),
        name=item.name,
        raw=item.raw,
        input_json=parsed.json,
        problem=parsed.problem,
        traits=traits(item.name, parsed.json),
    )


@frozen
class Pause:
    """The stream pauses: until what runs beside it has finished, until tools have started, or without end."""

    until: str = "finished"


StreamPart = StreamStarted | BlockCompleted | StreamCompleted | StreamFailed | Pause


def stream_of(
    reply: Reply, effect_id: str, call: int, config: LoopConfig, model: str, traits: Traits
) -> tuple[StreamPart, ...]:
    """Give the events of one reply in the order in which the interpreter would deliver them.

    A call is delivered when the stream has gone on: right before the next block begins, or with the stop reason. A
    reply that fails right behind a call never delivers it; an open block is delivered with the stop reason only.
    """
    parts: list[StreamPart] = []
    empty = reply.failure is not None and reply.failure.kind is ErrorKind.EMPTY_STREAM
    if (reply.ending is Ending.COMPLETE or reply.streamed) and not empty:
        parts.append(StreamStarted(id=effect_id, message_id=f"msg_{call + 1:04d}", model=model))
    index = 0
    last = len(reply.items) - 1
    complete = reply.ending is Ending.COMPLETE
    for place, item in enumerate(reply.items):
        if isinstance(item, Settle):
            parts.append(Pause(until="finished" if item.finish else "started"))
            continue
        is_open = not isinstance(item, OtherItem) and item.open
        waits = isinstance(item, ToolItem) or is_open
        if not waits or place != last or complete:
            parts.append(
                BlockCompleted(
                    id=effect_id,
                    index=index,
                    block=read_block(block_value(item, call, index)),
                    tool=tool_use_of(item, call, index, traits) if isinstance(item, ToolItem) else None,
                    last=isinstance(item, ToolItem) and place == last,
                    closed=not is_open,
                )
            )
        index += 1
    parts.append(_end_of(reply, effect_id, config, model))
    return tuple(parts)


def _end_of(reply: Reply, effect_id: str, config: LoopConfig, model: str) -> StreamPart:
    usage = usage_of(reply, config, model)
    if reply.ending is Ending.HANGS:
        return Pause(until="never")
    if reply.failure is not None:
        return StreamFailed(id=effect_id, failure=failure_of(reply.failure), usage=usage)
    return StreamCompleted(
        id=effect_id,
        stop_reason=reply.stop_reason,
        usage=usage,
        context_tokens=reply.input_tokens + reply.output_tokens,
        applied_edits=edits_of(reply),
        cleared_tokens=reply.cleared_tokens,
        stop_details=reply.stop_details,
        unresolved=_unresolved(reply),
    )


def edits_of(reply: Reply) -> str:
    """Give the applied clearing edits as JSON text, empty if there were none."""
    if not reply.cleared_tokens:
        return ""
    return dumps([{"type": "clear_tool_uses_20250919", "cleared_tool_uses": 1, "cleared_input_tokens": reply.cleared_tokens}])


def _unresolved(reply: Reply) -> bool:
    others = [json.loads(item.json) for item in reply.items if isinstance(item, OtherItem)]
    asked = [block.get("id") for block in others if block["type"] in ("server_tool_use", "mcp_tool_use")]
    answered = [block.get("tool_use_id") for block in others]
    return any(identity not in answered for identity in asked)


def exhausted(effect_id: str, what: str, count: int) -> StreamFailed:
    """Answer a call for which the scenario has no reply."""
    return StreamFailed(id=effect_id, failure=no_answer(what, count))
