"""Stories: ways through the machine that chance does not find, told by the names of their events."""

from __future__ import annotations

from attrs import evolve

from fsm_agent.core.blocks import tool_use
from fsm_agent.core.config import EarlyStart
from fsm_agent.explorer.bounds import ALL_STOPS, Form, Piece
from fsm_agent.explorer.environment import sized
from fsm_agent.explorer.matrix import Case

from .neighbours import TWO_HOLD
from .scenes import (
    BEHIND,
    BESIDE,
    BROKEN_OFF,
    CALM,
    CUT,
    EARLY,
    ESCALATED,
    EVERYTHING,
    FAILING,
    FILLED,
    GROWN,
    LAYERED,
    LOW,
    MEDIA,
    OFF,
    PICTURED,
    ROOM,
    ROUND,
    ROUNDS,
    THREE,
    WAITS,
    Told,
    counted,
    crowded,
    named,
    round_at,
    said,
    spending,
)

COLLAPSES: tuple[tuple[Case, tuple[Told, ...]], ...] = (
    # One of two spans has its summary when the prompt is too long; a compaction of the pass has failed before.
    (
        Case("drained-after-a-failure", evolve(EARLY, context=evolve(LAYERED, auto_compact_at=89_000)), THREE),
        ("user.start.plain", "2.failed", "0.staged", "1.prompt_too_long"),
    ),
    # The API counts fewer tokens than a drain frees by our estimate.
    (
        Case("drained-to-nothing", evolve(EARLY, context=LAYERED), THREE),
        ("user.start.plain", "0.staged", "0.staged", *ROUND, "0.prompt_too_long"),
    ),
    # And than a commit frees, before the compaction that the user asked for: it fails, and opens the breaker.
    (
        Case("committed-to-nothing", evolve(EARLY, context=LOW), THREE),
        ("user.start.plain", "user.compact", "0.staged", "0.staged", *ROUND, "0.failed"),
    ),
    # A compaction frees little in a pass in which a summary was committed.
    (
        Case("committed-and-compacted", evolve(EARLY, context=OFF), evolve(THREE, usage=(85_000,))),
        ("user.start.plain", "user.compact", "0.staged", *BESIDE, ("1.small", {"summary": (sized("s", 28_000),)})),
    ),
)
"""Stories of spans and their summaries."""

SPENT = ((90_000, 1, 1, 500, 1), (90_000, 1, 1, 1, 500), (90_000, 1, 1, 499, 499), (1_000, 899), (1_000, 900), (1_000, 901))

STORIES: tuple[tuple[Case, tuple[Told, ...]], ...] = (
    # Overloads go on while no other model is left; then the user switches, and one is.
    (
        Case("switched", EARLY, CALM),
        (
            "user.switch.1",
            "user.start.plain",
            *BROKEN_OFF,
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
        Case("salvaged-twice", evolve(EARLY, fallback_models=(), max_attempts=1), CALM),
        ("user.start.plain", *BROKEN_OFF, "0.write.whole", "1.started", "0.overloaded", "0.ok"),
    ),
    # The second of two calls has begun when the reply breaks off, the first has not.
    # What was answered behind the last started call goes with it, each with its own tombstone.
    (
        Case("refused-behind", EARLY, evolve(CALM, blocks=3, tools=3, kinds=("shell", "safe"))),
        ("user.start.plain", "0.shell.whole", "1.started", "1.failed", "0.safe.whole", "0.safe.whole", "0.overloaded"),
    ),
    # A cut reply goes on after a call that is not whole.
    (
        Case(
            "cut",
            evolve(EARLY, max_output_tokens=4_096),
            evolve(CALM, blocks=3, forms=(Form.WHOLE, Form.MALFORMED), stops=ALL_STOPS),
        ),
        ("user.start.plain", "0.text", "0.write.malformed", "0.text", "0.max_tokens.20000"),
    ),
    *[
        (Case(f"media-{place}", evolve(EARLY, context=layers), crowded(rounds)), (PICTURED, *names))
        for place, (layers, rounds, names) in enumerate(MEDIA)
    ],
    # A model that compacts by itself is not asked to, where it refused media.
    (
        Case("media-api", evolve(EARLY, model="o", context=ROOM), crowded(1)),
        (PICTURED, named("media_too_large", "messages.2.content.1"), "0.small"),
    ),
    (
        Case("media-bound", evolve(EARLY, model="p", context=ROOM), crowded(0)),
        (PICTURED, "0.media_too_large", "0.media"),
    ),
    # The server asks for the shortest wait there is.
    (
        Case("shortest", evolve(EARLY, fallback_models=()), CALM),
        ("user.start.plain", "0.write.whole", "1.started", WAITS, "0.ok", "0.fired"),
    ),
    # Thinking that was never closed is no part of what a reply is continued from.
    (
        Case("unclosed", evolve(EARLY, max_output_tokens=4_096), evolve(CALM, pieces=tuple(Piece), stops=ALL_STOPS)),
        ("user.start.plain", "0.text", ("0.thinking", {"closed": False}), "0.max_tokens.20000"),
    ),
    # And it need not be the last block: what follows is kept.
    (
        Case("unclosed-first", evolve(EARLY, max_output_tokens=4_096), evolve(CALM, pieces=tuple(Piece), stops=ALL_STOPS)),
        ("user.start.plain", ("0.thinking", {"closed": False}), said, "0.max_tokens.20000"),
    ),
    # A budget of no tokens at all is spent before anything is said.
    (
        Case("no-tokens", EARLY, CALM),
        (("user.start.plain", {"token_budget": 0}), "0.text", "0.end_turn.20000"),
    ),
    # The least that counts as a return, just below it, and nine tenths of a budget.
    *[(Case("spending", EARLY, CALM), spending(*told)) for told in SPENT],
    # An open breaker closes when the view has grown by a tenth of the window, and not by one token less.
    *[(Case("grown", evolve(EARLY, context=GROWN), CALM), counted(110_000, tokens)) for tokens in (125_999, 126_000, 126_001)],
    # So little room is left in the window that a larger output limit would not fit.
    (
        Case("no-room", evolve(EARLY, context=FILLED), evolve(CALM, stops=ALL_STOPS)),
        (*counted(115_000)[:-1], "0.text", "0.max_tokens.20000"),
    ),
    # A larger output limit holds until a round of tools is done; a salvaged one keeps it.
    (Case("escalated", EARLY, evolve(CALM, stops=ALL_STOPS)), (*ESCALATED, *ROUND)),
    (Case("escalated-and-salvaged", EARLY, evolve(CALM, stops=ALL_STOPS)), (*ESCALATED, *BROKEN_OFF[:-1])),
    # A call that the API runs itself is no part of what a cut reply is continued from, while it has no result.
    (
        Case("cut-behind-a-server", CUT, evolve(CALM, pieces=(Piece.TEXT, Piece.SERVER), stops=ALL_STOPS)),
        ("user.start.plain", "0.text", "0.server", "0.max_tokens.20000"),
    ),
    # A hook stops the run at one of two calls, before the other has begun.
    (
        Case("stopped-beside", evolve(EARLY, early_start=EarlyStart.NEVER), CALM),
        ("user.start.plain", "0.safe.whole", "0.safe.whole", "0.tool_use.20000", "0.started", "0.stop"),
    ),
    (Case("stopped-early", EARLY, CALM), ("user.start.plain", "0.safe.whole", "0.safe.whole", "1.started", "1.stop")),
    # A sum that is spent to the last of its many digits.
    (
        Case("all-spent", evolve(EARLY, max_budget=987_654_321), CALM),
        (("user.start.plain", {"spent": 987_654_321}),),
    ),
    # Nothing new is said behind a reply that is done.
    (Case("nothing-new", EARLY, crowded(1)), (("user.start.plain", {"messages": ()}),)),
    # Waits double, but not for ever.
    (
        Case("many-waits", evolve(EARLY, fallback_models=(), max_attempts=30, backoff_ms=1, backoff_cap_ms=10**12), CALM),
        ("user.start.plain", *("0.stalled", "0.fired") * 23),
    ),
    # While a server call waits, nothing but results goes in: the command and the warning come a round later.
    (
        Case(
            "late-warning",
            evolve(EARLY, loop_rounds=1),
            evolve(CALM, pieces=(Piece.SERVER,), kinds=("read",), same_inputs=True),
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
        Case("given-back", evolve(EARLY, context=ROOM), crowded(1)),
        (PICTURED, "0.media_too_large", "0.small", "0.write.whole", "0.tool_use.20000", "0.started", "0.ok"),
    ),
    # A crash lost a call of the reply before the prompt was found too long.
    (
        Case("lost-before", evolve(EARLY, context=ROOM), crowded(1)),
        ("user.start.plain", "0.safe.whole", "1.lost", "0.prompt_too_long", "0.lost", "0.small"),
    ),
    (Case("behind", EARLY, CALM), ("user.start.plain", *BEHIND)),
    *COLLAPSES,
    # Everything that may run beside the loop does, and nobody answers it, in every phase that waits.
    (
        Case("all-beside", evolve(EARLY, **EVERYTHING, context=LAYERED), THREE),
        ("user.start.plain", *round_at(4), *round_at(5), "6.text", "6.end_turn.20000", "user.compact", "6.block", *FAILING),
    ),
    (
        Case("refused-thinking", EARLY, evolve(CALM, pieces=(Piece.THINKING,))),
        ("user.start.plain", "0.thinking", "0.safe.whole", "1.started", "0.tool_use.20000", "0.ok", "0.thinking_invalid"),
    ),
    (
        Case("paused-at-once", evolve(EARLY, max_pauses=0), evolve(CALM, stops=ALL_STOPS)),
        ("user.start.plain", "0.text", "0.pause_turn.20000"),
    ),
    # A call that may run beside others waits behind one that may not.
    (
        Case("behind-a-write", evolve(EARLY, early_start=EarlyStart.NEVER), evolve(CALM, blocks=3, tools=3)),
        ("user.start.plain", "0.safe.whole", "0.write.whole", "0.safe.whole", "0.tool_use.20000"),
    ),
    # Two rows of a list hold at once: the first of them is due.
    *TWO_HOLD,
    # The block names another id than the call that was read from it.
    (Case("other-id", EARLY, CALM), ("user.start.plain", ("0.write.whole", {"block": tool_use("other", "write", "{}")}))),
    # The summary of a round comes while a compaction tries to mend the next call.
    (
        Case("summed-up-late", evolve(EARLY, context=ROOM, tool_summaries=True), crowded(1)),
        ("user.start.plain", *ROUND, "1.prompt_too_long", "0.text"),
    ),
    # Many ids: answers of effects that were issued long ago, or never.
    (Case("many-ids", evolve(EARLY, prefetch_skills=True), CALM), ("user.start.plain", *ROUNDS)),
    (
        Case("behind-third", EARLY, evolve(CALM, blocks=3, tools=3)),
        ("user.start.plain", *BEHIND[:2], "0.safe.whole", *BEHIND[2:]),
    ),
)
"""Ways that chance does not find: (case, names of the events)."""
