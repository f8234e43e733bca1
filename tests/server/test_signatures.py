"""Signatures that the server makes are checked when their blocks return, through real HTTP."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fsm_agent.server.app import LoopbackServer
from fsm_agent.server.replies import Blocks, RawBody, calls, compaction, redacted, says, text, thinking, tool

from .clients import events, post, split
from .wires import BOUND, MODEL, assistant, request, result, user
from .wires import text as words

ADAPTIVE = {"type": "adaptive"}
DROPPING = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
CONTROLS = {"anthropic-beta": "thinking-binding-controls-2026-08-01"}
COMPACT = {"anthropic-beta": "compact-2026-09-04"}
FIRST = user(words("hi"))


def ask(
    server: LoopbackServer, *messages: dict[str, Any], headers: dict[str, str] | None = None, **fields: Any
) -> dict[str, Any]:
    """Send one plain request and give the decoded answer."""
    body = request(*messages, **{"model": BOUND.name, "thinking": ADAPTIVE, **fields})
    return dict(json.loads(split(post(server, body, headers=headers))[2]))


def error(answer: dict[str, Any]) -> str:
    assert answer["type"] == "error"
    return str(answer["error"]["message"])


@pytest.fixture
def server() -> Any:
    """A server whose first reply thinks twice and calls a tool, and then says ok."""
    replies = [calls(thinking("one"), text("look"), redacted(), tool("Read", {"a": 1, "b": 2})), *[says("ok")] * 3]
    with LoopbackServer(replies, models=(BOUND, MODEL)) as running:
        yield running


def test_thinking_comes_back_as_it_was(server: LoopbackServer) -> None:
    """A reply that is sent back, its keys in another order and its content merged anew, is accepted."""
    content = ask(server, FIRST)["content"]
    shuffled = [dict(reversed(block.items())) for block in content]
    assert ask(server, FIRST, assistant(*shuffled), user(result("toolu_0001")))["type"] == "message"
    assert ask(server, {"role": "user", "content": "hi"}, assistant(*content), user(result("toolu_0001")))["type"] == "message"


def test_changed_thinking_is_refused(server: LoopbackServer) -> None:
    """A changed text, a changed signature and changed redacted data are each refused, with the path of the block."""
    content = ask(server, FIRST)["content"]
    changes: list[tuple[int, dict[str, str]]] = [(0, {"thinking": "two"}), (0, {"signature": "b25l"}), (2, {"data": "b25l"})]
    for place, change in changes:
        changed = [{**block, **change} if number == place else block for number, block in enumerate(content)]
        message = error(ask(server, FIRST, assistant(*changed), user(result("toolu_0001"))))
        assert message.startswith(f"messages.1.content.{place}: Invalid `")
    assert {breach.rule for one in server.requests for breach in one.breaches} == {"thinking_signature"}


def test_thinking_of_another_model_is_refused(server: LoopbackServer) -> None:
    """Thinking goes back to the model that made it, to no other."""
    content = ask(server, FIRST)["content"]
    message = error(ask(server, FIRST, assistant(*content), user(result("toolu_0001")), model=MODEL.name))
    assert "created by another model" in message


def test_thinking_is_bound_to_the_history_before_it(server: LoopbackServer) -> None:
    """On a binding model an edited message, a message in front and a changed system prompt are refused."""
    content = ask(server, FIRST)["content"]
    tail = (assistant(*content), user(result("toolu_0001")))
    assert "different conversation" in error(ask(server, user(words("ho")), *tail))
    assert "different conversation" in error(ask(server, user(words("first")), FIRST, *tail))
    assert "`system` prompt differs" in error(ask(server, FIRST, *tail, system="Be brief."))


def test_cache_marks_and_what_follows_do_not_bind(server: LoopbackServer) -> None:
    """Cache marks may move, and messages may be added behind, without harm."""
    content = ask(server, FIRST, system="Be kind.")["content"]
    marked = user({**words("hi"), "cache_control": {"type": "ephemeral"}})
    system = [{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}]
    behind = (user(result("toolu_0001")), assistant(words("ok")), user(words("more")))
    assert ask(server, marked, assistant(*content), *behind, system=system)["type"] == "message"


def test_a_model_that_does_not_bind_takes_another_history() -> None:
    """Without binding only the block itself must be untouched."""
    with LoopbackServer([calls(thinking("one"), text("x")), says("ok")], models=(MODEL,)) as server:
        content = ask(server, FIRST, model=MODEL.name)["content"]
        assert ask(server, user(words("ho")), assistant(*content), user(words("more")), model=MODEL.name)["type"] == "message"


def test_drop_block_reports_what_was_dropped(server: LoopbackServer) -> None:
    """With drop_block a mismatch is no error: all thinking of that turn is dropped and reported with its reason."""
    content = ask(server, FIRST)["content"]
    answer = ask(
        server, user(words("ho")), assistant(*content), user(result("toolu_0001")), thinking=DROPPING, headers=CONTROLS
    )
    dropped = [(one["type"], one["path"], one["reason"]) for one in answer["input_transformations"]]
    assert dropped == [
        ("thinking_dropped", "messages.1.content.0", "prefix_binding_mismatch"),
        ("thinking_dropped", "messages.1.content.2", "prefix_binding_mismatch"),
    ]
    clean = ask(server, FIRST, assistant(*content), user(result("toolu_0001")), thinking=DROPPING, headers=CONTROLS)
    assert clean["input_transformations"] == []


def test_compaction_keeps_the_thinking_of_the_tail() -> None:
    """The compaction block in place of what it stands for leaves the thinking behind it valid; a changed one is refused."""
    replies = [
        says("first"),
        calls(thinking("one"), tool("Read", {})),
        Blocks((compaction("the story"),), stop_reason="compaction"),
        says("ok"),
    ]
    with LoopbackServer(replies, models=(BOUND,)) as server:
        opening = (FIRST, assistant(*ask(server, FIRST)["content"]), user(words("now read")))
        turn = assistant(*ask(server, *opening)["content"])
        (block,) = ask(server, *opening, compaction={"type": "summarize"}, headers=COMPACT)["content"]
        tail = (turn, user(result("toolu_0001")))
        changed = {**block, "content": "another story"}
        assert "was changed" in error(ask(server, assistant(changed), *tail, headers=COMPACT))
        forged = {**block, "signature": "b25l"}
        refused = ask(server, assistant(forged), *tail, headers=COMPACT)
        assert refused["error"]["details"]["error_code"] == "compaction_signature_invalid"
        assert "different conversation" in error(ask(server, assistant(block), user(words("and")), *tail, headers=COMPACT))
        # The two are neighbouring assistant messages: one turn that begins with the block.
        assert ask(server, assistant(block), *tail, headers=COMPACT)["type"] == "message"


def test_signatures_of_the_script_and_of_recordings_are_known_again() -> None:
    """Thinking that was served with a foreign signature is accepted as it was, and refused when it was changed."""
    scripted = calls(thinking("one", signature="Zm9v"), text("x"))
    with LoopbackServer([scripted, says("ok")], models=(MODEL,)) as source:
        body = request(FIRST, model=MODEL.name, thinking=ADAPTIVE, stream=True)
        stream = split(post(source, body))[2]
    with LoopbackServer([RawBody(stream), says("ok"), says("ok")], models=(MODEL,)) as server:
        got = events(split(post(server, body))[2])
        assert got[-1] == {"type": "message_stop"}
        block = {"type": "thinking", "thinking": "one", "signature": "Zm9v"}
        again = (assistant(block, words("x")), user(words("more")))
        assert ask(server, FIRST, *again, model=MODEL.name)["type"] == "message"
        changed = (assistant({**block, "thinking": "two"}, words("x")), user(words("more")))
        assert "Invalid `signature`" in error(ask(server, FIRST, *changed, model=MODEL.name))
