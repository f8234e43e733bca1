"""Answers of everything but the model: tools, hooks, providers, the summariser. Computed from a call's number."""

from __future__ import annotations

from hashlib import sha256

from ..core.blocks import Block, read_block, text_block, tool_result
from ..core.effects import Compact
from ..core.events import (
    AttachmentsGathered,
    CollapseFailed,
    CollapseStaged,
    CompactionFailed,
    CompactionFinished,
    Outcome,
    StopHooksFinished,
    ToolFinished,
)
from ..core.failures import ErrorKind, ModelFailure
from ..core.messages import Message, MessageKind, message
from ..runtime.reattach import File, attach, room_for_files
from .answers import SummarySpec, SummaryWord
from .faults import failure_of
from .format import HookSpec, HookWord, Scenario, ToolResultSpec, ToolSpec
from .pictures import image, measured, png

FILLER = "filler words of no meaning "
"""Plain words that make a text long."""


def filled(text: str, chars: int) -> str:
    """Lengthen ``text`` to ``chars`` characters with plain words."""
    missing = chars - len(text)
    if missing <= 0:
        return text
    return text + "\n" + (FILLER * (missing // len(FILLER) + 1))[: missing - 1]


def no_answer(what: str, count: int) -> ModelFailure:
    """Say that the scenario has run out of answers."""
    return ModelFailure(kind=ErrorKind.ENGINE_ERROR, message=f"the scenario has {count} {what}, and one more was asked for")


def result_spec(spec: ToolSpec, number: int) -> ToolResultSpec:
    """Give the result of the ``number``-th call (from 0) of a tool; the last one repeats."""
    return spec.results[min(number, len(spec.results) - 1)]


def tool_finished(effect_id: str, tool_use_id: str, spec: ToolSpec | None, number: int) -> ToolFinished:
    """Give the end of one call."""
    if spec is None or spec.denied:
        words = "no such tool" if spec is None else "denied by the scenario"
        result = ToolResultSpec(text=words, outcome=Outcome.ERROR)
    else:
        result = result_spec(spec, number)
    return ToolFinished(
        id=effect_id,
        outcome=result.outcome,
        result=result_block(tool_use_id, result),
        digest=sha256(filled(result.text, result.chars).encode()).hexdigest(),
        stop=spec.stop if spec is not None else None,
    )


def result_block(tool_use_id: str, result: ToolResultSpec) -> Block:
    """Make the block of a result."""
    text = filled(result.text, result.chars)
    failed = result.outcome is not Outcome.OK
    if result.image is None:
        return tool_result(tool_use_id, text, is_error=failed)
    parts = [{"type": "text", "text": text}, image(png(*result.image))]
    value = {"type": "tool_result", "tool_use_id": tool_use_id, "content": parts}
    return read_block({**value, "is_error": True} if failed else value, measured(parts))


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


def nothing_to_summarise(effect_id: str) -> CompactionFinished:
    """Answer a compaction that only drops media from what it keeps: no summary, and nobody is asked for one."""
    return CompactionFinished(id=effect_id, summary=())


def files_of(scenario: Scenario) -> tuple[File, ...]:
    """Give the files in use, the most recent first."""
    return tuple(File(path=path, text=text) for path, text in scenario.reread)


def compaction_answer(effect: Compact, scenario: Scenario, number: int) -> CompactionFinished | CompactionFailed:
    """Give the answer to the ``number``-th compaction (from 0), with the files for which it makes room."""
    specs = scenario.compactor
    if number >= len(specs):
        return CompactionFailed(id=effect.id, failure=no_answer("compactor replies", len(specs)))
    spec = specs[number]
    if spec.failure is not None:
        return CompactionFailed(id=effect.id, failure=failure_of(spec.failure))
    summary = summary_blocks(spec)
    size = sum(block.tokens for block in summary)
    room = room_for_files(effect.messages, effect.tail, size, scenario.config, effect.model)
    attachments, dropped = attach(effect.id, files_of(scenario), room)
    return CompactionFinished(
        id=effect.id,
        summary=summary,
        stop_reason=summary_stop(spec),
        attachments=attachments,
        dropped=dropped,
        summarised=len(effect.messages),
    )


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
