"""What stories are made of: configurations, bounds, prompts, and events that follow each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import evolve

from fsm_agent.core.blocks import read_block, text_block
from fsm_agent.core.config import ContextConfig, EarlyStart, LoopConfig
from fsm_agent.core.events import BlockCompleted, Event
from fsm_agent.core.failures import ErrorKind, ModelFailure
from fsm_agent.core.messages import MessageKind, message
from fsm_agent.core.state import LoopState
from fsm_agent.core.usage import ModelUsage
from fsm_agent.explorer.bounds import ALL_STOPS, Bounds, Piece

from .cases import MODELS

CALM = Bounds(blocks=2, tools=2, kinds=("write", "safe"), pieces=(Piece.TEXT,), stops=("end_turn", "tool_use"))
EARLY = LoopConfig(
    model="m",
    models=MODELS,
    fallback_models=("n",),
    early_start=EarlyStart.ANY,
    overload_fallback_after=1,
    max_attempts=7,
    prompt_caching=False,
)
BROKEN_OFF = ("0.write.whole", "1.started", "0.overloaded", "0.ok", "0.fired")
BEHIND = ("0.safe.whole", "0.safe.whole", "2.started", "0.overloaded")
ROOM = ContextConfig(keep_rounds=1)
FULL = ContextConfig(keep_rounds=1, reactive_compact=False)
Told = str | tuple[str, dict[str, Any]] | Callable[[LoopState], Event]
"""The name of an event, with what is changed in it; or a function that makes an event which nobody offers."""


def said(state: LoopState) -> Event:
    """Give one more block of text, behind whatever is there."""
    return BlockCompleted(state.control.call.id, len(state.data.iteration.blocks), text_block("more"))


def picture(size: int) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD" * size}}


PROMPT = (text_block("look"), read_block(picture(900)), read_block(picture(2)))
PICTURED = ("user.start.plain", {"messages": (message("prompt", "user", MessageKind.PROMPT, PROMPT),)})


def named(kind: str, path: str) -> Told:
    return f"0.{kind}", {"failure": ModelFailure(kind=ErrorKind(kind), message=kind, media_path=path)}


WAITS: Told = ("0.overloaded", {"failure": ModelFailure(kind=ErrorKind.OVERLOADED, retry_after_ms=1)})
MEDIA: tuple[tuple[ContextConfig, int, tuple[Told, ...]], ...] = (
    (ROOM, 1, (named("media_too_large", "messages.2.content.1"), "0.small")),
    (ROOM, 1, (named("media_too_large", "messages.2.content.2"), "0.small")),
    (ROOM, 1, ("0.media_too_large", "0.small")),
    (ROOM, 1, ("0.prompt_too_long", "0.small")),
    (ROOM, 1, (named("media_too_large", "messages.2.content.1"), "0.failed")),
    (ROOM, 0, ("0.media_too_large", "0.media")),
    (ROOM, 0, (named("media_too_large", "messages.0.content.1"), "0.media")),
    (FULL, 1, (named("media_too_large", "messages.2.content.1"),)),
    (FULL, 1, (named("media_unreadable", "messages.2.content.1"),)),
)
"""What becomes of a prompt with a large and a small picture: layers, rounds before it, events."""


def crowded(rounds: int) -> Bounds:
    return evolve(CALM, old_rounds=rounds, compactions=("small", "failed", "media"))


ROUND = ("0.safe.whole", "1.started", "0.tool_use.20000", "0.ok")
ROUNDS = ("1.safe.whole", "2.started", "1.tool_use.20000", "1.ok") * 2
BESIDE = ("1.safe.whole", "2.started", "1.tool_use.85000", "1.ok")
EVERYTHING = {
    "early_start": EarlyStart.NEVER,
    **dict.fromkeys(("prefetch_memory", "prefetch_skills", "tool_summaries", "attachments", "stop_hooks"), True),
}


def round_at(place: int) -> tuple[Told, ...]:
    """Wait once, run a call to its end, and gather attachments; ``place`` is that of what is awaited among the flights."""
    steps = ("stalled", "fired", "safe.whole", "tool_use.20000", "started", "ok", "none")
    return tuple(f"{place}.{step}" for step in steps)


FAILING = ("6.failed", "6.prompt_too_long", "6.lost")
TWICE = evolve(CALM, same_inputs=True, stops=ALL_STOPS)
NUDGED = ("0.text", "0.end_turn.few", "0.pass")
WINDOW = "0.model_context_window_exceeded.20000"
CUT = evolve(EARLY, max_output_tokens=4_096, context=ROOM)
PAID = {"usage": (ModelUsage("m", 0, 1, 0, 0, 1_000_000),)}
LAYERED = ContextConfig(effective_window=160_000, auto_compact_at=105_000, blocking_limit=135_000, keep_rounds=1, collapse=True)

LOW = evolve(LAYERED, stage_percent=10, commit_percent=15, breaker_failures=1)
OFF = evolve(LAYERED, auto_compact_at=20_000, auto_compact=False)
THREE = evolve(CALM, old_rounds=3)


def spending(budget: int, *outputs: int) -> tuple[Told, ...]:
    """Start with a token budget, and end replies that used so many tokens each."""
    ends = [("0.end_turn.20000", {"usage": (ModelUsage("m", 0, output, 0, 0, 0),)}) for output in outputs]
    return ("user.start.plain", {"token_budget": budget}), *(event for end in ends for event in ("0.text", end))


def counted(*tokens: int) -> tuple[Told, ...]:
    """Start, and run a call in rounds whose replies report so many tokens; the compaction after the first one fails."""
    rounds = [("0.safe.whole", "1.started", ("0.tool_use.20000", {"context_tokens": count}), "0.ok") for count in tokens]
    return "user.start.plain", *rounds[0], "0.failed", *(event for events in rounds[1:] for event in events)


GROWN = evolve(LAYERED, collapse=False, breaker_failures=1)
FILLED = evolve(LAYERED, collapse=False, auto_compact=False, context_window=120_000)
ESCALATED = ("user.start.plain", "0.text", "0.max_tokens.20000")
