"""Spans and metrics of real runs, through the real SDK and its own spans, into memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="the extra 'otel' is not installed")

from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from fsm_agent import Agent, run_sync
from fsm_agent.server.app import LoopbackServer
from fsm_agent.server.replies import HttpError, StreamError, calls, says
from fsm_agent.server.replies import tool as use
from fsm_agent.telemetry import Telemetry

MODEL = "claude-sonnet-5-5"
_EXPORTER = InMemorySpanExporter()


@pytest.fixture(scope="session")
def provider() -> TracerProvider:
    """The global provider, which the SDK uses; there can be one in a process."""
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(_EXPORTER))
    trace.set_tracer_provider(made)
    return made


@pytest.fixture
def spans(provider: TracerProvider) -> Iterator[InMemorySpanExporter]:
    """The spans of one test."""
    _EXPORTER.clear()
    yield _EXPORTER
    _EXPORTER.clear()


def ran(server: LoopbackServer, cwd: Path, telemetry: Telemetry, **settings: Any) -> Any:
    agent = Agent(MODEL, cwd=cwd, base_url=server.base_url, api_key="k", telemetry=telemetry, backoff_ms=1, **settings)
    return run_sync("go", agent=agent)


def by_name(exporter: InMemorySpanExporter) -> dict[str, list[ReadableSpan]]:
    found: dict[str, list[ReadableSpan]] = {}
    for span in exporter.get_finished_spans():
        found.setdefault(span.name, []).append(span)
    return found


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_spans_form_one_tree_without_doubles(tmp_path: Path, spans: InMemorySpanExporter) -> None:
    """One span a run; the SDK's own span of each call and one of each tool are its children; each call has one only."""
    (tmp_path / "a").write_text("x")
    with LoopbackServer([calls(use("Read", {"file_path": "a"})), says("done")]) as server:
        outcome = ran(server, tmp_path, Telemetry(agent_name="tester"))
    found = by_name(spans)
    assert sorted(found) == ["anthropic.messages.create", "execute_tool Read", "invoke_agent tester"]
    (run,) = found["invoke_agent tester"]
    (tool,) = found["execute_tool Read"]
    chats = found["anthropic.messages.create"]
    assert len(chats) == 2
    assert run.parent is None
    assert all(span.parent is not None and span.parent.span_id == run.context.span_id for span in (*chats, tool))
    assert (run.kind, tool.kind, chats[0].kind) == (SpanKind.INTERNAL, SpanKind.INTERNAL, SpanKind.CLIENT)
    assert {span.status.status_code for span in (run, *chats)} == {StatusCode.OK}
    first, last, whole = attributes(chats[0]), attributes(chats[1]), attributes(run)
    assert first["gen_ai.operation.name"] == "chat"
    assert first["gen_ai.request.model"] == first["gen_ai.response.model"] == MODEL
    assert (first["gen_ai.response.finish_reasons"], last["gen_ai.response.finish_reasons"]) == (("tool_use",), ("end_turn",))
    assert last["gen_ai.response.time_to_first_chunk"] > 0
    session = outcome.result["session_id"]
    assert first["gen_ai.conversation.id"] == whole["gen_ai.conversation.id"] == session
    for key in ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"):
        assert whole[key] == first[key] + last[key] > 0
    assert attributes(tool)["gen_ai.tool.call.id"]
    assert "gen_ai.tool.call.arguments" not in attributes(tool)


def test_failures_have_error_types(tmp_path: Path, spans: InMemorySpanExporter) -> None:
    """A failed attempt, a stream that breaks off, a failing tool and a run that ends badly say what went wrong."""
    bash = calls(use("Bash", {"command": "exit 3"}))
    script = [HttpError(529), StreamError(of=says("x"), after_frames=2), bash, HttpError(401)]
    with LoopbackServer(script) as server:
        ran(server, tmp_path, Telemetry(), permission_mode="bypassPermissions")
    found = by_name(spans)
    chats = found["anthropic.messages.create"]
    assert [span.status.status_code for span in chats] == [
        StatusCode.ERROR,
        StatusCode.ERROR,
        StatusCode.OK,
        StatusCode.ERROR,
    ]
    assert attributes(chats[1])["error.type"] == "overloaded"
    assert attributes(found["execute_tool Bash"][0])["error.type"] == "tool_error"
    (run,) = found["invoke_agent fsm_agent"]
    assert (attributes(run)["error.type"], run.status.status_code) == ("auth", StatusCode.ERROR)


def test_content_only_where_asked(tmp_path: Path, spans: InMemorySpanExporter) -> None:
    """Inputs and results are recorded with ``content``, never without it."""
    (tmp_path / "a").write_text("a secret")
    for content in (False, True):
        spans.clear()
        with LoopbackServer([calls(use("Read", {"file_path": "a"})), says("done")]) as server:
            ran(server, tmp_path, Telemetry(content=content))
        text = json.dumps([attributes(span) for span in spans.get_finished_spans()], default=str)
        assert ("a secret" in text) is content


def test_sub_agents_are_below_their_call(tmp_path: Path, spans: InMemorySpanExporter) -> None:
    """The run of a sub-agent is a child of the call that started it, and its own calls are below it."""
    agents = pytest.importorskip("fsm_agent.session.subagents")
    if not hasattr(agents, "AgentTool"):
        pytest.skip("there are no sub-agents yet")
    task = calls(use("Agent", {"description": "look", "prompt": "look", "subagent_type": "general"}))
    with LoopbackServer([task, says("seen"), says("done")]) as server:
        from fsm_agent.runtime.tools.builtin import builtin_tools

        tools = builtin_tools()
        if "Agent" not in {tool.name for tool in tools}:
            tools = (*tools, agents.AgentTool())
        ran(server, tmp_path, Telemetry(), tools=tools)
    found = by_name(spans)
    (tool,) = found["execute_tool Agent"]
    (child,) = found["invoke_agent general"]
    assert child.parent is not None
    assert child.parent.span_id == tool.context.span_id
    below = [
        span for span in found["anthropic.messages.create"] if span.parent and span.parent.span_id == child.context.span_id
    ]
    assert len(below) == 1


def test_metrics(tmp_path: Path) -> None:
    """Durations by operation, and tokens by kind, are recorded as histograms of the conventions' names."""
    reader = InMemoryMetricReader()
    telemetry = Telemetry(meter_provider=MeterProvider(metric_readers=[reader]))
    (tmp_path / "a").write_text("x")
    with LoopbackServer([calls(use("Read", {"file_path": "a"})), says("done")]) as server:
        ran(server, tmp_path, telemetry)
    data = reader.get_metrics_data()
    assert data is not None
    points = {
        metric.name: list(metric.data.data_points)
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    counted = {
        dict(point.attributes)["gen_ai.operation.name"]: point.count for point in points["gen_ai.client.operation.duration"]
    }
    assert counted == {"chat": 2, "execute_tool": 1, "invoke_agent": 1}
    kinds = {dict(point.attributes)["gen_ai.token.type"]: point.sum for point in points["gen_ai.client.token.usage"]}
    assert kinds["input"] > 0
    assert kinds["output"] > 0
    assert points["gen_ai.client.operation.time_to_first_chunk"][0].count >= 1


def test_an_agent_without_telemetry_makes_no_spans_of_its_own(tmp_path: Path, spans: InMemorySpanExporter) -> None:
    """Without telemetry only the SDK's own spans are there."""
    with LoopbackServer([says("done")]) as server:
        run_sync("go", agent=Agent(MODEL, cwd=tmp_path, base_url=server.base_url, api_key="k"))
    assert set(by_name(spans)) == {"anthropic.messages.create"}
