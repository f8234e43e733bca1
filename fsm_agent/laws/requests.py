"""I6: every request can be sent, and every history that is left behind can be gone on from."""

from __future__ import annotations

import json
from functools import lru_cache

from ..core.config import LoopConfig
from ..core.events import RunStarted
from ..core.messages import UNSENT_KINDS, Message
from ..core.phases import Cause
from ..core.state import LoopState
from ..core.wire import Request
from .law import Edge, edge_law, state_law


@lru_cache(maxsize=100_000)
def _facts(body: bytes) -> tuple[str, tuple[str, ...], tuple[str, ...], str]:
    """Read one encoded message: role, calls, results, and what is wrong with it alone."""
    value = json.loads(body)
    content = value["content"]
    calls = tuple(block["id"] for block in content if block["type"] == "tool_use")
    results = tuple(block["tool_use_id"] for block in content if block["type"] == "tool_result")
    fault = ""
    if not content:
        fault = "it is empty"
    elif any(block["type"] == "text" and not block["text"].strip() for block in content):
        fault = "it holds blank text"
    elif value["role"] == "assistant" and content[-1]["type"] in ("thinking", "redacted_thinking"):
        fault = "it ends with thinking"
    elif any(block["type"] == "thinking" and not block.get("signature") for block in content):
        fault = "it holds thinking without a signature"
    elif results and any(block["type"] != "tool_result" for block in content[: len(results)]):
        fault = "its results are not first"
    return value["role"], calls, results, fault


def faults_of(request: Request) -> str:
    """Say what is wrong with a request: order of roles, pairing of calls and results, blank text, thinking."""
    if not request.messages:
        return "it has no messages"
    if request.max_tokens < 1:
        return f"max_tokens is {request.max_tokens}"
    waiting: tuple[str, ...] = ()
    seen: set[str] = set()
    before = ""
    for place, wire in enumerate(request.messages):
        role, calls, results, fault = _facts(wire.body)
        if fault:
            return f"message {place}: {fault}"
        if not before and role != "user":
            return "the first message is not the user's"
        if waiting and results != waiting:
            return f"message {place}: results {results} for calls {waiting}"
        if results and not waiting:
            return f"message {place}: results {results} without calls"
        if seen.intersection(calls) or len(set(calls)) != len(calls):
            return f"message {place}: a call id stands twice"
        seen.update(calls)
        waiting, before = calls, role
    return f"calls without results: {waiting}" if waiting else ""


@edge_law("I6")
def every_request_can_be_sent(edge: Edge) -> str:
    """Each model call carries the request of the pass, for the model in use, and it keeps the rules of the API."""
    for call in edge.calls:
        if call.request is not edge.made.state.data.iteration.request:
            return "the request is not that of the pass"
        if call.request.model != edge.new.tool_use_context.model:
            return f"the request is for {call.request.model}, the run uses {edge.new.tool_use_context.model}"
        if call.request.messages[-1].role == "assistant" and not edge.new.guards.pauses:
            return "the request ends with the assistant, and nothing was paused"
        fault = faults_of(call.request)
        if fault:
            return fault
    return ""


@edge_law("I6", costly=True)
def calls_that_were_settled_are_not_sent(edge: Edge) -> str:
    """A call that the API runs itself is sent only while it stands in the view: one that was taken out is gone."""
    for call in edge.calls:
        held = {block.id for item in edge.made.state.data.iteration.view for block in item.blocks if _server(block.type)}
        sent = [block for wire in call.request.messages for block in json.loads(wire.body)["content"] if _server(block["type"])]
        gone = [block["id"] for block in sent if block["id"] not in held]
        if gone:
            return f"sent, and not in the view: {gone}"
    return ""


def _server(kind: str) -> bool:
    return kind.endswith("tool_use") and kind != "tool_use"


@edge_law("I6")
def the_history_stays_valid(edge: Edge) -> str:
    """The engine never makes a history of which no request can be made, unless the run began with one."""
    terminal = edge.made.state.data.terminal
    if not edge.ended or terminal is None or terminal.cause is not Cause.INVALID_HISTORY:
        return ""
    return "" if isinstance(edge.event, RunStarted) else terminal.detail


def unpaired(messages: tuple[Message, ...]) -> str:
    """Say what is wrong with the pairing of calls and results in a working list."""
    waiting: tuple[str, ...] = ()
    for item in messages:
        if item.kind in UNSENT_KINDS:
            continue
        results = tuple([block.id for block in item.blocks if block.type == "tool_result"])
        if results != waiting:
            return f"message {item.id}: results {results} for calls {waiting}"
        waiting = ()
        if item.role == "assistant":
            waiting = tuple([block.id for block in item.blocks if block.type == "tool_use"])
    return f"calls without results at the end: {waiting}" if waiting else ""


@edge_law("I6")
def what_is_left_is_paired(edge: Edge) -> str:
    """However a run ends, each call of its history has exactly one result, right behind it, in order."""
    return unpaired(edge.made.state.data.messages) if edge.ended else ""


@state_law("I6", costly=True)
def the_view_is_paired(state: LoopState, config: LoopConfig) -> str:
    """The messages that a pass begins with are paired, so that no request has to repair them."""
    return unpaired(state.data.messages)
