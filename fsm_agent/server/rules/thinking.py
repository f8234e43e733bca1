"""Rules on thinking blocks: where they stand, who made them, and that nobody touched them (api-facts A8)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from .. import signatures
from .base import THINKING, Rule, Turn, Wire, at, rule


class Verdict(StrEnum):
    """What the signature of a thinking block says."""

    GOOD = "good"
    FORGED = "forged"
    """Missing, foreign, or over another text."""
    MODEL = "model"
    SYSTEM = "system"
    PREFIX = "prefix"


_REMEDY = 'Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
_SAYS = {
    Verdict.FORGED: "",
    Verdict.MODEL: " The block was created by another model.",
    Verdict.PREFIX: f" The block is bound to a different conversation. {_REMEDY} The messages before the block differ from "
    "those this block was created with.",
    Verdict.SYSTEM: f" The block is bound to a different conversation. {_REMEDY} The `system` prompt differs from the one "
    "this block was created with.",
}


def thinking_seal(block: Mapping[str, Any]) -> tuple[str, str]:
    """Give signature and sealed content of a thinking block; empty for any other block."""
    if block.get("type") not in THINKING:
        return "", ""
    if block.get("type") == "redacted_thinking":
        return str(block.get("data") or ""), "redacted"
    return str(block.get("signature") or ""), str(block.get("thinking") or "")


def _verdict(wire: Wire, block: Mapping[str, Any], chain: str, system: str, handed_over: bool) -> Verdict:
    signature, content = thinking_seal(block)
    bound = signatures.read(signature)
    if bound is None:
        known = signature and (wire.memory is None or (signature, content) in wire.memory.foreign)
        return Verdict.GOOD if known else Verdict.FORGED
    if not signatures.genuine(bound, content):
        return Verdict.FORGED
    if bound.model != wire.body.get("model") and not handed_over:
        return Verdict.MODEL
    if bound.chain and bound.chain != chain:
        return Verdict.PREFIX
    if bound.system and bound.system != system:
        return Verdict.SYSTEM
    return Verdict.GOOD


def verdicts(wire: Wire) -> Iterator[tuple[int, int, Verdict]]:
    """Judge the signature of each thinking block: message, place in it, verdict.

    On a mismatch of the conversation the rest of that turn's thinking goes too, as the API has it.
    """
    if not any(block.get("type") in THINKING for turn in wire.turns for _, _, block in turn.blocks):
        return
    system = signatures.system_digest(wire.body.get("system"))
    # A reply that the API handed over to another model holds a fallback block and thinking of that other model.
    handed_over = {
        number
        for number, message in enumerate(wire.messages)
        if any(isinstance(block, Mapping) and block.get("type") == "fallback" for block in signatures.content_of(message))
    }
    broken = -1
    for number, place, role, block, chain in signatures.walk(list(wire.messages)):
        if role != "assistant" or not isinstance(block, Mapping) or block.get("type") not in THINKING:
            continue
        found = _verdict(wire, block, chain, system, number in handed_over)
        if found is Verdict.GOOD and broken == number and wire.info.binds_thinking:
            found = Verdict.PREFIX
        if found is Verdict.PREFIX:
            broken = number
        yield number, place, found


def _drops(wire: Wire) -> bool:
    """Tell whether the request asks the API to drop thinking that no longer fits."""
    thinking = wire.body.get("thinking")
    binding = thinking.get("block_binding") if isinstance(thinking, Mapping) else None
    return isinstance(binding, Mapping) and binding.get("prefix_mismatch_behavior") == "drop_block"


def dropped(wire: Wire) -> tuple[dict[str, Any], ...]:
    """List the thinking that the API drops from the input because the request allows it: its ``input_transformations``."""
    if not _drops(wire):
        return ()
    return tuple(
        {
            "type": "thinking_dropped",
            "path": at(number, place),
            "reason": "model_binding_mismatch" if found is Verdict.MODEL else "prefix_binding_mismatch",
        }
        for number, place, found in verdicts(wire)
        if found in (Verdict.MODEL, Verdict.PREFIX, Verdict.SYSTEM)
    )


@rule("thinking_signature", "api-facts A8, A19.7, wire checker 5")
def thinking_signature(wire: Wire) -> Iterator[tuple[str, str]]:
    """Thinking comes back as it was, signed, to the model that made it, and on binding models behind the same history."""
    drops = _drops(wire)
    for number, place, found in verdicts(wire):
        if found is Verdict.GOOD or (drops and found is not Verdict.FORGED):
            continue
        block = signatures.content_of(wire.messages[number])[place]
        kind = block["type"]
        field = "signature" if kind == "thinking" else "data"
        if not thinking_seal(block)[0]:
            yield at(number, place, f"{kind}.{field}"), "Field required"
        else:
            yield at(number, place), f"Invalid `{field}` in `{kind}` block.{_SAYS[found]}"


@rule("thinking_last", "wire checker 5, spec 01 section 13")
def thinking_last(wire: Wire) -> Iterator[tuple[str, str]]:
    """An assistant's turn does not end with thinking."""
    for turn in wire.turns:
        if turn.role == "assistant" and turn.blocks and turn.blocks[-1][2].get("type") in THINKING:
            message, place, block = turn.blocks[-1]
            yield at(message, place), f"The final block in an assistant message cannot be `{block['type']}`."


@rule("thinking_off", "wire checker 5, spec 01 section 13")
def thinking_off(wire: Wire) -> Iterator[tuple[str, str]]:
    """There is no thinking in the history while thinking is off."""
    if wire.thinking_mode != "off" or wire.counting:
        return
    for turn in wire.turns:
        for message, place, block in turn.blocks:
            if block.get("type") in THINKING:
                yield at(message, place), "thinking blocks are not allowed when thinking is disabled"


@rule("thinking_first", "api-facts A8")
def thinking_first(wire: Wire) -> Iterator[tuple[str, str]]:
    """With manual thinking, the assistant's turn whose calls are answered last begins with thinking."""
    if wire.thinking_mode != "enabled" or len(wire.turns) < 2:
        return
    last, before = wire.turns[-1], wire.turns[-2]
    if not _answers(last) or before.role != "assistant" or not before.blocks:
        return
    message, place, block = before.blocks[0]
    if block.get("type") not in THINKING:
        yield (
            at(message, place, "type"),
            f"Expected `thinking` or `redacted_thinking`, but found `{block.get('type')}`. When `thinking` is enabled, a final "
            "`assistant` message must start with a thinking block.",
        )


def _answers(turn: Turn) -> bool:
    return turn.role == "user" and any(block.get("type") == "tool_result" for _, _, block in turn.blocks)


RULES: tuple[Rule, ...] = (thinking_signature, thinking_last, thinking_off, thinking_first)
