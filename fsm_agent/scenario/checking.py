"""Compare how a scenario was played with what it expects; the same for every way of playing it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import frozen

from ..core.outputs import (
    AssistantOutput,
    BlockOutput,
    Boundary,
    CallEnd,
    ErrorOutput,
    InitOutput,
    Notice,
    Output,
    RawStreamEvent,
    RejectedOutput,
    RequestStart,
    ResultOutput,
    Retrying,
    Terminal,
    TerminalOutput,
    TextDelta,
    ThinkingDelta,
    Tombstone,
    ToolProgress,
    ToolResult,
    ToolUseSummary,
    UserOutput,
)
from ..core.phases import CompactKind, ContinueReason
from ..core.rows import TABLE
from .format import Expect

OUTPUT_NAMES: dict[type, str] = {
    InitOutput: "init",
    RequestStart: "request_start",
    TextDelta: "text_delta",
    ThinkingDelta: "thinking_delta",
    RawStreamEvent: "stream_event",
    BlockOutput: "block",
    AssistantOutput: "assistant",
    UserOutput: "user",
    ToolProgress: "tool_progress",
    ToolResult: "tool_result",
    ToolUseSummary: "tool_use_summary",
    Boundary: "boundary",
    Retrying: "retrying",
    Notice: "notice",
    Tombstone: "tombstone",
    CallEnd: "call_end",
    ErrorOutput: "error",
    RejectedOutput: "rejected",
    TerminalOutput: "terminal",
    ResultOutput: "result",
}


@frozen
class Played:
    """How a run went.

    Attributes:
        terminal: how it ended, None if it did not.
        taken: names of the rows taken, in order.
        outputs: what the consumer saw, in order.
        compactions: kinds of compaction asked for, in order; None where this is not known.
    """

    terminal: Terminal | None
    taken: tuple[str, ...]
    outputs: tuple[Output, ...]
    compactions: tuple[CompactKind, ...] | None = None


def continues_of(taken: Iterable[str]) -> tuple[ContinueReason, ...]:
    """Give the continue reasons of the rows taken, in order."""
    reasons = {row.name: row.reason for row in TABLE.rows if isinstance(row.reason, ContinueReason)}
    return tuple(reasons[name] for name in taken if name in reasons)


def models_of(outputs: Iterable[Output]) -> tuple[str, ...]:
    """Give the models called, repeats left out."""
    models: list[str] = []
    for output in outputs:
        if isinstance(output, RequestStart) and output.model not in models[-1:]:
            models.append(output.model)
    return tuple(models)


def _missing(wanted: Sequence[str], seen: Iterable[str]) -> str | None:
    rest = iter(seen)
    return next((word for word in wanted if all(word != other for other in rest)), None)


def differences(expect: Expect, played: Played) -> tuple[str, ...]:
    """Say in words where a run went otherwise than expected; nothing if it went as it should."""
    terminal = played.terminal
    if terminal is None:
        return (f"the run did not end; it took {' '.join(played.taken[-8:])}",)
    found: list[str] = []

    def compare(what: str, wanted: object, got: object) -> None:
        if wanted is not None and wanted != got:
            found.append(f"{what}: expected {wanted}, got {got}")

    detail = f" ({terminal.detail or (terminal.error.message if terminal.error else '')})"
    if (terminal.reason, terminal.cause) != (expect.reason, expect.cause):
        found.append(f"ending: expected {expect.reason}/{expect.cause}, got {terminal.reason}/{terminal.cause}{detail}")
    continues = None if expect.continues is None else [str(reason) for reason in expect.continues]
    compare("continues", continues, [str(reason) for reason in continues_of(played.taken)])
    compare("models", expect.models, models_of(played.outputs))
    if played.compactions is not None:
        compare("compactions", expect.compactions, played.compactions)
    row = _missing(expect.rows, played.taken)
    if row is not None:
        found.append(f"rows: {row} was not taken in its place; taken: {' '.join(played.taken)}")
    names = [OUTPUT_NAMES[type(output)] for output in played.outputs]
    output = _missing(expect.outputs, names)
    if output is not None:
        found.append(f"outputs: {output} did not appear in its place; seen: {' '.join(names)}")
    found.extend(f"outputs: {word} appeared" for word in expect.absent if word in names)
    return tuple(found)
