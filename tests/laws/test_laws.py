"""Each law is silent on good steps, and speaks when the step is spoiled in the way that it is about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from fsm_agent.core.control import CallState
from fsm_agent.core.effects import CallModel, Cancel, Emit, NotifyCommand, RunPostSamplingHooks, RunTool
from fsm_agent.core.failures import ErrorKind, ModelFailure
from fsm_agent.core.outputs import CallEnd, ErrorOutput, TerminalOutput, Tombstone, ToolResult
from fsm_agent.core.phases import TERMINAL_SET, Cause, Phase
from fsm_agent.core.state import LoopState, Rejection, Step
from fsm_agent.core.usage import ModelUsage
from fsm_agent.laws import LAWS, Edge, Law, Over, judge_run
from fsm_agent.laws.runs import RUN_LAWS, edges_of

from .good import edges

BY_NAME = {law.name: law for law in LAWS}
Spoil = Callable[[Edge], Step | None]


def test_laws_are_named_and_explained() -> None:
    """Names are unique, each law says in a sentence what it is about, and belongs to a group of spec 04."""
    assert len(BY_NAME) == len(LAWS)
    for law in (*LAWS, *RUN_LAWS):
        assert law.text.endswith("."), law.name
        assert law.group in {f"I{number}" for number in range(1, 18)}, law.name
    assert {law.group for law in LAWS} >= {f"I{number}" for number in (*range(1, 14), 16, 17)}


def test_good_steps_keep_every_law() -> None:
    """Nothing is wrong with steps of the reducer."""
    for edge in edges():
        for law in LAWS:
            words = ""
            if law.over is Over.STATE:
                words = law.check(edge.made.state, edge.config)
            elif law.over is Over.EDGE and (law.quiet or not edge.quiet) and not law.costly:
                words = law.check(edge)
            assert not words, (law.name, words)


def _effects(made: Step, keep: Callable[[Any], bool]) -> Step:
    return evolve(made, effects=tuple(effect for effect in made.effects if keep(effect)))


def _drop(*kinds: type) -> Spoil:
    """Leave out the effects of some kinds; outputs count by their own type."""

    def spoil(edge: Edge) -> Step | None:
        def keep(effect: Any) -> bool:
            return not isinstance(effect.output if isinstance(effect, Emit) else effect, kinds)

        made = _effects(edge.made, keep)
        return made if made != edge.made else None

    return spoil


def _twice(kind: type) -> Spoil:
    """Perform an effect of a kind twice."""

    def spoil(edge: Edge) -> Step | None:
        more = [item for item in edge.made.effects if isinstance(item.output if isinstance(item, Emit) else item, kind)]
        return evolve(edge.made, effects=(*edge.made.effects, more[0])) if more else None

    return spoil


def _control(change: Callable[[Edge], dict[str, Any] | None]) -> Spoil:
    """Give the next state another control."""

    def spoil(edge: Edge) -> Step | None:
        fields = change(edge)
        if not fields:
            return None
        state = edge.made.state
        return evolve(edge.made, state=LoopState(evolve(state.control, **fields), state.data))

    return spoil


def _guards(**fields: Any) -> Spoil:
    return _control(lambda edge: None if edge.ended else {"guards": evolve(edge.new.guards, **fields)})


def _when(row: str, spoil: Spoil) -> Spoil:
    """Only where a row was taken."""
    return lambda edge: spoil(edge) if edge.took(row) else None


def _ended(spoil: Spoil) -> Spoil:
    return lambda edge: spoil(edge) if edge.ended else None


def _terminal(**fields: Any) -> Spoil:
    def spoil(edge: Edge) -> Step | None:
        state = edge.made.state
        if state.data.terminal is None or not edge.ended:
            return None
        terminal = evolve(state.data.terminal, **fields)
        return evolve(edge.made, state=LoopState(state.control, evolve(state.data, terminal=terminal)))

    return spoil


def _emit(output: Any) -> Spoil:
    return lambda edge: evolve(edge.made, effects=(*edge.made.effects, Emit(output)))


def _forgotten(edge: Edge) -> Step | None:
    """Leave out of the history what began."""
    state = edge.made.state
    if not edge.ended or not any(call.started and not call.traits.read_only for call in edge.old.tools.calls):
        return None
    data = evolve(state.data, messages=state.data.messages[:1])
    return evolve(edge.made, state=LoopState(state.control, data))


def _unpaired(edge: Edge) -> Step | None:
    messages = edge.made.state.data.messages
    if not edge.ended or not any(item.results for item in messages):
        return None
    left = tuple(item for item in messages if not item.results)
    return evolve(edge.made, state=LoopState(edge.new, evolve(edge.made.state.data, messages=left)))


def _lost_command(edge: Edge) -> Step | None:
    if not edge.notified:
        return None
    messages = tuple(item for item in edge.made.state.data.messages if item.kind.value != "command")
    return evolve(edge.made, state=LoopState(edge.new, evolve(edge.made.state.data, messages=messages)))


def _same_number(edge: Edge) -> Step | None:
    """Issue an effect under a number that was used before."""
    if not edge.calls or edge.old.run.issued < 2:
        return None
    used = f"{edge.new.run.id}/call-{edge.old.run.issued - 1}"
    return evolve(
        edge.made,
        effects=tuple(evolve(item, id=used) if isinstance(item, CallModel) else item for item in edge.made.effects),
    )


def _other_model(edge: Edge) -> Step | None:
    if not edge.calls:
        return None
    context = evolve(edge.new.tool_use_context, model="n")
    return evolve(edge.made, state=LoopState(evolve(edge.new, tool_use_context=context), edge.made.state.data))


def _refused(edge: Edge) -> Step | None:
    rejection = Rejection(event=next(iter(_kinds(edge))), phase=edge.old.phase, because="no reason")
    return evolve(edge.made, rejected=rejection)


def _kinds(edge: Edge) -> list[Any]:
    from fsm_agent.core.events import EVENT_KINDS

    return [EVENT_KINDS[type(edge.event)]]


def _flags(edge: Edge) -> dict[str, Any] | None:
    if edge.ended or edge.took("next_turn", "token_budget_continuation", "run_started", "reactive_compact"):
        return None
    flag = not edge.old.guards.has_attempted_reactive_compact
    return {"guards": evolve(edge.new.guards, has_attempted_reactive_compact=flag)}


def _spent(edge: Edge) -> dict[str, Any] | None:
    return {"budget": evolve(edge.new.budget, cost=edge.new.budget.cost + 1)} if not edge.took("run_started") else None


def _dear(edge: Edge) -> dict[str, Any] | None:
    over = {"budget": evolve(edge.new.budget, cost=9_000_000)}
    return over if edge.calls and edge.config.max_budget is not None else None


def _more_attempts(edge: Edge) -> dict[str, Any] | None:
    kept = edge.old.phase is edge.new.phase is Phase.CALLING_MODEL
    return {"call": evolve(edge.new.call, attempt=edge.new.call.attempt - 1)} if kept else None


def _turned(edge: Edge) -> dict[str, Any] | None:
    return {"run": evolve(edge.new.run, turn_count=edge.new.run.turn_count + 1)} if not edge.ended else None


def _command_gone(edge: Edge) -> dict[str, Any] | None:
    queue = edge.new.queue
    return {"queue": evolve(queue, commands=queue.commands[1:])} if queue.commands and not edge.ended else None


def _started_again(edge: Edge) -> Step | None:
    for call in edge.old.tools.calls:
        if call.started and edge.new.call.id == edge.old.call.id:
            again = RunTool(f"{edge.new.run.id}/tool-{edge.new.run.issued + 1}", call.id, "write", "{}", call.traits)
            return evolve(edge.made, effects=(*edge.made.effects, again))
    return None


def _swapped(edge: Edge) -> Step | None:
    shown = [item for item in edge.made.effects if isinstance(item, Emit) and item.output in edge.results]
    if len(shown) != 2:
        return None
    order = iter(reversed(shown))
    return evolve(edge.made, effects=tuple(next(order) if item in shown else item for item in edge.made.effects))


def _renamed(edge: Edge) -> Step | None:
    """Run the first tool under another name."""
    if not edge.tools:
        return None
    first = edge.tools[0]
    return evolve(edge.made, effects=tuple(evolve(item, name="x") if item is first else item for item in edge.made.effects))


SPOILED: list[tuple[str, Spoil]] = [
    ("every_event_is_taken_or_refused", _refused),
    ("every_event_is_taken_or_refused", lambda edge: evolve(edge.made, taken=())),
    ("a_run_starts_where_none_is_on", _when("run_started", _refused)),
    ("rows_make_a_path", lambda edge: evolve(edge.made, taken=(*edge.made.taken, "no_such_row"))),
    ("rows_make_a_path", lambda edge: evolve(edge.made, taken=edge.made.taken[1:]) if len(edge.taken) > 1 else None),
    ("reasons_are_those_of_the_rows", _terminal(cause=Cause.LOOP_DETECTED)),
    ("what_is_yielded_is_shown", _drop(ToolResult)),
    ("the_end_is_said_once_and_last", _drop(TerminalOutput)),
    ("the_end_is_said_once_and_last", _twice(TerminalOutput)),
    ("flights_balance", _drop(Cancel)),
    ("flights_balance", _twice(Cancel)),
    ("flights_balance", _drop(CallModel)),
    ("ids_are_new_and_in_order", _same_number),
    ("ids_are_new_and_in_order", _twice(CallModel)),
    ("an_abort_ends_the_run", lambda edge: evolve(edge.made, state=edge.before)),
    ("an_error_is_shown_when_used_up", _drop(ErrorOutput)),
    ("an_error_is_shown_when_used_up", _emit(ErrorOutput(ModelFailure(kind=ErrorKind.AUTH)))),
    ("a_success_has_no_error", _when("completed", _terminal(error=ModelFailure(kind=ErrorKind.AUTH)))),
    ("a_reply_is_decided_once", _drop(CallEnd)),
    ("a_reply_is_decided_once", _twice(CallEnd)),
    ("tombstones_are_exact", _drop(Tombstone)),
    ("tombstones_are_exact", _twice(Tombstone)),
    ("a_reply_is_decided_once", _emit(Tombstone(ids=("r/call-1/0",)))),
    ("no_thinking_at_the_end", _drop(RunPostSamplingHooks)),
    ("a_decision_runs_once", _started_again),
    ("a_decision_runs_once", _twice(RunTool)),
    ("results_come_in_order", _swapped),
    ("started_calls_are_not_forgotten", _forgotten),
    ("only_begun_calls_are_salvaged", lambda edge: evolve(edge.made, taken=(*edge.taken, "salvage"))),
    ("the_rank_falls", _control(_more_attempts)),
    ("the_reactive_flag_stays", _control(_flags)),
    ("stop_hooks_after_a_good_reply_only", _when("ask_stop_hooks", lambda edge: evolve(edge.made, taken=("stream_failed",)))),
    ("continues_set_their_fields", _when("next_turn", _guards(max_output_tokens_recovery_count=1))),
    ("continues_set_their_fields", _when("stop_hook_blocking", _guards(stop_hook_active=False))),
    ("other_rows_keep_the_fields", _control(_turned)),
    ("money_stops_calls", _control(_dear)),
    ("the_token_budget_decides", _control(lambda edge: {"budget": evolve(edge.new.budget, continuations=7)})),
    ("usage_only_grows", _control(_spent)),
    ("commands_are_taken_in_order", _twice(NotifyCommand)),
    ("commands_are_taken_in_order", _control(_command_gone)),
    ("what_is_taken_up_is_in_the_history", _lost_command),
    ("every_request_can_be_sent", _other_model),
    ("what_is_left_is_paired", _unpaired),
    ("the_same_again", lambda edge: evolve(edge.made, taken=(*edge.taken, "another"))),
    ("calls_start_from_the_front", lambda edge: _renamed(edge)),
    ("known_effects_only", lambda edge: evolve(edge.made, effects=(*edge.made.effects, ModelUsage("m")))),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("name", "spoil"), SPOILED, ids=[f"{name}-{place}" for place, (name, _) in enumerate(SPOILED)])
def test_a_spoiled_step_is_noticed(name: str, spoil: Spoil) -> None:
    """The law is silent on the good step and speaks on the spoiled one."""
    law = BY_NAME[name]
    for edge in edges():
        if edge.quiet or law.check(edge):
            continue
        made = spoil(edge)
        if made is None:
            continue
        words = _check(law, edge, made)
        if words:
            return
    pytest.fail("no spoiled step was noticed")


def _check(law: Law, edge: Edge, made: Step) -> str:
    words = law.check(Edge(edge.before, edge.event, made, edge.config))
    assert isinstance(words, str)
    return words


def _state(**fields: Any) -> Callable[[LoopState], LoopState]:
    return lambda state: LoopState(evolve(state.control, **fields), state.data)


STATES: list[tuple[str, Callable[[LoopState], LoopState]]] = [
    ("no_transient_phase", _state(phase=Phase.DECIDING)),
    ("terminal_goes_with_phase", _state(phase=Phase.COMPLETED)),
    ("unsafe_calls_run_alone", lambda state: _calls(state, twice=True)),
    ("call_records_agree", lambda state: _calls(state, twice=False)),
    ("round_waits_for_calls", _state(phase=Phase.RUNNING_TOOLS)),
    ("calls_are_bounded", lambda state: _guarded(state, model_calls=999)),
    ("counters_keep_their_caps", lambda state: _guarded(state, pauses=9)),
    ("queue_and_content_agree", lambda state: _queued(state)),
    ("states_cannot_change", lambda state: LoopState(state.control, [state.data])),  # type: ignore[arg-type]
    ("the_view_is_paired", lambda state: _cut(state)),
    ("nobody_waits_in_vain", lambda state: _waiting(state)),
    ("ids_of_calls_are_known", lambda state: LoopState(state.control, evolve(state.data, call_ids="\nnobody\n"))),
    ("each_phase_awaits_its_own", lambda state: LoopState(evolve(state.control, phase=Phase.BACKING_OFF), state.data)),
]


def _guarded(state: LoopState, **fields: Any) -> LoopState:
    return LoopState(evolve(state.control, guards=evolve(state.control.guards, **fields)), state.data)


def _queued(state: LoopState) -> LoopState:
    return LoopState(evolve(state.control, queue=evolve(state.control.queue, commands=("nobody",))), state.data)


def _calls(state: LoopState, *, twice: bool) -> LoopState:
    calls = state.control.tools.calls
    running = [call for call in calls if call.state.value == "executing"]
    if not running:
        return state
    more = (*calls, *running) if twice else tuple(evolve(call, effect="another") for call in calls)
    return LoopState(evolve(state.control, tools=evolve(state.control.tools, calls=more)), state.data)


def _waiting(state: LoopState) -> LoopState:
    tools = state.control.tools
    if state.phase is not Phase.RUNNING_TOOLS or tools.stopped or tools.failed:
        return state
    calls = tuple(evolve(call, state=CallState.QUEUED) for call in tools.calls)
    return LoopState(evolve(state.control, tools=evolve(tools, calls=calls)), state.data)


def _cut(state: LoopState) -> LoopState:
    messages = tuple(item for item in state.data.messages if not item.results)
    return LoopState(state.control, evolve(state.data, messages=messages))


@pytest.mark.parametrize(("name", "spoil"), STATES, ids=[name for name, _ in STATES])
def test_a_spoiled_state_is_noticed(name: str, spoil: Callable[[LoopState], LoopState]) -> None:
    """The law is silent on good states and speaks on one that was spoiled."""
    law = BY_NAME[name]
    for edge in edges():
        state = edge.made.state
        if edge.quiet or state.phase in TERMINAL_SET:
            continue
        if not law.check(state, edge.config) and law.check(spoil(state), edge.config):
            return
    pytest.fail("no spoiled state was noticed")


def test_a_run_is_judged_as_a_whole() -> None:
    """Laws over a run see what no single step shows; a good run keeps all laws."""
    start = edges()[0].before
    config = edges()[0].config
    path = edges_of(start, [edge.event for edge in edges() if edge.before is start][:1], config)
    assert judge_run(path, config, (*LAWS, *RUN_LAWS)) == []
    ended = next(edge for edge in edges() if edge.ended)
    names = {law.name for law, _, _ in judge_run((ended, ended), config, RUN_LAWS)}
    assert "one_end" in names


MICRO = ("choices", "compactions", "endings", "entering", "keeping", "lines", "loops", "rounds", "streaming", "waits")
"""Modules whose laws are spoiled in :mod:`.test_micro_laws`."""


def test_unused_laws_are_none() -> None:
    """Every law over edges or states that can be spoiled in one step is spoiled here."""
    spoiled = {name for name, _ in (*SPOILED, *STATES)}
    left = {law.name for law in LAWS if law.check.__module__.rpartition(".")[2] not in MICRO} - spoiled
    assert left == {
        "calls_that_were_settled_are_not_sent",
        "effects_cannot_change",
        "a_crash_is_survived",
        "guards_are_a_partition",
        "lost_effects_are_dealt_with",
        "never_two_drains_in_a_row",
        "nothing_follows_the_end",
        "phases_follow_each_other",
        "the_history_stays_valid",
    }
