"""Calls of a reply: starting them, recording their answers, emitting results in order (spec 01, section 11)."""

from __future__ import annotations

import json
from hashlib import sha256

from .. import texts
from ..blocks import Block, dumps, read_block, tool_result
from ..config import LoopConfig
from ..control import COMPLETED, EXECUTING, QUEUED, YIELDED, Flight, Guards, ToolCall, Tools
from ..effects import Cancel, Effect, EffectKind, Emit, RunTool
from ..events import Event, Outcome, ToolFinished, ToolProgressed, ToolStarted
from ..evolving import evolve
from ..loops import remember, repeats, round_digest
from ..outputs import ToolProgress, ToolResult
from ..rebuild import moved_call, with_calls, with_iteration, with_reply, with_round, with_rounds, with_tools
from ..scheduling import startable
from ..state import CallData, LoopState
from .common import Issuer, charged

TOOL = EffectKind.TOOL
TAIL_CHARS = 2_000
"""Characters of progress kept for a call that is interrupted."""


class Round:
    """The calls of one reply while one move changes them: a scratch pad that never leaves the move."""

    __slots__ = (
        "after_stream",
        "blocks",
        "calls",
        "context",
        "data",
        "effects",
        "emitted",
        "failed",
        "flight",
        "guards",
        "reply",
        "run",
        "state",
        "stopped",
        "yielded",
    )

    def __init__(self, state: LoopState) -> None:
        control, data = state.control, state.data
        tools, iteration = control.tools, data.iteration
        self.state = state
        self.context = data.context
        self.guards = control.guards
        self.reply = iteration.reply
        self.blocks = iteration.blocks
        self.calls: list[ToolCall] = list(tools.calls)
        self.data: list[CallData] = list(iteration.calls)
        self.flight: tuple[Flight, ...] = control.flight
        self.yielded = tools.yielded
        self.stopped = tools.stopped
        self.failed = tools.failed
        self.after_stream = tools.after_stream
        self.effects: list[Effect] = []
        self.emitted: tuple[str, ...] = iteration.emitted
        self.run = control.run

    def position(self, effect_id: str) -> int:
        """Give the position of the call whose RunTool has this id."""
        for position, call in enumerate(self.calls):
            if call.effect == effect_id:
                return position
        raise LookupError(effect_id)

    def answer(self, position: int, outcome: Outcome, block: Block, digest: str = "") -> None:
        """Record the result of a call; its effect is no longer in flight."""
        call = self.calls[position]
        if call.effect:
            self.flight = tuple([item for item in self.flight if item.id != call.effect])
        old = self.data[position]
        self.data[position] = CallData(old.use, block, digest, old.tail)
        if position == self.yielded:
            self.calls[position] = moved_call(call, YIELDED, "", call.started, outcome)
            self._emit(position)
        else:
            self.calls[position] = moved_call(call, COMPLETED, "", call.started, outcome)

    def start(self, config: LoopConfig) -> None:
        """Start the calls that may run now."""
        if self.stopped or self.failed or QUEUED not in [call.state for call in self.calls]:
            return
        issuer = Issuer(self.run)
        for position in startable(self.calls, self.after_stream, config):
            call = self.calls[position]
            effect_id = issuer.new(TOOL)
            use = self.data[position].use
            self.calls[position] = moved_call(call, EXECUTING, effect_id, call.started, None)
            self.flight = (*self.flight, Flight(effect_id, TOOL, call.id))
            self.effects.append(RunTool(effect_id, call.id, use.name, use.input_json or "{}", call.traits))
        self.run = issuer.run

    def emit_ready(self) -> None:
        """Emit results from the front, in the order of the calls."""
        while self.yielded < len(self.calls) and self.calls[self.yielded].state is COMPLETED:
            call = self.calls[self.yielded]
            self.calls[self.yielded] = moved_call(call, YIELDED, "", call.started, call.outcome)
            self._emit(self.yielded)

    def _emit(self, position: int) -> None:
        call, data = self.calls[position], self.data[position]
        assert data.result is not None
        output_id = result_id(self.state.control.call.id, call.index)
        self.effects.append(Emit(ToolResult(output_id, call.id, data.use.name, data.result)))
        self.emitted = (*self.emitted, output_id)
        self.yielded += 1

    def refuse(self, position: int, words: str) -> None:
        """Answer a call by an error that the engine made; an executing one is cancelled first."""
        call = self.calls[position]
        if call.effect:
            self.effects.append(Cancel(id=call.effect))
        self.answer(position, Outcome.FAILED, tool_result(call.id, words, is_error=True))

    def refuse_unstarted(self, words: str) -> None:
        """Answer every call that has not begun and has no result."""
        for position, call in enumerate(self.calls):
            if call.state in (QUEUED, EXECUTING) and not call.started:
                self.refuse(position, words)

    def done(self, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
        """Emit what is ready, start what may run, close the round if all is answered, and build the next state."""
        if self.after_stream and self.stopped:
            self.refuse_unstarted(texts.NOT_RUN_HOOK)
        if self.yielded < len(self.calls):
            self.start(config)
            self.emit_ready()
        if self.after_stream and self.calls and self.yielded == len(self.calls):
            self.guards = self._closed(self.guards, config)
        return self.built(), tuple(self.effects)

    def built(self) -> LoopState:
        """Build the next state of what is on the pad."""
        control, data = self.state.control, self.state.data
        tools = Tools(tuple(self.calls), self.yielded, self.stopped, self.failed, self.after_stream)
        iteration = with_calls(data.iteration, self.blocks, tuple(self.data), self.emitted, self.reply)
        return LoopState(
            with_round(control, self.run, tools, self.guards, self.flight),
            with_reply(data, iteration, self.context, data.usage),
        )

    def _closed(self, guards: Guards, config: LoopConfig) -> Guards:
        parts = tuple([(item.use.name, item.use.input_json or item.use.raw, _digest(item)) for item in self.data])
        rounds = remember(guards.rounds, round_digest(parts), config.loop_rounds + 2)
        warned = guards.loop_warned and repeats(rounds, config.loop_rounds)
        return with_rounds(guards, rounds, warned)


def result_id(call_id: str, index: int) -> str:
    """Name an emitted result, for tombstones."""
    return f"{call_id}/result-{index}"


def _digest(item: CallData) -> str:
    if item.digest or item.result is None:
        return item.digest
    content = json.loads(item.result.json).get("content")
    return sha256(dumps(content).encode()).hexdigest()


def _own_result(call: ToolCall, block: Block) -> Block:
    """A result answers its own call, whatever id the interpreter put in."""
    if block.type == "tool_result" and block.id == call.id:
        return block
    value = json.loads(block.json)
    if isinstance(value, dict) and block.type == "tool_result":
        value["tool_use_id"] = call.id
        return read_block(value)
    return tool_result(call.id, [value])


def tool_started(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Note that a body is about to run: from here on the call is never forgotten."""
    assert isinstance(event, ToolStarted)
    tools = state.control.tools
    calls = tuple(
        [
            moved_call(call, call.state, call.effect, True, call.outcome) if call.effect == event.id else call
            for call in tools.calls
        ]
    )
    started = Tools(calls, tools.yielded, tools.stopped, tools.failed, tools.after_stream)
    return LoopState(with_tools(state.control, started), state.data), ()


def tool_progressed(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Show progress at once, and keep its tail for the case that the call is interrupted."""
    assert isinstance(event, ToolProgressed)
    iteration = state.data.iteration
    calls = list(iteration.calls)
    tool_use_id = ""
    for position, call in enumerate(state.control.tools.calls):
        if call.effect == event.id:
            old = calls[position]
            calls[position] = CallData(old.use, old.result, old.digest, (old.tail + event.text)[-TAIL_CHARS:])
            tool_use_id = call.id
    next_iteration = with_calls(iteration, iteration.blocks, tuple(calls), iteration.emitted, iteration.reply)
    return LoopState(state.control, with_iteration(state.data, next_iteration)), (Emit(ToolProgress(tool_use_id, event.text)),)


def tool_finished(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Record a result; it may cancel its batch or stop the run, and it may let others start."""
    assert isinstance(event, ToolFinished)
    rounds = Round(charged(state, event.usage) if event.usage else state)
    position = rounds.position(event.id)
    call = rounds.calls[position]
    rounds.answer(position, event.outcome, _own_result(call, event.result), event.digest)
    if event.stop is not None:
        _stop(rounds, position, event.stop)
    elif call.traits.cancels_siblings_on_error and (
        event.outcome is Outcome.FAILED or (event.outcome is Outcome.ERROR and config.cancel_siblings_on == "error")
    ):
        _cancel_siblings(rounds, position)
    return rounds.done(config)


def _stop(rounds: Round, position: int, words: str) -> None:
    """A tool hook stops the run: its call counts as started, and calls that have not begun never will."""
    rounds.calls[position] = evolve(rounds.calls[position], started=True)
    rounds.stopped = True
    for other, call in enumerate(rounds.calls):
        if call.state is EXECUTING and not call.started:
            rounds.effects.append(Cancel(id=call.effect))
            rounds.flight = tuple([item for item in rounds.flight if item.id != call.effect])
            rounds.calls[other] = evolve(call, state=QUEUED, effect="")
    iteration = evolve(rounds.state.data.iteration, words=(*rounds.state.data.iteration.words, words))
    rounds.state = LoopState(control=rounds.state.control, data=evolve(rounds.state.data, iteration=iteration))


def _cancel_siblings(rounds: Round, position: int) -> None:
    """A failure cancels what runs beside it and answers what waits, naming the cause."""
    name = rounds.data[position].use.name
    rounds.failed = name
    words = texts.sibling_failed(name)
    for other, call in enumerate(rounds.calls):
        if call.state is QUEUED or (call.state is EXECUTING and not call.started):
            rounds.refuse(other, words)
        elif call.state is EXECUTING:
            rounds.refuse(other, f"{words} {texts.unknown_with_tail(rounds.data[other].tail)}")
