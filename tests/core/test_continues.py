"""The seven ways in which the loop goes on: every field of each line of the table in spec 01, section 4."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve, frozen
from player import Player, settings

from fsm_agent.core.blocks import block_text, text_block
from fsm_agent.core.config import ContextConfig
from fsm_agent.core.context.store import Span
from fsm_agent.core.control import AutoCompactTracking
from fsm_agent.core.effects import CallModel, EffectKind
from fsm_agent.core.events import AttachmentsGathered, CompactionFinished, ModelSwitched, StopHooksFinished, StreamStarted
from fsm_agent.core.failures import ErrorKind
from fsm_agent.core.messages import MessageKind
from fsm_agent.core.outputs import BlockOutput, CallEnd, Tombstone
from fsm_agent.core.phases import ContinueReason, Phase
from fsm_agent.core.state import LoopState, Step

REPLY, RESULTS, META = "assistant", "tool_results", "meta"


@frozen
class Line:
    """One line of the table. ``=`` keeps; the rest are values. ``adds`` are the kinds behind the view."""

    reason: ContinueReason
    source: Phase
    adds: tuple[str, ...]
    turn: int
    recoveries: int | str
    reactive: bool | str
    override: int | str | None
    active: bool | str
    turns_since: int | str = "="
    pending: bool | str = "="


LINES = (
    Line(ContinueReason.NEXT_TURN, Phase.GATHERING_ATTACHMENTS, (REPLY, RESULTS), 1, 0, False, None, "=", "+1", True),
    Line(ContinueReason.COLLAPSE_DRAIN_RETRY, Phase.DECIDING, (), 0, "=", "=", "=", False),
    Line(ContinueReason.REACTIVE_COMPACT_RETRY, Phase.REACTIVE_COMPACTING, (), 0, "=", True, None, False, 0),
    Line(ContinueReason.MAX_OUTPUT_TOKENS_ESCALATE, Phase.DECIDING, (), 0, "=", "=", 64_000, False),
    Line(ContinueReason.MAX_OUTPUT_TOKENS_RECOVERY, Phase.DECIDING, (REPLY, META), 0, "+1", "=", None, False),
    Line(ContinueReason.STOP_HOOK_BLOCKING, Phase.RUNNING_STOP_HOOKS, (REPLY, META), 0, 0, "=", None, True),
    Line(ContinueReason.TOKEN_BUDGET_CONTINUATION, Phase.RUNNING_STOP_HOOKS, (REPLY, META), 0, 0, False, None, False),
)


def _ready(config: Any, *, override: int | None = 32_000, reactive: bool = True) -> Player:
    """A run in its second round, with every carried field set to what no reset would leave."""
    player = Player(config)
    player.start(token_budget=100_000)
    player.round()
    if player.flights(EffectKind.ATTACHMENTS):
        player.feed(AttachmentsGathered(id=player.flight(EffectKind.ATTACHMENTS)))
    control = player.state.control
    guards = evolve(
        control.guards,
        max_output_tokens_recovery_count=1,
        has_attempted_reactive_compact=reactive,
        max_output_tokens_override=override,
        stop_hook_active=True,
    )
    context = evolve(control.context, tracking=AutoCompactTracking(compacted=True, turns_since=4, failures=1))
    player.state = LoopState(evolve(control, guards=guards, context=context), player.state.data)
    player.feed(StreamStarted(id=player.flight(EffectKind.CALL)))
    return player


CONFIG = settings(tool_summaries=True, stop_hooks=True, attachments=True)


def _next_turn(reactive: bool) -> tuple[Player, Callable[[], Step]]:
    player = _ready(CONFIG)
    player.call("t2")
    player.ends("tool_use")
    player.begins()
    player.finishes()
    return player, lambda: player.feed(AttachmentsGathered(id=player.flight(EffectKind.ATTACHMENTS)))


def _drain(reactive: bool) -> tuple[Player, Callable[[], Step]]:
    player = _ready(evolve(CONFIG, context=ContextConfig(collapse=True)))
    state = player.state
    first, last = state.data.iteration.view[1].id, state.data.iteration.view[2].id
    context = evolve(state.data.context, spans=(Span("s", first, last, 500, text_block("a span")),))
    control = evolve(state.control, context=evolve(state.control.context, staged=1))
    player.state = LoopState(control, evolve(state.data, context=context))
    return player, lambda: player.fails(ErrorKind.PROMPT_TOO_LONG)


def _reactive(reactive: bool) -> tuple[Player, Callable[[], Step]]:
    player = Player(CONFIG)
    player.start(token_budget=100_000)
    for number in range(4):
        player.block(text_block("word " * 300))
        player.round(f"t{number}")
        player.feed(AttachmentsGathered(id=player.flight(EffectKind.ATTACHMENTS)))
    control = player.state.control
    guards = evolve(
        control.guards,
        max_output_tokens_recovery_count=1,
        max_output_tokens_override=32_000,
        stop_hook_active=True,
    )
    context = evolve(control.context, tracking=AutoCompactTracking(compacted=False, turns_since=4, failures=1))
    player.state = LoopState(evolve(control, guards=guards, context=context), player.state.data)
    player.fails(ErrorKind.PROMPT_TOO_LONG)

    def go() -> Step:
        effect = player.flight(EffectKind.COMPACT)
        return player.feed(CompactionFinished(id=effect, summary=(text_block("What happened."),), summarised=1))

    return player, go


def _escalate(reactive: bool) -> tuple[Player, Callable[[], Step]]:
    player = _ready(CONFIG, override=None)
    player.block(text_block("cut"), closed=False)
    return player, lambda: player.ends("max_tokens")


def _recovery(reactive: bool) -> tuple[Player, Callable[[], Step]]:
    player = _ready(CONFIG, reactive=reactive)
    player.block(text_block("cut"), closed=False)
    return player, lambda: player.ends("max_tokens")


def _blocking(reactive: bool) -> tuple[Player, Callable[[], Step]]:
    player = _ready(CONFIG, reactive=reactive)
    player.block(text_block("Done."))
    player.ends()
    return player, lambda: player.feed(StopHooksFinished(id=player.flight(EffectKind.HOOKS), blocking=("not yet",)))


def _budget(reactive: bool) -> tuple[Player, Callable[[], Step]]:
    player = _ready(CONFIG, reactive=reactive)
    player.block(text_block("Done."))
    player.ends(output=1_000)
    return player, lambda: player.feed(StopHooksFinished(id=player.flight(EffectKind.HOOKS)))


SITES: dict[ContinueReason, Callable[[bool], tuple[Player, Callable[[], Step]]]] = {
    ContinueReason.NEXT_TURN: _next_turn,
    ContinueReason.COLLAPSE_DRAIN_RETRY: _drain,
    ContinueReason.REACTIVE_COMPACT_RETRY: _reactive,
    ContinueReason.MAX_OUTPUT_TOKENS_ESCALATE: _escalate,
    ContinueReason.MAX_OUTPUT_TOKENS_RECOVERY: _recovery,
    ContinueReason.STOP_HOOK_BLOCKING: _blocking,
    ContinueReason.TOKEN_BUDGET_CONTINUATION: _budget,
}


@pytest.mark.parametrize("reactive", [True, False])
@pytest.mark.parametrize("line", LINES, ids=lambda line: line.reason.value)
def test_line_of_the_table(line: Line, reactive: bool) -> None:
    """Each continue keeps, counts and resets every carried field as its line says, and calls the model again."""
    player, go = SITES[line.reason](reactive)
    before = player.state
    player.feed(ModelSwitched(model="n"))
    made = go()
    after = made.state

    def want(rule: object, old: object) -> object:
        if rule == "=":
            return old
        return old + 1 if rule == "+1" and isinstance(old, int) else rule

    assert after.transition is line.reason
    assert after.phase is Phase.CALLING_MODEL
    assert any(isinstance(effect, CallModel) for effect in made.effects)
    assert after.turn_count == before.turn_count + line.turn
    recoveries = want(line.recoveries, before.max_output_tokens_recovery_count)
    assert after.max_output_tokens_recovery_count == recoveries
    assert after.has_attempted_reactive_compact == want(line.reactive, before.has_attempted_reactive_compact)
    assert after.max_output_tokens_override == want(line.override, before.max_output_tokens_override)
    assert after.stop_hook_active == want(line.active, before.stop_hook_active)
    assert after.tool_use_context == evolve(before.tool_use_context, model="n")
    tracking = before.auto_compact_tracking
    assert after.auto_compact_tracking.turns_since == want(line.turns_since, tracking.turns_since)
    assert after.auto_compact_tracking.compacted
    assert after.auto_compact_tracking.failures == tracking.failures
    assert before.pending_tool_use_summary
    if line.pending == "=":
        assert after.pending_tool_use_summary == before.pending_tool_use_summary
    else:
        assert after.pending_tool_use_summary in {item.id for item in player.flights(EffectKind.SUMMARY)}
        assert after.pending_tool_use_summary != before.pending_tool_use_summary


@pytest.mark.parametrize("line", [line for line in LINES if line.adds], ids=lambda line: line.reason.value)
def test_messages_grow_by_what_the_pass_added(line: Line) -> None:
    """The next working list is the view, the kept reply, its results, and the words of the engine, in this order."""
    player, go = SITES[line.reason](True)
    view = player.state.data.iteration.view
    messages = go().state.messages
    assert messages[: len(view)] == view
    assert tuple(item.kind.value for item in messages[len(view) :]) == line.adds


def test_escalation_leaves_the_view_and_takes_the_reply_back() -> None:
    """An escalation sends the same request with the larger limit; the cut reply is tombstoned and leaves nothing."""
    player, go = _escalate(True)
    old = player.state.data.iteration.request
    view = player.state.data.iteration.view
    made = go()
    new = made.state.data.iteration.request
    assert made.state.messages == view
    assert old is not None
    assert new is not None
    assert (old.max_tokens, new.max_tokens) == (8_192, 64_000)
    assert [item.body for item in new.messages] == [item.body for item in old.messages]
    shown = [output.id for output in player.outputs(BlockOutput) if output.call == player.outputs(CallEnd)[-1].call]
    assert [list(output.ids) for output in player.outputs(Tombstone)] == [shown]


def test_drain_commits_every_staged_span() -> None:
    """A drain puts each staged summary in the place of its span, and nothing else changes."""
    _, go = _drain(True)
    kinds = [item.kind for item in go().state.messages]
    assert kinds == [MessageKind.PROMPT, MessageKind.SUMMARY]


def test_recovery_keeps_the_text_and_asks_to_go_on() -> None:
    """A recovery keeps the text of the cut reply and asks for the rest, without apology or recap."""
    _, go = _recovery(True)
    messages = go().state.messages
    assert block_text(messages[-2].blocks[0]) == "cut"
    assert "exactly where it stopped" in block_text(messages[-1].blocks[0])
