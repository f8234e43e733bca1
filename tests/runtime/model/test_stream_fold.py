"""The fold of stream events, without a socket."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm_agent.core.events import StreamCompleted, StreamFailed, StreamStarted, ToolTraits
from fsm_agent.core.failures import ErrorKind
from fsm_agent.core.outputs import RawStreamEvent
from fsm_agent.runtime.sse import SseDecoder
from fsm_agent.runtime.stream_fold import RAW_INPUT_CHARS, StreamFold

from .data import (
    SPLICED,
    STOP,
    blocks,
    call,
    closed,
    completed,
    delta,
    ending,
    failed,
    fold,
    opened,
    recorded_streams,
    shown,
    sse,
    start,
    stream_bytes,
    words,
)


@pytest.mark.parametrize("entry", recorded_streams())
def test_recorded_streams_fold_as_the_index_says(entry: dict[str, Any]) -> None:
    """Blocks, tool names, stop reason and usage of each recorded stream are those of the index."""
    folded = StreamFold("c")
    items = [item for event in SseDecoder().feed(stream_bytes(entry)) for item in folded.feed(event)]
    if entry["id"] == SPLICED:
        failed(items, ErrorKind.MALFORMED_STREAM)
        return
    end = completed(items)
    assert [item.block.type for item in blocks(items)] == entry["blocks"]
    called = [item.block.name for item in blocks(items) if item.block.type.endswith("tool_use")]
    assert called == entry["tool_uses"]
    assert end.stop_reason == entry["stop_reason"]
    for key, value in (entry["usage"] or {}).items():
        assert value is None or folded.usage.get(key) == value
    for item in blocks(items):
        assert (item.tool is not None) == (item.block.type == "tool_use")
        assert item.tool is None or item.tool.input_json is not None or entry["stop_reason"] == "max_tokens"


@pytest.mark.parametrize("size", [1, 2, 7])
def test_pieces_of_any_size_give_the_same_items(size: int) -> None:
    """How the bytes are cut into pieces changes nothing, CRLF and characters of several bytes included."""
    raw = sse(start(), *words(0, "żółw 🐢"), *call(1, '{"path":"é"}'), ending("tool_use"), STOP)
    for body in (raw, raw.replace(b"\n", b"\r\n"), raw.replace(b"\n", b"\r")):
        assert fold(body, size=size) == fold(raw)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_random_pieces_give_the_same_items(data: st.DataObject) -> None:
    """The same for cuts at arbitrary places."""
    raw = sse(start(), {"type": "ping"}, *words(0, "a\n\n b"), *call(1, "{}"), ending("tool_use"), STOP)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=12)))
    decoder, folded = SseDecoder(), StreamFold("c")
    pieces = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    items = [item for piece in pieces for event in decoder.feed(piece) for item in folded.feed(event)]
    assert items == fold(raw)


@given(st.binary(max_size=300))
@settings(max_examples=150, deadline=None)
def test_arbitrary_bytes_never_raise(raw: bytes) -> None:
    """Whatever bytes come, the fold ends in exactly one failure."""
    items = fold(raw)
    assert isinstance(items[-1], StreamFailed)


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "id", "text", "input", "x"]), inner),
    max_leaves=6,
)
_event = st.builds(
    lambda kind, rest: {**rest, "type": kind},
    st.sampled_from(
        [
            "message_start",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
            "error",
            "ping",
            "new_event",
        ]
    ),
    st.dictionaries(st.sampled_from(["message", "index", "delta", "content_block", "usage", "error"]), _json | st.just(0)),
)


@given(st.lists(_event, max_size=8))
@settings(max_examples=150, deadline=None)
def test_events_of_arbitrary_shape_never_raise(events: list[dict[str, Any]]) -> None:
    """Events whose fields have any shape end in exactly one completion or failure, the last item."""
    items = fold(sse(start(), *events))
    ends = [item for item in items if isinstance(item, (StreamCompleted, StreamFailed))]
    assert ends == [items[-1]]


def test_a_cut_at_each_byte_is_a_failure_until_the_stop_reason_came() -> None:
    """A stream that ends early is never a success, and its usage is kept; behind the stop reason it is complete."""
    raw = sse(start(), *words(0, "hi"), *call(1, '{"a":1}'), ending("tool_use"), STOP)
    whole = raw.index(b'"stop_reason": "tool_use"')
    whole = raw.index(b"\n\n", whole) + 2
    for place in range(len(raw)):
        items = fold(raw[:place])
        if place >= whole:
            assert completed(items).stop_reason == "tool_use"
            assert len(blocks(items)) == 2
            continue
        kind = ErrorKind.NO_MESSAGE_STOP if isinstance(items[0], StreamStarted) else ErrorKind.EMPTY_STREAM
        end = failed(items, kind)
        assert all(item.tool is None for item in blocks(items)), "a call of a cut stream was handed out"
        assert bool(end.usage) == (kind is ErrorKind.NO_MESSAGE_STOP)


def test_a_call_is_delivered_when_the_stream_has_gone_on() -> None:
    """A closed call waits for the next block; the last one comes with the stop reason, marked."""
    folded = StreamFold("c")
    decoder = SseDecoder()

    def feed(*events: object) -> list[Any]:
        return [item for event in decoder.feed(sse(*events)) for item in folded.feed(event)]

    feed(start())
    assert blocks(feed(*call(0, "{}"))) == []
    first = blocks(feed(opened(1, {"type": "tool_use", "id": "toolu_2", "name": "Bash", "input": {}})))
    assert [(item.index, item.last) for item in first] == [(0, False)]
    assert blocks(feed(delta(1, "input_json_delta", partial_json='{"c":2}'), closed(1))) == []
    second = blocks(feed(ending("tool_use")))
    assert [(item.index, item.last, item.closed) for item in second] == [(1, True, True)]
    assert second[0].tool is not None
    assert second[0].tool.input_json == '{"c":2}'


def test_text_is_delivered_as_soon_as_it_is_closed() -> None:
    """Only calls wait; but nothing overtakes a call."""
    items = fold(sse(start(), *words(0, "a"), *call(1, "{}"), *words(2, "b"), ending("tool_use"), STOP))
    assert [(item.index, item.block.type, item.last) for item in blocks(items)] == [
        (0, "text", False),
        (1, "tool_use", False),
        (2, "text", False),
    ]
    assert shown(items) == "ab"


def test_what_was_never_closed_is_delivered_as_such() -> None:
    """The rest of a block that is open when the stop reason comes is not whole, and its input is not handed out."""
    items = fold(
        sse(
            start(),
            opened(0, {"type": "tool_use", "id": "t", "name": "Write", "input": {}}),
            delta(0, "input_json_delta", partial_json='{"path":"x"}'),
            ending("max_tokens"),
            STOP,
        )
    )
    (block,) = blocks(items)
    assert block.tool is not None
    assert (block.closed, block.last, block.tool.input_json, block.tool.raw) == (False, True, None, '{"path":"x"}')
    assert block.tool.problem


@pytest.mark.parametrize(
    "raw", ['{"a": 1,,}', '"text"', "[1,2]", "null", '{"a":1}{"b":2}', "[" * 10_000, '{"a":NaN}', '{"a":1,"a":2}']
)
def test_input_that_is_no_strict_object_is_stored_as_an_empty_one(raw: str) -> None:
    """The history holds ``{}``, the event says why and shows the raw text (field report 39)."""
    items = fold(sse(start(), *call(0, raw), ending("tool_use"), STOP))
    (block,) = blocks(items)
    assert block.tool is not None
    assert block.tool.input_json is None
    assert block.tool.problem
    assert block.tool.raw == raw[:RAW_INPUT_CHARS]
    assert json.loads(block.block.json)["input"] == {}


def test_raw_input_is_bounded() -> None:
    """The raw text in the event is cut; the input itself is not."""
    text = json.dumps({"content": "x" * 50_000})
    (block,) = blocks(fold(sse(start(), *call(0, text), ending("tool_use"), STOP)))
    assert block.tool is not None
    assert len(block.tool.raw) == RAW_INPUT_CHARS
    assert block.tool.input_json is not None
    assert len(block.tool.input_json) > 50_000


def test_input_that_came_with_the_start_is_used() -> None:
    """Calls delivered whole, in a block start or in ``message_start``, need no deltas."""
    block = {"type": "tool_use", "id": "t", "name": "roll", "input": {"player": 1}, "caller": {"type": "code_execution_x"}}
    for raw in (
        sse(start(), opened(0, block), closed(0), ending("tool_use"), STOP),
        sse(start(content=[block], stop_reason="tool_use"), STOP),
        sse(start(content=[block], stop_reason="tool_use")),
    ):
        items = fold(raw)
        (done,) = blocks(items)
        assert done.tool is not None
        assert (done.tool.input_json, done.last, done.closed) == ('{"player":1}', True, True)
        assert json.loads(done.block.json) == block
        assert completed(items).unresolved, "a call made by code is pending"


def test_unknown_things_are_carried_through() -> None:
    """Unknown blocks keep their keys, unknown deltas continue them, unknown events reach the consumer as they came."""
    block = {"type": "hologram", "shape": "cube", "depth": [1], "note": None}
    items = fold(
        sse(
            start(),
            {"type": "weather", "sky": "blue"},
            opened(0, block),
            delta(0, "hologram_delta", shape="-ish", depth=[2], note="n"),
            closed(0),
            ending("new_reason"),
            STOP,
        )
    )
    (done,) = blocks(items)
    assert json.loads(done.block.json) == {"type": "hologram", "shape": "cube-ish", "depth": [1, 2], "note": "n"}
    raw = [json.loads(item.event)["type"] for item in items if isinstance(item, RawStreamEvent)]
    assert raw == ["weather", "content_block_delta"]
    assert completed(items).stop_reason == "new_reason"


def test_an_unknown_delta_adds_no_key_to_a_known_block() -> None:
    """The API would refuse a text block with a key that it does not have; the event still reaches the consumer."""
    items = fold(
        sse(
            start(),
            opened(0, {"type": "text", "text": "a"}),
            delta(0, "new_delta", extra="x"),
            closed(0),
            ending("end_turn"),
            STOP,
        )
    )
    assert json.loads(blocks(items)[0].block.json) == {"type": "text", "text": "a"}
    assert any(isinstance(item, RawStreamEvent) for item in items)


def test_all_events_are_handed_on_when_asked() -> None:
    """With ``raw_events`` each event but pings comes as it was, before what it completes."""
    items = fold(sse(start(), {"type": "ping"}, *words(0, "a"), ending("end_turn"), STOP), raw_events=True)
    raw = [json.loads(item.event)["type"] for item in items if isinstance(item, RawStreamEvent)]
    assert raw == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert isinstance(items[0], RawStreamEvent)


def test_thinking_keeps_every_byte() -> None:
    """Thinking, signature and progress hints: the block is what the API sent, hints are no part of it."""
    items = fold(
        sse(
            start(),
            opened(0, {"type": "thinking", "thinking": "", "signature": "", "extra": {"k": 1.0}}),
            delta(0, "thinking_delta", thinking="hm ", estimated_tokens=3),
            delta(0, "thinking_delta", thinking="ok"),
            delta(0, "signature_delta", signature="sig=="),
            closed(0),
            *words(1, "x"),
            ending("end_turn"),
            STOP,
        )
    )
    block = blocks(items)[0].block
    assert block.json == '{"type":"thinking","thinking":"hm ok","signature":"sig==","extra":{"k":1.0}}'
    assert block.signed


def test_citations_and_compactions_are_merged() -> None:
    """Citations are appended to the text block, a compaction delta fills its block."""
    items = fold(
        sse(
            start(),
            opened(0, {"type": "compaction", "content": None, "encrypted_content": None}),
            delta(0, "compaction_delta", content="sum", encrypted_content="enc"),
            closed(0),
            opened(1, {"type": "text", "text": "", "citations": None}),
            delta(1, "citations_delta", citation={"n": 1}),
            delta(1, "text_delta", text="t"),
            delta(1, "citations_delta", citation={"n": 2}),
            closed(1),
            ending("end_turn"),
            STOP,
        )
    )
    first, second = (json.loads(item.block.json) for item in blocks(items))
    assert first == {"type": "compaction", "content": "sum", "encrypted_content": "enc"}
    assert second == {"type": "text", "text": "t", "citations": [{"n": 1}, {"n": 2}]}


def test_a_character_cut_in_two_deltas_is_whole() -> None:
    """Two halves of one character in two deltas give that character, to the consumer and in the block."""
    raw = (
        sse(start(), opened(0, {"type": "text", "text": ""}))
        + (
            b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\\ud83d"}}\n\n'
            b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\\ude00b"}}\n\n'
        )
        + sse(closed(0), ending("end_turn"), STOP)
    )
    items = fold(raw)
    assert shown(items) == "a😀b"
    assert json.loads(blocks(items)[0].block.json)["text"] == "a😀b"


def test_lone_surrogates_become_replacement_characters() -> None:
    """What cannot be encoded is replaced on entry, in text and in tool input."""
    raw = sse(
        start(), opened(0, {"type": "text", "text": "\ud800x"}), closed(0), *call(1, '{"a":"\\ud800"}'), ending("tool_use")
    )
    items = fold(raw)
    for item in blocks(items):
        item.block.json.encode("utf-8")
    assert blocks(items)[1].tool is not None
    assert blocks(items)[1].tool.input_json == '{"a":"\ufffd"}'  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("overloaded_error", ErrorKind.OVERLOADED),
        ("rate_limit_error", ErrorKind.RATE_LIMITED),
        ("api_error", ErrorKind.SERVER_ERROR),
        ("invalid_request_error", ErrorKind.INVALID_REQUEST),
        ("authentication_error", ErrorKind.AUTH),
        ("never_heard_of_it", ErrorKind.SERVER_ERROR),
    ],
)
@pytest.mark.parametrize("after", [0, 1, 3, 7])
def test_an_error_event_fails_by_its_type(kind: str, expected: ErrorKind, after: int) -> None:
    """At whatever place an error event comes, its type decides (field report 63)."""
    before = [start(), *words(0, "half"), *call(1, "{}")][:after]
    items = fold(sse(*before, {"type": "error", "error": {"type": kind, "message": "no"}, "request_id": "req_9"}))
    assert failed(items, expected).failure.request_id == "req_9"
    assert all(item.tool is None for item in blocks(items))


def test_an_error_event_of_plain_text_is_read_by_its_words() -> None:
    """Some gateways put a plain string into the error event."""
    raw = b"event: error\ndata: Overloaded\n\n"
    failed(fold(sse(start()) + raw), ErrorKind.OVERLOADED)


@pytest.mark.parametrize(
    ("events", "kind"),
    [
        ((), ErrorKind.EMPTY_STREAM),
        (({"type": "ping"}, {"type": "ping"}), ErrorKind.EMPTY_STREAM),
        (("[DONE]",), ErrorKind.EMPTY_STREAM),
        ((start(), "[DONE]"), ErrorKind.NO_MESSAGE_STOP),
        ((start(), *words(0, "a"), "[DONE]"), ErrorKind.NO_MESSAGE_STOP),
        ((start(),), ErrorKind.NO_MESSAGE_STOP),
        ((start(), *words(0, "all of it")), ErrorKind.NO_MESSAGE_STOP),
        ((start(), ending(None)), ErrorKind.NO_MESSAGE_STOP),
        ((start(), start(id="msg_2")), ErrorKind.MALFORMED_STREAM),
        ((start(), *words(0, "a"), start()), ErrorKind.MALFORMED_STREAM),
        ((start(), delta(0, "text_delta", text="x")), ErrorKind.MALFORMED_STREAM),
        ((start(), *words(0, "a"), delta(0, "text_delta", text="x")), ErrorKind.MALFORMED_STREAM),
        ((start(), closed(3)), ErrorKind.MALFORMED_STREAM),
        ((start(), *words(0, "a"), *words(0, "b")), ErrorKind.MALFORMED_STREAM),
        ((start(), '{"type": "content_block'), ErrorKind.MALFORMED_STREAM),
        ((start(), '{"type":"ping","n":1e999}'), ErrorKind.MALFORMED_STREAM),
        ((start(), '{"x":' + "[" * 5_000), ErrorKind.MALFORMED_STREAM),
        ((opened(0, {"type": "text", "text": ""}),), ErrorKind.MALFORMED_STREAM),
        ((STOP,), ErrorKind.MALFORMED_STREAM),
        (("<html>busy</html>",), ErrorKind.MALFORMED_STREAM),
    ],
)
def test_streams_that_are_no_reply_fail_by_kind(events: tuple[object, ...], kind: ErrorKind) -> None:
    """Each way in which a stream can be broken has its kind, and none raises."""
    failed(fold(sse(*events)), kind)


def test_message_start_said_twice_is_harmless() -> None:
    """A gateway that repeats the start of the same message before anything came changes nothing."""
    rest = (*words(0, "a"), ending("end_turn"), STOP)
    assert fold(sse(start(), start(), *rest)) == fold(sse(start(), *rest))


@pytest.mark.parametrize(
    "tail", [("[DONE]",), ("{bad",), ({"type": "error", "error": {"type": "api_error"}},), (start(id="m2"),), ()]
)
def test_nothing_behind_the_stop_reason_spoils_the_reply(tail: tuple[object, ...]) -> None:
    """Once the stop reason has come the reply is complete, whatever follows it or does not."""
    body = (start(), *words(0, "a"), ending("end_turn"))
    for events in ((*body, *tail), (*body, STOP, *tail)):
        items = fold(sse(*events))
        assert completed(items).stop_reason == "end_turn"
        assert sum(isinstance(item, StreamCompleted) for item in items) == 1


def test_a_null_stop_reason_with_message_stop_completes() -> None:
    """The stream ended properly, so the reducer decides what an absent reason means."""
    assert completed(fold(sse(start(), *words(0, "a"), ending(None), STOP))).stop_reason is None


def test_a_usage_only_message_delta_ends_nothing() -> None:
    """There can be more than one ``message_delta``; only one with a stop reason closes what is open."""
    items = fold(
        sse(
            start(),
            opened(0, {"type": "text", "text": ""}),
            ending(None),
            delta(0, "text_delta", text="a"),
            closed(0),
            ending("end_turn"),
            STOP,
        )
    )
    assert [(item.closed, item.block.chars) for item in blocks(items)] == [(True, 1)]


def test_usage_sums_the_iterations_and_the_context_is_that_of_the_last_message() -> None:
    """Compactions are billed but are not the context (api-facts A6)."""
    iterations = [
        {"type": "compaction", "input_tokens": 5_000, "output_tokens": 100},
        {"type": "message", "input_tokens": 20, "output_tokens": 5, "cache_read_input_tokens": 7},
        {"type": "advisor_message", "model": "claude-opus-4-8", "input_tokens": 9, "output_tokens": 1},
    ]
    end = completed(
        fold(sse(start(), ending("end_turn", usage={"input_tokens": 20, "output_tokens": 5, "iterations": iterations})))
    )
    assert [(item.model, item.input_tokens, item.output_tokens) for item in end.usage] == [
        ("claude-opus-5", 5_020, 105),
        ("claude-opus-4-8", 9, 1),
    ]
    assert end.context_tokens == 32


@pytest.mark.parametrize("odd", [None, "many", -5, [], {"input_tokens": None}, {"input_tokens": "x", "output_tokens": True}])
def test_odd_usage_counts_as_nothing(odd: object) -> None:
    """Missing, null or nonsense numbers are 0, never an error (field report 3)."""
    end = completed(fold(sse(start(usage=odd), ending("end_turn", usage=odd), STOP)))
    assert end.usage == ()
    assert end.context_tokens == 0


def test_edits_refusals_and_stop_sequences_are_reported() -> None:
    """What the last ``message_delta`` says goes into the event as JSON text."""
    edits = [{"type": "clear_tool_uses_20250919", "cleared_input_tokens": 900}, {"type": "x", "cleared_input_tokens": 100}]
    last = ending("refusal", context_management={"applied_edits": edits})
    last["delta"].update(stop_sequence="###", stop_details={"type": "refusal", "category": "cyber"})
    end = completed(fold(sse(start(), last, STOP)))
    assert json.loads(end.applied_edits) == edits
    assert end.cleared_tokens == 1_000
    assert json.loads(end.stop_details)["category"] == "cyber"
    assert end.stop_sequence == "###"
    assert completed(fold(sse(start(), ending("end_turn", context_management={"applied_edits": []})))).applied_edits == ""


def test_a_server_call_without_its_result_is_unresolved() -> None:
    """A server tool call pairs with its result inside the reply; one without is still pending."""
    use = [
        opened(0, {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}),
        delta(0, "input_json_delta", partial_json='{"query":"q"}'),
        closed(0),
    ]
    answer = [opened(1, {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}), closed(1)]
    assert completed(fold(sse(start(), *use, ending("pause_turn"), STOP))).unresolved
    assert not completed(fold(sse(start(), *use, *answer, ending("end_turn"), STOP))).unresolved
    assert json.loads(blocks(fold(sse(start(), *use, ending("pause_turn"))))[0].block.json)["input"] == {"query": "q"}


def test_traits_are_asked_with_the_canonical_input() -> None:
    """Traits come from the tool by name and canonical input; a predicate that raises counts as unsafe."""
    asked: list[tuple[str, str | None]] = []

    def traits(name: str, input_json: str | None) -> ToolTraits:
        asked.append((name, input_json))
        if name == "Bad":
            raise RuntimeError("predicate")
        return ToolTraits(read_only=True, concurrency_safe=True)

    items = fold(
        sse(start(), *call(0, '{ "a" : 1 }'), *call(1, "{", name="Bad", identity="t2"), ending("tool_use")), traits=traits
    )
    first, second = (item.tool for item in blocks(items))
    assert first is not None
    assert second is not None
    assert asked == [("Read", '{"a":1}'), ("Bad", None)]
    assert (first.traits.read_only, second.traits.read_only, second.traits.concurrency_safe) == (True, False, False)
