"""The layers and the requests over sessions that really were: every recorded transcript, grown turn by turn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from fsm_agent.core.blocks import text_block
from fsm_agent.core.config import ContextConfig, LoopConfig, Microcompact, thresholds
from fsm_agent.core.context import collapse
from fsm_agent.core.context.compact import after_compaction, apply, plan, valid
from fsm_agent.core.context.pipeline import prepare
from fsm_agent.core.context.snip import snip
from fsm_agent.core.context.store import ContextState
from fsm_agent.core.events import CompactionFinished
from fsm_agent.core.messages import REAL_REQUESTS, Message
from fsm_agent.core.phases import CompactKind
from fsm_agent.core.request.build import build
from fsm_agent.core.request.normalise import Rules, normalise
from fsm_agent.core.wire import Unsendable
from fsm_agent.log.transcripts import TranscriptError, import_transcript

from ..histories import INFO, MODEL, breaches, config, unmarked

TRANSCRIPTS = Path(__file__).resolve().parents[3] / ".." / "shared" / "data" / "transcripts"
SUMMARY = CompactionFinished(id="c", summary=(text_block("What was done is done."),))
LAYERS = {
    "none": ContextConfig(),
    "light": ContextConfig(context_window=12_000, microcompact=Microcompact.LOCAL, keep_results=1, result_chars=4_000),
    "collapse": ContextConfig(context_window=12_000, collapse=True),
    "snip": ContextConfig(context_window=12_000, snip=True),
    "compaction": ContextConfig(context_window=12_000, keep_rounds=1),
}


def histories() -> list[Any]:
    """Give each transcript from which a run could go on, or one skipped parameter where there are none."""
    found = []
    for path in sorted(TRANSCRIPTS.rglob("*.jsonl")):
        try:
            read = import_transcript(path)
        except (TranscriptError, OSError):
            continue
        # The recorded model's name gives way to that of the tests, so that its thinking counts as its own.
        messages = tuple(evolve(item, model=MODEL) if item.role == "assistant" else item for item in read.messages)
        found.append(pytest.param(messages, id=path.stem[:24]))
    return found or [pytest.param((), marks=pytest.mark.skip(reason="the recorded transcripts (../shared/data) are not here"))]


def turns(messages: tuple[Message, ...]) -> list[tuple[Message, ...]]:
    """Give the history as it stood before each reply."""
    ends = [
        index for index in range(1, len(messages)) if messages[index].role == "assistant" and messages[index - 1].role == "user"
    ]
    ends += [len(messages)] if messages and messages[-1].role == "user" else []
    return [messages[:end] for end in ends]


def thoughts(view: tuple[Message, ...]) -> list[str]:
    """Give the thinking in a view, byte for byte."""
    return [block.json for item in view for block in item.blocks if block.is_thinking]


def last_words(view: tuple[Message, ...]) -> list[str]:
    """Give the newest real request, block by block."""
    newest = next((item for item in reversed(view) if item.kind in REAL_REQUESTS), None)
    return [] if newest is None else [block.json for block in newest.blocks if block.type == "text" and not block.blank]


class Run:
    """A session played again: each turn adds what really came next to the working list that the layers left."""

    def __init__(self, conf: LoopConfig) -> None:
        self.conf = conf
        self.context = ContextState()
        self.messages: tuple[Message, ...] = ()
        self.before: Any = None
        self.number = 0

    def turn(self, more: tuple[Message, ...]) -> None:
        """Make the next request, and check it against the one before."""
        self.number += 1
        found = prepare(self.messages + more, self.context, self.conf, MODEL, f"r/p-{self.number}")
        cut = any(report.cut for report in found.reports)
        for span, _ in found.stage:
            found = evolve(found, context=collapse.settle(found.context, span.id, text_block("Done.")))
        due = found.compactable and found.tokens >= thresholds(self.conf, MODEL).auto_compact_at
        if due and not valid(SUMMARY, plan(found.view, self.conf).replacing):
            made = apply(found.view, self.conf, SUMMARY, CompactKind.AUTO, f"r/c-{self.number}")
            context = after_compaction(found.context, self.conf, MODEL, made.after)
            found, cut = prepare(made.messages, context, self.conf, MODEL, f"r/q-{self.number}"), True
        built = build(found.view, found.context, self.conf, MODEL)
        self.messages = found.view
        if isinstance(built, Unsendable):
            assert self.messages == () or self.messages[-1].role == "assistant", built.rule
            return
        self.context = built.context
        assert breaches(built.request, self.conf) == ()
        now = unmarked(built.request)
        if self.before is not None and not cut:
            tools, system, sent = self.before
            assert (tools, system) == now[:2]
            assert now[2][: len(sent)] == sent
        self.before = now


@pytest.mark.parametrize("layers", LAYERS, ids=str)
@pytest.mark.parametrize("messages", histories())
def test_every_request_of_a_real_session_is_valid(messages: tuple[Message, ...], layers: str) -> None:
    """Each request keeps the wire rules and, between declared cuts, the prefix; thinking is untouched; the request stays."""
    run = Run(config(info=INFO, thinking="adaptive", context=LAYERS[layers]))
    known = 0
    original = set(thoughts(messages))
    for history in turns(messages):
        run.turn(history[known:])
        known = len(history)
        assert set(thoughts(run.messages)) <= original
        sent = b"".join(wire.body for wire in run.context.sent.wires)
        assert all(words.encode() in sent for words in last_words(history))


@pytest.mark.parametrize("messages", histories())
def test_no_cut_of_a_real_session_parts_a_call_from_its_result(messages: tuple[Message, ...]) -> None:
    """Wherever a cut may fall, in a compaction as in a snip, what is left pairs up by itself, and nothing is lost."""
    conf = config(info=INFO, context=ContextConfig(keep_rounds=1))
    for history in turns(messages):
        for rounds in range(4):
            made = plan(history, evolve(conf, context=evolve(conf.context, keep_rounds=rounds)))
            for part in (made.messages, made.tail):
                calls = {block.id for item in part if item.role == "assistant" for block in item.calls}
                assert {block.id for item in part for block in item.results} <= calls
            assert sum(len(item.blocks) for item in (*made.messages, *made.tail)) == sum(len(item.blocks) for item in history)
        view, _ = snip(history, 10**9, 1, "r/s")
        calls = {block.id for item in view if item.role == "assistant" for block in item.calls}
        assert {block.id for item in view for block in item.results} == calls & {b.id for i in history for b in i.results}


@pytest.mark.parametrize("messages", histories())
def test_normalising_a_real_session_twice_is_normalising_it_once(messages: tuple[Message, ...]) -> None:
    """Normalisation is idempotent, and keeps every block of text but blank ones."""
    rules = Rules(model=MODEL)
    once = normalise(messages, rules)
    assert normalise(once, rules) == once

    def words(items: tuple[Message, ...]) -> list[str]:
        blocks = [block for item in items for block in item.blocks if block.type == "text" and not block.blank]
        return sorted(json.loads(block.json)["text"] for block in blocks)

    assert words(once) == words(messages)
