"""A tiny machine in place of the core, and parts that act by script: they show the interpreter alone."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence

import anyio
from attrs import evolve

from fsm_agent.core.blocks import text_block, tool_result
from fsm_agent.core.config import LoopConfig, ToolSchema
from fsm_agent.core.control import Flight
from fsm_agent.core.effects import (
    CallModel,
    Cancel,
    Effect,
    EffectKind,
    Emit,
    RunPostSamplingHooks,
    RunStopHooks,
    RunTool,
    StartTimer,
)
from fsm_agent.core.events import (
    EVENT_KINDS,
    AbortRequested,
    BlockCompleted,
    CommandQueued,
    EffectFailed,
    Event,
    Outcome,
    RunStarted,
    StopHooksFinished,
    StreamCompleted,
    StreamFailed,
    StreamStarted,
    TimerFired,
    ToolFinished,
    ToolTraits,
)
from fsm_agent.core.outputs import BlockOutput, Notice, Terminal, TerminalOutput, TextDelta
from fsm_agent.core.phases import AbortReason, Cause, Phase, TerminalReason
from fsm_agent.core.state import LoopState, Rejection, Step, initial
from fsm_agent.core.wire import Request
from fsm_agent.runtime.ports import Deps, ModelItem, ToolPorts

CONFIG = LoopConfig(model="m")
FINAL = (StreamCompleted, StreamFailed, ToolFinished, EffectFailed, TimerFired, StopHooksFinished)
END = Terminal(TerminalReason.COMPLETED, Cause.END_TURN)
Reaction = Callable[[LoopState, Event], Sequence[Effect | Terminal]]


def call(n: int = 1) -> CallModel:
    return CallModel(f"r/call-{n}", Request("m", 10, b"{", ()))


def tool(n: int, name: str = "t", *, read_only: bool = False) -> RunTool:
    return RunTool(f"r/tool-{n}", f"u{n}", name, "{}", ToolTraits(read_only=read_only))


def machine(react: Reaction) -> Callable[[LoopState, Event, LoopConfig], Step]:
    """Make a reducer: ``react`` gives effects, or a terminal; aborts, flights and rejections are kept here."""

    def step(state: LoopState, event: Event, config: LoopConfig) -> Step:
        control, data = state.control, state.data
        kind = EVENT_KINDS[type(event)]
        if data.terminal is not None:
            return Step(state, rejected=Rejection(kind, control.phase, "the run has ended"))
        answers = getattr(event, "id", None)
        if answers is not None and all(flight.id != answers for flight in control.flight):
            return Step(state, taken=("stale",))
        flight = control.flight
        if isinstance(event, FINAL):
            flight = tuple(item for item in flight if item.id != answers)
        effects: list[Effect] = []
        terminal: Terminal | None = None
        if isinstance(event, AbortRequested):
            cause = Cause.CONSUMER_CLOSED if event.reason is AbortReason.CLOSE else Cause(event.reason.value)
            parts: Sequence[Effect | Terminal] = (Terminal(TerminalReason.ABORTED_STREAMING, cause),)
        else:
            parts = react(state, event)
        for part in parts:
            if isinstance(part, Terminal):
                terminal = part
                effects += [Cancel(item.id) for item in flight]
                effects.append(Emit(TerminalOutput(part)))
                flight = ()
                continue
            effects.append(part)
            if isinstance(part, Cancel):
                flight = tuple(item for item in flight if item.id != part.id)
            elif isinstance(part, CallModel | RunTool | StartTimer | RunStopHooks):
                flight += (Flight(part.id, EffectKind.CALL),)
        phase = Phase(terminal.reason.value) if terminal else Phase.CALLING_MODEL
        if control.phase is Phase.READY and isinstance(event, CommandQueued) and terminal is None:
            phase = Phase.READY
        control = evolve(control, flight=flight, phase=phase)
        return Step(LoopState(control, evolve(data, terminal=terminal)), tuple(effects), (kind.value,))

    return step


def ready() -> LoopState:
    return initial(CONFIG)


def started() -> RunStarted:
    return RunStarted("r", ())


def show(event: Event) -> Sequence[Effect | Terminal]:
    """Show a block to the consumer."""
    assert isinstance(event, BlockCompleted)
    return (Emit(BlockOutput(f"b{event.index}", event.id, event.index, "", event.block)),)


def one_call(state: LoopState, event: Event) -> Sequence[Effect | Terminal]:
    """React as a run of one model call."""
    match event:
        case RunStarted():
            return (call(),)
        case BlockCompleted():
            return show(event)
        case StreamCompleted() | StreamFailed() | EffectFailed():
            return (END,)
        case _:
            return ()


def tools_at_once(count: int, *, read_only: bool = False) -> Reaction:
    """React as a run of ``count`` tools; it ends when all have ended."""

    def react(state: LoopState, event: Event) -> Sequence[Effect | Terminal]:
        match event:
            case RunStarted():
                return tuple(tool(n, read_only=read_only) for n in range(1, count + 1))
            case ToolFinished() | EffectFailed():
                return (Emit(Notice(event.id)), *((END,) if len(state.control.flight) == 1 else ()))
            case _:
                return ()

    return react


class Words:
    """A model that streams ``pieces`` deltas, ``gap`` seconds apart, and ends."""

    def __init__(self, pieces: int = 3, gap: float = 0.0) -> None:
        self.pieces = pieces
        self.gap = gap
        self.sent = 0
        self.closed = 0

    async def stream(self, effect: CallModel) -> AsyncGenerator[ModelItem, None]:
        try:
            yield StreamStarted(effect.id)
            for n in range(self.pieces):
                await anyio.sleep(self.gap)
                self.sent += 1
                yield TextDelta(effect.id, n, str(n))
                yield BlockCompleted(effect.id, n, text_block(str(n)))
            yield StreamCompleted(effect.id, "end_turn")
        finally:
            self.closed += 1


class Tools:
    """Tools that take ``seconds`` each and write down what happens."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.log: list[str] = []
        self.fail: BaseException | None = None

    def schemas(self) -> tuple[ToolSchema, ...]:
        return ()

    def traits(self, name: str, input_json: str | None) -> ToolTraits:
        return ToolTraits()

    async def run(self, effect: RunTool, ports: ToolPorts) -> ToolFinished:
        if not await ports.started("digest"):
            self.log.append(f"refused {effect.id}")
            return ToolFinished(effect.id, Outcome.FAILED, tool_result(effect.tool_use_id, "refused"))
        self.log.append(f"run {effect.id}")
        try:
            if self.fail is not None:
                raise self.fail
            await ports.progress("half")
            await anyio.sleep(self.seconds)
        except anyio.get_cancelled_exc_class():
            self.log.append(f"cancelled {effect.id}")
            raise
        self.log.append(f"end {effect.id}")
        return ToolFinished(effect.id, Outcome.OK, tool_result(effect.tool_use_id, "done"))


class Hooks:
    """Hooks that take ``seconds`` each."""

    def __init__(self, seconds: float = 0.0, fail: BaseException | None = None) -> None:
        self.seconds = seconds
        self.fail = fail
        self.log: list[str] = []

    async def stop(self, effect: RunStopHooks) -> StopHooksFinished:
        if self.fail is not None:
            raise self.fail
        return StopHooksFinished(effect.id)

    async def post_sampling(self, effect: RunPostSamplingHooks) -> None:
        if self.fail is not None:
            raise self.fail
        self.log.append("begin")
        await anyio.sleep(self.seconds)
        self.log.append("end")


class Book:
    """A recorder that remembers what it was told, and may break."""

    def __init__(self, log: list[str] | None = None, breaks_at: int | None = None) -> None:
        self.entries: list[tuple[Event, Step, bool]] = []
        self.log = log if log is not None else []
        self.breaks_at = breaks_at
        self.closed: list[LoopState] = []

    def append(self, event: Event, step: Step, *, sync: bool) -> None:
        if self.breaks_at is not None and len(self.entries) >= self.breaks_at:
            raise OSError(28, "No space left on device")
        self.entries.append((event, step, sync))
        self.log.append(f"record {EVENT_KINDS[type(event)].value}")

    def close(self, state: LoopState) -> None:
        self.closed.append(state)
        self.log.append("close")


def parts(**changes: object) -> Deps:
    values: dict[str, object] = {"model": Words(), "tools": Tools()}
    values.update(changes)
    return Deps(**values)  # type: ignore[arg-type]
