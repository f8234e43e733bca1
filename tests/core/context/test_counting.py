"""Token counts of a view, and what a pass with nothing to do costs."""

from __future__ import annotations

import pytest
from attrs import evolve

from fsm_agent.core.blocks import text_block
from fsm_agent.core.config import ContextConfig, thresholds
from fsm_agent.core.context.pipeline import prepare
from fsm_agent.core.context.store import ContextState
from fsm_agent.core.context.usage import count_view, static_tokens, user_context_tokens, with_usage
from fsm_agent.core.models import ModelInfo
from fsm_agent.core.request.build import Built, build

from ..histories import MODEL, OTHER, config, conversation, image, prompt, reply, round_of


def test_before_the_first_usage_the_user_context_counts_for_the_hard_limit_only() -> None:
    """The first count is an estimate of system prompt, tools and messages; the blocking count adds the user context."""
    conf = config(user_context="rules " * 100)
    prepared = prepare((prompt("p"),), ContextState(), conf, MODEL, "x")
    assert prepared.tokens == static_tokens(conf) + prompt("p").tokens
    assert prepared.blocking_tokens == prepared.tokens + user_context_tokens(conf)
    assert user_context_tokens(conf) > 100
    assert prepared.fixed_tokens == prepared.blocking_tokens


def test_a_usage_is_the_base_of_later_counts() -> None:
    """Usage of the last reply of this model, plus an estimate of what follows it; both counts are the same then."""
    conf = config()
    view = conversation(3)
    context = with_usage(ContextState(), MODEL, "a3", 5_000)
    assert count_view(view, context, conf, MODEL) == (5_000 + view[-1].tokens,) * 2
    assert count_view(view, context, conf, OTHER)[0] < 1_000, "another model's usage is no base"
    assert count_view(view[:-2], context, conf, MODEL)[0] < 1_000, "a reply that is gone is no base"


@pytest.mark.parametrize("tokens", [0, -1])
def test_a_missing_usage_leaves_the_older_base(tokens: int) -> None:
    """No or odd numbers never make a count of nothing (field report 3)."""
    context = with_usage(ContextState(), MODEL, "a1", 5_000)
    assert with_usage(context, MODEL, "a2", tokens) is context


def test_a_newer_usage_clears_what_was_freed() -> None:
    """What the layers removed is subtracted until a newer usage has seen it."""
    context = evolve(with_usage(ContextState(), MODEL, "a1", 5_000), freed=1_000)
    view = conversation(1)
    assert count_view(view, context, config(), MODEL)[0] == 4_000 + view[-1].tokens
    assert with_usage(context, MODEL, "a1", 4_100).freed == 0


def test_a_pasted_picture_does_not_fill_the_window() -> None:
    """A large image counts by its size in pixels, up to a cap, and brings no compaction (field report 21)."""
    view = (evolve(prompt("p"), blocks=(image("A" * 3_000_000, 4_000, 4_000), text_block("Look."))),)
    view = (evolve(view[0], tokens=sum(block.tokens for block in view[0].blocks)),)
    conf = config()
    prepared = prepare(view, ContextState(), conf, MODEL, "x")
    assert prepared.tokens < 6_000 < thresholds(conf, MODEL).stage_at
    assert prepared.view == view


def test_other_scripts_count_at_least_one_token_a_character() -> None:
    """Han, Hangul, kana and emoji are never underestimated (field report 23)."""
    for text in ("漢" * 2_000, "한" * 2_000, "か" * 2_000, "🙂" * 2_000, "ᄀ" * 2_000):
        assert text_block(text).tokens >= 2_000


def test_fixed_parts_alone_over_the_limit_are_seen() -> None:
    """System prompt, tools and newest request alone make the context irreducible (field report 1)."""
    conf = config(context=ContextConfig(context_window=20_000), system=("rule " * 12_000,))
    prepared = prepare(conversation(2), ContextState(), conf, MODEL, "x")
    assert prepared.fixed_tokens > thresholds(conf, MODEL).blocking_limit


def test_a_pass_with_nothing_to_do_keeps_everything() -> None:
    """With nothing to do the view is the same messages, no report is made, and what was sent is not made again."""
    conf = config(info=ModelInfo(name=MODEL, context_window=10_000_000), context=ContextConfig(collapse=True, snip=True))
    view = conversation(200)
    first = prepare(view, ContextState(), conf, MODEL, "x1")
    sent = build(first.view, first.context, conf, MODEL)
    assert isinstance(sent, Built)
    more = first.view + round_of(201)
    second = prepare(more, with_usage(sent.context, MODEL, "a200", 9_000), conf, MODEL, "x2")
    assert second.view == more
    assert second.reports == second.boundaries == second.stage == ()
    built = build(second.view, second.context, conf, MODEL)
    assert isinstance(built, Built)
    pairs = zip(sent.request.messages, built.request.messages, strict=False)
    assert all(old is new for old, new in pairs)
    assert len(built.request.messages) == len(sent.request.messages) + 2
    idle = prepare(second.view, built.context, conf, MODEL, "x3")
    assert idle.view is second.view
    again = build(idle.view, idle.context, conf, MODEL)
    assert isinstance(again, Built)
    assert again.request == built.request


def test_other_settings_in_a_later_run_are_noticed() -> None:
    """Another user context, or other tools to clear, make anew what depended on them."""
    view = conversation(2)
    first = prepare(view, ContextState(), config(), MODEL, "x")
    sent = build(first.view, first.context, config(), MODEL)
    assert isinstance(sent, Built)
    other = config(user_context="New rules.")
    second = prepare((*view, reply("z", text_block("Done.")), prompt("q")), sent.context, other, MODEL, "y")
    built = build(second.view, second.context, other, MODEL)
    assert isinstance(built, Built)
    assert b"New rules." in built.request.messages[0].body
    assert b"Project rules" not in built.request.messages[0].body
