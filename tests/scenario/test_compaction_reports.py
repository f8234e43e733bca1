"""Group A of the field reports, beyond the rows: what requests hold, how many there are, what survives."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from fsm_agent.core.blocks import block_text
from fsm_agent.core.config import ConfigError, ContextConfig, LoopConfig, thresholds
from fsm_agent.core.effects import CallModel
from fsm_agent.core.messages import MessageKind
from fsm_agent.core.models import ModelInfo
from fsm_agent.core.outputs import Boundary, Notice, RequestStart
from fsm_agent.core.phases import Cause
from fsm_agent.scenario import load, loads
from fsm_agent.scenario.checking import differences
from fsm_agent.scenario.drive import Driven, drive
from fsm_agent.server.over_http import PlayedOverHttp, play_over_http


def over_http(name: str) -> PlayedOverHttp:
    """Play a scenario of the catalog over real HTTP."""
    played = anyio.run(play_over_http, load(name))
    assert played.breaches == ()
    return played


def user_texts(body: dict[str, Any]) -> list[str]:
    """Give the user's texts of a request, results aside."""
    return [
        block["text"]
        for message in body["messages"]
        if message["role"] == "user"
        for block in message["content"]
        if block["type"] == "text"
    ]


def calls(driven: Driven) -> list[CallModel]:
    """Give the model calls of a run."""
    return [effect for effect in driven.effects if isinstance(effect, CallModel)]


def test_1_compactions_without_progress_end_and_the_task_does_not() -> None:
    """Three compactions that free next to nothing, then none: seven calls for seven turns; what fills the window is named."""
    driven = drive(load("compaction-thrash"))
    assert len(calls(driven)) == 7
    notices = [text.text for text in driven.outputs if isinstance(text, Notice) and "freed little" in text.text]
    assert len(notices) == 3
    assert all("system prompt, tools and the newest request alone are" in text for text in notices)
    assert len(over_http("compaction-thrash").bodies) == 7 + 3


@pytest.mark.parametrize("window", [0, -5])
def test_3_a_window_that_cannot_be_is_refused(window: int) -> None:
    """A window or threshold that is no positive number is refused when the configuration is made."""
    with pytest.raises(ConfigError):
        LoopConfig(model="m", context=ContextConfig(context_window=window))
    with pytest.raises(ConfigError):
        LoopConfig(model="m", models=(ModelInfo(name="m", context_window=window),))


def test_3_a_missing_usage_compacts_nothing() -> None:
    """Without any usage the estimate counts, and a short conversation stays far below every threshold."""
    scenario = load("usage-missing")
    driven = drive(scenario)
    count = driven.state.control.context.tokens
    assert 0 < count < thresholds(scenario.config, "scenario-model").stage_at


@pytest.mark.parametrize("answer", ["empty", "refused", '{cut: "It says"}', '{summary: "   "}'])
def test_6_no_unusable_summary_is_applied(answer: str) -> None:
    """Whatever the summariser gives that is no summary, the history stays as it was and the run goes on."""
    source = f"""
title: A summary that is none.
expect: {{reason: completed, cause: end_turn}}
prompt: Read both chapters.
models: {{scenario-model: {{context_window: 20000}}}}
config: {{context: {{keep_rounds: 1}}}}
tools: {{chapter: {{result: {{text: A chapter., chars: 9000}}}}}}
compactor: [{answer}, {answer}]
replies:
  - {{blocks: [{{tool: chapter, input: {{n: 1}}}}], usage: {{input: 400, output: 50}}}}
  - {{blocks: [{{tool: chapter, input: {{n: 2}}}}], usage: {{input: 12000, output: 50}}}}
  - Both are read.
"""
    scenario = loads(source, "scenario a-summary.yaml")
    driven = drive(scenario)
    kinds = [item.kind for item in driven.state.messages]
    assert MessageKind.SUMMARY not in kinds
    assert MessageKind.BOUNDARY not in kinds
    assert kinds.count(MessageKind.TOOL_RESULTS) == 2
    played = anyio.run(play_over_http, scenario)
    assert played.breaches == ()
    assert differences(scenario.expect, played.run.played) == ()


def test_8_an_interrupted_compaction_changes_nothing() -> None:
    """An abort in the middle of a compaction leaves the messages as they were before it."""
    driven = drive(load("interrupt-compacting"))
    kinds = [item.kind for item in driven.state.messages]
    assert MessageKind.SUMMARY not in kinds
    assert driven.state.terminal is not None
    assert driven.state.terminal.cause is Cause.INTERRUPT


def test_10_a_compaction_waits_for_the_reply_in_flight() -> None:
    """Asked for in the middle of a stream, it runs before the next call; the reply is kept, and nothing is called twice."""
    played = over_http("compact-while-streaming")
    words = json.dumps(played.bodies[-1]["messages"])
    assert "Now the second." in words
    assert len(played.bodies) == 3 + 1


def test_15_a_long_loop_is_compacted_inside_and_keeps_its_goal() -> None:
    """In one long loop of tools each call is measured, and the one request is in every one of them, word for word."""
    scenario = load("long-tool-loop")
    played = over_http("long-tool-loop")
    main = [body for body in played.bodies if "tools" in body]
    assert len(main) == 12
    assert all("Read all chapters." in user_texts(body) for body in main)
    limit = thresholds(scenario.config, "scenario-model").blocking_limit
    assert all(call.request.estimate < limit for call in calls(drive(scenario)))


def test_17_the_newest_words_come_last() -> None:
    """After a compaction the command that was queued last is the last text of the user; the older request is summed up."""
    played = over_http("compact-keeps-the-command")
    texts = user_texts(played.bodies[-1])
    assert texts[-1] == "Mind the third chapter too."
    assert any("Chapter one is read" in text for text in texts)


def test_13_the_breaker_closes_again() -> None:
    """Once the context has grown by a margin since the breaker opened, a compaction runs again and works."""
    driven = drive(load("breaker-rearmed"))
    summaries = [item for item in driven.state.messages if item.kind is MessageKind.SUMMARY]
    assert ["The chapters so far are read." in block_text(item.blocks[-1]) for item in summaries] == [True]
    tracking = driven.state.auto_compact_tracking
    assert (tracking.failures, tracking.opened_at) == (0, 0)


def test_what_the_api_clears_is_told_with_its_reply() -> None:
    """Clearing edits go over HTTP; the boundary waits for the reply and says what that reply freed beyond the one before it."""
    played = over_http("microcompact-cached")
    edits = [body["context_management"]["edits"] for body in played.bodies]
    assert [edit["type"] for one in edits for edit in one] == ["clear_tool_uses_20250919"] * 4
    full = [block["content"] for message in played.bodies[-1]["messages"] for block in message["content"] if "content" in block]
    assert len(full) == 3, "our own history stays as it is"
    assert all(len(content) == 9_000 for content in full)
    outputs = played.run.outputs
    boundaries = [output for output in outputs if isinstance(output, Boundary)]
    assert [(one.kind, one.trigger, one.before - one.after) for one in boundaries] == [("microcompact", "cached", 3_100)] * 2
    starts = [place for place, output in enumerate(outputs) if isinstance(output, RequestStart)]
    places = [outputs.index(boundary) for boundary in boundaries]
    assert starts[2] < places[0] < starts[3] < places[1]
    driven = drive(load("microcompact-cached"))
    assert [output for output in driven.outputs if isinstance(output, Boundary)] == boundaries
