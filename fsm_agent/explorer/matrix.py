"""Configurations and bounds that together reach every row: the matrix of the continuous and of the release check.

One configuration with everything on would multiply what does not touch each other. Each case turns one part of the loop
wide open, and leaves the rest narrow. Aborts and stale answers are in all of them, failures and stop reasons of each class
in most; every kind of failure and every stop reason at every point are in ``replies`` and the release.
"""

from __future__ import annotations

from attrs import evolve, frozen

from ..core.config import ContextConfig, EarlyStart, LoopConfig, Microcompact, ToolSchema
from ..core.failures import ErrorKind
from ..core.models import ModelInfo
from .bounds import ALL_STOPS, KINDS, Bounds, Form, Piece, Start


@frozen
class Case:
    """One exploration of a matrix.

    Attributes:
        name: a word.
        config: the configuration.
        bounds: what the environment may do.
        text: what it turns wide open, one line.
        sample: one state or edge in so many is judged by costly laws.
        twins: one in so many states of a value that is known already is compared with the first; 0 for a quarter of
            ``sample``.
    """

    name: str
    config: LoopConfig
    bounds: Bounds
    text: str = ""
    sample: int = 128
    twins: int = 0


WIDE = 32
"""Costly laws and comparisons judge one in so many in the cases of a release."""
INFO = ModelInfo(name="m")
OTHER = ModelInfo(name="n")
EDITOR = ModelInfo(name="m", context_edits=True)
"""A model whose API clears old results itself."""
THINKER = ModelInfo(name="m", thinking=("adaptive",), thinking_default=True)
BINDERS = (
    ModelInfo(name="m", thinking=("adaptive",), thinking_default=True, binds_thinking=True),
    ModelInfo(name="n", thinking=("adaptive",), thinking_default=True, binds_thinking=True),
)
"""Models whose thinking is bound to model and history: a change of the model must take it out."""
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
COLLAPSING = evolve(WINDOW, collapse=True)
LAYERED = evolve(WINDOW, snip=True, microcompact=Microcompact.LOCAL, keep_results=0, microcompact_percent=1)
READ = ToolSchema("read", '{"name":"read"}', compactable=True)
CACHED = evolve(LAYERED, snip=False, microcompact=Microcompact.CACHED)
OFF = evolve(WINDOW, auto_compact=False, reactive_compact=False)

EACH_CLASS = (
    ErrorKind.OVERLOADED,
    ErrorKind.SERVER_ERROR,
    ErrorKind.PROMPT_TOO_LONG,
    ErrorKind.MEDIA_TOO_LARGE,
    ErrorKind.MEDIA_UNREADABLE,
    ErrorKind.INVALID_REQUEST,
    ErrorKind.AUTH,
    ErrorKind.MODEL_NOT_FOUND,
    ErrorKind.ENGINE_ERROR,
)
"""One failure of each class that the table tells apart; all kinds are in ``replies`` and the release."""
PLAIN_STOPS = ("end_turn", "tool_use", "max_tokens", None)
"""One stop reason of each class, where a case is not about replies."""
NARROW = evolve(CALM, errors=EACH_CLASS, stops=PLAIN_STOPS)
"""A quiet world with one failure and one stop reason of each class."""

BUSY = evolve(
    CALM,
    stops=("end_turn", "tool_use"),
    errors=(ErrorKind.OVERLOADED, ErrorKind.PROMPT_TOO_LONG),
    long_waits=False,
    outcomes=("ok",),
    compactions=("small", "failed"),
    crashes=False,
)
"""A world in which little goes wrong, for cases in which much is in flight at once."""

CROWD = evolve(
    QUIET,
    max_turns=2,
    max_model_calls=1,
    max_attempts=2,
    prefetch_skills=True,
    attachments=True,
    stop_hooks=True,
    context=COLLAPSING,
)
"""Much that runs beside the loop at once."""

CI: tuple[Case, ...] = (
    Case(
        "user",
        evolve(QUIET, max_turns=2, max_model_calls=1, max_attempts=2, tool_summaries=True),
        evolve(BUSY, pieces=(), usage=(110_000,), commands=1, requests=True, switches=True),
        "commands, compaction requests and model switches at every point; tool summaries",
    ),
    Case(
        "tools",
        evolve(SMALL, max_model_calls=2),
        evolve(NARROW, blocks=2, tools=2, kinds=KINDS[:4], forms=(Form.WHOLE, Form.MALFORMED, Form.DUPLICATE)),
        "two calls a reply, each read-only, safe, unsafe or shell, whole, malformed or twice under one id",
    ),
    Case(
        "limits",
        evolve(QUIET, max_turns=2, max_model_calls=1, context=OFF, prefetch_memory=True),
        evolve(
            NARROW,
            usage=(20_000, 140_000),
            starts=(Start.PLAIN, Start.HUGE, Start.EMPTY, Start.ROOM, Start.AGENT),
        ),
        "the hard limit with compaction off: huge and empty prompts, a run that makes room, a sub-agent",
    ),
    Case(
        "money",
        evolve(QUIET, max_turns=2, max_model_calls=1, max_budget=1_000_000, stop_hooks=True, attachments=True),
        evolve(NARROW, stops=("end_turn", "tool_use"), starts=(Start.PLAIN, Start.SPENT), commands=1, huge_commands=True),
        "money runs out in a call, a tool or before the run; commands, some of them huge",
    ),
    Case(
        "context",
        evolve(QUIET, max_turns=2, max_model_calls=2, context=evolve(WINDOW, breaker_failures=1), max_output_recoveries=1),
        evolve(
            NARROW,
            old_rounds=2,
            usage=(110_000, 140_000),
            errors=(ErrorKind.OVERLOADED, ErrorKind.PROMPT_TOO_LONG, ErrorKind.MEDIA_TOO_LARGE, ErrorKind.AUTH),
        ),
        "automatic and reactive compaction of a long history, and its breaker",
    ),
    Case(
        "replies",
        evolve(SMALL, max_attempts=2, fallback_models=("n",), fallback_on_refusal=True, max_model_calls=3),
        evolve(CALM, pieces=(Piece.TEXT, Piece.BLANK), forms=(Form.WHOLE, Form.MALFORMED)),
        "every stop reason and failure with retries, recoveries, pauses and a fallback model",
    ),
    Case(
        "loops",
        evolve(QUIET, max_turns=4, max_model_calls=1, loop_rounds=1),
        evolve(
            NARROW,
            pieces=(),
            same_inputs=True,
            outcomes=("ok", "error"),
            stops=("end_turn", "tool_use"),
            errors=(ErrorKind.OVERLOADED, ErrorKind.AUTH),
        ),
        "equal rounds that repeat: the warning, and the end",
    ),
    Case(
        "pieces",
        evolve(QUIET, max_model_calls=1, max_turns=2, early_start=EarlyStart.CONCURRENCY_SAFE),
        evolve(CALM, blocks=2, tools=1, pieces=tuple(Piece), forms=(Form.WHOLE, Form.OLD), kinds=("safe",), errors=EACH_CLASS),
        "text, blank text, thinking, server calls, a block that never closed; ids of earlier rounds",
    ),
    Case(
        "ends",
        evolve(QUIET, max_model_calls=4, stop_hooks=True),
        evolve(
            NARROW,
            tools=0,
            starts=(Start.PLAIN, Start.BUDGET),
            stops=("end_turn", "max_tokens"),
            errors=(ErrorKind.OVERLOADED, ErrorKind.PROMPT_TOO_LONG, ErrorKind.AUTH),
        ),
        "stop hooks and token budgets: what makes a finished run go on, and what ends it",
    ),
    Case(
        "beside",
        evolve(QUIET, max_turns=2, max_model_calls=1, prefetch_skills=True, tool_summaries=True),
        evolve(NARROW, pieces=(), stops=("end_turn", "tool_use")),
        "prefetches and tool summaries beside the loop",
    ),
    Case(
        "collapse",
        evolve(QUIET, max_turns=2, max_model_calls=2, context=COLLAPSING),
        evolve(
            NARROW,
            pieces=(),
            old_rounds=2,
            usage=(20_000, 80_000, 95_000),
            errors=(ErrorKind.OVERLOADED, ErrorKind.PROMPT_TOO_LONG, ErrorKind.AUTH),
        ),
        "collapses staged, committed and drained",
    ),
    Case(
        "crowd",
        CROWD,
        evolve(BUSY, old_rounds=1, usage=(80_000, 110_000)),
        "much in flight at once: skills, a collapse, attachments, hooks",
    ),
    Case(
        "session",
        evolve(QUIET, max_model_calls=1, stop_hooks=True),
        evolve(
            NARROW,
            old_rounds=1,
            runs=2,
            errors=(ErrorKind.AUTH, ErrorKind.PROMPT_TOO_LONG, ErrorKind.OVERLOADED),
            stops=("end_turn", "tool_use", None),
            outcomes=("ok", "failed", "stop"),
            usage=(20_000, 110_000),
        ),
        "two runs of one session: what each ending leaves behind for the next",
    ),
    Case(
        "early",
        evolve(QUIET, max_model_calls=1, early_start=EarlyStart.ANY, cancel_siblings_on="error"),
        evolve(NARROW, blocks=2, tools=2, pieces=(), kinds=("read", "shell"), forms=(Form.WHOLE, Form.LAST, Form.MALFORMED)),
        "tools that start while the model streams, and siblings that an error cancels",
    ),
    Case(
        "manual",
        evolve(QUIET, max_turns=2, max_model_calls=1),
        evolve(NARROW, pieces=(), requests=True, old_rounds=1, stops=("end_turn", "tool_use")),
        "compactions that the user asks for",
    ),
    Case(
        "waits",
        evolve(QUIET, max_turns=2, max_model_calls=1, attachments=True, stop_hooks=True),
        evolve(BUSY, errors=(), commands=1, requests=True, switches=True),
        "the user while hooks run and attachments are gathered",
    ),
    Case(
        "layers",
        evolve(QUIET, max_turns=3, max_model_calls=1, tools=(READ,), context=LAYERED),
        evolve(
            NARROW,
            pieces=(),
            old_rounds=2,
            result_tokens=6_000,
            usage=(20_000, 100_000, 110_000),
            errors=(ErrorKind.PROMPT_TOO_LONG, ErrorKind.AUTH),
            outcomes=("ok", "error"),
            stops=("end_turn", "tool_use"),
            crashes=False,
        ),
        "old rounds snipped and old results cleared",
    ),
    Case(
        "edits",
        evolve(QUIET, models=(EDITOR, OTHER), max_turns=3, max_model_calls=1, tools=(READ,), context=CACHED),
        evolve(
            NARROW,
            pieces=(),
            result_tokens=6_000,
            cleared=(6_000,),
            errors=(ErrorKind.PROMPT_TOO_LONG, ErrorKind.AUTH),
            outcomes=("ok", "error"),
            stops=("end_turn", "tool_use"),
            switches=True,
            crashes=False,
        ),
        "old results cleared by the API, or by us where a model cannot",
    ),
    Case(
        "late",
        evolve(
            QUIET,
            max_turns=3,
            max_model_calls=1,
            tool_summaries=True,
            attachments=True,
            stop_hooks=True,
            context=COLLAPSING,
        ),
        evolve(BUSY, errors=(), old_rounds=1, usage=(80_000,)),
        "answers that come rounds later than they were asked for",
    ),
    Case(
        "calls",
        evolve(SMALL, max_model_calls=1_000, max_pauses=0, fallback_models=("n",)),
        evolve(
            NARROW,
            tools=0,
            old_rounds=1,
            errors=(ErrorKind.OVERLOADED, ErrorKind.PROMPT_TOO_LONG),
            stops=("end_turn", "max_tokens"),
            compactions=("small",),
            long_waits=False,
            crashes=False,
        ),
        "no cap on model calls: what bounds them is the ranking alone",
    ),
    Case(
        "salvage",
        evolve(QUIET, max_turns=2, max_model_calls=2, early_start=EarlyStart.ANY),
        evolve(CALM, pieces=(), kinds=("write", "unknown"), stops=("end_turn", "tool_use")),
        "a call that changed something before its reply failed; a tool that does not exist",
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
        "thinking that the API refuses",
    ),
)
"""Meant for a minute on two quiet cores. Large ones stand first, so that no core is idle at the end."""

RELEASE: tuple[Case, ...] = (
    Case(
        "tools-wide",
        evolve(SMALL, max_turns=2, max_model_calls=2),
        evolve(CALM, blocks=2, tools=2, kinds=KINDS, forms=tuple(Form)),
        "every kind and form of two calls, two rounds, every failure and stop reason",
        WIDE,
    ),
    Case(
        "replies-wide",
        evolve(SMALL, max_attempts=2, fallback_models=("n",), fallback_on_refusal=True, max_model_calls=5),
        evolve(CALM, pieces=(Piece.TEXT, Piece.BLANK, Piece.THINKING), forms=(Form.WHOLE, Form.MALFORMED)),
        "every stop reason and failure with five calls, and everything that mends them",
        WIDE,
    ),
    Case(
        "user-wide",
        evolve(QUIET, max_turns=2, max_model_calls=1, max_attempts=2, tool_summaries=True, attachments=True, stop_hooks=True),
        evolve(BUSY, usage=(110_000,), commands=2, requests=True, switches=True),
        "two commands, requests and switches while everything is in flight",
        WIDE,
    ),
    Case(
        "binding",
        evolve(QUIET, models=BINDERS, fallback_models=("n",), max_turns=2, max_model_calls=2),
        evolve(
            CALM,
            blocks=2,
            pieces=(Piece.THINKING,),
            stops=("end_turn", "tool_use"),
            errors=(ErrorKind.OVERLOADED, ErrorKind.THINKING_INVALID, ErrorKind.MODEL_NOT_FOUND),
            outcomes=("ok",),
            switches=True,
        ),
        "models that bind thinking to their history: switches and fallbacks must take it out",
        WIDE,
        twins=4,
    ),
    Case(
        "session-wide",
        evolve(QUIET, max_model_calls=2, stop_hooks=True, context=evolve(WINDOW, breaker_failures=1)),
        evolve(NARROW, old_rounds=1, runs=2, usage=(20_000, 110_000), requests=True),
        "two runs of one session, with compactions, the breaker and requests left behind",
        WIDE,
    ),
    Case(
        "crowd-wide",
        evolve(CROWD, tool_summaries=True),
        evolve(BUSY, old_rounds=1, usage=(80_000, 110_000), crashes=True),
        "all that can be in flight at once, and a crash at every point",
        WIDE,
    ),
    Case(
        "layers-wide",
        evolve(QUIET, max_turns=3, max_model_calls=1, tools=(READ,), context=evolve(LAYERED, collapse=True)),
        evolve(NARROW, pieces=(), old_rounds=3, result_tokens=6_000, usage=(20_000, 80_000, 100_000, 110_000)),
        "snips, cleared results and collapses of one history",
        WIDE,
        twins=4,
    ),
    *(
        evolve(
            case, name=f"{case.name}-full", bounds=evolve(case.bounds, errors=tuple(ErrorKind), stops=ALL_STOPS), sample=WIDE
        )
        for case in CI
        if case.name in ("limits", "money", "context", "pieces", "ends", "beside", "collapse", "loops")
    ),
)
"""Besides the cases of ``CI``, meant for a quarter of an hour on two quiet cores.

The full ones have every failure and stop reason everywhere.
"""
