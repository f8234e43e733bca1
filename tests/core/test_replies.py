"""What becomes of a reply: edges of ``deciding`` and of what a run remembers (spec 01, sections 3, 6, 7, 8, 9, 11)."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from player import Player, settings

from fsm_agent.core.blocks import text_block
from fsm_agent.core.config import ConfigError, ContextConfig, EarlyStart
from fsm_agent.core.context.store import Span
from fsm_agent.core.context.usage import count_view
from fsm_agent.core.effects import CallModel, Compact, EffectKind, RunTool, StartTimer
from fsm_agent.core.events import (
    AbortRequested,
    CommandQueued,
    CompactRequested,
    EffectLost,
    ModelSwitched,
    StopHooksFinished,
    TimerFired,
    ToolTraits,
    ToolUseSummaryReady,
)
from fsm_agent.core.failures import ErrorKind
from fsm_agent.core.messages import MessageKind, message
from fsm_agent.core.outputs import Notice, UserOutput
from fsm_agent.core.phases import AbortReason, Cause, Phase
from fsm_agent.core.step import next_run
from fsm_agent.core.usage import ModelUsage
from fsm_agent.session.agent import Agent


def _count(player: Player) -> int:
    state = player.state
    return count_view(state.data.iteration.view, state.data.context, player.config, "m")[0]


@pytest.mark.parametrize("how", ["escalated", "empty", "refused", "retried"])
def test_a_reply_that_is_dropped_is_no_base_of_the_count(how: str) -> None:
    """The count stands on the last reply that is in the view: one that was discarded leaves the older base in place."""
    player = Player(settings(fallback_models=("n",)))
    player.start()
    player.round(context=50_000)
    before = player.state.data.context.base
    count = _count(player)
    assert before is not None
    assert count > 50_000
    if how == "escalated":
        player.block(text_block("cut"), closed=False)
        player.ends("max_tokens", context=60_000)
    elif how == "empty":
        player.ends("end_turn", context=60_000)
    elif how == "refused":
        player.block(text_block("I"))
        player.ends("refusal", context=60_000)
    else:
        player.block(text_block("cut"), closed=False)
        player.fails(ErrorKind.CONNECTION_LOST)
    assert player.state.data.context.base == before
    if how == "escalated":
        assert _count(player) == count


def test_a_reply_that_is_kept_is_the_base_of_the_count() -> None:
    """The usage of a kept reply is the base of the next count, also where its end was cut off."""
    player = Player(settings(max_output_tokens=9_000))
    player.start()
    player.block(text_block("cut"), closed=False)
    player.ends("max_tokens", context=70_000)
    base = player.state.data.context.base
    assert base is not None
    assert base.tokens == 70_000
    assert 70_000 < _count(player) < 70_200


def test_malformed_calls_are_counted_in_a_row() -> None:
    """A reply that is kept for its text ends the row of malformed ones: only three in a row end the run."""
    player = Player(settings(stop_hooks=True))
    player.start()
    for time in range(2):
        for number in range(3):
            player.call(f"t{number}", raw=f"{{{time},{number}")
            player.ends("tool_use")
            assert player.state.phase is Phase.CALLING_MODEL
        player.says("Done.")
        player.feed(StopHooksFinished(id=player.flight(EffectKind.HOOKS), blocking=("not yet",)))
    for number in range(4):
        player.call(f"u{number}", raw=f"{{{number}")
        player.ends("tool_use")
    assert player.state.terminal is not None
    assert player.state.terminal.cause is Cause.MALFORMED_TOOL_USE


@pytest.mark.parametrize("reason", ["end_turn", "stop_sequence", "pause_turn", "strange"])
def test_text_that_was_never_closed_is_no_answer(reason: str) -> None:
    """A reply that says it is done but closed no block holds nothing to keep: it counts as empty."""
    player = Player(settings())
    player.start()
    player.block(text_block("half an ans"), closed=False)
    player.ends(reason)
    assert player.taken[-2:] == ["empty_retry", "call_model"]


@pytest.mark.parametrize("identity", ["t1\n", "", "a b", "é", "x" * 129])
def test_ill_formed_ids_are_replaced(identity: str) -> None:
    """An id that the API would refuse is stored under one of ours, and its call runs."""
    player = Player(settings())
    player.start()
    player.call(identity)
    player.ends("tool_use")
    (run,) = [effect for effect in player.effects if isinstance(effect, RunTool)]
    assert run.tool_use_id != identity
    assert run.tool_use_id.replace("_", "").replace("-", "").isalnum()
    assert run.tool_use_id.isascii()
    player.begins()
    player.finishes()
    assert [block.id for item in player.state.messages for block in item.blocks if block.id] == [run.tool_use_id] * 2


def test_calls_without_an_id_are_calls_of_their_own() -> None:
    """Two calls of one reply that both lack an id share none: each gets one of ours, and both run."""
    player = Player(settings())
    player.start()
    player.call("", raw='{"path":"a"}')
    player.call("", raw='{"path":"b"}')
    player.ends("tool_use")
    runs = [effect for effect in player.effects if isinstance(effect, RunTool)]
    assert [effect.input_json for effect in runs] == ['{"path":"a"}', '{"path":"b"}']
    assert len({effect.tool_use_id for effect in runs}) == 2


def test_token_budget_counts_attempts_only() -> None:
    """The token budget is spent by the output of model calls of this run, not by what summaries cost."""
    player = Player(settings(tool_summaries=True))
    player.start(token_budget=10_000)
    player.round(output=1_000)
    usage = (ModelUsage(model="small", output_tokens=50_000, cost=7),)
    player.feed(ToolUseSummaryReady(id=player.flight(EffectKind.SUMMARY), text="read", usage=usage))
    assert player.state.control.budget.output_tokens == 1_000
    assert player.state.control.budget.cost == 7
    player.says("Done.", output=500)
    assert player.taken[-2:] == ["token_budget_continuation", "call_model"]


def test_a_switch_waits_for_the_next_pass() -> None:
    """A paused reply goes back to the model that paused it: the switch comes with the next pass."""
    player = Player(settings())
    player.start()
    player.feed(ModelSwitched(model="n"))
    player.block(text_block("searching"))
    made = player.ends("pause_turn")
    assert "pause_resume" in made.taken
    assert [effect.request.model for effect in made.effects if isinstance(effect, CallModel)] == ["m"]
    player.call("t1")
    player.ends("tool_use")
    player.begins()
    made = player.finishes()
    assert [effect.request.model for effect in made.effects if isinstance(effect, CallModel)] == ["n"]


def test_a_switch_between_runs_comes_with_the_next_run() -> None:
    """A switch that no pass has taken holds for the next run."""
    player = Player(settings())
    player.start()
    player.feed(ModelSwitched(model="n"))
    player.says()
    again = Player(player.config, next_run(player.state, player.config))
    again.start("r2")
    assert again.state.tool_use_context.model == "n"


def test_a_compaction_asked_for_waits_for_the_next_pass() -> None:
    """Another attempt sends the same request: a compaction asked for meanwhile waits for the next pass."""
    player = Player(settings())
    player.start()
    for number in range(4):
        player.block(text_block("word " * 300))
        player.round(f"t{number}")
    player.fails(ErrorKind.OVERLOADED)
    player.feed(CompactRequested())
    made = player.feed(TimerFired(id=player.flight(EffectKind.TIMER)))
    assert made.taken == ("timer_fired", "call_model")
    player.call("t9")
    player.ends("tool_use")
    player.begins()
    assert "compact_manual" in player.finishes().taken


def test_spans_in_the_making_end_with_their_run() -> None:
    """A summary that was cancelled with its run is forgotten, so that the next run may have the span summarised."""
    player = Player(settings(context=ContextConfig(collapse=True)))
    player.start()
    player.round()
    view = player.state.data.iteration.view
    spans = (Span("made", view[0].id, view[0].id, 9, text_block("a")), Span("lost", view[1].id, view[2].id, 9))
    state = player.state
    context = evolve(state.data.context, spans=spans)
    player.state = evolve(state, data=evolve(state.data, context=context))
    player.feed(AbortRequested(reason=AbortReason.SUBMIT))
    assert [span.id for span in next_run(player.state, player.config).data.context.spans] == ["made"]


def test_a_lost_compaction_is_issued_again_as_it_was() -> None:
    """A compaction that a crash lost is asked for again with all that the first one was given."""
    models = tuple(evolve(info, api_compaction=True) for info in settings().models)
    player = Player(settings(models=models))
    player.start()
    for number in range(4):
        player.block(text_block("word " * 300))
        player.call(f"t{number}")
        if number == 3:
            player.feed(CompactRequested(instructions="Keep names."))
        player.ends("tool_use")
        player.begins()
        player.finishes()
    player.feed(EffectLost(id=player.flight(EffectKind.COMPACT)))
    first, second = [effect for effect in player.effects if isinstance(effect, Compact)]
    assert first.prefix is not None
    assert evolve(second, id=first.id) == first


@pytest.mark.parametrize(
    "more",
    [
        {"model": "m\udcff"},
        {"model": "a\nb"},
        {"fallback_models": ("a\0b",)},
        {"betas": ("a\nb",)},
        {"betas": ("é",)},
        {"effort": "lo\rw"},
    ],
)
def test_names_that_no_request_can_carry_are_refused(more: dict[str, Any]) -> None:
    """A model, effort or beta with control characters or half a surrogate pair is a wrong configuration."""
    config = settings(**more)  # a log that holds it can be read
    with pytest.raises(ConfigError, match="no request can carry"):
        Agent(config=config)


@pytest.mark.parametrize("model", ["small", "", "a\nb", "m\udcff"])
def test_a_switch_that_cannot_hold_is_refused_with_a_warning(model: str) -> None:
    """A model whose window the settings do not fit, or that has no proper name, is not switched to; the run goes on."""
    small = evolve(settings().models[0], name="small", context_window=50_000)
    player = Player(settings(models=(*settings().models, small), context=ContextConfig(auto_compact_at=100_000)))
    player.start()
    player.feed(ModelSwitched(model=model))
    player.round()
    assert player.state.phase is Phase.CALLING_MODEL
    assert player.state.tool_use_context.model == "m"
    assert any(repr(model) in notice.text for notice in player.outputs(Notice))


def test_results_of_a_refused_reply_are_shown() -> None:
    """Every call that stays in the history has its answer shown as a message, also where the model refuses after it."""
    player = Player(settings(early_start=EarlyStart.ANY))
    player.start()
    player.call("t1", "write", traits=ToolTraits())
    player.begins()
    player.block(text_block("I will not"))
    player.ends("refusal")
    assert player.state.terminal is not None
    assert player.state.terminal.cause is Cause.REFUSAL
    shown = [output.message for output in player.outputs(UserOutput)]
    assert shown == [item for item in player.state.messages if item.kind is MessageKind.TOOL_RESULTS]
    assert len(shown) == 1


def test_results_of_malformed_calls_are_shown() -> None:
    """The errors that answer the last malformed calls of a run are shown as a message too."""
    player = Player(settings(max_malformed=0))
    player.start()
    player.call("t1", raw="{,}")
    player.ends("tool_use")
    assert player.state.terminal is not None
    assert player.state.terminal.cause is Cause.MALFORMED_TOOL_USE
    shown = [output.message for output in player.outputs(UserOutput)]
    assert shown == [item for item in player.state.messages if item.kind is MessageKind.TOOL_RESULTS]
    assert len(shown) == 1


def test_commands_for_another_address_are_handed_back() -> None:
    """What is for a sub-agent never goes into this run's history, and comes back at its end."""
    player = Player(settings())
    player.start()
    for name, address in (("mine", "main"), ("theirs", "agent:child"), ("mine-too", "main")):
        item = message(name, "user", MessageKind.COMMAND, (text_block(name),))
        player.feed(CommandQueued(command_id=name, message=item, address=address))
    player.round()
    sent = [item.id for item in player.state.messages]
    assert [name for name in sent if name in ("mine", "theirs", "mine-too")] == ["mine", "mine-too"]
    player.says()
    terminal = player.state.terminal
    assert terminal is not None
    assert terminal.undelivered == ("theirs",)


def test_a_lost_timer_after_a_salvage_waits_as_long_again() -> None:
    """The wait that a salvaged failure asked for is armed again after a crash, not that of a first attempt."""
    player = Player(settings(early_start=EarlyStart.ANY))
    player.start()
    player.call("t1", "write", traits=ToolTraits())
    player.begins()
    player.fails(ErrorKind.RATE_LIMITED, retry_after_ms=7_000)
    player.finishes()
    assert player.state.phase is Phase.BACKING_OFF
    made = player.feed(EffectLost(id=player.flight(EffectKind.TIMER)))
    assert [effect.delay_ms for effect in made.effects if isinstance(effect, StartTimer)] == [7_000]
    made = player.feed(TimerFired(id=player.flight(EffectKind.TIMER)))
    assert made.taken == ("timer_fired", "call_model")


def test_the_words_of_a_recovery_are_shown() -> None:
    """What the engine says to the model after a cut or an empty reply is shown like the words of stop hooks."""
    player = Player(settings(max_output_tokens=4_000))
    player.start()
    player.says("Half of", "max_tokens")
    player.ends("end_turn")
    shown = [output.message.kind for output in player.outputs(UserOutput)]
    assert shown == [MessageKind.META, MessageKind.META]
