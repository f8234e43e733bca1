"""Configurations and bounds that together reach every row: the matrix of the continuous and of the release check.

One configuration with everything on would multiply what does not touch each other. Each case turns one part of the loop
wide open, and leaves the rest narrow; failures of every kind, every stop reason, aborts and crashes are in all of them.
"""

from __future__ import annotations

from attrs import evolve, frozen

from ..core.config import ContextConfig, EarlyStart, LoopConfig
from ..core.models import ModelInfo
from .bounds import KINDS, Bounds, Form, Piece, Start


@frozen
class Case:
    """One exploration of a matrix."""

    name: str
    config: LoopConfig
    bounds: Bounds


INFO = ModelInfo(name="m")
OTHER = ModelInfo(name="n")
WINDOW = ContextConfig(effective_window=160_000, auto_compact_at=105_000, blocking_limit=135_000, keep_rounds=1)
"""Thresholds far apart: staging at 73,500, committing at 89,250, the breaker reopens 16,000 higher."""
LEVELS = (20_000, 80_000, 95_000, 110_000, 140_000)
"""Token counts that a reply may report: below staging, staging, committing, compacting, blocked."""

SMALL = LoopConfig(
    model="m",
    models=(INFO, OTHER),
    context=WINDOW,
    prompt_caching=False,
    max_attempts=1,
    max_output_recoveries=1,
    max_pauses=1,
    max_malformed=1,
    max_resumes=1,
    max_turns=1,
    max_model_calls=8,
    stop_hook_row_cap=1,
    stop_hook_run_cap=1,
    overload_fallback_after=1,
)
"""Every counter at its smallest."""
CALM = Bounds(
    blocks=1,
    tools=1,
    pieces=(Piece.TEXT,),
    commands=0,
    requests=False,
    switches=False,
    outcomes=("ok", "error", "failed", "stop"),
)
"""A quiet world: failures, stop reasons, aborts, crashes and strangers, and little else."""

_CONTEXT = evolve(WINDOW, collapse=True)

CI: tuple[Case, ...] = (
    Case(
        "tools",
        evolve(SMALL, max_model_calls=2),
        evolve(CALM, blocks=2, tools=2, kinds=KINDS, forms=(Form.WHOLE, Form.MALFORMED, Form.DUPLICATE)),
    ),
    Case(
        "early",
        evolve(SMALL, max_model_calls=2, early_start=EarlyStart.ANY, cancel_siblings_on="error"),
        evolve(CALM, blocks=2, tools=2, kinds=("read", "write", "shell"), forms=(Form.WHOLE, Form.LAST)),
    ),
    Case(
        "replies",
        evolve(SMALL, max_turns=2, max_attempts=2, fallback_models=("n",), fallback_on_refusal=True, max_model_calls=6),
        evolve(CALM, pieces=(Piece.TEXT, Piece.BLANK, Piece.THINKING), forms=(Form.WHOLE, Form.MALFORMED)),
    ),
    Case(
        "context",
        evolve(SMALL, max_turns=2, max_model_calls=5),
        evolve(CALM, old_rounds=2, usage=LEVELS, requests=True),
    ),
    Case(
        "collapse",
        evolve(SMALL, max_model_calls=5, context=_CONTEXT),
        evolve(CALM, old_rounds=2, usage=(20_000, 80_000, 95_000)),
    ),
    Case(
        "ends",
        evolve(SMALL, max_turns=2, max_budget=1_000_000, max_model_calls=8, stop_hooks=True, attachments=True),
        evolve(CALM, starts=tuple(Start), commands=1, huge_commands=True),
    ),
    Case(
        "beside",
        evolve(SMALL, max_turns=2, max_model_calls=4, prefetch_memory=True, prefetch_skills=True, tool_summaries=True),
        evolve(CALM, commands=1, switches=True, requests=True),
    ),
    Case(
        "loops",
        evolve(SMALL, max_turns=6, max_model_calls=3, loop_rounds=1),
        evolve(CALM, same_inputs=True, outcomes=("ok", "error"), stops=("end_turn", "tool_use")),
    ),
)
RELEASE: tuple[Case, ...] = ()
