"""From a scenario to events: what the pure driver and the scripted parts of the interpreter have in common.

A call's answer is computed from its number among the calls of its kind, so that both give the same one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256

from attrs import frozen

from ..core.blocks import Block, dumps, read_block, text_block, tool_result
from ..core.config import LoopConfig
from ..core.events import (
    AttachmentsGathered,
    BlockCompleted,
    CollapseFailed,
    CollapseStaged,
    CompactionFailed,
    CompactionFinished,
    Outcome,
    RunStarted,
    StopHooksFinished,
    StreamCompleted,
    StreamFailed,
    StreamStarted,
    ToolFinished,
    ToolTraits,
    ToolUse,
)
from ..core.failures import ErrorKind, ModelFailure
from ..core.messages import Message, MessageKind, message
from ..core.usage import ModelUsage
from ..runtime.strict_json import parse_input
from .faults import failure_of
from .format import (
    Ending,
    HookSpec,
    HookWord,
    Item,
    OtherItem,
    Reply,
    Scenario,
    Settle,
    SummarySpec,
    SummaryWord,
    TextItem,
    ThinkingItem,
    ToolItem,
    ToolResultSpec,
    ToolSpec,
)

FILLER = "filler words of no meaning "
"""Plain words that make a text long."""

Traits = Callable[[str, str | None], ToolTraits]


class ScenarioCrash(RuntimeError):
    """An exception that a scenario asks for."""


def filled(text: str, chars: int) -> str:
    """Lengthen ``text`` to ``chars`` characters with plain words."""
    missing = chars - len(text)
    if missing <= 0:
        return text
    return text + "\n" + (FILLER * (missing // len(FILLER) + 1))[: missing - 1]


def prompt_message(scenario: Scenario, run_id: str) -> Message:
    """Make the message of the prompt."""
    blocks = tuple(read_block(json.loads(text)) for text in scenario.prompt)
    return message(f"{run_id}/prompt", "user", MessageKind.PROMPT, blocks)


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
    """The stream pauses: until what runs beside it has settled, or, with ``forever``, without end."""

    forever: bool = False


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
            parts.append(Pause())
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
        return Pause(forever=True)
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


def no_answer(what: str, count: int) -> ModelFailure:
    """Say that the scenario has run out of answers."""
    return ModelFailure(kind=ErrorKind.ENGINE_ERROR, message=f"the scenario has {count} {what}, and one more was asked for")


def result_spec(spec: ToolSpec, number: int) -> ToolResultSpec:
    """Give the result of the ``number``-th call (from 0) of a tool; the last one repeats."""
    return spec.results[min(number, len(spec.results) - 1)]


def tool_finished(effect_id: str, tool_use_id: str, spec: ToolSpec | None, number: int) -> ToolFinished:
    """Give the end of one call."""
    if spec is None or spec.denied:
        text = "no such tool" if spec is None else "denied by the scenario"
        outcome, stop = Outcome.ERROR, spec.stop if spec is not None else None
    else:
        result = result_spec(spec, number)
        text, outcome, stop = filled(result.text, result.chars), result.outcome, spec.stop
    block = tool_result(tool_use_id, text, is_error=outcome is not Outcome.OK)
    return ToolFinished(id=effect_id, outcome=outcome, result=block, digest=sha256(text.encode()).hexdigest(), stop=stop)


def hooks_finished(effect_id: str, hook: HookSpec | None) -> StopHooksFinished:
    """Give the answer of the stop hooks; None stands for a list that is used up: they pass."""
    if hook is None or hook.word in (HookWord.PASS, HookWord.HANG):
        return StopHooksFinished(id=effect_id)
    if hook.word is HookWord.BLOCK:
        return StopHooksFinished(id=effect_id, blocking=(hook.text,))
    if hook.word is HookWord.PREVENT:
        return StopHooksFinished(id=effect_id, prevented=hook.text, prevented_cause=hook.cause)
    return StopHooksFinished(id=effect_id, warnings=("stop hook crashed",))


def attachment_messages(text: str, effect_id: str) -> tuple[Message, ...]:
    """Make the message of an attachment, none for an empty text."""
    if not text:
        return ()
    return (message(f"{effect_id}/message", "user", MessageKind.ATTACHMENT, (text_block(text),)),)


def attachments_gathered(effect_id: str, texts: tuple[str, ...], number: int) -> AttachmentsGathered:
    """Give the attachments of the ``number``-th round (from 0)."""
    text = texts[number] if number < len(texts) else ""
    return AttachmentsGathered(id=effect_id, messages=attachment_messages(text, effect_id))


def summary_blocks(spec: SummarySpec) -> tuple[Block, ...]:
    """Give the blocks of the summariser's reply."""
    if spec.word in (SummaryWord.EMPTY, SummaryWord.REFUSED):
        return ()
    return (text_block(filled(spec.text, spec.chars)),)


def summary_stop(spec: SummarySpec) -> str:
    """Give the stop reason of the summariser's reply."""
    return {SummaryWord.CUT: "max_tokens", SummaryWord.REFUSED: "refusal"}.get(spec.word, "end_turn")


def compaction_answer(
    effect_id: str, messages: int, specs: tuple[SummarySpec, ...], number: int
) -> CompactionFinished | CompactionFailed:
    """Give the answer to the ``number``-th compaction (from 0)."""
    if number >= len(specs):
        return CompactionFailed(id=effect_id, failure=no_answer("compactor replies", len(specs)))
    spec = specs[number]
    if spec.failure is not None:
        return CompactionFailed(id=effect_id, failure=failure_of(spec.failure))
    return CompactionFinished(id=effect_id, summary=summary_blocks(spec), stop_reason=summary_stop(spec), summarised=messages)


def collapse_answer(effect_id: str, specs: tuple[SummarySpec, ...], number: int) -> CollapseStaged | CollapseFailed:
    """Give the answer to the ``number``-th collapse (from 0)."""
    if number >= len(specs):
        return CollapseFailed(id=effect_id, failure=no_answer("collapse replies", len(specs)))
    spec = specs[number]
    if spec.failure is not None:
        return CollapseFailed(id=effect_id, failure=failure_of(spec.failure))
    if spec.word is not SummaryWord.SUMMARY:
        return CollapseFailed(id=effect_id, failure=ModelFailure(kind=ErrorKind.ENGINE_ERROR, message=f"summary {spec.word}"))
    return CollapseStaged(id=effect_id, summary=text_block(filled(spec.text, spec.chars)))


def input_digest(input_json: str) -> str:
    """Give the digest of the input that runs."""
    return sha256(input_json.encode()).hexdigest()
