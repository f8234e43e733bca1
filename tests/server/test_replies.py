"""What a scripted reply looks like to the official SDK, streamed and not."""

from __future__ import annotations

from typing import Any

import anthropic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_agent.server import frames
from fsm_agent.server.app import LoopbackServer
from fsm_agent.server.recorded import read_stream
from fsm_agent.server.replies import (
    Blocks,
    CallableScript,
    Insert,
    ListScript,
    Part,
    as_script,
    calls,
    compaction,
    redacted,
    says,
    server_tool,
    text,
    thinking,
    tool,
)

from .clients import HELLO, body, events, post, sdk, split

pytestmark = pytest.mark.anyio

RICH = calls(
    thinking("Let me see.", chunks=3),
    redacted(),
    text("I read it.", chunks=4),
    server_tool("web_search", {"query": "x"}),
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_0001", "content": []},
    tool("Read", {"file_path": "a.py", "unicode": "é😀"}, chunks=5),
    tool("Bash", {}),
    usage={"input_tokens": 11, "cache_read_input_tokens": 7},
)


async def streamed(client: anthropic.AsyncAnthropic, **fields: Any) -> Any:
    async with client.beta.messages.stream(model="m", max_tokens=100, messages=HELLO, **fields) as stream:
        return await stream.get_final_message()


async def test_a_stream_and_a_plain_answer_hold_the_same_message() -> None:
    """The same reply is the same message through both ways of the SDK, ids and signatures included."""
    with LoopbackServer([RICH]) as first, LoopbackServer([RICH]) as second:
        async with sdk(first) as one, sdk(second) as other:
            stream = await streamed(one)
            plain = await other.beta.messages.create(model="m", max_tokens=100, messages=HELLO)
    assert stream.model_dump(exclude_none=True) == plain.model_dump(exclude_none=True)
    assert [block.type for block in plain.content] == [
        "thinking",
        "redacted_thinking",
        "text",
        "server_tool_use",
        "web_search_tool_result",
        "tool_use",
        "tool_use",
    ]
    assert plain.stop_reason == "tool_use"
    assert (plain.usage.input_tokens, plain.usage.cache_read_input_tokens) == (11, 7)
    assert [block.id for block in plain.content if block.type == "tool_use"] == ["toolu_0001", "toolu_0002"]
    assert plain.id == "msg_0001"


async def test_details_of_the_end_arrive() -> None:
    """Stop details, stop sequence, applied edits, container and iterations reach the client."""
    iterations = [{"type": "message", "input_tokens": 5, "output_tokens": 2}]
    reply = Blocks(
        (text("x"),),
        stop_reason="refusal",
        stop_sequence="END",
        stop_details={"type": "refusal", "category": "cyber"},
        applied_edits=({"type": "clear_tool_uses_20250919", "cleared_tool_uses": 2, "cleared_input_tokens": 50},),
        container={"id": "c1", "expires_at": "2026-11-30T00:00:00Z"},
        usage={"iterations": iterations, "output_tokens": 2},
        model="other-model",
    )
    with LoopbackServer([reply]) as server:
        answer = post(server, body())
        (start, *_, last, stop) = events(split(answer)[2])
    assert start["message"]["model"] == "other-model"
    assert last["delta"]["stop_reason"] == "refusal"
    assert last["delta"]["stop_sequence"] == "END"
    assert last["delta"]["stop_details"]["category"] == "cyber"
    assert last["delta"]["container"]["id"] == "c1"
    assert last["usage"]["iterations"] == iterations
    assert last["context_management"]["applied_edits"][0]["cleared_input_tokens"] == 50
    assert stop == {"type": "message_stop"}


async def test_a_stop_reason_may_be_null_or_new() -> None:
    """Null and unknown stop reasons are sent as they are scripted."""
    with LoopbackServer([says("x", stop_reason=None), says("x", stop_reason="new_reason_2027")]) as server:
        reasons = [events(split(post(server, body()))[2])[-2]["delta"]["stop_reason"] for _ in range(2)]
    assert reasons == [None, "new_reason_2027"]


async def test_raw_tool_input_is_streamed_word_for_word() -> None:
    """Malformed input travels as it is written, in the pieces that the script names."""
    reply = calls(
        tool("Write", '{"a": 1,,}', chunks=2), Part({"type": "tool_use", "name": "W"}, pieces=('{"x": "\\ud8', '3d"}'))
    )
    with LoopbackServer([reply]) as server:
        seen = events(split(post(server, body()))[2])
    pieces = [event["delta"]["partial_json"] for event in seen if event["type"] == "content_block_delta"]
    assert pieces == ['{"a":', " 1,,}", '{"x": "\\ud8', '3d"}']


async def test_inserted_frames_and_open_blocks() -> None:
    """Frames of the script's own stand where it puts them; an open block has no stop."""
    second = {"type": "message_start", "message": {"id": "again"}}
    reply = calls(Part({"type": "text", "text": "a"}, closed=False), ping=True, usage={"output_tokens": None})
    reply = Blocks((*reply.blocks, Insert(second), Insert(b"data: {broken\n\n")), ping=True)
    with LoopbackServer([reply]) as server:
        data = split(post(server, body()))[2]
    names = [line[7:].decode() for line in data.split(b"\n") if line.startswith(b"event: ")]
    assert names == [
        "message_start",
        "ping",
        "content_block_start",
        "content_block_delta",
        "message_start",
        "message_delta",
        "message_stop",
    ]
    assert b"data: {broken\n\n" in data


async def test_unknown_blocks_and_preloaded_blocks_are_carried() -> None:
    """A block of an unknown type is served whole; preloaded blocks stand in message_start."""
    reply = Blocks(({"type": "hologram", "depth": 3},), preloaded=({"type": "text", "text": "early"},))
    with LoopbackServer([reply]) as server:
        start, first, *_ = events(split(post(server, body()))[2])
    assert start["message"]["content"] == [{"type": "text", "text": "early"}]
    assert first["index"] == 1
    assert first["content_block"] == {"type": "hologram", "depth": 3}


async def test_a_message_may_arrive_all_at_once() -> None:
    """The whole message stands in message_start, as programmatic calls do, and only message_stop follows."""
    with LoopbackServer([calls(tool("Read", {"a": 1}), all_at_once=True)]) as server:
        start, stop = events(split(post(server, body()))[2])
    assert start["message"]["content"] == [{"type": "tool_use", "id": "toolu_0001", "name": "Read", "input": {"a": 1}}]
    assert start["message"]["stop_reason"] == "tool_use"
    assert stop == {"type": "message_stop"}


async def test_a_compaction_block_arrives_in_one_delta() -> None:
    """A compaction block is put together by the SDK with its content and signature."""
    with LoopbackServer([Blocks((compaction("the story so far"),), stop_reason="compaction")]) as server:
        async with sdk(server) as client:
            message = await streamed(client, betas=["compact-2026-09-04"], compaction={"type": "summarize"})
    (block,) = message.content
    assert block.type == "compaction"
    assert block.content == "the story so far"
    assert block.signature
    assert message.stop_reason == "compaction"


async def test_frames_are_sent_one_by_one_in_the_order_of_their_times() -> None:
    """A paced reply is flushed frame by frame: the client has the first block while the last one is not sent."""
    reply = calls(text("early"), text("late", at=0.15))
    with LoopbackServer([reply]) as server:
        async with (
            sdk(server) as client,
            client.beta.messages.stream(model="m", max_tokens=100, messages=HELLO) as stream,
        ):
            async for event in stream:
                if event.type == "content_block_stop" and event.index == 0:
                    sent = [one.name for one in server.requests[0].sent]
                    break
            assert "message_stop" not in sent
            rest = [event.type async for event in stream]
    assert rest[-1] == "message_stop"
    assert [one.after for one in server.requests[0].sent] == sorted(one.after for one in server.requests[0].sent)


async def test_the_timeline_is_worked_out_before_anything_is_sent() -> None:
    """at, until, wait and pace fix when each frame is due."""
    reply = calls(
        tool("Read", {"a": 1}, at=0.2, until=0.6),
        text("abcd", chunks=2, pace=0.1, wait=0.05),
        pace=0.0,
    )
    made = frames.make(reply, frames.Asked("m"), frames.Ids())
    due = [(frame.name, round(frame.due, 3)) for frame in made.frames]
    assert due == [
        ("message_start", 0.0),
        ("content_block_start", 0.2),
        ("content_block_delta", 0.4),
        ("content_block_stop", 0.6),
        ("content_block_start", 0.75),
        ("content_block_delta", 0.85),
        ("content_block_delta", 0.95),
        ("content_block_stop", 1.05),
        ("message_delta", 1.05),
        ("message_stop", 1.05),
    ]


async def test_usage_is_estimated_from_the_request() -> None:
    """Without overrides input_tokens grows with the request; a field of value None is left out."""
    with LoopbackServer([says("x"), says("x"), says("x", usage={"input_tokens": None})]) as server:
        long = body(messages=[{"role": "user", "content": "word " * 500}])
        starts = [events(split(post(server, sent))[2])[0] for sent in (body(), long, body())]
    small, large, without = (start["message"]["usage"] for start in starts)
    assert 0 < small["input_tokens"] < large["input_tokens"]
    assert "input_tokens" not in without


def test_scripts_take_many_forms() -> None:
    """A list, a function or an object with reply is a script; anything else is refused."""
    assert as_script([says("a")]).reply(0, {}) == says("a")
    assert as_script(lambda number, body: says(str(number))).reply(3, {}) == says("3")
    assert as_script(CallableScript(lambda number, body: says("x"))).reply(0, {}) == says("x")
    assert ListScript((says("a"), says("b")), repeat=True).reply(3, {}) == says("b")
    with pytest.raises(TypeError, match="a script is"):
        as_script(3)  # type: ignore[arg-type] # this is what the test is about


BLOCKS = st.lists(
    st.one_of(
        st.builds(lambda words, chunks: text(words, chunks=chunks), st.text(), st.integers(1, 5)),
        st.builds(lambda words, chunks: thinking(words, chunks=chunks), st.text(), st.integers(1, 5)),
        st.builds(
            lambda value, chunks: tool("T", value, chunks=chunks),
            st.dictionaries(st.text(), st.one_of(st.integers(), st.text(), st.none(), st.booleans())),
            st.integers(1, 9),
        ),
    ),
    max_size=5,
)


@given(BLOCKS)
def test_a_stream_folds_to_the_whole_message(parts: list[Part]) -> None:
    """Whatever the blocks and their splitting, the frames fold to the content of the plain answer."""
    made = frames.make(calls(*parts), frames.Asked("m", binds=True), frames.Ids())
    content, reason = read_stream(b"".join(frame.data for frame in made.frames))
    assert list(content) == made.message["content"]
    assert reason == made.message["stop_reason"]
