"""A tiny reducer and hand-made runs, so that the log is tested apart from the real table."""

from __future__ import annotations

from pathlib import Path

from attrs import evolve

from fsm_agent.core.blocks import text_block, tool_result, tool_use
from fsm_agent.core.config import LoopConfig
from fsm_agent.core.effects import CallModel, Cancel, Effect, Emit, RunTool, StartTimer
from fsm_agent.core.events import (
    AbortRequested,
    BlockCompleted,
    Event,
    EventKind,
    ModelSwitched,
    Outcome,
    RunStarted,
    StreamCompleted,
    StreamStarted,
    TimerFired,
    ToolFinished,
    ToolStarted,
    ToolTraits,
    ToolUse,
)
from fsm_agent.core.messages import MessageKind, message
from fsm_agent.core.outputs import AssistantOutput, Notice, Terminal, TerminalOutput
from fsm_agent.core.phases import Cause, Phase, TerminalReason
from fsm_agent.core.state import LoopState, Rejection, Step, initial
from fsm_agent.core.usage import ModelUsage
from fsm_agent.core.wire import CHAIN_START, Request, WireMessage, link
from fsm_agent.log.journal import Journal

CONFIG = LoopConfig(model="model-a", max_turns=7)
TABLE = "t" * 64
READ = ToolTraits(read_only=True, concurrency_safe=True)


def step(state: LoopState, event: Event, config: LoopConfig) -> Step:
    """Keep every message, ask for one thing per event, end at an abort, refuse a switch to no model."""
    control, data = state.control, state.data
    effects: tuple[Effect, ...]
    match event:
        case RunStarted():
            data = evolve(data, messages=data.messages + event.messages)
            control = evolve(control, run=evolve(control.run, id=event.run_id, issued=1), phase=Phase.CALLING_MODEL)
            effects = (CallModel("r/call-1", _request(config.model)),)
        case BlockCompleted():
            kept = message(f"m{event.index}", "assistant", MessageKind.ASSISTANT, (event.block,))
            data = evolve(data, messages=(*data.messages, kept))
            effects = (Emit(AssistantOutput(kept)),)
            if event.tool is not None:
                effects += (RunTool("r/tool-2", event.tool.id, event.tool.name, event.tool.input_json or "{}", READ),)
        case ToolFinished():
            effects = (Emit(Notice("done", "info")), StartTimer("r/timer-3", 1_000))
        case AbortRequested():
            terminal = Terminal(TerminalReason.ABORTED_TOOLS, Cause.INTERRUPT, turn_count=1)
            data = evolve(data, terminal=terminal)
            control = evolve(control, phase=Phase.ABORTED_TOOLS)
            effects = (Cancel("r/timer-3"), Emit(TerminalOutput(terminal)))
        case ModelSwitched(model=""):
            return Step(state, (), ("no_model",), Rejection(EventKind.MODEL_SWITCHED, state.phase, "no model was named"))
        case _:
            return Step(state, (), ("ignored",))
    return Step(LoopState(control, data), effects, (f"row_{event.__class__.__name__}", "auto"))


def _request(model: str) -> Request:
    body = b'{"role":"user","content":"hi"}'
    return Request(model, 100, b'{"system":"s"', (WireMessage("user", body, 1, 3, link(CHAIN_START, body)),))


EVENTS: tuple[Event, ...] = (
    RunStarted("r", (message("p", "user", MessageKind.PROMPT, (text_block("héllo \u2028"),)),)),
    StreamStarted("r/call-1", "msg_1", "model-a"),
    BlockCompleted("r/call-1", 0, text_block("I read it.")),
    BlockCompleted("r/call-1", 1, tool_use("t1", "Read", '{"p":1}'), ToolUse("t1", "Read", '{"p": 1}', '{"p":1}', "", READ)),
    StreamCompleted("r/call-1", "tool_use", (ModelUsage("model-a", 10, 5),), 15),
    ToolStarted("r/tool-2", "ab"),
    ToolFinished("r/tool-2", Outcome.OK, tool_result("t1", "x = 1\n"), "cd"),
    ModelSwitched(""),
    TimerFired("r/timer-3"),
    AbortRequested(),
)


def write(path: Path, events: tuple[Event, ...] = EVENTS, *, config: LoopConfig = CONFIG, close: bool = True) -> LoopState:
    """Write the log of a run of the toy reducer and give its last state."""
    state = initial(config)
    ticks = iter(range(1_700_000_000_000, 1_800_000_000_000, 7))
    journal = Journal.create(path, config, state, "session-1", "r", table=TABLE, now=lambda: next(ticks))
    for event in events:
        result = step(state, event, config)
        journal.append(event, result, sync=False)
        state = result.state
    if close:
        journal.close(state)
    else:
        journal.release()
    return state
