"""Stories that come to states at which two neighbours of a first-match list hold: the first of them is due."""

from __future__ import annotations

from attrs import evolve

from fsm_agent.explorer.bounds import ALL_STOPS, Form, Start
from fsm_agent.explorer.matrix import Case

from .scenes import (
    CALM,
    CUT,
    EARLY,
    LAYERED,
    NUDGED,
    PAID,
    ROUND,
    TWICE,
    WINDOW,
    Told,
    crowded,
)

TWO_HOLD: tuple[tuple[Case, tuple[Told, ...]], ...] = (
    (
        Case("forced-and-spent", evolve(CUT, max_budget=1_000_000), evolve(crowded(1), stops=ALL_STOPS)),
        ("user.start.plain", "0.text", (WINDOW, PAID)),
    ),
    (
        Case("forced-and-asked", CUT, evolve(crowded(1), stops=ALL_STOPS)),
        ("user.start.plain", "user.compact", "0.text", WINDOW, "0.small", "0.small"),
    ),
    (
        Case("broke-off-in-the-last-round", evolve(EARLY, max_turns=1), CALM),
        ("user.start.plain", "0.write.whole", "1.started", "0.auth", "0.ok"),
    ),
    (
        Case("stopped-in-a-loop", evolve(EARLY, loop_rounds=1), TWICE),
        ("user.start.plain", *ROUND, *ROUND, *ROUND[:3], ("0.stop", {"digest": "ok"})),
    ),
    (
        Case("broke-off-in-a-loop", evolve(EARLY, loop_rounds=1), TWICE),
        ("user.start.plain", *ROUND, *ROUND, *ROUND[:2], "0.auth", "0.ok"),
    ),
    (
        Case("nothing-said-and-spent", evolve(EARLY, max_budget=1), CALM),
        (("user.start.plain", {"messages": (), "spent": 10}),),
    ),
    (
        Case("last-call-broke-off", evolve(EARLY, fallback_models=(), max_model_calls=1), CALM),
        ("user.start.plain", "0.write.whole", "1.started", "0.overloaded", "0.ok"),
    ),
    (
        Case("staged-and-begun", evolve(EARLY, context=LAYERED), evolve(CALM, old_rounds=3)),
        ("user.start.plain", "0.staged", "0.staged", "0.write.whole", "1.started", "0.prompt_too_long"),
    ),
    (
        Case(
            "blocked-with-little-left",
            evolve(EARLY, stop_hooks=True, stop_hook_row_cap=1),
            evolve(CALM, starts=(Start.BUDGET,)),
        ),
        ("user.start.budget", *NUDGED[:2], "0.block", *NUDGED * 3, *NUDGED[:2], "0.block"),
    ),
    (
        Case("prevented-and-blocked", evolve(EARLY, stop_hooks=True), CALM),
        ("user.start.plain", "0.text", "0.end_turn.20000", ("0.schema", {"blocking": ("more",)})),
    ),
    (
        Case(
            "cut-and-malformed",
            evolve(CUT, max_output_recoveries=0),
            evolve(CALM, blocks=3, forms=(Form.WHOLE, Form.MALFORMED), stops=ALL_STOPS),
        ),
        ("user.start.plain", "0.text", "0.write.malformed", WINDOW),
    ),
)
"""Ways to states at which two neighbours of a first-match list hold."""
