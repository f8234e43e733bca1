"""Logs in the forms of others: messages as the API takes them, and OpenTelemetry spans as OTLP JSON (api-facts C9)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Any

from ..core.blocks import Block, block_value
from ..core.context.store import Sent
from ..core.effects import CallModel, EffectKind, RunTool
from ..core.events import AbortRequested, BlockCompleted, RunStarted, StreamStarted, ToolFinished
from ..core.phases import SUCCESS, TERMINAL_SET, AbortReason, ContinueReason
from ..core.request.head import keeps_thinking
from ..core.request.sending import bring_up_to_date
from ..core.state import LoopState
from ..core.usage import ModelUsage, add_usage, total_cost
from .errors import LogError, LogGap
from .format import Header
from .redact import Redactor
from .replay import replay
from .spans import How, Span, SpanBook
from .story import Story, Told

AGENT = "fsm_agent"
_AGENT_SOURCE = "agent:"
_INTERNAL, _CLIENT = 1, 3
"""Kinds of spans in OTLP."""
_OK, _ERROR = 1, 2
"""Status codes in OTLP."""


def export_messages(path: str | os.PathLike[str], at: int | None = None) -> list[Any]:
    """Give the conversation of a log as the ``messages`` of a request.

    Args:
        path: the log.
        at: sequence number of the record behind which the conversation is taken; by default the last one.

    Returns:
        Messages that keep the API's rules: what was in flight is closed as if the consumer had left.

    Raises:
        LogError: if the log cannot be read or replayed that far.
        OSError: if the file cannot be read.
    """
    found = replay(path, at)
    if found.divergence is not None:
        raise LogError(f"{path}: the replay diverges, so the messages are not known. {found.divergence}")
    if not found.known:
        gap = found.skipped[-1].gap
        raise LogGap(path, gap.seq, f"the messages at the end are not known: {gap.words}")
    state, config = _closed(found.state, found.header), found.header.config
    info = config.info(state.control.tool_use_context.model)
    sent = bring_up_to_date(Sent(), state.messages, config, info, keeps=keeps_thinking(config, info))
    return [json.loads(wire.body) for wire in sent.wires]


def _closed(state: LoopState, header: Header) -> LoopState:
    from ..core.step import step

    if state.phase in TERMINAL_SET or not state.control.run.id:
        return state
    return step(state, AbortRequested(AbortReason.CLOSE), header.config).state


def export_otel(path: str | os.PathLike[str], *, content: bool = False, mask: Callable[[str], str] | None = None) -> Any:
    """Give a run as OpenTelemetry spans: ``invoke_agent`` over ``chat`` and ``execute_tool``, with the log's wall times.

    Args:
        path: the log.
        content: put in what was said and what tools got and gave; the conventions leave it out by default.
        mask: masks secrets in every text, by default the shapes of well-known keys.

    Returns:
        A value for one OTLP/JSON file.

    Raises:
        LogUnreadable, LogDamaged: if the log cannot be read to its end.
        OSError: if the file cannot be read.
    """
    story, book, facts = Story(path), SpanBook(), _Facts()
    for told in story.steps():
        book.add(told)
        facts.add(told)
    if story.damage is not None:
        raise story.damage
    maker = _Maker(story, facts, content, mask or Redactor().mask)
    spans = [maker.root(), *(maker.child(span) for span in book.spans)]
    resource = _attributes({"service.name": AGENT, "service.version": story.header.package}, maker.mask)
    scope = {"name": AGENT, "version": story.header.package}
    return {"resourceSpans": [{"resource": {"attributes": resource}, "scopeSpans": [{"scope": scope, "spans": spans}]}]}


class _Facts:
    """What spans are told beside their times."""

    def __init__(self) -> None:
        self.calls: dict[str, CallModel] = {}
        self.starts: dict[str, StreamStarted] = {}
        self.inputs: dict[str, str] = {}
        self.replies: dict[str, list[Block]] = {}
        self.results: dict[str, Block] = {}
        self.passes: list[tuple[int, str]] = []
        self.usage: tuple[ModelUsage, ...] = ()
        self.source = ""
        self.last = 0
        self.at = 0

    def add(self, told: Told) -> None:
        """Take one step of the story."""
        event = told.record.event
        self.last, self.at = told.record.seq, told.at
        self.usage = add_usage(self.usage, getattr(event, "usage", ()))
        self.passes += [(told.at, name) for name in told.record.taken if name in _CONTINUES]
        match event:
            case RunStarted():
                self.source = event.source
            case StreamStarted():
                self.starts[event.id] = event
            case BlockCompleted():
                self.replies.setdefault(event.id, []).append(event.block)
            case ToolFinished():
                self.results[event.id] = event.result
            case _:
                pass
        for effect in () if told.step is None else told.step.effects:
            if isinstance(effect, CallModel):
                self.calls[effect.id] = effect
            elif isinstance(effect, RunTool):
                self.inputs[effect.id] = effect.input_json


_CONTINUES = frozenset(reason.value for reason in ContinueReason)
_TOKENS = ("input_tokens", "cache_read_tokens", "cache_creation_tokens")


class _Maker:
    """Makes the spans of one run."""

    def __init__(self, story: Story, facts: _Facts, content: bool, mask: Callable[[str], str]) -> None:
        self._story = story
        self._facts = facts
        self._content = content
        self.mask = mask
        header = story.header
        # A sub-agent's spans hang below the tool call that started it, in the trace of that run.
        outer = header.caller.partition("/")[0] or header.run
        self._trace = _digest(f"trace {header.session} {outer}", 32)
        self._root = _digest(f"run {header.run}", 16)

    def root(self) -> dict[str, Any]:
        """Make the span of the run."""
        header, facts = self._story.header, self._facts
        source = facts.source
        name = source.removeprefix(_AGENT_SOURCE) if source.startswith(_AGENT_SOURCE) else AGENT
        terminal = self._story.terminal
        good = terminal is not None and terminal.cause in SUCCESS
        values: dict[str, Any] = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": "anthropic",
            "gen_ai.agent.name": name,
            "gen_ai.agent.id": header.run,
            "gen_ai.conversation.id": header.session,
            "gen_ai.request.model": header.config.model,
            **_usage(facts.usage),
            "fsm_agent.cost_micro_dollars": total_cost(facts.usage),
        }
        if terminal is not None:
            values |= {
                "fsm_agent.terminal.reason": terminal.reason.value,
                "fsm_agent.terminal.cause": terminal.cause.value,
                "fsm_agent.turn_count": terminal.turn_count,
            }
            if not good:
                values["error.type"] = terminal.cause.value
        status = {"code": _OK} if good else {} if terminal is None else {"code": _ERROR, "message": self.mask(terminal.detail)}
        made = self._span(f"invoke_agent {name}", _INTERNAL, self._root, self._story.created, facts.at, values, status)
        if header.caller:
            made["parentSpanId"] = _digest(f"effect {header.caller}", 16)
        made["events"] = [{"timeUnixNano": _nano(at), "name": name, "attributes": []} for at, name in facts.passes]
        return made

    def child(self, span: Span) -> dict[str, Any]:
        """Make the span of one effect."""
        match span.kind:
            case EffectKind.CALL:
                name, kind, values = f"chat {span.name}", _CLIENT, self._call(span)
            case EffectKind.TOOL:
                name, kind, values = f"execute_tool {span.name}", _INTERNAL, self._tool(span)
            case _:
                name, kind = f"{span.kind.value} {span.name}".strip(), _INTERNAL
                values = {"fsm_agent.effect": span.kind.value, **_usage(span.usage)}
        values["fsm_agent.effect.id"] = span.id
        bad = span.how in (How.ERROR, How.FAILED, How.CANCELLED)
        if bad:
            values["error.type"] = "cancelled" if span.how is How.CANCELLED else span.detail.partition(":")[0] or "tool_error"
        status = {"code": _ERROR, "message": self.mask(span.detail)} if bad else {}
        begin = span.started if span.kind is EffectKind.TOOL and span.started is not None else span.issued
        end = self._facts.at if span.ended is None else span.ended
        made = self._span(name, kind, _digest(f"effect {span.id}", 16), begin, end, values, status)
        made["parentSpanId"] = self._root
        return made

    def _call(self, span: Span) -> dict[str, Any]:
        facts = self._facts
        call, start = facts.calls.get(span.id), facts.starts.get(span.id)
        values: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "anthropic",
            "gen_ai.conversation.id": self._story.header.session,
            "gen_ai.request.model": span.name,
            "gen_ai.request.stream": True,
            **_usage(span.usage),
        }
        if call is not None:
            values["gen_ai.request.max_tokens"] = call.request.max_tokens
        if start is not None:
            values |= {"gen_ai.response.id": start.message_id, "gen_ai.response.model": start.model or span.name}
        if span.started is not None:
            values["gen_ai.response.time_to_first_chunk"] = (span.started - span.issued) / 1000
        if span.how is How.OK and span.detail:
            values["gen_ai.response.finish_reasons"] = [span.detail]
        if self._content and span.id in facts.replies:
            parts = [block_value(block) for block in facts.replies[span.id]]
            values["gen_ai.output.messages"] = json.dumps([{"role": "assistant", "parts": parts}], ensure_ascii=False)
        return values

    def _tool(self, span: Span) -> dict[str, Any]:
        values: dict[str, Any] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": span.name,
            "gen_ai.tool.call.id": span.call,
            "gen_ai.tool.type": "function",
            "gen_ai.conversation.id": self._story.header.session,
        }
        if self._content and span.id in self._facts.inputs:
            values["gen_ai.tool.call.arguments"] = self._facts.inputs[span.id]
        if self._content and span.id in self._facts.results:
            values["gen_ai.tool.call.result"] = json.dumps(
                block_value(self._facts.results[span.id]).get("content"), ensure_ascii=False
            )
        return values

    def _span(
        self, name: str, kind: int, identity: str, begin: int, end: int, values: dict[str, Any], status: dict[str, Any]
    ) -> dict[str, Any]:
        return {
            "traceId": self._trace,
            "spanId": identity,
            "name": self.mask(name),
            "kind": kind,
            "startTimeUnixNano": _nano(begin),
            "endTimeUnixNano": _nano(max(begin, end)),
            "attributes": _attributes(values, self.mask),
            "status": status,
        }


def _digest(text: str, length: int) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]


def _nano(milliseconds: int) -> str:
    return str(milliseconds * 1_000_000)


def _usage(usage: Iterable[ModelUsage]) -> dict[str, int]:
    """Sum tokens as the conventions count them: the input includes what came from the cache and went into it."""
    parts = tuple(usage)
    if not parts:
        return {}
    return {
        "gen_ai.usage.input_tokens": sum(getattr(part, name) for part in parts for name in _TOKENS),
        "gen_ai.usage.output_tokens": sum(part.output_tokens for part in parts),
        "gen_ai.usage.cache_read.input_tokens": sum(part.cache_read_tokens for part in parts),
        "gen_ai.usage.cache_creation.input_tokens": sum(part.cache_creation_tokens for part in parts),
    }


def _attributes(values: dict[str, Any], mask: Callable[[str], str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value, mask)} for key, value in values.items()]


def _value(value: Any, mask: Callable[[str], str]) -> dict[str, Any]:
    """Give a value in the notation of OTLP; whole numbers are text there."""
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case list():
            return {"arrayValue": {"values": [_value(item, mask) for item in value]}}
        case _:
            return {"stringValue": mask(str(value))}
