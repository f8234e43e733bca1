"""Logs for the view: long ones, and hostile ones, made by the real reducer and the real journal on a clock of their own."""

from __future__ import annotations

import json
import random
from pathlib import Path

from attrs import evolve

from fsm_agent.core.blocks import read_block, text_block, tool_result
from fsm_agent.core.config import ContextConfig, LoopConfig
from fsm_agent.core.effects import CallModel, Compact, GatherAttachments, RunStopHooks, RunTool
from fsm_agent.core.events import (
    AttachmentsGathered,
    BlockCompleted,
    CompactionFinished,
    Event,
    Outcome,
    RunStarted,
    StopHooksFinished,
    StreamCompleted,
    StreamStarted,
    ToolFinished,
    ToolStarted,
    ToolTraits,
    ToolUse,
)
from fsm_agent.core.models import ModelInfo
from fsm_agent.core.phases import TERMINAL_SET
from fsm_agent.core.state import LoopState, initial
from fsm_agent.core.step import step
from fsm_agent.core.usage import ModelUsage
from fsm_agent.log.journal import Journal
from fsm_agent.runtime.prompt import user_message

CONFIG = LoopConfig(
    model="m-1",
    models=(ModelInfo("m-1", context_window=60_000, max_output=8_000, input_price=2_000_000, output_price=10_000_000),),
    context=ContextConfig(),
    max_model_calls=10_000,
    loop_rounds=100_000,
)
READ = ToolTraits(read_only=True, concurrency_safe=True, idempotent=True, compactable=True)


class Maker:
    """Writes one log, event by event.

    Attributes:
        state: where the run stands.
        steps: records written.
        effects: what was asked for and not yet answered, in order.
    """

    def __init__(self, path: Path, config: LoopConfig = CONFIG, prompt: str = "Look through the whole project.") -> None:
        self._now = 1_790_000_000_000
        self.config = config
        self.state: LoopState = initial(config)
        self.steps = 0
        self.effects: list[object] = []
        self._journal = Journal.create(path, config, self.state, "session-1", "run-1", now=lambda: self._now)
        self.feed(RunStarted(run_id="run-1", messages=(user_message("run-1/prompt", prompt),)))

    def feed(self, event: Event, after: int = 5) -> None:
        """Take an event, ``after`` milliseconds behind the one before."""
        self._now += after
        made = step(self.state, event, self.config)
        assert made.rejected is None, made.rejected
        self._journal.append(event, made, sync=False)
        self.state = made.state
        self.steps += 1
        self.effects += made.effects

    def take(self, kind: type) -> list[object]:
        """Take the unanswered effects of one kind."""
        found = [effect for effect in self.effects if isinstance(effect, kind)]
        self.effects = [effect for effect in self.effects if not isinstance(effect, kind)]
        return found

    def reply(self, text: str, calls: list[tuple[str, str, dict[str, object]]], tokens: int = 900) -> None:
        """Answer the model call in flight; compactions on the way are answered too."""
        for effect in self.take(Compact):
            assert isinstance(effect, Compact)
            usage = (ModelUsage("m-1", input_tokens=30_000, output_tokens=400, cost=64_000),)
            summary = text_block("Summary: the files up to here were read, and nothing was found.")
            count = len(effect.messages)
            self.feed(CompactionFinished(effect.id, (summary,), summarised=count, usage=usage), 2_500)
        (call,) = self.take(CallModel)
        assert isinstance(call, CallModel)
        self.feed(StreamStarted(call.id, "msg_1", "m-1"), 400)
        self.feed(BlockCompleted(call.id, 0, text_block(text)), 300)
        for place, (identity, name, value) in enumerate(calls, 1):
            raw = json.dumps(value)
            block = read_block({"type": "tool_use", "id": identity, "name": name, "input": value})
            traits = READ if name != "Write" else ToolTraits()
            self.feed(BlockCompleted(call.id, place, block, ToolUse(identity, name, raw, raw, traits=traits)), 120)
        usage = (ModelUsage("m-1", tokens, 150, 0, call.request.estimate, 3_000),)
        stop = "tool_use" if calls else "end_turn"
        self.feed(StreamCompleted(call.id, stop, usage, context_tokens=call.request.estimate), 80)

    def run_tools(self, output: str, pace: int = 700) -> None:
        """Start all tools that were asked for, so that they overlap, and end them in order."""
        while tools := self.take(RunTool):
            for tool in tools:
                assert isinstance(tool, RunTool)
                self.feed(ToolStarted(tool.id, "0" * 64), 15)
            for number, tool in enumerate(tools):
                assert isinstance(tool, RunTool)
                bad = output == "fail"
                result = tool_result(tool.tool_use_id, f"{output} {tool.id}", is_error=bad)
                self.feed(ToolFinished(tool.id, Outcome.ERROR if bad else Outcome.OK, result), pace - 40 * number)
        for effect in self.take(GatherAttachments):
            self.feed(AttachmentsGathered(effect.id))  # type: ignore[attr-defined]

    def finish(self, text: str = "All is well.") -> None:
        """End the run and the log."""
        self.reply(text, [])
        for effect in self.take(RunStopHooks):
            self.feed(StopHooksFinished(effect.id))  # type: ignore[attr-defined]
        assert self.state.phase in TERMINAL_SET
        self._journal.close(self.state)


def long_log(path: Path, steps: int, *, words: int = 250, seed: int = 7) -> Path:
    """Make a log of at least so many steps: rounds of one to four overlapping tools, compacted now and then."""
    chance = random.Random(seed)
    maker = Maker(path)
    number = 0
    while maker.steps < steps - 4:
        number += 1
        calls: list[tuple[str, str, dict[str, object]]] = []
        for place in range(1 + chance.randrange(4)):
            name = chance.choice(["Read", "Grep", "Bash", "Glob"])
            calls.append((f"toolu_{number}_{place}", name, {"path": f"src/part_{number}/file_{place}.py", "limit": 40}))
        maker.reply(f"Round {number}: I look at {len(calls)} more files.", calls)
        maker.run_tools(
            "fail" if chance.random() < 0.05 else " ".join(f"line{n}" for n in range(words)), 300 + chance.randrange(900)
        )
    maker.finish()
    return path


HOSTILE = (
    "</script><script>window.owned = 1</script><img src=x onerror='window.owned = 2'>"
    "<!-- <script> -->&lt;b&gt; ]]> \x1b[31mred\x1b[0m \x00 nul \u202egnp.exe\u202c \u2066iso\u2069 \ud800 lone "
    "\u2028 line ${window.owned = 3} javascript:alert(1) %3Cscript%3E \\u003c/script\\u003e"
)


def hostile_log(path: Path) -> Path:
    """Make a log in which every text that comes from outside tries to break the page."""
    clean = HOSTILE.replace("\ud800", "\ufffd")
    config = evolve(CONFIG, system=(clean,), user_context=clean)
    maker = Maker(path, config, clean)
    tricky = {
        "$p": 0,
        "$m": 99,
        "__proto__": {"owned": 1},
        "constructor": clean,
        clean: clean,
        "big": 2**60,
        "deep": [[[[[clean]]]]],
    }
    maker.reply(clean, [("toolu_1", "Read", tricky)])
    maker.run_tools(clean)
    maker.finish(clean)
    return path
