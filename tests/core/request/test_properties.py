"""Properties of normalisation, pairing and requests over arbitrary histories."""

from __future__ import annotations

from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fsm_agent.core.context.pipeline import prepare
from fsm_agent.core.context.store import ContextState
from fsm_agent.core.messages import Message, MessageKind
from fsm_agent.core.models import ModelInfo
from fsm_agent.core.request.build import Built, build
from fsm_agent.core.request.normalise import Rules, normalise
from fsm_agent.core.request.pairing import repair
from fsm_agent.core.wire import Unsendable

from ..histories import BINDING, INFO, MANUAL, MODEL, OTHER, arbitrary, breaches, config, sensible, unmarked

SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
INFOS = st.sampled_from([INFO, BINDING, MANUAL, ModelInfo(name=MODEL), ModelInfo(name=MODEL, system_messages=True)])
RULES = st.builds(
    Rules,
    model=st.just(MODEL),
    thinking=st.booleans(),
    system_messages=st.booleans(),
    betas=st.sampled_from([(), ("compact-2026-09-04",), ("server-side-fallback-2026-07-01",)]),
    used=st.sampled_from([(), (frozenset({"t1"}),)]),
    first=st.booleans(),
)


@SETTINGS
@given(arbitrary(), RULES)
def test_normalising_twice_is_normalising_once(messages: tuple[Message, ...], rules: Rules) -> None:
    """Normalisation is idempotent on any messages, and never raises."""
    once = normalise(messages, rules)
    assert normalise(once, rules) == once


@SETTINGS
@given(arbitrary())
def test_repair_pairs_every_call(messages: tuple[Message, ...]) -> None:
    """After a repair each call has exactly one result, leading the very next message, and ids are unique; twice is once."""
    repaired = repair(messages)
    assert repair(repaired) is repaired
    calls = [call.id for item in repaired if item.role == "assistant" for call in item.calls]
    answers = [answer.id for item in repaired for answer in item.results]
    assert sorted(calls) == sorted(answers)
    assert len(set(calls)) == len(calls)
    for index, item in enumerate(repaired):
        wanted = [call.id for call in item.calls]
        if wanted:
            after = repaired[index + 1]
            assert after.role == "user"
            assert [block.id for block in after.blocks[: len(wanted)]] == wanted


@SETTINGS
@given(arbitrary())
def test_repair_loses_no_words(messages: tuple[Message, ...]) -> None:
    """A repair drops results and calls at most: everything else stays, in order."""

    def others(items: tuple[Message, ...]) -> list[str]:
        return [block.json for item in items for block in item.blocks if block.type not in ("tool_use", "tool_result")]

    assert others(repair(messages)) == others(messages)


@SETTINGS
@given(arbitrary(), INFOS, st.booleans())
def test_any_history_gives_a_request_that_the_api_takes(messages: tuple[Message, ...], info: ModelInfo, enough: bool) -> None:
    """Whatever the history holds, the request keeps every wire rule, or it is said to be impossible."""
    conf = config(info=info, user_context="rules" if enough else "")
    prepared = prepare(messages, ContextState(), conf, MODEL, "r1/p-1")
    built = build(prepared.view, prepared.context, conf, MODEL)
    if isinstance(built, Unsendable):
        assert built.rule
        return
    assert [breach for breach in breaches(built.request, conf) if breach.rule != "compaction_blocks"] == []


@SETTINGS
@given(arbitrary(most=5), arbitrary(most=5), INFOS)
def test_a_sent_message_keeps_its_bytes(first: tuple[Message, ...], more: tuple[Message, ...], info: ModelInfo) -> None:
    """Whatever follows, the earlier request's messages are a prefix of the later one's (no layer cut anything)."""
    conf = config(info=info)
    state = prepare(first, ContextState(), conf, MODEL, "r1/p-1")
    before = build(state.view, state.context, conf, MODEL)
    if isinstance(before, Unsendable):
        return
    renamed = tuple(Message(f"n-{m.id}", m.role, m.kind, m.blocks, m.tokens, m.model, m.span) for m in more)
    state = prepare(state.view + renamed, before.context, conf, MODEL, "r1/p-2")
    after = build(state.view, state.context, conf, MODEL)
    if isinstance(after, Unsendable) or before.request.messages[-1].role == "system":
        return
    same_thinking = before.context.sent.key == after.context.sent.key
    if same_thinking and not state.reports:
        count = len(before.request.messages)
        assert [wire.body for wire in after.request.messages[:count]] == [wire.body for wire in before.request.messages]


@SETTINGS
@given(sensible(think=True), st.sampled_from([INFO, BINDING]), st.lists(st.booleans(), min_size=12, max_size=12))
def test_growing_runs_keep_the_prefix(pieces: tuple[tuple[Message, ...], ...], info: ModelInfo, switches: list[bool]) -> None:
    """In a run without cuts, each request's tools, system and messages are a prefix of the next one's; all are valid.

    A switch of the model is a declared cut; each model by itself still keeps the rules.
    """
    conf = config(info=info, thinking="adaptive")
    context = ContextState()
    messages: tuple[Message, ...] = ()
    model, last = MODEL, None
    for number, piece in enumerate(pieces):
        messages += piece
        chosen = OTHER if switches[number % 12] and number % 4 == 3 else MODEL
        prepared = prepare(messages, context, conf, chosen, f"r1/p-{number}")
        built = build(prepared.view, prepared.context, conf, chosen)
        assert isinstance(built, Built)
        assert breaches(built.request, conf) == ()
        now = unmarked(built.request)
        if last is not None and chosen == model:
            assert now[:2] == last[:2]
            assert now[2][: len(last[2])] == last[2]
        last, model = now, chosen
        messages, context = prepared.view, built.context


@SETTINGS
@given(sensible())
def test_incremental_and_whole_building_agree_in_content(pieces: tuple[tuple[Message, ...], ...]) -> None:
    """Blocks sent piece by piece are those that one build of the whole history sends, in order."""
    conf = config()
    context = ContextState()
    messages: tuple[Message, ...] = ()
    for piece in pieces:
        # Attachments move up among what is new, so they are other words here.
        messages += tuple(
            evolve(item, kind=MessageKind.META) if item.kind is MessageKind.ATTACHMENT else item for item in piece
        )
        built = build(messages, context, conf, MODEL)
        assert isinstance(built, Built)
        context = built.context
    whole = build(messages, ContextState(), conf, MODEL)
    assert isinstance(whole, Built)

    def blocks(found: Built) -> list[tuple[str, bytes]]:
        joined: list[tuple[str, bytes]] = []
        for wire in found.request.messages:
            content = wire.body.split(b'"content":[', 1)[1][:-2]
            if joined and joined[-1][0] == wire.role:
                joined[-1] = (wire.role, joined[-1][1] + b"," + content)
            else:
                joined.append((wire.role, content))
        return joined

    assert blocks(Built(request=built.request, context=context)) == blocks(whole)
