"""The context layers on long histories: tokens before and after, and what a pass costs.

Run ``python tests/bench/bench_context.py``; it prints the tables of ``docs/context.md``. Counts are estimates of the loop
itself and the same on every machine; times are CPU times of this machine.
"""

from __future__ import annotations

import gc
import statistics
import time

from attrs import evolve, frozen

from fsm_agent.core.blocks import text_block, tool_result, tool_use
from fsm_agent.core.config import ContextConfig, LoopConfig, Microcompact, ToolSchema, thresholds
from fsm_agent.core.context import collapse
from fsm_agent.core.context.compact import after_compaction, apply, plan, valid
from fsm_agent.core.context.pipeline import Prepared, prepare
from fsm_agent.core.context.store import ContextState
from fsm_agent.core.context.usage import with_usage
from fsm_agent.core.events import CompactionFinished
from fsm_agent.core.messages import Message, MessageKind, message
from fsm_agent.core.models import ModelInfo
from fsm_agent.core.phases import CompactKind
from fsm_agent.core.request.build import Built, build

MODEL = ModelInfo(name="bench", context_window=400_000, max_output=20_000)
TOOLS = (
    ToolSchema("Read", '{"name":"Read","input_schema":{"type":"object"}}', compactable=True),
    ToolSchema("Note", '{"name":"Note","input_schema":{"type":"object"}}'),
)
_WORDS = "the parser reads a token and keeps its place in the file "
_MOST_PASSES = 40
"""Passes after which a history has settled; each is a turn of the loop in which summaries arrive."""


def round_of(number: int, *, words: int = 18, big: bool = False) -> tuple[Message, ...]:
    """Make a round: a reply with a call, and its result; every fifth call is of a tool that keeps its results."""
    name = "Note" if number % 5 == 0 else "Read"
    call = tool_use(f"t{number}", name, f'{{"file_path":"src/module_{number % 40}.py"}}')
    said = text_block(f"Step {number}. " + _WORDS)
    found = tool_result(f"t{number}", f"part {number}\n" + _WORDS * (words * 40 if big else words))
    return (
        message(f"a{number}", "assistant", MessageKind.ASSISTANT, (said, call), model=MODEL.name),
        message(f"r{number}", "user", MessageKind.TOOL_RESULTS, (found,)),
    )


def history(messages: int) -> tuple[Message, ...]:
    """Make a history of that many messages: one request, and rounds; every hundredth brings a very long result."""
    made: list[Message] = [message("p", "user", MessageKind.PROMPT, (text_block("Mend the parser, and keep its interface."),))]
    number = 0
    while len(made) < messages:
        number += 1
        made += round_of(number, big=number % 100 == 0)
    return tuple(made[:messages])


def config(context: ContextConfig, **more: object) -> LoopConfig:
    """Make the configuration of the benchmark."""
    return LoopConfig(model=MODEL.name, models=(MODEL,), tools=TOOLS, context=context, **more)  # type: ignore[arg-type]


@frozen
class Outcome:
    """Tokens before and after, messages left, and whether a compaction is still due."""

    before: int
    after: int
    messages: int
    compacted: bool
    due: bool


def settled(view: tuple[Message, ...], conf: LoopConfig, *, compact: bool) -> Outcome:
    """Run passes until nothing changes: summaries of spans arrive between two passes; then compact, if that is due."""
    context = ContextState()
    before = sum(item.tokens for item in view)
    found = prepare(view, context, conf, MODEL.name, "b/p-0")
    for number in range(1, _MOST_PASSES):
        context = found.context
        for span, members in found.stage:
            words = _WORDS * max(1, sum(item.tokens for item in members) // 200)
            context = collapse.settle(context, span.id, text_block(words))
        again = prepare(found.view, context, conf, MODEL.name, f"b/p-{number}")
        if again.view == found.view and not again.stage and not found.stage:
            break
        found = again
    due = found.tokens >= thresholds(conf, MODEL.name).auto_compact_at
    compacted = False
    if compact and due:
        found, compacted = _compacted(found, conf), True
        due = found.tokens >= thresholds(conf, MODEL.name).auto_compact_at
    return Outcome(before, sum(item.tokens for item in found.view), len(found.view), compacted, due)


def _compacted(found: Prepared, conf: LoopConfig) -> Prepared:
    event = CompactionFinished(id="c", summary=(text_block(_WORDS * 100),))
    assert valid(event, plan(found.view, conf).replacing) == ""
    made = apply(found.view, conf, event, CompactKind.AUTO, "b/c")
    return prepare(made.messages, after_compaction(found.context, conf, MODEL.name), conf, MODEL.name, "b/after")


OFF = ContextConfig(result_chars=10**9, microcompact=Microcompact.OFF, auto_compact=False)
ALONE = {
    "result budget": (evolve(OFF, result_chars=20_000), False),
    "snip": (evolve(OFF, snip=True), False),
    "microcompact": (evolve(OFF, microcompact=Microcompact.LOCAL), False),
    "collapse": (evolve(OFF, collapse=True), False),
    "auto-compact": (evolve(OFF, auto_compact=True), True),
}
TOGETHER = ContextConfig(result_chars=20_000, snip=True, microcompact=Microcompact.LOCAL, collapse=True)


def layers(messages: int = 2_000) -> dict[str, Outcome]:
    """Give what each layer alone, the light ones together and all together make of a history."""
    view = history(messages)
    found = {name: settled(view, config(context), compact=compact) for name, (context, compact) in ALONE.items()}
    light = evolve(TOGETHER, microcompact=Microcompact.OFF, snip=False, result_chars=10**9)
    found["collapse and auto-compact"] = settled(view, config(light), compact=True)
    found["all together"] = settled(view, config(TOGETHER), compact=True)
    return found


def costs(messages: int, turns: int = 60) -> tuple[float, float]:
    """Measure a pass over a long history in which no layer has anything to do, turn after turn.

    Returns:
        Median milliseconds of CPU time of the pipeline, and of pipeline and request together; each turn adds one round.
    """
    wide = evolve(MODEL, context_window=50_000_000)
    conf = LoopConfig(model=MODEL.name, models=(wide,), tools=TOOLS, context=evolve(TOGETHER, result_chars=10**9))
    view, context = history(messages), ContextState()
    pipeline: list[float] = []
    whole: list[float] = []
    for number in range(turns):
        begun = time.process_time()
        found = prepare(view, context, conf, MODEL.name, f"b/p-{number}")
        mid = time.process_time()
        built = build(found.view, found.context, conf, MODEL.name)
        ended = time.process_time()
        assert isinstance(built, Built)
        assert found.reports == ()
        context = with_usage(built.context, MODEL.name, found.view[-2].id, 10_000 + number)
        view = found.view + round_of(100_000 + number)
        if number >= 5:  # the first pass counts the whole history, as a resumed run does
            pipeline.append((mid - begun) * 1_000)
            whole.append((ended - begun) * 1_000)
    return statistics.median(pipeline), statistics.median(whole)


def main() -> None:
    """Print both tables."""
    print("| layers | tokens before | tokens after | messages left | auto-compact |")
    print("| --- | ---: | ---: | ---: | --- |")
    for name, one in layers().items():
        did = "ran" if one.compacted else "due" if one.due else "nothing to do"
        print(f"| {name} | {one.before:,} | {one.after:,} | {one.messages:,} | {did} |")
    print()
    print("| messages | pipeline a turn | with the request |")
    print("| ---: | ---: | ---: |")
    gc.collect()
    for messages in (50, 500, 5_000):
        pipeline, whole = costs(messages)
        print(f"| {messages:,} | {pipeline:.3f} ms | {whole:.3f} ms |")


if __name__ == "__main__":
    main()
