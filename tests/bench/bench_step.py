"""What a step costs beside a bare lookup over frozen slotted attrs, in one run.

Run: ``python tests/bench/bench_step.py``. Ordinary events: one microstep, no request built. The bare lookup finds
its row in a dict by (phase, event), builds a state of ten fields and a tuple with one effect, and returns both.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from functools import partial

from attrs import frozen

from fsm_agent.core.blocks import read_block, text_block, tool_result
from fsm_agent.core.config import LoopConfig
from fsm_agent.core.effects import CallModel, RunTool
from fsm_agent.core.events import (
    BlockCompleted,
    CommandQueued,
    Event,
    EventKind,
    Outcome,
    RunStarted,
    StreamStarted,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    ToolTraits,
    ToolUse,
)
from fsm_agent.core.messages import MessageKind, message
from fsm_agent.core.phases import Phase
from fsm_agent.core.state import LoopState, initial
from fsm_agent.core.step import step

CONFIG = LoopConfig(model="bench")
ROUNDS = 400
LOOPS = 200


@frozen
class BareState:
    """Ten fields, as a real control record has."""

    phase: Phase
    a: int
    b: int
    c: int
    d: str
    e: tuple[str, ...]
    f: bool
    g: int
    h: int
    i: str


@frozen
class BareEffect:
    """One effect."""

    id: str
    text: str


@frozen
class BareEvent:
    """One event."""

    id: str
    text: str


def _bare_move(state: BareState, event: BareEvent) -> tuple[BareState, tuple[BareEffect, ...]]:
    return (
        BareState(state.phase, state.a + 1, state.b, state.c, event.text, state.e, state.f, state.g, state.h, state.i),
        (BareEffect(event.id, event.text),),
    )


BARE_TABLE = {(phase, kind): (Phase.CALLING_MODEL, _bare_move) for phase in Phase for kind in EventKind}


def bare_step(state: BareState, event: BareEvent) -> tuple[BareState, tuple[BareEffect, ...]]:
    """Look up and move."""
    target, move = BARE_TABLE[state.phase, EventKind.TOOL_PROGRESSED]
    moved, effects = move(state, event)
    return (
        BareState(target, moved.a, moved.b, moved.c, moved.d, moved.e, moved.f, moved.g, moved.h, moved.i)
        if target is not moved.phase
        else moved
    ), effects


def situations() -> dict[str, tuple[LoopState, Event]]:
    """Give one state and event for each kind of ordinary event."""
    prompt = message("u1", "user", MessageKind.PROMPT, (text_block("do it"),))
    made = step(initial(CONFIG), RunStarted(run_id="r", messages=(prompt,)), CONFIG)
    call = next(effect.id for effect in made.effects if isinstance(effect, CallModel))
    traits = ToolTraits(read_only=True, concurrency_safe=True)
    block = read_block({"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "a"}})
    use = ToolUse(id="t1", name="Read", raw='{"path":"a"}', input_json='{"path":"a"}', traits=traits)
    streaming = step(made.state, StreamStarted(id=call), CONFIG).state
    texted = step(streaming, BlockCompleted(id=call, index=0, block=text_block("hello")), CONFIG).state
    called = step(texted, BlockCompleted(id=call, index=1, block=block, tool=use), CONFIG)
    tool = next(effect.id for effect in called.effects if isinstance(effect, RunTool))
    started = step(called.state, ToolStarted(id=tool), CONFIG).state
    command = message("c1", "user", MessageKind.COMMAND, (text_block("and that"),))
    return {
        "stream_started": (made.state, StreamStarted(id=call)),
        "first block": (streaming, BlockCompleted(id=call, index=0, block=text_block("hello"))),
        "block_completed": (texted, BlockCompleted(id=call, index=1, block=text_block("hello"))),
        "tool_started": (called.state, ToolStarted(id=tool)),
        "tool_progressed": (started, ToolProgressed(id=tool, text="half")),
        "tool_finished": (started, ToolFinished(id=tool, outcome=Outcome.OK, result=tool_result("t1", "x"), digest="d")),
        "command_queued": (started, CommandQueued(command_id="c1", message=command)),
    }


def times(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Give the best time of each call in microseconds; the calls take turns, so that all see the machine alike."""
    best = dict.fromkeys(calls, float("inf"))
    gc.collect()
    gc.disable()
    for _ in range(ROUNDS):
        for name, call in calls.items():
            begun = time.perf_counter()
            for _ in range(LOOPS):
                call()
            best[name] = min(best[name], (time.perf_counter() - begun) / LOOPS * 1e6)
    gc.enable()
    return best


def main() -> None:
    """Measure and print."""
    bare_state = BareState(Phase.CALLING_MODEL, 0, 0, 0, "", (), False, 0, 0, "")
    bare_event = BareEvent("r/tool-1", "half")
    calls: dict[str, Callable[[], object]] = {"bare lookup": partial(bare_step, bare_state, bare_event)}
    for name, (state, event) in situations().items():
        assert len(step(state, event, CONFIG).taken) == 1, name
        calls[name] = partial(step, state, event, CONFIG)
    found = times(calls)
    bare = found.pop("bare lookup")
    print(f"{'bare lookup':<20}{bare:8.2f} us")
    for name, cost in found.items():
        print(f"{name:<20}{cost:8.2f} us {cost / bare:6.2f} x")
    mean = statistics.mean(found.values())
    print(f"{'mean':<20}{mean:8.2f} us {mean / bare:6.2f} x (target: at most 3.5)")


if __name__ == "__main__":
    main()
