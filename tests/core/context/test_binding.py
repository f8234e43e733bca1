"""A model that binds its thinking to the history: whatever the layers cut, the API takes the next request."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm_agent.core.blocks import read_block, text_block, tool_result, tool_use
from fsm_agent.core.config import ContextConfig, LoopConfig, Microcompact, thresholds
from fsm_agent.core.context.collapse import drain, settle
from fsm_agent.core.context.compact import after_compaction, apply, plan, valid
from fsm_agent.core.context.pipeline import Prepared, prepare
from fsm_agent.core.context.store import ContextState
from fsm_agent.core.context.usage import with_usage
from fsm_agent.core.events import CompactionFinished
from fsm_agent.core.messages import Message
from fsm_agent.core.phases import CompactKind
from fsm_agent.core.request.build import Built, build
from fsm_agent.core.request.compaction import compaction_request
from fsm_agent.core.request.head import BETA_BINDING
from fsm_agent.server import signatures

from ..histories import BINDING, MODEL, OTHER, body, breaches, config, prompt, reply, results


class Run:
    """A small run by hand: pipeline, compaction where it is due, request, a reply whose thinking is really bound."""

    def __init__(self, conf: LoopConfig) -> None:
        self.conf = conf
        self.messages: tuple[Message, ...] = (prompt("p1"),)
        self.context = ContextState()
        self.number = 0
        self.cuts = 0
        self.compactions = 0
        self.verbatim = 0

    def prepared(self) -> Prepared:
        self.number += 1
        found = prepare(self.messages, self.context, self.conf, MODEL, f"r1/p-{self.number}")
        self.messages, self.context = found.view, found.context
        self.cuts += any(report.cut for report in found.reports)
        for span, _ in found.stage:
            self.context = settle(self.context, span.id, text_block(f"Summary {span.id}."))
        return found

    def compact(self, found: Prepared) -> None:
        if self.conf.info(MODEL).api_compaction and self.by_api(found):
            return
        event = CompactionFinished(id="c", summary=(text_block("All before is done."),))
        if found.compactable and not valid(event, plan(found.view, self.conf).replacing):
            made = apply(found.view, self.conf, event, CompactKind.AUTO, f"r1/c-{self.number}")
            self.context = after_compaction(self.context, self.conf, MODEL, made.after)
            self.messages = made.messages
            self.compactions += 1
            self.prepared()

    def by_api(self, found: Prepared) -> bool:
        """Compact as the API does: its block is bound to exactly what was sent for it."""
        built = build(found.view, found.context, self.conf, MODEL)
        assert isinstance(built, Built)
        cut = plan(found.view, self.conf, MODEL)
        asked = compaction_request(found.view, cut.start, built.context, self.conf, MODEL)
        if not found.compactable or asked is None:
            return False
        assert breaches(asked, self.conf) == ()
        value = body(asked)
        block = {"type": "compaction", "content": "All before is done."}
        seal = signatures.sign(
            signatures.compaction_content(block),
            MODEL,
            signatures.system_digest(value["system"]),
            signatures.chain_of(value["messages"]),
        )
        event = CompactionFinished(id="c", summary=(read_block({**block, "signature": seal}),), stop_reason="compaction")
        if valid(event, cut.replacing):
            return False
        made = apply(found.view, self.conf, event, CompactKind.AUTO, f"r1/c-{self.number}", model=MODEL)
        self.context = after_compaction(built.context, self.conf, MODEL, made.after, verbatim=made.verbatim)
        self.messages = made.messages
        self.verbatim += made.verbatim
        self.compactions += 1
        self.prepared()
        return True

    def turn(self, size: int, drained: bool) -> Built:
        found = self.prepared()
        if drained:
            self.messages, self.context, _ = drain(self.messages, self.context, f"r1/d-{self.number}")
            found = self.prepared()
        if found.tokens >= thresholds(self.conf, MODEL).auto_compact_at:
            self.compact(found)
        built = build(self.messages, self.context, self.conf, MODEL)
        assert isinstance(built, Built)
        self.context = built.context
        value = body(built.request)
        seal = signatures.sign("hm", MODEL, signatures.system_digest(value["system"]), signatures.chain_of(value["messages"]))
        identity = f"t{self.number}"
        answer = reply(
            f"a{self.number}",
            read_block({"type": "thinking", "thinking": "hm", "signature": seal}),
            tool_use(identity, "Read", "{}"),
        )
        self.messages += (answer, results(f"r{self.number}", tool_result(identity, "word " * size)))
        self.context = with_usage(self.context, MODEL, answer.id, built.request.estimate + answer.tokens)
        return built


LAYERS = st.builds(
    ContextConfig,
    context_window=st.just(9_000),
    result_chars=st.sampled_from([1_500, 200_000]),
    preview_chars=st.just(100),
    snip=st.booleans(),
    microcompact=st.sampled_from(list(Microcompact)),
    keep_results=st.integers(0, 3),
    collapse=st.booleans(),
    keep_rounds=st.integers(0, 2),
)


@settings(max_examples=40, deadline=None)
@given(LAYERS, st.lists(st.tuples(st.sampled_from([5, 100, 400]), st.booleans()), min_size=3, max_size=16))
def test_every_request_of_a_run_with_cuts_is_valid(layers: ContextConfig, turns: list[tuple[int, bool]]) -> None:
    """With any layers on, each request keeps the wire rules, bound thinking included, without asking the API to drop any.

    The check leaves the request's own permission to drop out of account: what is sent fits by itself.
    """
    run = Run(config(info=BINDING, context=layers))
    for size, drained in turns:
        built = run.turn(size, drained)
        found = breaches(built.request, run.conf)
        assert found == ()
        assert (BETA_BINDING in built.request.betas) == (b"block_binding" in built.request.head)
        strict = built.request.head.replace(b',"block_binding":{"prefix_mismatch_behavior":"drop_block"}', b"")
        assert breaches(evolve(built.request, head=strict), run.conf) == ()


@pytest.mark.parametrize(
    "layers",
    [
        ContextConfig(context_window=9_000),
        ContextConfig(context_window=9_000, collapse=True),
        ContextConfig(context_window=9_000, microcompact=Microcompact.LOCAL, keep_results=1),
        ContextConfig(context_window=9_000, snip=True),
    ],
)
def test_a_long_run_stays_below_the_limit(layers: ContextConfig) -> None:
    """Each layer by itself, compaction behind it, keeps forty rounds below the hard limit with valid requests."""
    run = Run(config(info=BINDING, context=layers))
    for _ in range(40):
        built = run.turn(300, False)
        assert breaches(built.request, run.conf) == ()
        assert built.request.estimate < thresholds(run.conf, MODEL).blocking_limit
    assert run.cuts + run.compactions > 3


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([100, 300, 600]), st.booleans()), min_size=8, max_size=24),
    st.integers(0, 2),
    st.booleans(),
)
def test_thinking_behind_the_own_block_of_the_api_stays(turns: list[tuple[int, bool]], keep: int, asks: bool) -> None:
    """With the API's compaction the tail's thinking is kept and still fits; the newest request survives word for word.

    No request asks the API to drop anything, since nothing is cut by anyone else.
    """
    info = evolve(BINDING, api_compaction=True)
    run = Run(config(info=info, context=ContextConfig(context_window=9_000, keep_rounds=keep)))
    for number, (size, speaks) in enumerate(turns):
        if asks and speaks:
            run.messages += (prompt(f"q{number}", f"Wish {number}."),)
        thoughts = sum(block.is_thinking for item in run.messages for block in item.blocks)
        built = run.turn(size, False)
        assert breaches(built.request, run.conf) == ()
        assert b"block_binding" not in built.request.head
        newest = next(item for item in reversed(run.messages) if item.kind.value == "prompt")
        assert newest.blocks[-1].json.encode() in b"".join(wire.body for wire in built.request.messages)
        kept = sum(
            body_block["type"] == "thinking" for item in body(built.request)["messages"] for body_block in item["content"]
        )
        assert kept == thoughts or run.verbatim


def test_a_long_run_on_the_own_block_of_the_api() -> None:
    """Forty rounds with the API's compaction stay below the hard limit, and every reply that is sent has its thinking."""
    run = Run(config(info=evolve(BINDING, api_compaction=True), context=ContextConfig(context_window=9_000)))
    for _ in range(40):
        built = run.turn(300, False)
        assert breaches(built.request, run.conf) == ()
        for item in body(built.request)["messages"]:
            if item["role"] == "assistant" and item["content"][0]["type"] != "compaction":
                assert item["content"][0]["type"] == "thinking"
    assert run.verbatim > 3


def test_another_model_reads_the_block_in_words() -> None:
    """A model without the API's compaction gets the summary as text: a switch of models loses no memory."""
    run = Run(config(info=evolve(BINDING, api_compaction=True), context=ContextConfig(context_window=9_000)))
    while not run.verbatim:
        run.turn(300, False)
    plain = config(info=BINDING, context=ContextConfig(context_window=9_000))
    found = prepare(run.messages, run.context, plain, OTHER, "r1/z")
    built = build(found.view, found.context, plain, OTHER)
    assert isinstance(built, Built)
    assert breaches(built.request, plain) == ()
    assert b"All before is done." in built.request.messages[0].body
