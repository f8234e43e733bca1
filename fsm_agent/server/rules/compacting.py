"""Rules on compaction blocks, and on requests that ask for a compaction (api-facts A9)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .. import signatures
from .base import Breach, Rule, Wire, at, rule


def _breach(name: str, path: str, message: str, code: str) -> Breach:
    return Breach(name, message, path, code=code)


@rule("compaction_blocks", "api-facts A9, A19.8")
def compaction_blocks(wire: Wire) -> Iterator[Breach]:
    """At most one compaction block has content; it is the first block of the conversation, and as it was made."""
    name = "compaction_blocks"
    full = [
        (message, place, block)
        for turn in wire.turns
        for message, place, block in turn.blocks
        if block.get("type") == "compaction" and block.get("content") is not None
    ]
    # Compaction by threshold leaves its block where the reply stood: what is before the last one is ignored.
    threshold = wire.beta("compact-2026-01-12")
    if len(full) > 1 and not threshold:
        yield _breach(
            name, at(full[1][0], full[1][1]), "only one compaction block may have content", "compaction_block_ambiguous"
        )
    for message, place, block in full:
        path = at(message, place)
        if not block.get("content"):
            yield Breach(name, "compaction content must be non-empty", f"{path}.content")
            continue
        if (message, place) != (0, 0) and not threshold:
            yield _breach(
                name, path, "the compaction block must be the first block of the conversation", "compaction_block_misplaced"
            )
        signature = str(block.get("signature") or "")
        bound = signatures.read(signature)
        if bound is None:
            if wire.memory is not None or not signature:
                yield _breach(name, path, "Invalid `signature` in `compaction` block", "compaction_signature_invalid")
        elif not signatures.genuine(bound, signatures.compaction_content(block)):
            yield _breach(name, path, "the content of the compaction block was changed", "compaction_content_mismatch")


@rule("compaction_request", "api-facts A9")
def compaction_request(wire: Wire) -> Iterator[Breach]:
    """A request for a compaction goes to a model that has it, alone, over whole turns, and has something to summarise."""
    name = "compaction_request"
    asked = wire.body.get("compaction")
    if asked is None:
        return
    if not isinstance(asked, Mapping) or asked.get("type") != "summarize":
        yield Breach(name, "Input should be 'summarize'", "compaction.type")
        return
    if not wire.info.api_compaction:
        yield Breach(name, "this model does not support compaction", "compaction")
    output = wire.body.get("output_config")
    choice = wire.body.get("tool_choice")
    clashes = {
        "context_management": "context_management" in wire.body,
        "stop_sequences": bool(wire.body.get("stop_sequences")),
        "output_config.format": isinstance(output, Mapping) and output.get("format") is not None,
        "tool_choice": isinstance(choice, Mapping) and choice.get("type") in ("any", "tool"),
    }
    for other, clash in clashes.items():
        if clash:
            yield Breach(name, f"`compaction` cannot be combined with `{other}`", "compaction")
    last = wire.turns[-1]
    if last.role == "assistant" and any(block.get("type") == "tool_use" for _, _, block in last.blocks):
        yield _breach(name, at(last.first), "the conversation ends in unanswered tool calls", "compaction_incomplete_turn")
    if all(block.get("type") == "compaction" for turn in wire.turns for _, _, block in turn.blocks):
        yield _breach(name, "messages", "there is nothing to summarize", "compaction_nothing_to_summarize")


RULES: tuple[Rule, ...] = (compaction_blocks, compaction_request)
