"""The server as a whole: endpoints, keys, models, strictness, records, start and stop."""

from __future__ import annotations

import json
import socket
import threading
from typing import Any

import anthropic
import pytest
from attrs import evolve

from fsm_agent.server.app import LoopbackServer
from fsm_agent.server.exchange import Exchange
from fsm_agent.server.replies import Blocks, HttpError, ListScript, calls, says, server_tool, text, tool

from .clients import HELLO, body, events, post, sdk, split
from .wires import MODEL, READ, assistant, call, request, result, user

pytestmark = pytest.mark.anyio


def refusal(answer: bytes) -> tuple[int, str, str]:
    status, headers, data, _ = split(answer)
    value = json.loads(data)
    assert value["type"] == "error"
    assert value["request_id"] == headers["request-id"]
    return status, value["error"]["type"], value["error"]["message"]


async def test_a_conversation_through_the_sdk_is_recorded() -> None:
    """Two calls of the SDK are answered in order, and each record holds body, headers, betas and call number."""
    with LoopbackServer([calls(tool("Read", {"a": 1})), says("done")], models=(MODEL,)) as server:
        async with sdk(server) as client:
            first = await client.beta.messages.create(
                model=MODEL.name, max_tokens=10, messages=HELLO, tools=[READ], betas=["context-management-2025-06-27"]
            )
            messages: list[Any] = [*HELLO, assistant(*(block.to_dict() for block in first.content)), user(result("toolu_0001"))]
            second = await client.beta.messages.create(model=MODEL.name, max_tokens=10, messages=messages, tools=[READ])
    assert second.content[0].text == "done"
    one, other = server.requests
    assert (one.call, other.call) == (0, 1)
    assert one.betas == ("context-management-2025-06-27",)
    assert json.loads(other.raw) == other.body
    assert other.body["messages"][2]["content"][0]["tool_use_id"] == "toolu_0001"
    assert one.headers["anthropic-version"]
    assert one.finished
    assert server.breaches == []


async def test_both_forms_of_the_key_are_taken() -> None:
    """x-api-key and a bearer token are taken, none is 401, and so is a key that is not on the list."""
    with LoopbackServer(ListScript((says("x"),), repeat=True), keys=("k", "b")) as server:
        assert split(post(server, body()))[0] == 200
        assert split(post(server, body(), headers={"x-api-key": "", "authorization": "Bearer b"}))[0] == 200
        assert refusal(post(server, body(), headers={"x-api-key": ""}))[:2] == (401, "authentication_error")
        assert refusal(post(server, body(), headers={"x-api-key": "z"}))[:2] == (401, "authentication_error")


async def test_an_unknown_model_is_404_where_models_are_named() -> None:
    """Named models are all there is; without names any model is taken."""
    with LoopbackServer([says("x")], models=(MODEL,)) as server:
        assert refusal(post(server, body())) == (404, "not_found_error", "model: m")
    with LoopbackServer([says("x")]) as server:
        assert split(post(server, body()))[0] == 200


async def test_models_are_listed_with_their_capabilities() -> None:
    """The SDK reads limits and capabilities of each model from the models endpoint."""
    with LoopbackServer([], models=(MODEL, evolve(MODEL, name="plain-1", thinking=(), efforts=()))) as server:
        async with sdk(server) as client:
            names = [model.id async for model in client.beta.models.list()]
            rich = await client.beta.models.retrieve(MODEL.name)
            plain = await client.beta.models.retrieve("plain-1")
            with pytest.raises(anthropic.NotFoundError, match="nothing-1"):
                await client.beta.models.retrieve("nothing-1")
    assert names == [MODEL.name, "plain-1"]
    assert (rich.max_input_tokens, rich.max_tokens) == (200_000, 64_000)
    assert rich.capabilities is not None
    assert rich.capabilities.thinking.types.adaptive.supported
    assert not rich.capabilities.thinking.types.between_tools.supported
    assert rich.capabilities.effort.high.supported
    assert not rich.capabilities.effort.medium.supported
    assert plain.capabilities is not None
    assert not plain.capabilities.thinking.supported
    assert plain.capabilities.thinking.types.disabled.supported


async def test_tokens_are_counted_with_the_estimate_of_the_usage() -> None:
    """count_tokens gives the number that the same request has in its usage, and consumes no reply."""
    with LoopbackServer([says("x")], models=(MODEL,)) as server:
        async with sdk(server) as client:
            count = await client.beta.messages.count_tokens(model=MODEL.name, messages=HELLO, tools=[READ], system="Be kind.")
            reply = await client.beta.messages.create(
                model=MODEL.name, max_tokens=10, messages=HELLO, tools=[READ], system="Be kind."
            )
    assert count.input_tokens == reply.usage.input_tokens > 0


async def test_a_breach_is_answered_by_a_400_that_names_the_path() -> None:
    """A strict server refuses a breach and uses up no reply; one that is not strict looks at nothing."""
    broken = request(user(text_block("hi")), assistant(call("a")), user(text_block("no")))
    with LoopbackServer([says("x")], models=(MODEL,)) as server:
        status, kind, message = refusal(post(server, broken))
        assert (status, kind) == (400, "invalid_request_error")
        assert message.startswith("messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: a.")
        assert server.requests[0].breaches[0].rule == "pairing"
        assert server.requests[0].call is None
        assert split(post(server, request()))[0] == 200
    with LoopbackServer([says("x")], models=(MODEL,), strict=False) as server:
        assert split(post(server, broken))[0] == 200


def text_block(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


async def test_what_is_no_json_is_a_400() -> None:
    """A body that is no strict JSON, and a request without the version header, are refused."""
    with LoopbackServer([says("x")]) as server:
        assert refusal(post(server, b'{"model": NaN}'))[0] == 400
        status, _, message = refusal(post(server, body(), headers={"anthropic-version": ""}))
    assert (status, message) == (400, "anthropic-version: header is required")


async def test_a_body_over_the_limit_is_413() -> None:
    """A body over the model's byte limit is too large."""
    with LoopbackServer([says("x")], models=(evolve(MODEL, max_body_bytes=200),)) as server:
        large = request(user(text_block("x" * 300)))
        assert refusal(post(server, large))[:2] == (413, "request_too_large")


async def test_a_refused_body_must_not_come_again_unchanged() -> None:
    """After a 400 the same bytes are a breach; other bytes are fine; forget begins another turn."""
    replies = [
        HttpError(400, message="no"),
        says("a"),
        HttpError(400, message="no", should_retry=True),
        says("b"),
        HttpError(400),
        says("c"),
    ]
    with LoopbackServer(replies, models=(MODEL,)) as server:
        assert refusal(post(server, request()))[2] == "no"
        assert "sent again unchanged" in refusal(post(server, request()))[2]
        assert server.requests[1].breaches[0].rule == "resent"
        assert split(post(server, request(max_tokens=9)))[0] == 200
        # A 400 that asks for a retry may be retried.
        assert refusal(post(server, request()))[2] == "no"
        assert split(post(server, request()))[0] == 200
        assert split(post(server, request()))[0] == 400
        server.forget()
        assert split(post(server, request()))[0] == 200


async def test_a_prompt_over_the_window_is_an_answer_where_it_is_switched_on() -> None:
    """With the window enforced a long prompt gets the API's words and their numbers; it is no breach, and uses no reply."""
    small = evolve(MODEL, context_window=1_000, max_output=100)
    long = request(user(text_block("word " * 2_000)), max_tokens=50)
    with LoopbackServer([says("x")], models=(small,), enforce_window=True) as server:
        status, kind, message = refusal(post(server, long))
        assert (status, kind) == (400, "invalid_request_error")
        assert message.startswith("prompt is too long: ")
        assert message.endswith(" tokens > 1000 maximum")
        assert server.breaches == []
        assert split(post(server, request(max_tokens=50)))[0] == 200


async def test_a_paused_turn_may_be_sent_back() -> None:
    """The turn that the server paused is accepted as the last message, any other assistant message is not."""
    paused = Blocks((text("looking"), server_tool("web_search", {"query": "x"})), stop_reason="pause_turn")
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_0001", "content": []}
    with LoopbackServer([paused, calls(found, text("it is"))], models=(MODEL,)) as server:
        first = user(text_block("hi"))
        content = json.loads(split(post(server, request(first)))[2])["content"]
        assert "prefill" in refusal(post(server, request(first, assistant(content[0]))))[2]
        answer = json.loads(split(post(server, request(first, assistant(*content))))[2])
        whole = request(first, assistant(*content, *answer["content"]), user(text_block("and?")))
        assert refusal(post(server, whole))[0] == 500
        assert server.requests[-1].breaches == ()


async def test_an_exhausted_script_says_so() -> None:
    """The call behind the last reply gets a 500 that names the script's length and asks for no retry."""
    with LoopbackServer([says("x")]) as server:
        post(server, body())
        answer = post(server, body())
        assert refusal(answer) == (500, "api_error", "loopback server: the script has 1 replies, and this is call 2")
        assert split(answer)[1]["x-should-retry"] == "false"
        assert server.requests[1].error


async def test_a_failing_script_says_so() -> None:
    """An exception of the script is an answer and a record, not a hang."""

    def script(number: int, body: dict[str, Any]) -> Any:
        raise KeyError("oops")

    with LoopbackServer(script) as server:
        assert "the script failed: KeyError: 'oops'" in refusal(post(server, body()))[2]
        assert server.requests[0].error == "KeyError: 'oops'"


async def test_unknown_paths_are_404() -> None:
    """What is no endpoint is the API's not_found_error."""
    with LoopbackServer([]) as server:
        assert refusal(post(server, body(), path="/v1/complete"))[:2] == (404, "not_found_error")


async def test_calls_are_answered_side_by_side() -> None:
    """A slow stream does not hold up another one."""
    with LoopbackServer([calls(text("slow", at=0.2)), says("quick")]) as server:
        slow = threading.Thread(target=post, args=(server, body()))
        slow.start()
        assert server.wait_for(lambda requests: bool(requests and requests[0].sent))
        quick = events(split(post(server, body()))[2])
        assert quick[-1] == {"type": "message_stop"}
        assert not server.requests[0].finished
        slow.join()
        assert server.wait_idle()


async def test_bodies_need_not_be_kept() -> None:
    """A server that keeps no bodies still checks and counts, and tells of each request when it is done."""
    told: list[Exchange] = []
    with LoopbackServer([says("x")], keep_bodies=False, on_request=told.append) as server:
        post(server, body())
        assert server.wait_idle()
    assert told == server.requests
    assert (told[0].raw, told[0].body, told[0].call) == (b"", {}, 0)


async def test_stopping_leaves_nothing() -> None:
    """After the stop there is no thread, the port is free, idle connections are closed, and a restart works."""
    server = LoopbackServer([says("x"), says("y")])
    with server:
        address = server.base_url.removeprefix("http://").split(":")
        idle = socket.create_connection((address[0], int(address[1])))
        post(server, body())
        assert server.wait_idle()
    assert idle.recv(1) == b""
    idle.close()
    assert not [one for one in threading.enumerate() if one.name.startswith("fsm-agent")]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((address[0], int(address[1])))
    server.stop()
    with server:
        assert split(post(server, body()))[0] == 200
        with pytest.raises(RuntimeError, match="runs already"):
            server.start()


async def test_a_port_in_use_is_a_clear_error() -> None:
    """A port that is taken raises OSError at the start and leaves nothing behind."""
    with LoopbackServer([]) as first:
        port = int(first.base_url.rsplit(":", 1)[1])
        with pytest.raises(OSError, match="in use"):
            LoopbackServer([], port=port).start()
