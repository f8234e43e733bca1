"""Whatever a client sends, the server has an answer: rules and estimates read bodies of any shape."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fsm_agent.server import signatures
from fsm_agent.server.app import LoopbackServer
from fsm_agent.server.recorded import read_stream
from fsm_agent.server.replies import calls, says, thinking
from fsm_agent.server.rules import Memory, Wire
from fsm_agent.server.rules.thinking import dropped
from fsm_agent.server.sizes import prompt_tokens
from fsm_agent.server.wire_checker import check_request

from .clients import post, split
from .wires import BOUND, MODEL, READ, assistant, call, image, pdf, png, request, result, system, text, user

MARK = {"type": "ephemeral", "ttl": "1h"}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": signatures.sign("hm", MODEL.name)}
SEARCH = {"type": "server_tool_use", "id": "srv1", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srv1", "content": []}
COMPACTED = {"type": "compaction", "content": "x", "signature": "y"}

RICH = request(
    assistant(COMPACTED),
    user(text("hi"), image(png(1, 1)), pdf(1)),
    assistant(THOUGHT, SEARCH, FOUND, text("x"), call("a", caller={"type": "direct"})),
    user(result("a", [text("ok"), image(png(1, 1)), {"type": "tool_reference", "tool_name": "Read"}], cache_control=MARK)),
    system(text("note"), output_config={"effort": "low"}, clear_at="never"),
    assistant({"type": "fallback"}, text("y")),
    user(text("more")),
    system=[{**text("Be kind."), "cache_control": MARK}],
    tools=[READ],
    tool_choice={"type": "tool", "name": "Read"},
    thinking={"type": "adaptive", "display": "summarized", "block_binding": {"prefix_mismatch_behavior": "drop_block"}},
    output_config={
        "effort": "low",
        "format": {"type": "json_schema", "schema": {}},
        "task_budget": {"type": "tokens", "total": 20_000},
    },
    context_management={"edits": [{"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 50_000}}]},
    compaction={"type": "summarize"},
    stop_sequences=["x"],
    cache_control=MARK,
    stream=True,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Give the paths of all values in a piece of JSON."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(deep for key, one in inner for deep in places(one, (*path, key)))]


PLACES = [path for path in places(RICH) if path]


@st.composite
def bodies(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a rich request in which up to three values are replaced by anything, or left out."""
    body = copy.deepcopy(RICH)
    for path in draw(st.lists(st.sampled_from(PLACES), min_size=1, max_size=3)):
        holder: Any = body
        try:
            for key in path[:-1]:
                holder = holder[key]
            if draw(st.booleans()):
                holder[path[-1]] = draw(JSON)
            else:
                del holder[path[-1]]
        except (KeyError, IndexError, TypeError):
            continue
    return body


@settings(max_examples=200, deadline=None)
@given(bodies(), st.sampled_from([MODEL, BOUND]), st.sampled_from([None, Memory()]))
def test_rules_and_estimates_read_anything(body: dict[str, Any], info: Any, memory: Memory | None) -> None:
    """A request with anything in any place is checked and measured without an exception."""
    breaches = check_request(body, info, ("compact-2026-09-04",), memory=memory, tokens=10)
    assert all(breach.text and breach.rule for breach in breaches)
    assert prompt_tokens(body) >= 0
    assert dropped(Wire.of(body, info)) is not None
    messages = body.get("messages")
    assert signatures.chain_of(messages if isinstance(messages, list) else [])


@settings(max_examples=40, deadline=None)
@given(st.lists(bodies(), min_size=1, max_size=3))
def test_the_server_answers_anything(sent: list[dict[str, Any]]) -> None:
    """Strict or not, the server answers such a request with JSON of the API's shapes, never by breaking off."""
    for strict in (True, False):
        with LoopbackServer(lambda number, body: calls(thinking("x"), *says("ok").blocks), strict=strict) as server:
            for body in sent:
                body = {**body, "stream": False}
                status, _, data, ended = split(post(server, json.dumps(body).encode()))
                assert status in (200, 400, 404)
                assert json.loads(data)["type"] in ("message", "error")
                assert ended


def test_deep_nesting_is_a_400_or_an_answer() -> None:
    """However deep a tool input is nested, there is an answer: never a broken connection."""
    statuses = []
    with LoopbackServer(lambda number, body: calls(thinking("x"), *says("ok").blocks), models=(MODEL,)) as server:
        for depth in (100, 700, 900, 1_000, 2_000, 50_000):
            deep = '{"a":' * depth + "1" + "}" * depth
            body = json.dumps(request(user(text("hi")), assistant(call("a", input="DEEP")), user(result("a"))))
            status, _, data, ended = split(post(server, body.replace('"DEEP"', deep).encode()))
            assert ended
            assert json.loads(data)["type"] in ("message", "error")
            statuses.append(status)
    assert statuses[0] == 200
    assert statuses[-1] == 400
    assert set(statuses) == {200, 400}


@given(st.lists(JSON.map(lambda value: b"data: " + json.dumps(value).encode() + b"\n\n") | st.binary(max_size=20), max_size=6))
def test_recordings_of_any_kind_are_read(frames: list[bytes]) -> None:
    """Reading a recording never fails."""
    read_stream(b"".join(frames))


EVENTS = st.fixed_dictionaries(
    {"type": st.sampled_from(["message_start", "content_block_start", "content_block_delta", "message_delta"])},
    optional={
        "index": st.integers(0, 2) | JSON,
        "content_block": st.dictionaries(st.sampled_from(["type", "text", "input", "citations"]), JSON) | JSON,
        "delta": st.dictionaries(
            st.sampled_from(["type", "text", "partial_json", "citation", "signature", "stop_reason"]), JSON
        )
        | JSON,
        "message": st.dictionaries(st.sampled_from(["content", "stop_reason"]), JSON) | JSON,
    },
)


@given(st.lists(EVENTS, max_size=6))
def test_events_of_any_shape_are_read(events: list[dict[str, Any]]) -> None:
    """Events with the right names and anything in them are read without an exception."""
    content, reason = read_stream(b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events))
    assert all(isinstance(block, dict) for block in content)
    assert reason is None or isinstance(reason, str)
