"""The instruments of an agent, for ``Agent(telemetry=Telemetry())``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from time import perf_counter
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider

from ..core.blocks import block_value
from ..core.config import LoopConfig
from ..core.effects import RunTool
from ..core.events import Outcome, ToolFinished
from ..runtime.hooks.runner import RUN_FIELDS
from ..runtime.ports import Model
from .calls import TracedModel, note_span
from .runs import RunSpan

SCOPE = "fsm_agent"
_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TOKENS = (1, 4, 16, 64, 256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216, 67_108_864)
"""Bounds of the histograms, those that the conventions give."""


class Telemetry:
    """Makes the spans and metrics of an agent's runs. Implements :class:`~fsm_agent.runtime.ports.Observer`.

    Texts, inputs and results are recorded only with ``content``: they may hold what must not leave the machine.

    Args:
        tracer_provider: None for the global one. The SDK's spans always go to the global one.
        meter_provider: None for the global one.
        agent_name: the agent's name in spans.
        content: record inputs and results of tools too.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        agent_name: str = "fsm_agent",
        content: bool = False,
    ) -> None:
        try:
            release = version("fsm_agent")
        except PackageNotFoundError:
            release = ""
        self._tracer = trace.get_tracer(SCOPE, release, tracer_provider)
        meter = metrics.get_meter(SCOPE, release, meter_provider)
        self._duration = meter.create_histogram(
            "gen_ai.client.operation.duration",
            "s",
            "Duration of model calls, runs and tool calls",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage", "{token}", "Tokens used by model calls", explicit_bucket_boundaries_advisory=_TOKENS
        )
        self._first = meter.create_histogram(
            "gen_ai.client.operation.time_to_first_chunk",
            "s",
            "Time from the request to the first piece of the reply",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self._agent_name = agent_name
        self._content = content

    @property
    def middleware(self) -> tuple[Callable[[Any, Callable[[Any], Awaitable[Any]]], Awaitable[Any]], ...]:
        """What the SDK is to run around each request."""
        return (note_span,)

    def model(self, inner: Model) -> Model:
        """Wrap what performs model calls."""
        return TracedModel(inner, duration=self._duration, tokens=self._tokens, first=self._first)

    def watch(self, config: LoopConfig) -> RunSpan:
        """Make what follows a run; see :class:`~fsm_agent.runtime.ports.Observer`."""
        session = str(RUN_FIELDS.get().get("session_id", ""))
        return RunSpan(self._tracer, self._duration, name=self._agent_name, model=config.model, conversation=session)

    @contextmanager
    def tool(self, effect: RunTool) -> Iterator[Callable[[ToolFinished], None]]:
        """Make the span of one call around what runs it.

        Args:
            effect: the call.

        Yields:
            What takes the call's result.
        """
        kind = "extension" if effect.name.startswith("mcp__") else "function"
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": effect.name,
            "gen_ai.tool.call.id": effect.tool_use_id,
            "gen_ai.tool.type": kind,
        }
        if self._content:
            attributes["gen_ai.tool.call.arguments"] = effect.input_json
        begun = perf_counter()
        labels = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": effect.name}
        with self._tracer.start_as_current_span(
            f"execute_tool {effect.name}", kind=SpanKind.INTERNAL, attributes=attributes
        ) as span:

            def note(finished: ToolFinished) -> None:
                labels.update(_outcome(span, finished))
                if self._content:
                    span.set_attribute("gen_ai.tool.call.result", str(block_value(finished.result).get("content", "")))

            try:
                yield note
            finally:
                self._duration.record(perf_counter() - begun, labels)


def _outcome(span: Span, finished: ToolFinished) -> dict[str, str]:
    if finished.outcome is Outcome.OK:
        return {}
    word = "tool_error" if finished.outcome is Outcome.ERROR else "tool_failed"
    span.set_attribute("error.type", word)
    span.set_status(Status(StatusCode.ERROR))
    return {"error.type": word}
