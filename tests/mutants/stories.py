"""Stories: ways through the machine that chance does not find, told by the names of their events."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from fsm_agent.core.blocks import read_block, text_block, tool_use
from fsm_agent.core.config import ContextConfig, EarlyStart, LoopConfig
from fsm_agent.core.failures import ErrorKind, ModelFailure
from fsm_agent.core.messages import MessageKind, message
from fsm_agent.core.usage import ModelUsage
from fsm_agent.explorer.bounds import ALL_STOPS, Bounds, Form, Piece, Start
from fsm_agent.explorer.matrix import Case

from .cases import MODELS

_CALM = Bounds(blocks=2, tools=2, kinds=("write", "safe"), pieces=(Piece.TEXT,), stops=("end_turn", "tool_use"))
_EARLY = LoopConfig(
    model="m",
    models=MODELS,
    fallback_models=("n",),
    early_start=EarlyStart.ANY,
    overload_fallback_after=1,
    max_attempts=7,
    prompt_caching=False,
)
_BROKEN_OFF = ("0.write.whole", "1.started", "0.overloaded", "0.ok", "0.fired")
_BEHIND = ("0.safe.whole", "0.safe.whole", "2.started", "0.overloaded")
_ROOM = ContextConfig(keep_rounds=1)
_FULL = ContextConfig(keep_rounds=1, reactive_compact=False)
Told = str | tuple[str, dict[str, Any]]
"""The name of an event, with what is changed in it."""


def _picture(size: int) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD" * size}}


_PROMPT = (text_block("look"), read_block(_picture(900)), read_block(_picture(2)))
_PICTURED = ("user.start.plain", {"messages": (message("prompt", "user", MessageKind.PROMPT, _PROMPT),)})


def _named(kind: str, path: str) -> Told:
    return f"0.{kind}", {"failure": ModelFailure(kind=ErrorKind(kind), message=kind, media_path=path)}


_WAITS: Told = ("0.overloaded", {"failure": ModelFailure(kind=ErrorKind.OVERLOADED, retry_after_ms=1)})
_SERVED = evolve(_CALM, pieces=(Piece.SERVER,), kinds=("read",), same_inputs=True)
_MEDIA: tuple[tuple[ContextConfig, int, tuple[Told, ...]], ...] = (
    (_ROOM, 1, (_named("media_too_large", "messages.2.content.1"), "0.small")),
    (_ROOM, 1, (_named("media_too_large", "messages.2.content.2"), "0.small")),
    (_ROOM, 1, ("0.media_too_large", "0.small")),
    (_ROOM, 1, ("0.prompt_too_long", "0.small")),
    (_ROOM, 1, (_named("media_too_large", "messages.2.content.1"), "0.failed")),
    (_ROOM, 0, ("0.media_too_large", "0.media")),
    (_ROOM, 0, (_named("media_too_large", "messages.0.content.1"), "0.media")),
    (_FULL, 1, (_named("media_too_large", "messages.2.content.1"),)),
    (_FULL, 1, (_named("media_unreadable", "messages.2.content.1"),)),
)
"""What becomes of a prompt with a large and a small picture: layers, rounds before it, events."""


def _crowded(rounds: int) -> Bounds:
    return evolve(_CALM, old_rounds=rounds, compactions=("small", "failed", "media"))


_ROUND = ("0.safe.whole", "1.started", "0.tool_use.20000", "0.ok")
_ROUNDS = ("1.safe.whole", "2.started", "1.tool_use.20000", "1.ok") * 2
_TWICE = evolve(_CALM, same_inputs=True, stops=ALL_STOPS)
_NUDGED = ("0.text", "0.end_turn.few", "0.pass")
_WINDOW = "0.model_context_window_exceeded.20000"
_CUT = evolve(_EARLY, max_output_tokens=4_096, context=_ROOM)
_PAID = {"usage": (ModelUsage("m", 0, 1, 0, 0, 1_000_000),)}
_LAYERED = ContextConfig(
    effective_window=160_000, auto_compact_at=105_000, blocking_limit=135_000, keep_rounds=1, collapse=True
)

TWO_HOLD: tuple[tuple[Case, tuple[Told, ...]], ...] = (
    (
        Case("forced-and-spent", evolve(_CUT, max_budget=1_000_000), evolve(_crowded(1), stops=ALL_STOPS)),
        ("user.start.plain", "0.text", (_WINDOW, _PAID)),
    ),
    (
        Case("forced-and-asked", _CUT, evolve(_crowded(1), stops=ALL_STOPS)),
        ("user.start.plain", "user.compact", "0.text", _WINDOW, "0.small", "0.small"),
    ),
    (
        Case("broke-off-in-the-last-round", evolve(_EARLY, max_turns=1), _CALM),
        ("user.start.plain", "0.write.whole", "1.started", "0.auth", "0.ok"),
    ),
    (
        Case("stopped-in-a-loop", evolve(_EARLY, loop_rounds=1), _TWICE),
        ("user.start.plain", *_ROUND, *_ROUND, *_ROUND[:3], ("0.stop", {"digest": "ok"})),
    ),
    (
        Case("broke-off-in-a-loop", evolve(_EARLY, loop_rounds=1), _TWICE),
        ("user.start.plain", *_ROUND, *_ROUND, *_ROUND[:2], "0.auth", "0.ok"),
    ),
    (
        Case("nothing-said-and-spent", evolve(_EARLY, max_budget=1), _CALM),
        (("user.start.plain", {"messages": (), "spent": 10}),),
    ),
    (
        Case("last-call-broke-off", evolve(_EARLY, fallback_models=(), max_model_calls=1), _CALM),
        ("user.start.plain", "0.write.whole", "1.started", "0.overloaded", "0.ok"),
    ),
    (
        Case("staged-and-begun", evolve(_EARLY, context=_LAYERED), evolve(_CALM, old_rounds=3)),
        ("user.start.plain", "0.staged", "0.staged", "0.write.whole", "1.started", "0.prompt_too_long"),
    ),
    (
        Case(
            "blocked-with-little-left",
            evolve(_EARLY, stop_hooks=True, stop_hook_row_cap=1),
            evolve(_CALM, starts=(Start.BUDGET,)),
        ),
        ("user.start.budget", *_NUDGED[:2], "0.block", *_NUDGED * 3, *_NUDGED[:2], "0.block"),
    ),
    (
        Case(
            "cut-and-malformed",
            evolve(_CUT, max_output_recoveries=0),
            evolve(_CALM, blocks=3, forms=(Form.WHOLE, Form.MALFORMED), stops=ALL_STOPS),
        ),
        ("user.start.plain", "0.text", "0.write.malformed", _WINDOW),
    ),
)
"""Ways to states at which two neighbours of a first-match list hold."""

STORIES: tuple[tuple[Case, tuple[Told, ...]], ...] = (
    # Overloads go on while no other model is left; then the user switches, and one is.
    (
        Case("switched", _EARLY, _CALM),
        (
            "user.switch.1",
            "user.start.plain",
            *_BROKEN_OFF,
            "0.write.whole",
            "1.started",
            "0.overloaded",
            "user.switch.0",
            "0.ok",
            "0.fired",
            "0.overloaded",
        ),
    ),
    # One salvage is allowed: the second failed reply ends the run.
    (
        Case("salvaged-twice", evolve(_EARLY, fallback_models=(), max_attempts=1), _CALM),
        ("user.start.plain", *_BROKEN_OFF, "0.write.whole", "1.started", "0.overloaded", "0.ok"),
    ),
    # The second of two calls has begun when the reply breaks off, the first has not.
    # What was answered behind the last started call goes with it, each with its own tombstone.
    (
        Case("refused-behind", _EARLY, evolve(_CALM, blocks=3, tools=3, kinds=("shell", "safe"))),
        ("user.start.plain", "0.shell.whole", "1.started", "1.failed", "0.safe.whole", "0.safe.whole", "0.overloaded"),
    ),
    # A cut reply goes on after a call that is not whole.
    (
        Case(
            "cut",
            evolve(_EARLY, max_output_tokens=4_096),
            evolve(_CALM, blocks=3, forms=(Form.WHOLE, Form.MALFORMED), stops=ALL_STOPS),
        ),
        ("user.start.plain", "0.text", "0.write.malformed", "0.text", "0.max_tokens.20000"),
    ),
    *[
        (Case(f"media-{place}", evolve(_EARLY, context=layers), _crowded(rounds)), (_PICTURED, *names))
        for place, (layers, rounds, names) in enumerate(_MEDIA)
    ],
    # A model that compacts by itself is not asked to, where it refused media.
    (
        Case("media-api", evolve(_EARLY, model="o", context=_ROOM), _crowded(1)),
        (_PICTURED, _named("media_too_large", "messages.2.content.1"), "0.small"),
    ),
    (
        Case("media-bound", evolve(_EARLY, model="p", context=_ROOM), _crowded(0)),
        (_PICTURED, "0.media_too_large", "0.media"),
    ),
    # The server asks for the shortest wait there is.
    (
        Case("shortest", evolve(_EARLY, fallback_models=()), _CALM),
        ("user.start.plain", "0.write.whole", "1.started", _WAITS, "0.ok", "0.fired"),
    ),
    # Thinking that was never closed is no part of what a reply is continued from.
    (
        Case("unclosed", evolve(_EARLY, max_output_tokens=4_096), evolve(_CALM, pieces=tuple(Piece), stops=ALL_STOPS)),
        ("user.start.plain", "0.text", ("0.thinking", {"closed": False}), "0.max_tokens.20000"),
    ),
    # While a server call waits, nothing but results goes in: the command and the warning come a round later.
    (
        Case(
            "late-warning",
            evolve(_EARLY, loop_rounds=1),
            evolve(_CALM, pieces=(Piece.SERVER,), kinds=("read",), same_inputs=True),
        ),
        (
            "user.start.plain",
            "0.server",
            "0.read.whole",
            "user.command",
            "0.tool_use.waits",
            "0.ok",
            "0.read.whole",
            "0.tool_use.20000",
            "0.ok",
        ),
    ),
    # A round of tools gives the reactive compaction back.
    (
        Case("given-back", evolve(_EARLY, context=_ROOM), _crowded(1)),
        (_PICTURED, "0.media_too_large", "0.small", "0.write.whole", "0.tool_use.20000", "0.started", "0.ok"),
    ),
    # A crash lost a call of the reply before the prompt was found too long.
    (
        Case("lost-before", evolve(_EARLY, context=_ROOM), _crowded(1)),
        ("user.start.plain", "0.safe.whole", "1.lost", "0.prompt_too_long", "0.lost", "0.small"),
    ),
    (Case("behind", _EARLY, _CALM), ("user.start.plain", *_BEHIND)),
    # Two rows of a list hold at once: the first of them is due.
    *TWO_HOLD,
    # The block names another id than the call that was read from it.
    (Case("other-id", _EARLY, _CALM), ("user.start.plain", ("0.write.whole", {"block": tool_use("other", "write", "{}")}))),
    # The summary of a round comes while a compaction tries to mend the next call.
    (
        Case("summed-up-late", evolve(_EARLY, context=_ROOM, tool_summaries=True), _crowded(1)),
        ("user.start.plain", *_ROUND, "1.prompt_too_long", "0.text"),
    ),
    # Many ids: answers of effects that were issued long ago, or never.
    (Case("many-ids", evolve(_EARLY, prefetch_skills=True), _CALM), ("user.start.plain", *_ROUNDS)),
    (
        Case("behind-third", _EARLY, evolve(_CALM, blocks=3, tools=3)),
        ("user.start.plain", *_BEHIND[:2], "0.safe.whole", *_BEHIND[2:]),
    ),
)
"""Ways that chance does not find: (case, names of the events)."""
