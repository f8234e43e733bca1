"""Requests by example: parameters, marks, user context, thinking, cuts, limits."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm_agent.core.blocks import Block, read_block, text_block, tool_result, tool_use
from fsm_agent.core.config import LoopConfig
from fsm_agent.core.context.after_boundary import boundary_message
from fsm_agent.core.context.pipeline import prepare
from fsm_agent.core.context.store import ContextState
from fsm_agent.core.messages import Message, MessageKind, message
from fsm_agent.core.models import ModelInfo
from fsm_agent.core.request.build import Built, build, max_tokens
from fsm_agent.core.request.encode import body_of
from fsm_agent.core.request.pairing import MISSING, repair
from fsm_agent.core.wire import CHUNK, Unsendable

from ..histories import (
    BINDING,
    INFO,
    MANUAL,
    MODEL,
    OTHER,
    body,
    breaches,
    config,
    conversation,
    prompt,
    reply,
    results,
    round_of,
    sensible,
    thinking,
)


def made(
    view: tuple[Message, ...],
    conf: LoopConfig | None = None,
    context: ContextState | None = None,
    model: str = MODEL,
    **more: Any,
) -> Built:
    built = build(view, context or ContextState(), conf or config(), model, **more)
    assert isinstance(built, Built), built
    return built


def contents(built: Built) -> list[tuple[str, list[Any]]]:
    """Give role and blocks of each message, without cache marks."""
    value = body(built.request)["messages"]
    return [
        (item["role"], [{key: inner for key, inner in block.items() if key != "cache_control"} for block in item["content"]])
        for item in value
    ]


def types(built: Built) -> list[tuple[str, list[str]]]:
    return [(role, [block["type"] for block in blocks]) for role, blocks in contents(built)]


def test_the_parameters_of_a_plain_request() -> None:
    """Model, limit, streaming, system with context lines, tools and messages; marks on system, tools and tail."""
    value = body(made((prompt("p1"),)).request)
    assert (value["model"], value["max_tokens"], value["stream"]) == (MODEL, 8_192, True)
    assert [block["text"] for block in value["system"]] == ["You are a careful agent.", "Working directory: /home/x"]
    assert [tool["name"] for tool in value["tools"]] == ["Read", "Write", "Whole"]
    marked = [value["system"][-1], value["tools"][-1], value["messages"][-1]["content"][-1]]
    assert all(item["cache_control"] == {"type": "ephemeral"} for item in marked)
    assert json.dumps(value).count("cache_control") == 3
    assert "thinking" not in value
    assert "output_config" not in value


def test_the_user_context_goes_in_front_once() -> None:
    """Memory files are one reminder before the first prompt, and stay where they are in later requests."""
    first = made((prompt("p1"),))
    role, blocks = contents(first)[0]
    assert role == "user"
    assert "<system-reminder>" in blocks[0]["text"]
    assert "may or may not be relevant" in blocks[0]["text"]
    assert blocks[1]["text"] == "Do it."
    later = made(conversation(2), context=first.context)
    assert later.request.messages[0] == first.request.messages[0]
    assert sum("system-reminder" in str(item) for item in contents(later)) == 1


def test_no_cache_marks_where_caching_is_off() -> None:
    """Without prompt caching no mark is sent."""
    assert b"cache_control" not in body_of(made(conversation(3), config(prompt_caching=False)).request)


def test_a_second_mark_stands_at_the_old_tail_when_much_is_new() -> None:
    """When one step adds more blocks than the look-back, the old tail keeps a mark, so that the cache is found."""
    view = conversation(2)
    before = made(view)
    calls = [tool_use(f"w{n}", "Read", "{}") for n in range(12)]
    view += (reply("aw", *calls), results("rw", *(tool_result(f"w{n}", "x") for n in range(12))))
    after = made(view, context=before.context)
    places = [
        number
        for number, item in enumerate(body(after.request)["messages"])
        if any("cache_control" in block for block in item["content"])
    ]
    assert places == [len(before.request.messages) - 1, len(after.request.messages) - 1]
    assert breaches(after.request, config()) == ()


def test_marks_avoid_thinking() -> None:
    """A mark never stands on thinking; a paused reply that ends in a server call takes it there."""
    server = read_block({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}})
    view = (prompt("p"), reply("a", thinking(), server))
    built = made(view, config(thinking="adaptive"), allow_prefill=True)
    assert built.request.marks == ((1, 1),)
    assert breaches(built.request, config()) == ()


def test_a_body_is_the_same_with_and_without_chunks() -> None:
    """A long body joined from chunks equals the one joined message by message, marks included."""
    built = made(conversation(3 * CHUNK))
    assert built.request.chunks
    assert body_of(built.request) == body_of(evolve(built.request, chunks=()))
    early = evolve(built.request, marks=((3, 0), (CHUNK + 1, 0), (len(built.request.messages) - 1, 0)))
    assert body_of(early) == body_of(evolve(early, chunks=()))


def test_the_digest_names_parameters_and_messages() -> None:
    """Equal requests have equal digests, made from the chain of messages; any difference shows."""
    one, two = made(conversation(3)), made(conversation(3))
    assert one.request.digest == two.request.digest
    assert made(conversation(3, "other")).request.digest != one.request.digest
    assert made(conversation(3), max_output_override=64_000).request.digest != one.request.digest


def test_an_escalated_request_has_the_same_messages() -> None:
    """A larger output limit changes ``max_tokens`` and nothing else."""
    first = made(conversation(3))
    second = made(conversation(3), context=first.context, max_output_override=64_000)
    assert second.request.messages == first.request.messages
    assert second.request.max_tokens == 64_000


@pytest.mark.parametrize(
    ("override", "estimate", "expected"),
    [(None, 0, 8_192), (64_000, 0, 64_000), (100_000, 0, 64_000), (None, 195_000, 5_000), (None, 300_000, 1)],
)
def test_the_output_limit(override: int | None, estimate: int, expected: int) -> None:
    """min(override or configured, the model's limit, what the window leaves), at least one."""
    assert max_tokens(config(), MODEL, override, estimate) == expected


def test_attachments_move_up_to_the_results_and_results_stay_first() -> None:
    """What was injected after a round stands behind the results: attachments first, then the user's words."""
    view = (
        *conversation(1),
        prompt("c", "Also do Y.", MessageKind.COMMAND),
        prompt("f", "file", MessageKind.ATTACHMENT),
        prompt("d", "only shown", MessageKind.DISPLAY),
        boundary_message("b", "snip", "threshold", 2, 1),
        prompt("l", "ls output", MessageKind.LOCAL_OUTPUT),
    )
    role, blocks = contents(made(view))[-1]
    assert role == "user"
    assert [block.get("text", block["type"]) for block in blocks] == ["tool_result", "file", "Also do Y.", "ls output"]


def test_a_sent_message_is_never_merged_into() -> None:
    """A nudge behind results that were sent is a message of its own."""
    first = made(conversation(2))
    second = made((*conversation(2), prompt("m", "Go on.", MessageKind.META)), context=first.context)
    assert second.request.messages[: len(first.request.messages)] == first.request.messages
    assert [role for role, _ in types(second)][-2:] == ["user", "user"]
    assert breaches(second.request, config()) == ()


def test_blank_texts_and_empty_messages_are_left_out() -> None:
    """No blank text is sent, nested ones included; a message of nothing else goes with them (field report 51)."""
    view = (
        prompt("p"),
        reply("a", text_block(" \n"), tool_use("t", "Read", "{}")),
        results("r", read_block({"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": " "}]})),
        prompt("e", "  "),
    )
    assert contents(made(view))[1:] == [
        ("assistant", [{"type": "tool_use", "id": "t", "name": "Read", "input": {}}]),
        ("user", [{"type": "tool_result", "tool_use_id": "t", "content": "(no output)"}]),
    ]


def test_an_empty_conversation_cannot_be_sent() -> None:
    """Nothing to say, or only the user context, is said to be unsendable, with the rule."""
    assert isinstance(build((), ContextState(), config(), MODEL), Unsendable)
    found = build((prompt("p", " \n"),), ContextState(), config(), MODEL)
    assert isinstance(found, Unsendable)
    assert found.message_id == "p"


def test_a_request_does_not_end_with_the_assistant() -> None:
    """Only a paused reply goes back as the last message (field report 34)."""
    view = (prompt("p"), reply("a", text_block("Hello.")))
    found = build(view, ContextState(), config(), MODEL)
    assert isinstance(found, Unsendable)
    assert (found.message_id, found.rule) == ("a", "the last message must be from the user")
    assert types(made(view, allow_prefill=True))[-1] == ("assistant", ["text"])


def test_a_conversation_that_begins_with_a_reply_gets_an_opening() -> None:
    """The first message is the user's."""
    built = made((reply("a", text_block("Hello.")), prompt("p")), config(user_context=""))
    assert [role for role, _ in types(built)] == ["user", "assistant", "user"]
    assert breaches(built.request, config()) == ()


class TestPairing:
    """Results, calls and their ids."""

    def test_a_missing_result_is_answered_by_an_error(self) -> None:
        """A call whose result is nowhere gets one that says so; the finished one keeps its real result."""
        calls = (tool_use("t1", "Read", "{}"), tool_use("t2", "Read", "{}"))
        repaired = repair((prompt("p"), reply("a", *calls), results("r", tool_result("t1", "real"))))
        blocks = [json.loads(block.json) for block in repaired[2].blocks]
        assert blocks[0]["content"] == "real"
        assert blocks[1] == {"type": "tool_result", "tool_use_id": "t2", "content": MISSING, "is_error": True}

    def test_a_misplaced_result_comes_back_to_its_call(self) -> None:
        """A real result that stands too late is moved, not replaced."""
        late = results("r", tool_result("t1", "real"), text_block("words"))
        repaired = repair(
            (prompt("p"), reply("a", tool_use("t1", "Read", "{}")), prompt("m"), reply("b", text_block("x")), late)
        )
        assert json.loads(repaired[2].blocks[0].json)["content"] == "real"
        assert [block.type for block in repaired[-1].blocks] == ["text"]

    def test_duplicate_ids_get_fresh_ones_with_their_own_results(self) -> None:
        """Two calls of one id are two calls: each keeps its own result under its own id (field report 30)."""
        view = (
            prompt("p"),
            reply("a", tool_use("t1", "Read", '{"n":1}'), tool_use("t1", "Read", '{"n":2}')),
            results("r", tool_result("t1", "one"), tool_result("t1", "two")),
            reply("b", tool_use("t1", "Read", '{"n":3}'), tool_use("", "Read", "{}"), tool_use("bad id!", "Read", "{}")),
            results("s", tool_result("t1", "three"), tool_result("", "empty"), tool_result("bad id!", "bad")),
        )
        repaired = repair(view)
        pairs = [(block.id, json.loads(block.json)["content"]) for item in repaired for block in item.results]
        assert [text for _, text in pairs] == ["one", "two", "three", "empty", "bad"]
        assert len({identity for identity, _ in pairs}) == 5
        assert all(identity for identity, _ in pairs)

    def test_ids_of_sent_calls_are_not_used_again(self) -> None:
        """A later reply that uses an id of a sent call gets another one."""
        first = made(conversation(2))
        view = (*conversation(2), reply("x", tool_use("toolu_1", "Read", "{}")), results("y", tool_result("toolu_1", "again")))
        second = made(view, context=first.context)
        assert breaches(second.request, config()) == ()
        assert second.request.messages[-2].calls == ("toolu_1-2",)

    def test_orphan_results_are_dropped(self) -> None:
        """A result without its call is not sent (field report 11)."""
        built = made((prompt("p"), results("r", tool_result("t1", "x"), text_block("words"))))
        assert types(built) == [("user", ["text", "text", "text"])]

    def test_broken_inputs_become_objects(self) -> None:
        """A stored call whose input is a text is sent with an empty object (field report 39)."""
        call = read_block({"type": "tool_use", "id": "t1", "name": "", "input": '{"path":'})
        built = made((prompt("p"), reply("a", call), results("r", tool_result("t1", "error", is_error=True))))
        assert contents(built)[1][1][0] == {"type": "tool_use", "id": "t1", "name": "unknown", "input": {}}

    def test_a_pending_server_call_stays_until_the_user_overtakes_it(self) -> None:
        """A paused server call goes back as it is; when words follow instead of its result it is left out."""
        server = read_block({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}})
        view = (prompt("p"), reply("a", text_block("Searching."), server))
        paused = made(view, allow_prefill=True)
        assert types(paused)[-1] == ("assistant", ["text", "server_tool_use"])
        overtaken = made((*view, prompt("n", "Never mind.")), context=paused.context)
        assert types(overtaken)[1] == ("assistant", ["text"])
        assert breaches(overtaken.request, config()) == ()

    def test_a_resumed_server_call_keeps_its_bytes(self) -> None:
        """When the API goes on after a pause, the paused reply stays as it was sent."""
        server = read_block({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}})
        answer = read_block({"type": "web_search_tool_result", "tool_use_id": "s1", "content": []})
        view = (prompt("p"), reply("a", server))
        paused = made(view, allow_prefill=True)
        view += (reply("b", answer, text_block("Found."), tool_use("t", "Read", "{}")), results("r", tool_result("t", "x")))
        resumed = made(view, context=paused.context)
        assert resumed.request.messages[:2] == paused.request.messages
        assert types(resumed)[2] == ("assistant", ["web_search_tool_result", "text", "tool_use"])
        assert breaches(resumed.request, config()) == ()
        view += (reply("c", text_block("Done.")), prompt("q", "And now?"))
        assert breaches(made(view, context=resumed.context).request, config()) == ()


class TestThinking:
    """Thinking blocks, and the parameter that goes with them."""

    view = (
        prompt("p"),
        reply("a", thinking("hm"), text_block("x"), tool_use("t", "Read", "{}")),
        results("r", tool_result("t", "y")),
    )

    def test_signed_thinking_of_the_model_goes_back_unchanged(self) -> None:
        """Thinking is byte-equal to what came, and the request has thinking on, asked for or not."""
        for conf in (config(thinking="adaptive"), config()):
            built = made(self.view, conf)
            assert self.view[1].blocks[0].json.encode() in built.request.messages[1].body
            assert body(built.request)["thinking"] == {"type": "adaptive"}
            assert breaches(built.request, conf) == ()

    def test_thinking_of_another_model_is_left_out(self) -> None:
        """The request to a fallback has none of the first model's thinking; back on the first it is there again."""
        first = made(self.view)
        second = made(self.view, context=first.context, model=OTHER)
        assert b'"thinking"' not in second.request.messages[1].body
        third = made(self.view, context=second.context)
        assert third.request.messages == first.request.messages

    def test_thinking_goes_when_it_is_off(self) -> None:
        """A model that cannot think, or thinking disabled, gets none."""
        for conf in (config(info=ModelInfo(name=MODEL)), config(thinking="disabled")):
            built = made(self.view, conf)
            assert b'"thinking"' not in built.request.messages[1].body
            assert breaches(built.request, conf) == ()

    def test_unsigned_and_trailing_thinking_is_never_sent(self) -> None:
        """Unsigned thinking takes the round's thinking with it; trailing thinking alone goes (field report 53)."""
        unsigned = (prompt("p"), reply("a", thinking("s"), text_block("x"), thinking("u", ""), text_block("y")), prompt("q"))
        assert types(made(unsigned))[1] == ("assistant", ["text", "text"])
        trailing = (prompt("p"), reply("a", thinking("s"), text_block("x"), thinking("t")), prompt("q"))
        assert types(made(trailing))[1] == ("assistant", ["thinking", "text"])
        alone = (prompt("p"), reply("a", thinking("s")), prompt("q"))
        assert [role for role, _ in types(made(alone))] == ["user"]

    def test_manual_thinking_needs_a_turn_that_began_with_it(self) -> None:
        """After a switch inside a round the manual kind is off for that turn, and on again with the next prompt."""
        conf = config(info=MANUAL, thinking="enabled")
        foreign = (prompt("p"), *(evolve(item, model=OTHER) if item.role == "assistant" else item for item in self.view[1:]))
        inside = made(foreign, conf)
        assert "thinking" not in body(inside.request)
        assert breaches(inside.request, conf) == ()
        after = made((*foreign, reply("b", text_block("Done.")), prompt("q")), conf, inside.context)
        asked = body(after.request)
        assert asked["thinking"]["type"] == "enabled"
        assert 1_024 <= asked["thinking"]["budget_tokens"] < asked["max_tokens"]
        own = made(self.view, conf)
        assert body(own.request)["thinking"]["type"] == "enabled"
        assert breaches(own.request, conf) == ()

    def test_the_nearest_kind_is_asked_for(self) -> None:
        """A kind that the model does not take becomes the nearest that it does, and display goes with it."""
        conf = config(info=MANUAL, thinking="adaptive", thinking_display="summarized")
        assert body(made((prompt("p"),), conf).request)["thinking"]["type"] == "enabled"
        assert body(made((prompt("p"),), conf).request)["thinking"]["display"] == "summarized"
        between = config(
            info=ModelInfo(name=MODEL, thinking=("adaptive", "between_tools"), thinking_default=True), thinking="disabled"
        )
        assert body(made((prompt("p"),), between).request)["thinking"] == {"type": "between_tools"}


def test_effort_schema_and_betas_follow_the_model() -> None:
    """Output settings are sent where the model takes them; each beta parameter comes with its header."""
    conf = config(effort="high", output_schema='{"type":"object"}', task_budget=50_000, betas=("own-beta",))
    request = made((prompt("p"),), conf).request
    value = body(request)["output_config"]
    assert value["effort"] == "high"
    assert value["format"] == {"type": "json_schema", "schema": {"type": "object"}}
    assert value["task_budget"] == {"type": "tokens", "total": 50_000}
    assert request.betas[0] == "own-beta"
    assert breaches(request, conf) == ()
    other = config(info=ModelInfo(name=MODEL), effort="high")
    assert "output_config" not in body(made((prompt("p"),), other).request)


def test_system_messages_keep_their_place_or_become_the_users() -> None:
    """A notice is a system message where the model takes one; elsewhere, or when the user speaks next, it is the user's."""
    notice = message("n", "system", MessageKind.NOTICE, (text_block("You repeat yourself."),))
    view = (*conversation(1), notice)
    assert types(made(view))[-1] == ("user", ["tool_result", "text"])
    conf = config(info=ModelInfo(name=MODEL, system_messages=True))
    first = made(view, conf)
    assert types(first)[-1] == ("system", ["text"])
    second = made((*view, *round_of(2)), conf, first.context)
    assert second.request.messages[: len(first.request.messages)] == first.request.messages
    overtaken = made((*view, prompt("q")), conf, first.context)
    for built in (first, second, overtaken):
        assert breaches(built.request, conf) == ()


def test_foreign_marks_citations_and_surrogates_are_mended() -> None:
    """Cache marks and citations of another program are removed from user content; escaped lone surrogates are mended."""
    marked = read_block({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}, "citations": []})
    escaped = Block(type="text", json='{"type":"text","text":"a\\ud800b"}', tokens=3)
    raw = Block(type="text", json='{"type":"text","text":"\ud800"}', tokens=3)
    built = made(
        (message("p", "user", MessageKind.PROMPT, (marked, escaped, raw)),), config(user_context="", prompt_caching=False)
    )
    assert contents(built)[0][1] == [
        {"type": "text", "text": "x"},
        {"type": "text", "text": "a\ufffdb"},
        {"type": "text", "text": "\ufffd"},
    ]


def test_unknown_blocks_of_a_reply_go_back_as_they_came() -> None:
    """A block type or key that nobody knows yet is carried through unchanged."""
    odd = read_block({"type": "hologram", "voxels": [1, 2.5], "z": None})
    built = made((prompt("p"), reply("a", odd, text_block("x")), prompt("q")))
    assert odd.json.encode() in built.request.messages[1].body


@settings(max_examples=60, deadline=None)
@given(sensible(think=True), st.integers(0, 30), st.sampled_from([INFO, BINDING]))
def test_after_a_cut_anywhere_the_request_is_valid_and_the_front_keeps_its_bytes(
    pieces: tuple[tuple[Message, ...], ...], place: int, info: ModelInfo
) -> None:
    """When a message in the middle changes, what stood before it keeps its bytes and the whole request keeps the rules."""
    conf = config(info=info, thinking="adaptive")
    view = tuple(item for piece in pieces for item in piece)
    first = prepare(view, ContextState(), conf, MODEL, "r1/p-1")
    sent = made(first.view, conf, first.context)
    place %= len(view)
    old = view[place]
    kept = [tool_result(b.id, "changed") if b.type == "tool_result" else b for b in old.blocks]
    changed = (*view[:place], evolve(old, blocks=(*kept, text_block("more"))), *view[place + 1 :])
    after = prepare(changed, sent.context, conf, MODEL, "r1/p-2")
    built = made(after.view, conf, after.context)
    assert breaches(built.request, conf) == ()
    front = [end for end in sent.context.sent.ends if end < place]
    same = max(len(front) - 1, 0)
    assert [wire.body for wire in built.request.messages[:same]] == [wire.body for wire in sent.request.messages[:same]]
