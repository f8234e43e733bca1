"""Context collapse: staging in the background, committing, draining, and the store."""

from __future__ import annotations

from attrs import evolve

from fsm_agent.core.blocks import block_text, text_block
from fsm_agent.core.config import ContextConfig, LoopConfig, thresholds
from fsm_agent.core.context.collapse import MAX_STAGED, drain, drop, settle, staged
from fsm_agent.core.context.pipeline import Prepared, prepare
from fsm_agent.core.context.store import ContextState
from fsm_agent.core.context.usage import with_usage
from fsm_agent.core.messages import Message, MessageKind
from fsm_agent.core.request.build import Built, build
from fsm_agent.core.request.pairing import repair

from ..histories import BINDING, MODEL, breaches, config, conversation, prompt, round_of

WORDS = "word " * 300


def conf(**more: object) -> LoopConfig:
    return config(context=ContextConfig(context_window=20_000, collapse=True), **more)


def at(share: str, view: tuple[Message, ...], context: ContextState | None = None) -> ContextState:
    """Give a context whose base puts the view at one of the thresholds."""
    limits = thresholds(conf(), MODEL)
    last = [item.id for item in view if item.role == "assistant"][-1]
    # What follows the reply is estimated, so the base leaves room for it.
    return with_usage(context or ContextState(), MODEL, last, getattr(limits, share) - view[-1].tokens + 10)


def stage(view: tuple[Message, ...], context: ContextState) -> Prepared:
    return prepare(view, context, conf(), MODEL, "r1/p-1")


def ready(prepared: Prepared) -> ContextState:
    """Let every staged span get its summary."""
    context = prepared.context
    for span, _ in prepared.stage:
        context = settle(context, span.id, text_block(f"Summary of {span.first} to {span.last}."))
    return context


def test_below_the_stage_level_nothing_is_staged() -> None:
    """A small view has no spans."""
    view = conversation(10, WORDS)
    prepared = stage(view, with_usage(ContextState(), MODEL, "a10", 1_000))
    assert prepared.stage == ()
    assert prepared.context.spans == ()


def test_spans_hold_whole_old_rounds() -> None:
    """Above the stage level oldest rounds are staged, bounded in number, without newest request and protected tail."""
    view = conversation(10, WORDS)
    prepared = stage(view, at("stage_at", view))
    assert 0 < len(prepared.stage) <= MAX_STAGED
    tail = {item.id for item in view[-4:]} | {"p1"}
    for span, messages in prepared.stage:
        assert repair(messages) is messages
        assert not tail & {item.id for item in messages}
        assert (messages[0].id, messages[-1].id) == (span.first, span.last)
        assert span.tokens == sum(item.tokens for item in messages)
    assert prepared.view == view
    again = prepare(view, prepared.context, conf(), MODEL, "r1/p-2")
    first = {item.id for _, messages in prepared.stage for item in messages}
    assert not first & {item.id for _, messages in again.stage for item in messages}


def test_ready_summaries_are_committed_at_the_commit_level() -> None:
    """Above the commit level summaries take the place of their rounds, the count falls, a boundary is announced."""
    view = conversation(10, WORDS)
    prepared = stage(view, at("stage_at", view))
    context = at("commit_at", view, ready(prepared))
    assert staged(context) == len(prepared.stage)
    committed = prepare(view, context, conf(), MODEL, "r1/p-2")
    assert committed.tokens < thresholds(conf(), MODEL).commit_at
    assert [boundary.kind for boundary in committed.boundaries] == ["collapse"]
    assert any(item.kind is MessageKind.SUMMARY for item in committed.view)
    assert committed.view[0] is view[0]
    assert committed.view[-4:] == view[-4:]
    again = prepare(committed.view, committed.context, conf(), MODEL, "r1/p-3")
    assert again.view == committed.view, "projecting again changes nothing"
    assert again.tokens == committed.tokens


def test_a_history_read_anew_shows_committed_summaries_again() -> None:
    """The store projects the original rounds once more, with the same result."""
    view = conversation(10, WORDS)
    prepared = stage(view, at("stage_at", view))
    committed = prepare(view, at("commit_at", view, ready(prepared)), conf(), MODEL, "r1/p-2")
    once_more = prepare(view, committed.context, conf(), MODEL, "r1/p-2")
    assert once_more.view == committed.view


def test_a_drain_commits_everything_that_is_ready() -> None:
    """The recovery commits all summaries at once and says what it freed; without any it changes nothing."""
    view = conversation(10, WORDS)
    prepared = stage(view, at("stage_at", view))
    context = ready(prepared)
    shown, after, report = drain(view, context, "r1/p-2")
    assert report.freed == sum(item.tokens for item in view) - sum(item.tokens for item in shown) > 0
    assert report.cut
    assert staged(after) == 0
    assert after.freed == report.freed
    assert drain(view, prepared.context, "r1/p-2")[2].freed == 0


def test_a_span_that_left_the_working_list_is_forgotten() -> None:
    """When a message of a span is gone, the span goes from the store, and a late summary has no effect."""
    view = conversation(10, WORDS)
    prepared = stage(view, at("stage_at", view))
    gone = {prepared.stage[0][0].first}
    cut = tuple(item for item in view if item.id not in gone)
    left = prepare(cut, evolve(ready(prepared), base=None), conf(), MODEL, "r1/p-2").context.spans
    assert prepared.stage[0][0].id not in [span.id for span in left]
    late = settle(evolve(ContextState(), spans=left), prepared.stage[0][0].id, text_block("Late."))
    assert late.spans == left


def test_bad_summaries_of_a_span_are_never_shown() -> None:
    """A blank summary, or one that is larger than its span, drops the span; a failure does the same."""
    view = conversation(10, WORDS)
    prepared = stage(view, at("stage_at", view))
    span = prepared.stage[0][0]
    for bad in (text_block("  "), text_block("long " * 9_000)):
        assert span.id not in [item.id for item in settle(prepared.context, span.id, bad).spans]
    assert span.id not in [item.id for item in drop(prepared.context, span.id).spans]


def test_the_request_after_a_commit_is_valid_and_keeps_what_stands_before() -> None:
    """A commit is a declared cut: what stood before the first summary keeps its bytes, and thinking behind it goes."""
    bound = config(info=BINDING, context=ContextConfig(context_window=20_000, collapse=True))
    early = (prompt("p0", "First wish."), *(item for n in range(20, 22) for item in round_of(n, think=True)))
    view = early + conversation(10, WORDS, think=True)
    prepared = prepare(view, at("stage_at", view), bound, MODEL, "r1/p-1")
    sent = build(prepared.view, prepared.context, bound, MODEL)
    assert isinstance(sent, Built)
    context = at("commit_at", view, ready(evolve(prepared, context=sent.context)))
    committed = prepare(view, context, bound, MODEL, "r1/p-2")
    assert any(report.cut for report in committed.reports)
    built = build(committed.view, committed.context, bound, MODEL)
    assert isinstance(built, Built)
    assert breaches(built.request, bound) == ()
    texts = [block_text(block) for item in committed.view for block in item.blocks if item.kind is MessageKind.SUMMARY]
    assert all("Summary of" in text for text in texts)
