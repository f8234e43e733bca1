"""Laws over microsteps: each is silent on the rows as they are, and speaks when one row's move is spoiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from attrs import evolve

from fsm_agent.core.config import EarlyStart
from fsm_agent.core.context.report import LayerReport
from fsm_agent.core.control import AutoCompactTracking
from fsm_agent.core.effects import Cancel, Effect
from fsm_agent.core.events import Event, TimerFired
from fsm_agent.core.guards.call import call_failed
from fsm_agent.core.guards.tools import round_done
from fsm_agent.core.guards.within import WITHIN
from fsm_agent.core.outputs import AssistantOutput, Notice, Tombstone, ToolProgress, ToolResult
from fsm_agent.core.phases import Cause
from fsm_agent.core.rows import TABLE
from fsm_agent.core.state import LoopState
from fsm_agent.core.step import step
from fsm_agent.core.table import Guard, Move
from fsm_agent.explorer.environment import Environment, start
from fsm_agent.explorer.expand import Worker
from fsm_agent.explorer.matrix import CALM, SMALL, Case
from fsm_agent.laws import (
    LAWS,
    Edge,
    choices,
    compactions,
    endings,
    entering,
    keeping,
    lines,
    loops,
    micro,
    rounds,
    streaming,
    waits,
)

from .good import edges

Made = tuple[LoopState, tuple[Effect, ...]]
BY_NAME = {law.name: law for law in LAWS}
SALVAGE = Case(
    "salvage",
    evolve(SMALL, max_turns=2, max_attempts=2, early_start=EarlyStart.ANY, fallback_models=("n",)),
    evolve(CALM, kinds=("write",), stops=("end_turn", "tool_use", "max_tokens"), old_rounds=1, usage=(20_000, 110_000)),
)


def salvaged(most: int = 400) -> list[Edge]:
    """Give the edges of the first states of a case in which replies are salvaged."""
    environment, worker = Environment(SALVAGE.config, SALVAGE.bounds), Worker(SALVAGE.config, SALVAGE.bounds, ())
    frontier, seen, found = [start(SALVAGE.config, SALVAGE.bounds)], set[bytes](), []
    while frontier and len(seen) < most:
        nexts = []
        for state in frontier:
            for _, event in environment.offers(state):
                edge = Edge(state, event, worker_step(state, event), SALVAGE.config)
                found.append(edge)
                key = worker.key(edge.made.state)
                if key not in seen and len(seen) < most:
                    seen.add(key)
                    nexts.append(edge.made.state)
        frontier = nexts
    return found


def worker_step(state: LoopState, event: Event) -> Any:
    """Take one step of the reducer."""
    return step(state, event, SALVAGE.config)


@pytest.fixture(scope="module")
def all_edges() -> list[Edge]:
    """Edges of three small cases."""
    return [edge for edge in (*edges(), *salvaged()) if not edge.quiet]


@contextmanager
def spoiled(row: str, spoil: Callable[[LoopState, tuple[Effect, ...]], Made]) -> Iterator[None]:
    """Let laws retrace with a table in which one row's move is another."""

    def other(old: Move) -> Move:
        def act(state: LoopState, event: Event, config: Any) -> Made:
            return spoil(*old.act(state, event, config))

        return Move(old.name, act)

    rows = tuple(evolve(item, move=other(item.move)) if item.name == row else item for item in TABLE.rows)
    micro.retrace_with(evolve(TABLE, rows=rows))
    try:
        yield
    finally:
        micro.retrace_with(TABLE)


def _record(record: str, **fields: Any) -> Callable[[LoopState, tuple[Effect, ...]], Made]:
    def spoil(state: LoopState, effects: tuple[Effect, ...]) -> Made:
        control = state.control
        if getattr(control, record) is None:
            return state, effects
        return LoopState(evolve(control, **{record: evolve(getattr(control, record), **fields)}), state.data), effects

    return spoil


def _drop(*kinds: type) -> Callable[[LoopState, tuple[Effect, ...]], Made]:
    def spoil(state: LoopState, effects: tuple[Effect, ...]) -> Made:
        return state, tuple(item for item in effects if not isinstance(getattr(item, "output", item), kinds))

    return spoil


def _effects(kind: str, **fields: Any) -> Callable[[LoopState, tuple[Effect, ...]], Made]:
    def spoil(state: LoopState, effects: tuple[Effect, ...]) -> Made:
        return state, tuple(evolve(item, **fields) if type(item).__name__ == kind else item for item in effects)

    return spoil


def _data(**fields: Any) -> Callable[[LoopState, tuple[Effect, ...]], Made]:
    return lambda state, effects: (LoopState(state.control, evolve(state.data, **fields)), effects)


def _doubled(state: LoopState, effects: tuple[Effect, ...]) -> Made:
    """Put the last message into the history twice."""
    return LoopState(state.control, evolve(state.data, messages=(*state.data.messages, state.data.messages[-1]))), effects


def _inbox(state: LoopState, effects: tuple[Effect, ...]) -> Made:
    return LoopState(state.control, evolve(state.data, inbox=evolve(state.data.inbox, notices=("again",)))), effects


def _terminal(**fields: Any) -> Callable[[LoopState, tuple[Effect, ...]], Made]:
    def spoil(state: LoopState, effects: tuple[Effect, ...]) -> Made:
        terminal = state.data.terminal
        assert terminal is not None
        return LoopState(state.control, evolve(state.data, terminal=evolve(terminal, **fields))), effects

    return spoil


def _result(state: LoopState, effects: tuple[Effect, ...]) -> Made:
    """Forget the results of all calls."""
    calls = tuple(evolve(item, result=None) for item in state.data.iteration.calls)
    return LoopState(state.control, evolve(state.data, iteration=evolve(state.data.iteration, calls=calls))), effects


def _digest(state: LoopState, effects: tuple[Effect, ...]) -> Made:
    calls = tuple(evolve(item, digest="another") for item in state.data.iteration.calls)
    return LoopState(state.control, evolve(state.data, iteration=evolve(state.data.iteration, calls=calls))), effects


def _calls(**fields: Any) -> Callable[[LoopState, tuple[Effect, ...]], Made]:
    """Change the record of each call."""

    def spoil(state: LoopState, effects: tuple[Effect, ...]) -> Made:
        return _record("tools", calls=tuple(evolve(call, **fields) for call in state.control.tools.calls))(state, effects)

    return spoil


def _copied(state: LoopState, effects: tuple[Effect, ...]) -> Made:
    """Store each result as a block of the same text, made anew."""
    calls = tuple(evolve(item, result=evolve(item.result) if item.result else None) for item in state.data.iteration.calls)
    return LoopState(state.control, evolve(state.data, iteration=evolve(state.data.iteration, calls=calls))), effects


def _reported(state: LoopState, effects: tuple[Effect, ...]) -> Made:
    """Report a clearing that nobody saw."""
    reports = (*state.data.iteration.reports, LayerReport("microcompact", freed=7))
    return LoopState(state.control, evolve(state.data, iteration=evolve(state.data.iteration, reports=reports))), effects


SPOILED: list[tuple[str, str, Any]] = [
    ("rows_do_what_their_lines_say", "next_turn", _record("guards", pauses=3)),
    ("rows_do_what_their_lines_say", "retry", _record("call", attempt=7)),
    ("rows_do_what_their_lines_say", "stop_hook_blocking", _record("context", compact_off=True)),
    ("what_did_not_run_is_told_why", "malformed_answered", _result),
    ("records_follow_answers", "tool_finished", _digest),
    ("stops_and_failures_are_noted", "tool_finished", _record("tools", failed="somebody")),
    ("a_block_is_taken_as_it_came", "block_completed", _record("call", usable=False)),
    ("replies_are_kept_as_the_list_says", "run_tools", _drop(AssistantOutput)),
    ("replies_are_kept_as_the_list_says", "max_output_tokens_recovery", _drop(Tombstone)),
    ("the_history_grows_as_the_table_says", "next_turn", _doubled),
    ("a_nudge_follows_what_is_kept", "empty_retry", _doubled),
    ("the_inbox_is_emptied_once", "next_turn", _inbox),
    ("waits_are_as_long_as_they_should_be", "salvage_backoff", _effects("StartTimer", delay_ms=7)),
    ("a_salvage_remembers_its_failure", "salvage", _record("salvage", delay_ms=7)),
    ("a_salvage_remembers_its_failure", "salvage_and_end", _record("salvage", cause=Cause.LOOP_DETECTED)),
    ("lost_waits_are_issued_again_as_they_were", "compaction_reissued", _effects("Compact", target=1)),
    ("waits_are_issued_as_they_should_be", "ask_stop_hooks", _effects("RunStopHooks", turn=9)),
    ("the_breaker_counts", "compaction_failed", _record("context", tracking=AutoCompactTracking(failures=9))),
    ("a_compaction_says_what_it_did", "compaction_failed", _drop(Notice)),
    ("an_end_says_what_happened", "completed", _terminal(turn_count=99)),
    ("an_end_has_the_cause_of_its_failure", "call_refused", _terminal(cause=Cause.AUTH)),
    ("an_end_leaves_a_history", "aborted.calling_model", _data(messages=())),
    ("what_is_dropped_is_cancelled", "aborted.calling_model", _drop(Cancel)),
    ("switches_and_drains_are_told", "fallback", _drop(Notice)),
    ("rounds_are_remembered_once", "tool_finished", _record("guards", loop_warned=True)),
    ("equal_rounds_have_equal_digests", "tool_finished", _record("guards", rounds=("0" * 16,))),
    ("usage_is_summed_by_model", "next_turn", _data(usage=(1,))),
    ("the_end_tells_what_can_be_used", "stream_completed", _record("call", usable=False)),
    ("the_end_tells_what_is_whole", "stream_completed", _calls(whole=False)),
    ("edits_of_the_api_are_reported", "stream_completed", _reported),
    ("calls_are_stored_as_the_api_takes_them", "block_completed", _calls(id="bad id")),
    ("a_result_is_stored_as_it_came", "tool_finished", _copied),
    ("progress_is_shown_at_once", "tool_progressed", _drop(ToolProgress)),
    ("an_abort_shows_the_results_that_it_keeps", "aborted_tools.running_tools", _drop(ToolResult)),
    ("a_round_of_tools_has_calls", "run_tools", _record("tools", calls=())),
    ("rounds_are_summed_up_where_the_settings_say", "next_turn", _record("queue", pending_tool_use_summary="nobody")),
]
ELSEWHERE = {
    "the_first_that_holds_is_taken",
    "failed_effects_are_read_as_answers",
    "errors_are_withheld_until_they_are_used_up",
    "a_run_counts_from_one",
    "a_reactive_compaction_mends_what_was_refused",
    "what_was_refused_is_not_sent_again",
    "a_known_front_is_there",
    "open_server_calls_are_remembered",
    "preparing_looks_and_leaves_the_rest",
    "prefetches_are_told_what_to_look_for",
    "spans_follow_their_answers",
    "summaries_of_tools_are_shown",
}
"""Laws that mutants of the core try, and no spoiled move here."""


@pytest.mark.parametrize(("name", "row", "spoil"), SPOILED, ids=[f"{name}-{row}" for name, row, _ in SPOILED])
def test_a_spoiled_row_is_noticed(name: str, row: str, spoil: Any, all_edges: list[Edge]) -> None:
    """The law is silent on the good rows and speaks on the spoiled one."""
    law = BY_NAME[name]
    passing = [edge for edge in all_edges if edge.took(row)]
    assert passing
    assert [words for edge in passing if (words := law.check(edge))] == []
    with spoiled(row, spoil):
        assert any(law.check(Edge(edge.before, edge.event, edge.made, edge.config)) for edge in passing)


def test_a_list_out_of_order_is_noticed(all_edges: list[Edge]) -> None:
    """A row whose guard never holds is missed by the second reading of its list."""
    never = Guard("never", lambda control, event, config: False)
    rows = tuple(evolve(row, guard=never) if row.name == "run_tools" else row for row in TABLE.rows)
    law = BY_NAME["the_first_that_holds_is_taken"]
    passing = [edge for edge in all_edges if edge.took("run_tools")]
    assert passing
    assert not any(law.check(edge) for edge in passing)
    micro.retrace_with(evolve(TABLE, rows=rows))
    try:
        assert all(law.check(Edge(edge.before, edge.event, edge.made, edge.config)) for edge in passing)
    finally:
        micro.retrace_with(TABLE)


def test_what_is_asked_first_is_implied(all_edges: list[Edge]) -> None:
    """Where a condition holds, the one that the lookup asks before it holds too; each pair is met on both sides."""
    met: dict[Any, set[bool]] = {}
    for edge in all_edges:
        for one in micro.micros(edge):
            for holds, need in WITHIN.items():
                asked, held = need(one.old, one.event, one.config), holds(one.old, one.event, one.config)
                assert asked or not held, f"{holds.__name__} holds where {need.__name__} does not"
                met.setdefault(need, set()).add(asked)
    assert all(met[need] == {True, False} for need in (call_failed, round_done))


def test_every_law_over_microsteps_is_tried() -> None:
    """No law is forgotten here; what cannot be spoiled by a move is named."""
    mine = {
        law.name
        for module in (choices, compactions, endings, entering, keeping, lines, loops, rounds, streaming, waits)
        for law in vars(module).values()
        if law in LAWS and law.costly and law.over.value == "edge"
    }
    assert mine == {name for name, _, _ in SPOILED} | ELSEWHERE


def test_good_rows_keep_every_law(all_edges: list[Edge]) -> None:
    """Nothing is wrong with the rows of the reducer."""
    for edge in all_edges[::4]:
        for law in LAWS:
            if law.costly and law.over.value == "edge":
                words = law.check(edge)
                assert not words, (law.name, words)


def test_an_answer_of_nobody_is_not_stale() -> None:
    """An id that was never issued is refused, one that was is stale; the other way round is noticed."""
    law = BY_NAME["answers_are_classed_by_their_id"]
    state = next(edge.made.state for edge in edges() if edge.took("stream_completed"))
    stale, never = TimerFired("r/timer-1"), TimerFired("r/timer-999")
    for event, other in ((stale, never), (never, stale)):
        assert not law.check(Edge(state, event, step(state, event, SALVAGE.config), SALVAGE.config))
        assert law.check(Edge(state, event, step(state, other, SALVAGE.config), SALVAGE.config))
