"""Compaction: what is summarised, which results are good, what the view becomes, and what is remembered after it."""

from __future__ import annotations

import json

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm_agent.core.blocks import Block, block_text, read_block, text_block, tool_use
from fsm_agent.core.config import ContextConfig
from fsm_agent.core.context.compact import after_compaction, apply, plan, valid
from fsm_agent.core.context.pipeline import prepare
from fsm_agent.core.context.store import ContextState
from fsm_agent.core.context.usage import with_usage
from fsm_agent.core.events import CompactionFinished
from fsm_agent.core.messages import REAL_REQUESTS, UNSENT_KINDS, Message, MessageKind
from fsm_agent.core.models import ModelInfo
from fsm_agent.core.phases import CompactKind
from fsm_agent.core.request.build import Built, build
from fsm_agent.core.request.pairing import repair

from ..histories import (
    BINDING,
    MODEL,
    arbitrary,
    breaches,
    config,
    conversation,
    image,
    prompt,
    reply,
    round_of,
    sensible,
    thinking,
)


def done(*blocks: Block, stop: str | None = "end_turn", attachments: tuple[Message, ...] = ()) -> CompactionFinished:
    """Make an answer of the compactor."""
    return CompactionFinished(id="r1/compact-1", summary=blocks, stop_reason=stop, attachments=attachments)


SUMMARY = done(text_block("The user wants X. Step 1 is done."))


def test_the_newest_request_and_the_last_rounds_are_protected() -> None:
    """The tail is the newest real request, word for word, and the last two rounds; older requests are summarised."""
    view = (prompt("p0", "Old wish."), *round_of(1), prompt("p1", "New wish."), *(m for n in range(2, 7) for m in round_of(n)))
    made = plan(view, config())
    assert [item.id for item in made.tail] == ["p1", "a5", "r5", "a6", "r6"]
    assert [item.id for item in made.messages] == ["p0", "a1", "r1", "a2", "r2", "a3", "r3", "a4", "r4"]
    assert made.replacing == sum(item.tokens for item in made.messages)


def test_meta_and_hook_words_never_take_the_place_of_the_request() -> None:
    """A nudge, a hook's error or an attachment behind the request is no request (field report 17)."""
    view = (*conversation(5), prompt("m", "A hook says no.", MessageKind.META), *round_of(6), *round_of(7))
    assert plan(view, config()).tail[0].id == "p1"


def test_a_queued_command_is_the_newest_request() -> None:
    """What the user typed while the run was on is a real request."""
    view = (
        *conversation(3),
        prompt("c", "Stop that, do Y.", MessageKind.COMMAND),
        *(m for n in range(4, 8) for m in round_of(n)),
    )
    assert plan(view, config()).tail[0].id == "c"


def test_fewer_rounds_are_protected_where_they_alone_fill_the_window() -> None:
    """Two rounds that fill the window do not make the context irreducible: one, or none, is protected then."""
    conf = config(context=ContextConfig(context_window=10_000))
    view = (prompt("p1"), *round_of(1, "w " * 4_000), *round_of(2, "w " * 4_000), *round_of(3, "w " * 4_000))
    made = plan(view, conf)
    assert [item.id for item in made.tail] == ["p1", "a3", "r3"]
    huge = (prompt("p1"), *round_of(1, "w " * 8_000))
    assert [item.id for item in plan(huge, conf).tail] == ["p1"]


def test_the_final_reply_of_a_conversation_at_rest_stays() -> None:
    """A compaction between runs keeps the last answer, or the last request would look unanswered."""
    view = (prompt("p1"), reply("a1", text_block("Done.")))
    made = plan(view, config())
    assert made.messages == ()
    assert [item.id for item in made.tail] == ["p1", "a1"]
    assert not prepare(view, ContextState(), config(), MODEL, "x").compactable


@settings(max_examples=60, deadline=None)
@given(sensible(), st.integers(0, 3), st.sampled_from([3_000, 20_000, 200_000]))
def test_a_plan_splits_the_view_between_rounds(pieces: tuple[tuple[Message, ...], ...], keep: int, window: int) -> None:
    """Both parts of a plan hold whole rounds, nothing is lost or doubled, and the newest request is in the tail as it is."""
    view = tuple(item for piece in pieces for item in piece)
    made = plan(view, config(context=ContextConfig(context_window=window, keep_rounds=keep)))
    assert repair(made.messages) is made.messages
    assert repair(made.tail) is made.tail
    ids = sorted(item.id for item in made.messages + made.tail)
    assert ids == sorted(item.id for item in view if item.kind not in UNSENT_KINDS or item in made.tail)
    requests = [item for item in view if item.kind in REAL_REQUESTS]
    assert [item for item in made.tail if item.kind in REAL_REQUESTS][-1] is requests[-1]


@settings(max_examples=60, deadline=None)
@given(arbitrary())
def test_any_view_can_be_planned(view: tuple[Message, ...]) -> None:
    """A plan never raises, and puts no message into both parts."""
    made = plan(view, config())
    assert not {item.id for item in made.messages} & {item.id for item in made.tail}


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (done(), "empty"),
        (done(text_block("   \n")), "empty"),
        (done(thinking()), "thinking only"),
        (done(text_block("x"), tool_use("t", "Read", "{}"), stop="tool_use"), "called a tool"),
        (done(text_block("I can't."), stop="refusal"), "refused"),
        (done(text_block("The user"), stop="max_tokens"), "cut"),
        (done(text_block("The user"), stop=None), "did not finish"),
        (done(text_block("long " * 4_000)), "not smaller"),
        (done(read_block({"type": "compaction", "content": None}), stop="compaction"), "empty"),
        (done(read_block({"type": "compaction", "content": ""}), stop="compaction"), "empty"),
    ],
)
def test_bad_summaries_are_refused(event: CompactionFinished, why: str) -> None:
    """Empty, blank, thinking-only, refused, cut, unfinished or too large: none is used (field report 6)."""
    assert why in valid(event, 1_000)


@pytest.mark.parametrize(
    "event",
    [
        SUMMARY,
        done(thinking(), text_block("Good.")),
        done(read_block({"type": "compaction", "content": "Good.", "signature": "x"}), stop="compaction"),
    ],
)
def test_good_summaries_are_accepted(event: CompactionFinished) -> None:
    """A finished text, with or without thinking, and the API's own block are good."""
    assert valid(event, 1_000) == ""


def test_a_compaction_gives_boundary_summary_tail_and_files() -> None:
    """The new view has a boundary, the summary, the tail word for word, and the files read again, in this order."""
    view = conversation(6, "word " * 200)
    file = prompt("f1", "contents", MessageKind.ATTACHMENT)
    made = apply(view, config(), evolve(SUMMARY, attachments=(file,)), CompactKind.AUTO, "r1/c-1")
    kinds = [item.kind for item in made.messages]
    assert kinds[:3] == [MessageKind.BOUNDARY, MessageKind.SUMMARY, MessageKind.PROMPT]
    assert made.messages[2] is view[0]
    assert made.messages[3:7] == view[-4:]
    assert made.messages[7] is file
    assert made.before == sum(item.tokens for item in view)
    assert made.after == sum(item.tokens for item in made.messages)
    assert made.after < made.before
    words = json.loads(made.messages[0].blocks[0].json)
    assert (words["kind"], words["trigger"]) == ("compact", "auto")


def test_files_that_do_not_fit_are_left_out_and_named() -> None:
    """Re-attached files are counted: what crosses the budget or outweighs the gain is dropped by name (field report 2)."""
    view = conversation(8, "word " * 200)
    small, large = prompt("small", "x", MessageKind.ATTACHMENT), prompt("large", "word " * 4_000, MessageKind.ATTACHMENT)
    made = apply(view, config(), evolve(SUMMARY, attachments=(large, small)), CompactKind.AUTO, "r1/c-1")
    assert [item.id for item in made.messages if item.kind is MessageKind.ATTACHMENT] == ["small"]
    assert made.dropped == ("large",)
    assert "large" in json.loads(made.messages[0].blocks[0].json)["detail"]
    assert made.after < made.before


def test_the_api_own_block_goes_first_as_an_assistant_message() -> None:
    """A compaction block comes first as it is, then the untouched tail, then user context and newest request again."""
    info = ModelInfo(name=MODEL, api_compaction=True)
    conf = config(info=info)
    view = conversation(6, "word " * 200)
    block = read_block({"type": "compaction", "content": "So far.", "signature": "sig", "new_key": 1})
    made = apply(view, conf, done(block, stop="compaction"), CompactKind.AUTO, "r1/c-1")
    context = after_compaction(ContextState(), conf, MODEL)
    prepared = prepare(made.messages, context, conf, MODEL, "r1/p-2")
    built = build(prepared.view, prepared.context, conf, MODEL)
    assert isinstance(built, Built)
    first = json.loads(built.request.messages[0].body)
    assert first["role"] == "assistant"
    assert first["content"] == [json.loads(block.json)]
    sent = [wire.body for wire in built.request.messages]
    before = build(view, ContextState(), conf, MODEL)
    assert isinstance(before, Built)
    assert sent[1:4] == [wire.body for wire in before.request.messages[-4:-1]]
    assert b"Project rules" in sent[-1]
    assert json.loads(sent[-1])["content"][-1]["text"] == "Do it."
    assert made.verbatim
    assert [breach.rule for breach in breaches(built.request, conf)] == []


@settings(max_examples=40, deadline=None)
@given(sensible(think=True), st.sampled_from([ModelInfo(name=MODEL, thinking=("adaptive",)), BINDING]))
def test_the_request_after_a_compaction_is_valid(pieces: tuple[tuple[Message, ...], ...], info: ModelInfo) -> None:
    """After a compaction of any run the request keeps the rules and holds the newest real request word for word."""
    conf = config(info=info, thinking="adaptive")
    view = tuple(item for piece in pieces for item in piece)
    made = apply(view, conf, SUMMARY, CompactKind.AUTO, "r1/c-1")
    prepared = prepare(made.messages, after_compaction(ContextState(), conf, MODEL), conf, MODEL, "r1/p-2")
    built = build(prepared.view, prepared.context, conf, MODEL)
    assert isinstance(built, Built)
    assert breaches(built.request, conf) == ()
    wanted = block_text([item for item in view if item.kind in REAL_REQUESTS][-1].blocks[0])
    assert any(json.dumps(wanted, ensure_ascii=False).encode() in wire.body for wire in built.request.messages)


def test_media_are_replaced_in_what_is_kept_when_they_were_refused() -> None:
    """After media-too-large the kept request holds words in place of the picture; without a summary only that changes."""
    asked = evolve(prompt("p1"), blocks=(image("A" * 400), text_block("What is it?")))
    made = apply((asked,), config(), done(), CompactKind.REACTIVE, "r1/c-1", strip_media=True)
    assert [item.kind for item in made.messages] == [MessageKind.BOUNDARY, MessageKind.PROMPT]
    assert not any(block.media for item in made.messages for block in item.blocks)
    assert made.messages[1].blocks[1] == asked.blocks[1]


def test_after_a_compaction_counts_begin_anew() -> None:
    """Base, freed, spans and what was sent are gone; the count of the new view is an estimate (field report 13)."""
    conf = config(context=ContextConfig(context_window=20_000))
    view = conversation(20, "word " * 100)
    context = with_usage(prepare(view, ContextState(), conf, MODEL, "p").context, MODEL, "a20", 12_000)
    assert prepare(view, context, conf, MODEL, "p").tokens > 12_000
    made = apply(view, conf, SUMMARY, CompactKind.AUTO, "r1/c-1")
    prepared = prepare(made.messages, after_compaction(context, conf, MODEL), conf, MODEL, "p2")
    assert prepared.tokens < 2_000
    assert prepared.context.base is None


def test_the_task_budget_remaining_is_set_by_each_compaction_only() -> None:
    """Absent before the first compaction; then the total less what was processed, with nothing counted twice."""
    conf = config(task_budget=100_000)
    context = with_usage(ContextState(), MODEL, "a", 30_000)
    first = after_compaction(context, conf, MODEL, 5_000)
    assert (context.task_remaining, first.task_remaining) == (None, 70_000)
    second = after_compaction(with_usage(first, MODEL, "b", 25_000), conf, MODEL, 5_000)
    assert second.task_remaining == 50_000
    view = (prompt("p"),)
    plain, later = build(view, context, conf, MODEL), build(view, second, conf, MODEL)
    assert isinstance(plain, Built)
    assert isinstance(later, Built)
    assert json.loads(plain.request.head)["output_config"]["task_budget"] == {"type": "tokens", "total": 100_000}
    assert json.loads(later.request.head)["output_config"]["task_budget"]["remaining"] == 50_000
