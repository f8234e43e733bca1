"""The page of B(config): how many calls can stand between two exempt ones, component by component (spec 01, section 14)."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve

from ..core.config import LoopConfig
from ..core.rank import Rank, bound, calls_bound, sizes

_TEXTS: Mapping[str, str] = {
    "models": "fallback models left, and the current one",
    "nudges": "continuations of a token budget that ask for no progress",
    "tokens": "steps of the least progress in nine tenths of a token budget",
    "progress": "the last check of the budget found progress, or not",
    "blocks": "stop-hook blocks left in the run",
    "thinking": "thinking was taken out of the history, or not",
    "salvages": "salvages left",
    "pauses": "resumes of paused replies left",
    "reactive": "a reactive compaction was tried, or not",
    "recoveries": "continuations of cut replies left",
    "escalation": "the output limit was raised, or not",
    "empty": "an empty reply was asked for again, or not",
    "drain": "collapses were drained, or not",
    "attempts": "attempts on this model in this pass",
}
_DEFAULT = LoopConfig(model="m")
_COLUMNS: tuple[tuple[str, LoopConfig, int | None], ...] = (
    ("default", _DEFAULT, None),
    ("stop hooks", evolve(_DEFAULT, stop_hooks=True), None),
    ("two fallbacks", evolve(_DEFAULT, fallback_models=("n", "o")), None),
    ("collapses", evolve(_DEFAULT, context=evolve(_DEFAULT.context, collapse=True)), None),
    ("token budget 50,000", _DEFAULT, 50_000),
    (
        "all of these",
        evolve(
            _DEFAULT,
            stop_hooks=True,
            fallback_models=("n", "o"),
            context=evolve(_DEFAULT.context, collapse=True),
        ),
        50_000,
    ),
    (
        "everything at its least",
        evolve(
            _DEFAULT,
            max_attempts=1,
            max_pauses=0,
            max_output_recoveries=0,
            context=evolve(_DEFAULT.context, reactive_compact=False),
        ),
        None,
    ),
)


def bound_page() -> str:
    """Write the table of B in Markdown, ended by a newline."""
    made = [sizes(config, budget) for _, config, budget in _COLUMNS]
    lines = [
        "<!-- Made from the ranking by docs/regenerate.py; not to be edited. -->",
        "",
        "# Why a run ends",
        "",
        "Each model call leaves the *rank* of the state lower than before, a tuple of naturals that is compared from its first "
        "component on. Two kinds of call are exempt: the first of a run, and the first after a round that tools completed; "
        "those rounds are bounded by `max_turns`, the money, or the caller's patience.",
        "",
        "Between two exempt calls there are at most as many calls as there are ranks: B is the product of the sizes below. "
        "It is far more than can happen, since most components are given back only by one that stands before them; what "
        "the explorer really finds stands in [the machine, explored](explored.md). `max_model_calls` bounds the calls "
        "outright, and the smaller of the two is what is allowed.",
        "",
        "| component | values | " + " | ".join(name for name, _, _ in _COLUMNS) + " |",
        "| --- | --- |" + " ---: |" * len(_COLUMNS),
    ]
    for place, name in enumerate(Rank._fields):
        lines.append(f"| `{name}` | {_TEXTS[name]} | " + " | ".join(f"{size[place]:,}" for size in made) + " |")
    whole = " | ".join(f"{bound(config, budget):,}" for _, config, budget in _COLUMNS)
    caps = " | ".join(f"{config.max_model_calls:,}" for _, config, _ in _COLUMNS)
    allowed = " | ".join(f"**{calls_bound(config, budget):,}**" for _, config, budget in _COLUMNS)
    lines += [
        f"| **B** | the product | {whole} |",
        f"| `max_model_calls` | the setting | {caps} |",
        f"| **allowed** | the smaller of the two | {allowed} |",
    ]
    return "\n".join([*lines, ""])
