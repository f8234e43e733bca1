"""Logs in the forms of others: messages that the API takes, spans as the conventions name them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from view.logs import CONFIG, Maker, long_log

from fsm_agent.core.blocks import text_block
from fsm_agent.core.effects import CallModel, RunTool
from fsm_agent.core.events import BlockCompleted, StreamStarted, ToolStarted
from fsm_agent.core.state import initial
from fsm_agent.log.errors import LogDamaged, LogError
from fsm_agent.log.export import export_messages, export_otel
from fsm_agent.log.journal import Journal
from fsm_agent.log.reader import read_log
from fsm_agent.log.spans import How, collect_spans
from fsm_agent.log.story import Story
from fsm_agent.scenario import load
from fsm_agent.scenario.drive import drive
from fsm_agent.server.wire_checker import check_request


def scenario_log(name: str, path: Path) -> Path:
    """Record a scenario of the catalog, driven through the bare reducer."""
    scenario = load(name)
    state = initial(scenario.config)
    journal = Journal.create(path, scenario.config, state, "session-1", "run-1")
    for event, made in drive(scenario).steps:
        journal.append(event, made, sync=False)
        state = made.state
    journal.close(state)
    return path


def body(messages: list[Any]) -> dict[str, Any]:
    """Put messages into a request, a prompt behind them."""
    more = (
        [] if messages and messages[-1]["role"] == "user" else [{"role": "user", "content": [{"type": "text", "text": "on"}]}]
    )
    return {"model": "m-1", "max_tokens": 100, "messages": [*messages, *more]}


def test_messages_keep_the_rules_at_every_record(tmp_path: Path) -> None:
    """Behind any record the messages are a history that the API takes; what was in flight is closed."""
    log = long_log(tmp_path / "a.jsonl", 60, words=5)
    last = read_log(log).tail.records
    for at in range(1, last + 1):
        assert check_request(body(export_messages(log, at)), CONFIG.info("m-1")) == (), at
    whole = export_messages(log)
    assert whole == export_messages(log, last)
    assert whole[0]["content"][0]["text"] == "Look through the whole project."
    assert whole[-1] == {"role": "assistant", "content": [{"type": "text", "text": "All is well."}]}


@pytest.mark.parametrize("name", ["repair", "reactive-compact", "salvage", "interrupt-tools", "stop-hook-blocking"])
def test_messages_of_real_runs(tmp_path: Path, name: str) -> None:
    """Runs that were compacted, salvaged, interrupted or blocked export a valid history too."""
    log = scenario_log(name, tmp_path / "a.jsonl")
    config = read_log(log).header.config
    messages = export_messages(log)
    request = {**body(messages), "model": config.model, "thinking": {"type": "adaptive"}}
    if "adaptive" not in config.info(config.model).thinking:
        del request["thinking"]
    assert messages
    assert check_request(request, config.info(config.model)) == ()


def test_a_record_that_is_not_there_is_named(tmp_path: Path) -> None:
    """Messages behind a record that the log does not have are an error that says which is the last one."""
    log = long_log(tmp_path / "a.jsonl", 20, words=5)
    with pytest.raises(LogError, match="there is no record 999"):
        export_messages(log, 999)


def spans_of(made: Any) -> list[dict[str, Any]]:
    """Give the spans, their attributes as a mapping."""
    (resource,) = made["resourceSpans"]
    (scope,) = resource["scopeSpans"]
    return [
        {**span, "attributes": {pair["key"]: _plain(pair["value"]) for pair in span["attributes"]}} for span in scope["spans"]
    ]


def _plain(value: dict[str, Any]) -> Any:
    ((kind, part),) = value.items()
    if kind == "intValue":
        assert isinstance(part, str)
        return int(part)
    return [_plain(item) for item in part["values"]] if kind == "arrayValue" else part


def test_spans_have_the_names_and_times_of_the_run(tmp_path: Path) -> None:
    """One invoke_agent over a chat for each call and an execute_tool for each tool, within its time, by the conventions."""
    log = long_log(tmp_path / "a.jsonl", 150, words=2_000)
    root, *others = spans_of(export_otel(log))
    assert (root["name"], root["kind"], root["status"]) == ("invoke_agent fsm_agent", 1, {"code": 1})
    assert "parentSpanId" not in root
    story = Story(log)
    told = list(story.steps())
    chats = [span for span in others if span["attributes"].get("gen_ai.operation.name") == "chat"]
    tools = [span for span in others if span["attributes"].get("gen_ai.operation.name") == "execute_tool"]
    effects = [effect for one in told if one.step is not None for effect in one.step.effects]
    assert len(chats) == sum(isinstance(effect, CallModel) for effect in effects)
    assert len(tools) == sum(isinstance(effect, RunTool) for effect in effects)
    assert {span["name"] for span in chats} == {"chat m-1"}
    assert {span["kind"] for span in chats} == {3}
    assert {span["kind"] for span in tools} == {1}
    ids = [span["spanId"] for span in (root, *others)]
    assert len(set(ids)) == len(ids)
    for span in others:
        assert span["traceId"] == root["traceId"]
        assert len(span["traceId"]) == 32
        assert len(span["spanId"]) == 16
        assert span["parentSpanId"] == root["spanId"]
        begin, end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
        assert int(root["startTimeUnixNano"]) <= begin <= end <= int(root["endTimeUnixNano"])
    starts = {str(one.at * 1_000_000) for one in told if isinstance(one.record.event, ToolStarted)}
    assert {span["startTimeUnixNano"] for span in tools} <= starts
    call = chats[0]["attributes"]
    assert call["gen_ai.provider.name"] == "anthropic"
    assert call["gen_ai.response.id"] == "msg_1"
    assert call["gen_ai.response.finish_reasons"] == ["tool_use"]
    assert call["gen_ai.conversation.id"] == "session-1"
    assert call["gen_ai.response.time_to_first_chunk"] > 0
    compactions = [span for span in others if span["name"] == "compact auto"]
    assert compactions
    total = sum(span["attributes"].get("gen_ai.usage.output_tokens", 0) for span in others)
    assert root["attributes"]["gen_ai.usage.output_tokens"] == total
    assert [event["name"] for event in root["events"]].count("next_turn") > 5


def test_input_tokens_include_the_cache(tmp_path: Path) -> None:
    """The conventions count what came from the cache as input, which the API does not."""
    log = long_log(tmp_path / "a.jsonl", 20, words=5)
    _, first, *_ = spans_of(export_otel(log))
    values = first["attributes"]
    assert values["gen_ai.usage.input_tokens"] == 900 + values["gen_ai.usage.cache_read.input_tokens"]


def test_content_is_left_out_unless_asked_for(tmp_path: Path) -> None:
    """What was said, and what tools got and gave, is in the spans only on demand, and masked."""
    key = "sk-ant-" + "a1b2c3d4e5f6"
    maker = Maker(tmp_path / "a.jsonl")
    maker.reply(f"I look, with {key}.", [("toolu_1", "Read", {"path": "secret-plan.txt"})])
    maker.run_tools(f"plan: {key}")
    maker.finish()
    bare, full = (json.dumps(export_otel(tmp_path / "a.jsonl", content=on)) for on in (False, True))
    assert "secret-plan" not in bare
    assert "plan:" not in bare
    assert "secret-plan" in full
    assert "plan: [masked]" in full
    assert key not in full


def test_failures_have_their_error(tmp_path: Path) -> None:
    """A run that failed, and a call that failed, have the status and the type of their error."""
    root, *others = spans_of(export_otel(scenario_log("attempts-exhausted", tmp_path / "a.jsonl")))
    assert root["status"]["code"] == 2
    assert root["attributes"]["fsm_agent.terminal.reason"] == "model_error"
    failed = [span for span in others if span["status"].get("code") == 2]
    assert failed
    assert all(span["attributes"]["error.type"] for span in failed)


def test_a_damaged_log_exports_nothing(tmp_path: Path) -> None:
    """Spans of a log that is damaged inside would not be the run: the damage is named instead."""
    log = long_log(tmp_path / "a.jsonl", 30, words=5)
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    for export in (export_messages, export_otel):
        with pytest.raises(LogDamaged):
            export(log)


def test_spans_that_never_ended_are_open(tmp_path: Path) -> None:
    """Where the process died, calls and tools in flight are open; what was cancelled is not."""
    maker = Maker(tmp_path / "a.jsonl")
    (call,) = maker.take(CallModel)
    assert isinstance(call, CallModel)
    maker.feed(StreamStarted(call.id, "msg_1", "m-1"), 100)
    maker.feed(BlockCompleted(call.id, 0, text_block("Hm")), 100)
    (span,) = collect_spans(Story(tmp_path / "a.jsonl").steps())
    assert (span.how, span.ended, span.started_seq) == (How.OPEN, None, 2)
    cancelled = collect_spans(Story(scenario_log("interrupt-streaming", tmp_path / "b.jsonl")).steps())
    assert How.CANCELLED in {span.how for span in cancelled}
