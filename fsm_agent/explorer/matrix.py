"""Configurations and bounds that together reach every row: the matrix of the continuous and of the release check.

One configuration with everything on would multiply what does not touch each other. Each case turns one part of the loop
wide open, and leaves the rest narrow; failures of every kind, every stop reason, aborts and crashes are in all of them.
"""

from __future__ import annotations

from attrs import evolve, frozen

from ..core.config import ContextConfig, EarlyStart, LoopConfig
from ..core.failures import ErrorKind
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
THINKER = ModelInfo(name="m", thinking=("adaptive",), thinking_default=True)
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

QUIET = evolve(SMALL, max_output_recoveries=0, max_pauses=0, max_malformed=0, max_output_tokens=4_096)
"""Without recoveries of replies, so that what a case is about is not multiplied by them."""
PLAIN_ERRORS = tuple(kind for kind in ErrorKind if kind is not ErrorKind.THINKING_INVALID)
"""All failures but the one with a recovery of its own."""
COLLAPSING = evolve(WINDOW, collapse=True)
OFF = evolve(WINDOW, auto_compact=False, reactive_compact=False)

BUSY = evolve(
    CALM,
    stops=("end_turn", "tool_use"),
    errors=(ErrorKind.OVERLOADED, ErrorKind.PROMPT_TOO_LONG),
    long_waits=False,
    outcomes=("ok",),
    compactions=("small", "failed"),
    crashes=False,
    strangers=False,
)
"""A world in which little goes wrong, for cases in which much is in flight at once."""

CI: tuple[Case, ...] = (
    Case(
        "tools",
        evolve(SMALL, max_model_calls=2),
        evolve(CALM, blocks=2, tools=2, kinds=KINDS, forms=(Form.WHOLE, Form.MALFORMED, Form.DUPLICATE)),
    ),
    Case(
        "early",
        evolve(QUIET, max_model_calls=1, early_start=EarlyStart.ANY, cancel_siblings_on="error"),
        evolve(CALM, blocks=2, tools=2, pieces=(), kinds=("read", "shell"), forms=(Form.WHOLE, Form.LAST, Form.MALFORMED)),
    ),
    Case(
        "replies",
        evolve(SMALL, max_attempts=2, fallback_models=("n",), fallback_on_refusal=True, max_model_calls=3),
        evolve(CALM, pieces=(Piece.TEXT, Piece.BLANK), forms=(Form.WHOLE, Form.MALFORMED)),
    ),
    Case(
        "pieces",
        evolve(QUIET, max_model_calls=1, max_turns=2, early_start=EarlyStart.CONCURRENCY_SAFE),
        evolve(CALM, blocks=3, tools=1, pieces=tuple(Piece), forms=(Form.WHOLE, Form.OLD), kinds=("safe",)),
    ),
    Case(
        "context",
        evolve(QUIET, max_turns=2, max_model_calls=2, context=evolve(WINDOW, breaker_failures=1), max_output_recoveries=1),
        evolve(CALM, old_rounds=2, usage=(110_000, 140_000), errors=PLAIN_ERRORS),
    ),
    Case(
        "collapse",
        evolve(QUIET, max_turns=2, max_model_calls=2, context=COLLAPSING),
        evolve(CALM, pieces=(), old_rounds=2, usage=(20_000, 80_000, 95_000), errors=PLAIN_ERRORS),
    ),
    Case(
        "limits",
        evolve(QUIET, max_turns=2, max_model_calls=2, context=OFF, prefetch_memory=True),
        evolve(
            CALM,
            usage=(20_000, 140_000),
            starts=(Start.PLAIN, Start.HUGE, Start.EMPTY, Start.ROOM, Start.AGENT),
            errors=PLAIN_ERRORS,
        ),
    ),
    Case(
        "manual",
        evolve(QUIET, max_turns=2, max_model_calls=1),
        evolve(CALM, pieces=(), requests=True, old_rounds=1, stops=("end_turn", "tool_use"), errors=PLAIN_ERRORS),
    ),
    Case(
        "ends",
        evolve(QUIET, max_model_calls=4, stop_hooks=True),
        evolve(CALM, tools=0, starts=(Start.PLAIN, Start.BUDGET), errors=PLAIN_ERRORS),
    ),
    Case(
        "money",
        evolve(QUIET, max_turns=2, max_model_calls=2, max_budget=1_000_000, stop_hooks=True, attachments=True),
        evolve(CALM, starts=(Start.PLAIN, Start.SPENT), commands=1, huge_commands=True, errors=PLAIN_ERRORS),
    ),
    Case(
        "beside",
        evolve(QUIET, max_turns=2, max_model_calls=2, prefetch_skills=True, tool_summaries=True),
        evolve(CALM, pieces=(), errors=PLAIN_ERRORS, stops=("end_turn", "tool_use")),
    ),
    Case(
        "salvage",
        evolve(QUIET, max_turns=2, max_model_calls=2, early_start=EarlyStart.ANY),
        evolve(CALM, pieces=(), kinds=("write",), stops=("end_turn", "tool_use")),
    ),
    Case(
        "thinking",
        evolve(QUIET, models=(THINKER, OTHER), max_turns=2, max_model_calls=2),
        evolve(
            CALM,
            blocks=2,
            pieces=(Piece.THINKING,),
            stops=("end_turn", "tool_use"),
            errors=(ErrorKind.OVERLOADED, ErrorKind.THINKING_INVALID),
            outcomes=("ok",),
            long_waits=False,
        ),
    ),
    Case(
        "crowd",
        evolve(
            QUIET,
            max_turns=2,
            max_model_calls=1,
            max_attempts=2,
            prefetch_skills=True,
            attachments=True,
            stop_hooks=True,
            context=COLLAPSING,
        ),
        evolve(BUSY, old_rounds=1, usage=(80_000, 110_000)),
    ),
    Case(
        "late",
        evolve(QUIET, max_turns=3, max_model_calls=1, tool_summaries=True, attachments=True, context=COLLAPSING),
        evolve(BUSY, pieces=(), stops=("tool_use",), errors=(), old_rounds=1, usage=(80_000,)),
    ),
    Case(
        "user",
        evolve(
            QUIET,
            max_turns=2,
            max_model_calls=1,
            max_attempts=2,
            tool_summaries=True,
            attachments=True,
            stop_hooks=True,
        ),
        evolve(BUSY, usage=(110_000,), commands=1, requests=True, switches=True),
    ),
    Case(
        "loops",
        evolve(QUIET, max_turns=4, max_model_calls=1, loop_rounds=1),
        evolve(
            CALM, pieces=(), same_inputs=True, outcomes=("ok", "error"), stops=("end_turn", "tool_use"), errors=PLAIN_ERRORS
        ),
    ),
)
"""A minute on two cores."""

RELEASE: tuple[Case, ...] = (
    Case(
        "tools-wide",
        evolve(SMALL, max_turns=2, max_model_calls=2),
        evolve(CALM, blocks=2, tools=2, kinds=KINDS, forms=tuple(Form), pieces=(Piece.TEXT, Piece.THINKING), commands=1),
    ),
    Case(
        "replies-wide",
        evolve(SMALL, max_turns=2, max_attempts=2, fallback_models=("n",), fallback_on_refusal=True, max_model_calls=5),
        evolve(CALM, pieces=(Piece.TEXT, Piece.BLANK, Piece.THINKING), forms=(Form.WHOLE, Form.MALFORMED)),
    ),
    Case(
        "context-wide",
        evolve(SMALL, max_turns=2, max_model_calls=4, context=COLLAPSING),
        evolve(CALM, old_rounds=2, usage=LEVELS, requests=True, errors=PLAIN_ERRORS),
    ),
)
"""Besides the cases of ``CI``: a quarter of an hour on two cores."""
