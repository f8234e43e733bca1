"""Random configurations and bounds: every limit is one of the first few numbers, so that walks stand at it soon."""

from __future__ import annotations

import random
from typing import Any

from attrs import evolve

from fsm_agent.core.config import ContextConfig, EarlyStart, LoopConfig, Microcompact
from fsm_agent.core.failures import ErrorKind
from fsm_agent.core.models import ModelInfo
from fsm_agent.explorer.bounds import ALL_STOPS, KINDS, Bounds, Form, Piece, Start
from fsm_agent.explorer.matrix import LEVELS, Case

MODELS = (
    ModelInfo(name="m", max_output=64_000, context_edits=True, thinking=("adaptive",)),
    ModelInfo(name="n", max_output=8_192),
    ModelInfo(name="p", thinking=("adaptive",), binds_thinking=True),
    ModelInfo(name="o", max_output=8_193, context_window=150_000, api_compaction=True),
)


def random_case(seed: int) -> Case:
    """Give a configuration and bounds of small random numbers."""
    pick = random.Random(seed)
    few = pick.choice
    context = ContextConfig(
        effective_window=160_000,
        auto_compact_at=105_000,
        blocking_limit=135_000,
        keep_rounds=few((1, 1, 2)),
        collapse=pick.random() < 0.35,
        auto_compact=pick.random() < 0.8,
        context_window=few((None, None, 120_000, 141_000)),
        min_freed_percent=few((20, 5, 1)),
        reactive_compact=pick.random() < 0.8,
        breaker_failures=few((1, 2, 3)),
        microcompact=few((Microcompact.AUTO, Microcompact.CACHED, Microcompact.LOCAL)),
    )
    config = LoopConfig(
        model=few(("m", "m", "m", "n", "o")),
        models=MODELS,
        context=context,
        prompt_caching=False,
        max_attempts=few((1, 2, 3, 7)),
        overload_fallback_after=few((1, 2, 3)),
        fallback_on_refusal=pick.random() < 0.6,
        max_output_tokens=few((8_192, 8_192, 4_096, 8_191)),
        escalated_max_output_tokens=few((64_000, 8_192, 8_193, 9_000)),
        max_output_recoveries=few((0, 1, 2)),
        max_pauses=few((0, 1, 2)),
        max_malformed=few((0, 1, 2)),
        max_resumes=few((0, 1, 2, 10)),
        max_turns=few((None, 1, 2, 3)),
        max_budget=few((None, None, None, 1_000_000, 987_654_321)),
        max_model_calls=few((1, 2, 3, 5, 200, 200, 200)),
        stop_hooks=pick.random() < 0.7,
        stop_hook_row_cap=few((1, 2, 3)),
        stop_hook_run_cap=few((1, 2, 4)),
        attachments=pick.random() < 0.4,
        prefetch_memory=pick.random() < 0.3,
        prefetch_skills=pick.random() < 0.3,
        tool_summaries=pick.random() < 0.4,
        early_start=few(tuple(EarlyStart)),
        tool_concurrency=few((1, 2, 10)),
        cancel_siblings_on=few(("failed", "error")),
        loop_rounds=few((1, 2, 5)),
        backoff_ms=few((1_000, 500)),
        backoff_cap_ms=few((32_000, 4_000)),
    )
    others = tuple(name for name in ("n", "o", "m") if name != config.model)
    config = evolve(config, fallback_models=others[: few((0, 0, 1, 2))])
    tools = few((0, 1, 2, 2, 3, 4))
    bounds = Bounds(
        blocks=few((1, 2, 3, 4, 5)) if tools else few((1, 2)),
        tools=tools,
        pieces=tuple(piece for piece in Piece if pick.random() < 0.6) or (Piece.TEXT,),
        kinds=tuple(kind for kind in KINDS if pick.random() < 0.6) or ("read", "write"),
        forms=tuple(form for form in Form if form is Form.WHOLE or pick.random() < 0.4),
        stops=few((ALL_STOPS, ("end_turn", "tool_use"), ("max_tokens", "model_context_window_exceeded"), ("pause_turn",))),
        usage=few((LEVELS, (20_000,), (80_000, 95_000), (110_000, 140_000))),
        compactions=("small", "little", "refused", "failed", "media"),
        starts=few(((Start.PLAIN,), (Start.BUDGET,), tuple(Start))),
        old_rounds=few((0, 1, 2, 3)),
        commands=few((0, 2)),
        huge_commands=pick.random() < 0.2,
        same_inputs=pick.random() < 0.4,
    )
    flavour = FLAVOURS[seed % len(FLAVOURS)]
    settings, world, layers = _flavoured(flavour, pick)
    config = evolve(config, **settings, context=evolve(config.context, **layers))
    return Case(f"{flavour}-{seed}", config, evolve(bounds, **world))


FLAVOURS = ("beside", "tools", "salvage", "hooks", "loops", "context", "replies", "any")
"""What a world is mostly about; the rest of it stays random."""
_DONE = ("end_turn", "tool_use")
_LONG: dict[str, Any] = {"max_turns": None, "max_model_calls": 200, "max_budget": None}


def _flavoured(flavour: str, pick: random.Random) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Give what a flavour fixes of the configuration, of the bounds, and of the layers."""
    few = pick.choice
    passing = (ErrorKind.OVERLOADED, ErrorKind.STALLED, ErrorKind.RATE_LIMITED)
    world: dict[str, Any]
    match flavour:
        case "beside":
            everything = dict.fromkeys(("prefetch_skills", "tool_summaries", "attachments", "stop_hooks"), True)
            world = {"usage": (80_000, 95_000), "old_rounds": 2, "stops": _DONE, "outcomes": ("ok",), "tools": 2}
            world |= {"starts": (Start.PLAIN,), "errors": (ErrorKind.OVERLOADED, ErrorKind.PROMPT_TOO_LONG)}
            return {**_LONG, **everything, "max_attempts": 3}, world, {"collapse": True, "reactive_compact": True}
        case "tools":
            world = {"blocks": 6, "tools": 5, "pieces": few(((), (Piece.TEXT, Piece.THINKING))), "stops": _DONE, "errors": ()}
            world |= {"kinds": few((KINDS, ("read", "safe"), ("shell", "safe"), ("write", "read"))), "starts": (Start.PLAIN,)}
            return {**_LONG, "early_start": few(tuple(EarlyStart)), "loop_rounds": 5}, world, {}
        case "salvage":
            world = {
                "blocks": 4,
                "tools": 3,
                "kinds": few((("write", "shell", "safe"), ("safe",))),
                "errors": (*passing, ErrorKind.AUTH),
            }
            world |= {"stops": ("tool_use", "refusal"), "starts": (Start.PLAIN,), "pieces": (Piece.TEXT, Piece.THINKING)}
            return {**_LONG, "early_start": EarlyStart.ANY, "max_attempts": few((1, 2, 3))}, world, {}
        case "hooks":
            world = {"tools": 0, "blocks": 1, "pieces": (Piece.TEXT,), "stops": ("end_turn",), "errors": ()}
            world |= {"starts": few(((Start.BUDGET,), (Start.BUDGET, Start.AGENT), (Start.PLAIN,))), "long_waits": False}
            return {**_LONG, "stop_hooks": pick.random() < 0.6}, world, {}
        case "loops":
            world = {"tools": 1, "blocks": 1, "kinds": ("read", "safe", "unknown"), "pieces": (), "stops": ("tool_use",)}
            world |= {"same_inputs": True, "outcomes": ("ok",), "starts": (Start.PLAIN,), "commands": 0, "errors": ()}
            world |= {"forms": (Form.WHOLE,), "requests": False, "switches": False, "crashes": False}
            return {**_LONG, "loop_rounds": few((1, 2, 3))}, world, {}
        case "context":
            world = {"old_rounds": few((2, 3)), "usage": few((LEVELS, (110_000, 140_000))), "starts": (Start.PLAIN,)}
            world |= {"stops": few((_DONE, ALL_STOPS)), "huge_commands": False}
            return {"max_turns": None, "max_model_calls": 200}, world, {"reactive_compact": True}
        case "replies":
            world = {"errors": few((passing, tuple(ErrorKind))), "starts": (Start.PLAIN, Start.BUDGET), "tools": few((0, 1))}
            return {**_LONG, "max_attempts": few((2, 3, 7))}, world, {}
        case _:
            return {}, {}, {}
