"""The ``invoke_agent`` span of one run. It is opened in the run's own task, so that all that the run starts is below it."""

from __future__ import annotations

from time import perf_counter

from opentelemetry import context, trace
from opentelemetry.metrics import Histogram
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer

from ..core.events import Event
from ..core.outputs import Terminal
from ..core.phases import SUCCESS, TerminalReason
from ..core.state import Step
from .calls import usage_attributes


class RunSpan:
    """Follows one run by its steps.

    Args:
        tracer: makes the span.
        duration: takes the run's seconds.
        name: the agent's name.
        model: the model asked for.
        conversation: the session's id, empty if unknown.
    """

    def __init__(self, tracer: Tracer, duration: Histogram, *, name: str, model: str, conversation: str) -> None:
        self._tracer = tracer
        self._duration = duration
        self._name = name
        self._model = model
        self._conversation = conversation
        self._span: Span | None = None
        self._begun = 0.0

    def step(self, event: Event, step: Step) -> None:
        """Take a recorded step; the first one opens the span, the last one closes it. Called in the run's task."""
        if self._span is None:
            self._open(step.state.control.run.id, step.state.tool_use_context.source)
        if step.state.terminal is not None:
            self._close(step.state.terminal)

    def abandon(self) -> None:
        """The run is over; without a terminal it failed from outside its table."""
        self._close(None)

    def _open(self, run_id: str, source: str) -> None:
        name = source if source.startswith("agent:") else self._name
        name = name.removeprefix("agent:")
        self._begun = perf_counter()
        self._span = self._tracer.start_span(
            f"invoke_agent {name}",
            kind=SpanKind.INTERNAL,
            attributes={
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.provider.name": "anthropic",
                "gen_ai.agent.name": name,
                "gen_ai.request.model": self._model,
                "fsm_agent.run.id": run_id,
                **({"gen_ai.conversation.id": self._conversation} if self._conversation else {}),
            },
        )
        # The task is the run's own and ends with it, so the context is never taken off.
        context.attach(trace.set_span_in_context(self._span))

    def _close(self, terminal: Terminal | None) -> None:
        span = self._span
        if span is None or not span.is_recording():
            return
        labels = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": "anthropic",
            "gen_ai.request.model": self._model,
        }
        word = "" if terminal is None else terminal.cause.value
        if terminal is not None:
            span.set_attributes(usage_attributes(terminal.usage))
            span.set_attributes(
                {
                    "gen_ai.response.finish_reasons": (word,),
                    "fsm_agent.terminal.reason": terminal.reason.value,
                    "fsm_agent.turns": terminal.turn_count,
                }
            )
        if terminal is None or terminal.reason is not TerminalReason.COMPLETED or terminal.cause not in SUCCESS:
            labels["error.type"] = word or "engine_error"
            span.set_attribute("error.type", labels["error.type"])
            span.set_status(Status(StatusCode.ERROR, labels["error.type"]))
        else:
            span.set_status(Status(StatusCode.OK))
        span.end()
        self._duration.record(perf_counter() - self._begun, labels)
