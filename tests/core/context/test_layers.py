"""Each light layer by itself: boundary, result budget, media, snip, microcompact, thinking."""

from __future__ import annotations

import json

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm_agent.core.blocks import block_text, read_block, text_block, tool_result, tool_use
from fsm_agent.core.config import ContextConfig, Microcompact, thresholds
from fsm_agent.core.context.after_boundary import after_boundary, boundary_message
from fsm_agent.core.context.media import limit_media, strip_media
from fsm_agent.core.context.microcompact import applied
from fsm_agent.core.context.pipeline import prepare
from fsm_agent.core.context.result_budget import reference, result_budget
from fsm_agent.core.context.snip import snip
from fsm_agent.core.context.store import ContextState, Tally
from fsm_agent.core.context.tally import CLEARED, extend
from fsm_agent.core.context.usage import with_usage
from fsm_agent.core.messages import Message
from fsm_agent.core.models import ModelInfo
from fsm_agent.core.request.build import Built, build
from fsm_agent.core.request.pairing import repair

from ..histories import (
    BINDING,
    MODEL,
    breaches,
    config,
    conversation,
    image,
    prompt,
    reply,
    results,
    round_of,
    thinking,
)


def shown(view: tuple[Message, ...]) -> dict[str, str]:
    """Give the text of each result in a view, by call."""
    return {
        block.id: json.dumps(json.loads(block.json)["content"], ensure_ascii=False) for item in view for block in item.results
    }


def test_the_view_starts_at_the_newest_compaction_boundary() -> None:
    """What stands before the newest compaction boundary is not part of the view; a snip's boundary cuts nothing."""
    old, new = boundary_message("b1", "compact", "auto", 9, 1), boundary_message("b2", "compact", "auto", 9, 1)
    mark = boundary_message("s1", "snip", "threshold", 9, 1)
    view, report = after_boundary((prompt("p0"), old, prompt("p1"), new, prompt("p2"), mark, prompt("p3")))
    assert [item.id for item in view] == ["b2", "p2", "s1", "p3"]
    assert report is not None
    assert after_boundary(view) == (view, None)


def test_the_largest_results_are_shortened_until_the_message_fits() -> None:
    """The result budget shortens the largest results first, names where the whole text is, and leaves the others."""
    conf = config(context=ContextConfig(result_chars=10_000, preview_chars=100))
    calls = [tool_use(f"t{n}", "Read", "{}") for n in range(3)]
    view = (
        prompt("p"),
        reply("a", *calls),
        results("r", tool_result("t0", "x" * 9_000), tool_result("t1", "small"), tool_result("t2", "y" * 3_000)),
    )
    after, context, report = result_budget(view, 0, ContextState(), conf)
    texts = shown(after)
    assert reference("t0") in texts["t0"]
    assert texts["t0"].startswith('"' + "x" * 100)
    assert texts["t1"] == '"small"'
    assert texts["t2"] == '"' + "y" * 3_000 + '"'
    assert report is not None
    assert report.ids == ("t0",)
    assert report.freed > 2_000
    assert [item.tool_use_id for item in context.replacements] == ["t0"]


def test_a_remembered_decision_is_made_again_in_the_same_way() -> None:
    """A result that was shortened once looks the same when its original comes back, whatever stands beside it."""
    conf = config(context=ContextConfig(result_chars=1_000, preview_chars=50))
    view = (prompt("p"), reply("a", tool_use("t0", "Read", "{}")), results("r", tool_result("t0", "x" * 5_000)))
    after, context, _ = result_budget(view, 0, ContextState(), conf)
    roomy = config(context=ContextConfig(result_chars=1_000_000))
    again, same, report = result_budget(view, 0, context, roomy)
    assert again == after
    assert same.replacements == context.replacements
    assert report is not None


def test_tools_without_a_limit_are_exempt_from_the_result_budget() -> None:
    """A result of an exempt tool stays whole and does not count."""
    conf = config(context=ContextConfig(result_chars=1_000))
    view = (prompt("p"), reply("a", tool_use("t0", "Whole", "{}")), results("r", tool_result("t0", "x" * 5_000)))
    assert result_budget(view, 0, ContextState(), conf)[0] is view


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 6_000), min_size=1, max_size=12), st.integers(0, 500))
def test_the_result_budget_is_kept_as_far_as_a_reference_allows(sizes: list[int], preview: int) -> None:
    """After the budget a message fits, or every result is down to its bare reference; errors stay errors."""
    limit = 2_000
    conf = config(context=ContextConfig(result_chars=limit, preview_chars=preview))
    calls = [tool_use(f"t{n}", "Read", "{}") for n in range(len(sizes))]
    answers = [tool_result(f"t{n}", "x" * size, is_error=n % 2 == 0) for n, size in enumerate(sizes)]
    view = (prompt("p"), reply("a", *calls), results("r", *answers))
    after, _, _ = result_budget(view, 0, ContextState(), conf)
    found = after[2].results
    assert [block.is_error for block in found] == [n % 2 == 0 for n in range(len(sizes))]
    assert sum(block.chars for block in found) <= limit or all(block.chars < 200 for block in found)
    assert all(block.chars == read_block(json.loads(block.json)).chars for block in found)


def test_media_of_a_shortened_result_stay() -> None:
    """Shortening takes text only: an image beside it stays, with its size."""
    conf = config(context=ContextConfig(result_chars=1_000, preview_chars=50))
    picture = json.loads(image().json)
    mixed = tool_result("t0", [{"type": "text", "text": "x" * 5_000}, picture])
    view = (prompt("p"), reply("a", tool_use("t0", "Read", "{}")), results("r", mixed))
    block = result_budget(view, 0, ContextState(), conf)[0][2].results[0]
    assert json.loads(block.json)["content"][1] == picture
    assert block.media == mixed.media


def test_the_oldest_media_over_the_count_give_way() -> None:
    """Past the model's count the oldest images are replaced by words, the newest stay (field report 72)."""
    info = ModelInfo(name=MODEL, max_media=10)
    view = tuple(prompt(f"p{n}") for n in range(1)) + tuple(evolve(prompt(f"i{n}"), blocks=(image(),)) for n in range(13))
    tally = extend(Tally(), view, config(info=info))
    after, report = limit_media(view, 0, tally, info)
    left = [item.id for item in after if any(block.media for block in item.blocks)]
    assert left == [f"i{n}" for n in range(4, 13)]
    assert report is not None
    assert report.cut
    assert block_text(after[1].blocks[0]).startswith("[image left out")


def test_a_single_medium_over_a_limit_is_replaced_when_it_comes() -> None:
    """An image with too many bytes or pixels never reaches a request (field report 71)."""
    info = ModelInfo(name=MODEL, max_media_bytes=100, max_media_pixels=500)
    view = (
        evolve(prompt("big"), blocks=(image("A" * 200),)),
        evolve(prompt("wide"), blocks=(image("B" * 40, width=900),)),
        evolve(prompt("good"), blocks=(image("C" * 40),)),
    )
    after, _ = limit_media(view, 0, extend(Tally(), view, config(info=info)), info)
    assert [bool(item.blocks[0].media) for item in after] == [False, False, True]


def test_bytes_of_all_media_stay_below_the_body_limit() -> None:
    """The oldest media give way before the body is over the byte limit (field report 73)."""
    info = ModelInfo(name=MODEL, max_body_bytes=10_000)
    view = tuple(evolve(prompt(f"i{n}"), blocks=(image(f"{n:02}" + "A" * 998),)) for n in range(12))
    after, _ = limit_media(view, 0, extend(Tally(), view, config(info=info)), info)
    kept = [item.id for item in after if item.blocks[0].media]
    assert kept == [f"i{n}" for n in range(4, 12)]


def test_a_refused_medium_is_found_by_its_path_and_replaced() -> None:
    """The medium that the API names is replaced, with those as large; smaller ones stay."""
    conf = config()
    view = (
        prompt("p"),
        reply("a", tool_use("t0", "Read", "{}")),
        results("r", tool_result("t0", [{"type": "text", "text": "see"}])),
        evolve(prompt("small"), blocks=(image("A" * 40), text_block("small"))),
        evolve(prompt("large"), blocks=(text_block("large"), image("B" * 400, width=3_000))),
    )
    built = build(view, ContextState(), conf, MODEL)
    assert isinstance(built, Built)
    content = json.loads(built.request.messages[2].body)["content"]
    place = next(n for n, block in enumerate(content) if block["type"] == "image" and len(block["source"]["data"]) == 400)
    after, report = strip_media(view, f"messages.2.content.{place}.image.source", built.context.sent)
    assert bool(after[3].blocks[0].media)
    assert not any(block.media for block in after[4].blocks)
    assert report is not None
    assert report.ids == ("large",)


def test_without_a_name_all_media_are_replaced() -> None:
    """A body over the byte limit names no medium: all of them go, those in results too (field report 73)."""
    picture = json.loads(image().json)
    view = (
        evolve(prompt("p"), blocks=(image(), text_block("look"))),
        reply("a", tool_use("t0", "Read", "{}")),
        results("r", tool_result("t0", [picture, picture])),
    )
    after, _ = strip_media(view)
    assert not any(block.media for item in after for block in item.blocks)
    assert "look" in block_text(after[0].blocks[1])


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 12), st.integers(0, 3), st.integers(0, 400))
def test_snip_cuts_between_rounds(rounds: int, keep: int, surplus: int) -> None:
    """Snip removes oldest whole rounds, never the first or newest request or the last rounds; pairs stay together."""
    view = conversation(rounds, "word " * 20)
    after, report = snip(view, surplus, keep, "r1/p-1")
    assert repair(after) is after
    assert after[0] is view[0]
    assert after[len(after) - 2 * min(keep, rounds) :] == view[len(view) - 2 * min(keep, rounds) :]
    if report is not None and rounds > keep:
        kept = [item.id for item in after if item.id.startswith("a")]
        assert kept == [f"a{n}" for n in range(rounds - len(kept) + 1, rounds + 1)]


def test_snip_brings_the_count_under_its_threshold() -> None:
    """When it is on, the pipeline snips at its threshold, counts what it freed, and announces a boundary once."""
    conf = config(context=ContextConfig(context_window=20_000, snip=True))
    limits = thresholds(conf, MODEL)
    view = conversation(40, "word " * 300)
    context = with_usage(ContextState(), MODEL, "a40", limits.snip_at + 100)
    prepared = prepare(view, context, conf, MODEL, "r1/p-1")
    assert prepared.tokens < limits.snip_at
    assert [boundary.kind for boundary in prepared.boundaries] == ["snip"]
    again = prepare(prepared.view, prepared.context, conf, MODEL, "r1/p-2")
    assert again.view == prepared.view
    assert again.boundaries == ()
    assert again.tokens == prepared.tokens


def test_local_microcompact_clears_old_results_of_compactable_tools() -> None:
    """Old results become one line, the newest five stay, other tools and thinking are not touched, freed is counted."""
    conf = config(context=ContextConfig(context_window=20_000, microcompact=Microcompact.LOCAL))
    view = conversation(10, "word " * 600, think=True)
    view += round_of(11, "word " * 600, tool="Write")
    before = prepare(view, ContextState(), config(context=ContextConfig(context_window=20_000)), MODEL, "r1/p-0")
    prepared = prepare(view, ContextState(), conf, MODEL, "r1/p-1")
    texts = shown(prepared.view)
    assert [texts[f"toolu_{n}"] for n in range(1, 6)] == [json.dumps(CLEARED)] * 5
    assert all("word" in texts[f"toolu_{n}"] for n in range(6, 12))
    assert sum(block.is_thinking for item in prepared.view for block in item.blocks) == 10
    assert before.tokens - prepared.tokens == prepared.reports[0].freed
    assert [boundary.kind for boundary in prepared.boundaries] == ["microcompact"]
    again = prepare(prepared.view, prepared.context, conf, MODEL, "r1/p-2")
    assert again.view == prepared.view


def test_microcompact_waits_until_it_is_worth_a_cut() -> None:
    """Little is not cleared: below the share of the window the view stays as it is."""
    conf = config(context=ContextConfig(context_window=200_000, microcompact=Microcompact.LOCAL))
    view = conversation(10, "word " * 600)
    assert prepare(view, ContextState(), conf, MODEL, "r1/p-1").view == view


def test_cached_microcompact_asks_the_api_and_defers_its_boundary() -> None:
    """The cached kind leaves the view alone, sends clearing edits with their beta, and announces what the API cleared."""
    conf = config(context=ContextConfig(context_window=20_000, microcompact=Microcompact.CACHED))
    view = conversation(10, "word " * 600)
    prepared = prepare(view, ContextState(), conf, MODEL, "r1/p-1")
    assert prepared.view == view
    assert prepared.boundaries == ()
    assert prepared.context.deferred > 0
    built = build(prepared.view, prepared.context, conf, MODEL)
    assert isinstance(built, Built)
    assert b'"clear_tool_uses_20250919"' in built.request.head
    assert json.loads(built.request.head)["context_management"]["edits"][0]["exclude_tools"] == ["Write", "Whole"]
    assert [breach.rule for breach in breaches(built.request, conf)] == []
    context, boundary = applied(built.context, 3_000, 20_000)
    assert boundary is not None
    assert boundary.kind == "microcompact"
    assert context.deferred == 0
    assert applied(built.context, 0, 20_000)[1] is None
    # The API clears every request from its start: the same again is no news, more than that is.
    assert applied(context, 3_000, 18_000)[1] is None
    context, boundary = applied(context, 5_000, 18_000)
    assert boundary is not None
    assert (boundary.before, boundary.after) == (18_000, 16_000)


def test_thinking_behind_a_cut_goes_on_a_model_that_binds_it() -> None:
    """After a local cut of something sent, thinking behind it is removed and the request asks to drop what is left over."""
    plain = config(info=BINDING, context=ContextConfig(context_window=20_000))
    conf = config(info=BINDING, context=ContextConfig(context_window=20_000, microcompact=Microcompact.LOCAL, keep_results=8))
    view = (prompt("p0"), reply("a0", thinking("first"), text_block("Yes.")), *conversation(10, "word " * 600, think=True))
    first = prepare(view, ContextState(), plain, MODEL, "r1/p-1")
    sent = build(first.view, first.context, plain, MODEL)
    assert isinstance(sent, Built)
    assert b"block_binding" not in sent.request.head
    view = first.view + round_of(11, "word " * 600, think=True)
    prepared = prepare(view, sent.context, conf, MODEL, "r1/p-2")
    thought = [item.id for item in prepared.view if any(block.is_thinking for block in item.blocks)]
    assert thought == ["a0", "a1"], "what stands before the first changed message still fits"
    built = build(prepared.view, prepared.context, conf, MODEL)
    assert isinstance(built, Built)
    assert json.loads(built.request.head)["thinking"]["block_binding"] == {"prefix_mismatch_behavior": "drop_block"}
    assert any(beta.startswith("thinking-binding-controls") for beta in built.request.betas)
    assert breaches(built.request, conf) == ()


def test_thinking_that_the_api_refused_is_dropped_once_asked() -> None:
    """``drop_thinking`` removes all thinking from the view in the next pass, whole rounds, and clears itself."""
    conf = config()
    view = (*conversation(3, think=True), reply("a9", thinking("alone")), prompt("p9"))
    context = evolve(prepare(view, ContextState(), conf, MODEL, "r1/p-1").context, drop_thinking=True)
    prepared = prepare(view, context, conf, MODEL, "r1/p-2")
    assert not any(block.is_thinking for item in prepared.view for block in item.blocks)
    assert "a9" not in [item.id for item in prepared.view]
    assert not prepared.context.drop_thinking


def test_left_open_the_api_clears_results_of_models_that_bind_thinking() -> None:
    """By default clearing edits are asked for where thinking is bound to the history; elsewhere nothing is cleared."""
    view = conversation(10, "word " * 600)
    window = ContextConfig(context_window=20_000)
    bound, free = config(info=BINDING, context=window), config(context=window)
    for conf, asks in ((bound, True), (free, False)):
        prepared = prepare(view, ContextState(), conf, MODEL, "r1/p-1")
        built = build(prepared.view, prepared.context, conf, MODEL)
        assert isinstance(built, Built)
        assert prepared.view == view
        assert (b"clear_tool_uses" in built.request.head) is asks
        assert (prepared.context.deferred > 0) is asks


def test_results_that_the_model_has_not_seen_are_never_cleared() -> None:
    """Ten results of one reply stay whole until they were sent once, however few are to be kept."""
    calls = [tool_use(f"t{n}", "Read", "{}") for n in range(10)]
    news = (reply("a9", *calls), results("r9", *(tool_result(block.id, "word " * 600) for block in calls)))
    layers = ContextConfig(context_window=60_000, microcompact=Microcompact.LOCAL, keep_results=1)
    conf = config(context=layers)
    first = prepare((*conversation(8, "word " * 600), *news), ContextState(), conf, MODEL, "r1/p-1")
    assert CLEARED in shown(first.view)["toolu_1"]
    assert all(CLEARED not in shown(first.view)[f"t{n}"] for n in range(10))
    more = (*first.view, *round_of(11))
    later = prepare(more, first.context, conf, MODEL, "r1/p-2")
    assert CLEARED in shown(later.view)["t0"]
