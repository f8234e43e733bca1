"""Calls of a reply: starting them, recording their answers, emitting results in order (spec 01, section 11)."""

from __future__ import annotations

import json
from hashlib import sha256

from attrs import evolve

from .. import texts
from ..blocks import Block, dumps, read_block, tool_result
from ..config import LoopConfig
from ..control import CallState, Control, Flight, Guards, ToolCall, Tools
from ..effects import Cancel, Effect, EffectKind, Emit, RunTool
from ..events import Event, Outcome, ToolFinished, ToolProgressed, ToolStarted
from ..guards.tools import all_answered
from ..loops import loop_length, remember, round_digest
from ..outputs import ToolProgress, ToolResult
from ..scheduling import startable
from ..state import CallData, Data, Iteration, LoopState
from .common import Issuer, charged, find

TAIL_CHARS = 2_000
"""Characters of progress kept for a call that is interrupted."""


class Round:
    """The calls of one reply while one move changes them: a scratch pad that never leaves the move."""

    def __init__(self, state: LoopState) -> None:
        self.state = state
        self.calls: list[ToolCall] = list(state.control.tools.calls)
        self.data: list[CallData] = list(state.data.iteration.calls)
        self.flight: tuple[Flight, ...] = state.control.flight
        self.tools: Tools = state.control.tools
        self.effects: list[Effect] = []
        self.emitted: tuple[str, ...] = state.data.iteration.emitted
        self.issuer = Issuer(state.control.run)

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
        self.calls[position] = ToolCall(
            id=call.id,
            index=call.index,
            state=CallState.COMPLETED,
            effect="",
            started=call.started,
            whole=call.whole,
            last=call.last,
            outcome=outcome,
            traits=call.traits,
        )
        old = self.data[position]
        self.data[position] = CallData(use=old.use, result=block, digest=digest, tail=old.tail)

    def refuse(self, position: int, words: str) -> None:
        """Answer a call by an error that the engine made; an executing one is cancelled first."""
        call = self.calls[position]
        if call.effect:
            self.effects.append(Cancel(id=call.effect))
        self.answer(position, Outcome.FAILED, tool_result(call.id, words, is_error=True))

    def refuse_unstarted(self, words: str) -> None:
        """Answer every call that has not begun and has no result."""
        for position, call in enumerate(self.calls):
            if call.state in (CallState.QUEUED, CallState.EXECUTING) and not call.started:
                self.refuse(position, words)

    def start(self, config: LoopConfig) -> None:
        """Start the calls that may run now."""
        tools = evolve(self.tools, calls=tuple(self.calls))
        for position in startable(tools, config):
            call = self.calls[position]
            effect_id = self.issuer.new(EffectKind.TOOL)
            use = self.data[position].use
            self.calls[position] = evolve(call, state=CallState.EXECUTING, effect=effect_id)
            self.flight = (*self.flight, Flight(id=effect_id, kind=EffectKind.TOOL, call=call.id))
            self.effects.append(
                RunTool(
                    id=effect_id,
                    tool_use_id=call.id,
                    name=use.name,
                    input_json=use.input_json or "{}",
                    traits=call.traits,
                )
            )

    def emit_ready(self) -> None:
        """Emit results from the front, in the order of the calls."""
        yielded = self.tools.yielded
        call_id = self.state.control.call.id
        while yielded < len(self.calls) and self.calls[yielded].state is CallState.COMPLETED:
            call, data = self.calls[yielded], self.data[yielded]
            assert data.result is not None
            output_id = f"{call_id}/result-{call.index}"
            self.effects.append(
                Emit(output=ToolResult(id=output_id, tool_use_id=call.id, name=data.use.name, block=data.result))
            )
            self.emitted = (*self.emitted, output_id)
            self.calls[yielded] = evolve(call, state=CallState.YIELDED)
            yielded += 1
        self.tools = evolve(self.tools, yielded=yielded)

    def done(self, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
        """Emit what is ready, start what may run, close the round if all is answered, and build the next state."""
        if self.tools.after_stream and self.tools.stopped:
            self.refuse_unstarted(texts.NOT_RUN_HOOK)
        self.start(config)
        self.emit_ready()
        control, data = self.state.control, self.state.data
        tools = Tools(
            calls=tuple(self.calls),
            yielded=self.tools.yielded,
            stopped=self.tools.stopped,
            failed=self.tools.failed,
            after_stream=self.tools.after_stream,
        )
        next_control = Control(
            phase=control.phase,
            run=self.issuer.run,
            tool_use_context=control.tool_use_context,
            call=control.call,
            tools=tools,
            guards=control.guards,
            budget=control.budget,
            queue=control.queue,
            context=control.context,
            wait=control.wait,
            salvage=control.salvage,
            flight=self.flight,
        )
        if tools.after_stream and tools.calls and all_answered(next_control):
            next_control = evolve(next_control, guards=self._close(control.guards, config))
        iteration = data.iteration
        next_iteration = Iteration(
            view=iteration.view,
            request=iteration.request,
            blocks=iteration.blocks,
            calls=tuple(self.data),
            failure=iteration.failure,
            emitted=self.emitted,
            unclosed=iteration.unclosed,
            reply=iteration.reply,
            details=iteration.details,
            words=iteration.words,
        )
        return LoopState(control=next_control, data=with_iteration(data, next_iteration)), tuple(self.effects)

    def _close(self, guards: Guards, config: LoopConfig) -> Guards:
        parts = tuple((item.use.name, item.use.input_json or item.use.raw, _digest(item)) for item in self.data)
        rounds = remember(guards.rounds, round_digest(parts), config.loop_rounds + 2)
        warned = guards.loop_warned and loop_length(rounds) >= config.loop_rounds
        return evolve(guards, rounds=rounds, loop_warned=warned)


def with_iteration(data: Data, iteration: Iteration) -> Data:
    """Give the data with another iteration."""
    return Data(
        messages=data.messages,
        iteration=iteration,
        context=data.context,
        inbox=data.inbox,
        usage=data.usage,
        session_usage=data.session_usage,
        terminal=data.terminal,
        call_ids=data.call_ids,
    )


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
    control = state.control
    tools = control.tools
    calls = tuple(
        [
            call
            if call.effect != event.id
            else ToolCall(
                id=call.id,
                index=call.index,
                state=call.state,
                effect=call.effect,
                started=True,
                whole=call.whole,
                last=call.last,
                outcome=call.outcome,
                traits=call.traits,
            )
            for call in tools.calls
        ]
    )
    next_control = Control(
        phase=control.phase,
        run=control.run,
        tool_use_context=control.tool_use_context,
        call=control.call,
        tools=Tools(
            calls=calls,
            yielded=tools.yielded,
            stopped=tools.stopped,
            failed=tools.failed,
            after_stream=tools.after_stream,
        ),
        guards=control.guards,
        budget=control.budget,
        queue=control.queue,
        context=control.context,
        wait=control.wait,
        salvage=control.salvage,
        flight=control.flight,
    )
    return LoopState(control=next_control, data=state.data), ()


def tool_progressed(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Show progress at once, and keep its tail for the case that the call is interrupted."""
    assert isinstance(event, ToolProgressed)
    iteration = state.data.iteration
    flight = find(state.control.flight, event.id)
    tool_use_id = flight.call if flight is not None else ""
    calls = tuple(
        [
            data
            if call.effect != event.id
            else CallData(use=data.use, result=data.result, digest=data.digest, tail=(data.tail + event.text)[-TAIL_CHARS:])
            for call, data in zip(state.control.tools.calls, iteration.calls, strict=True)
        ]
    )
    next_iteration = Iteration(
        view=iteration.view,
        request=iteration.request,
        blocks=iteration.blocks,
        calls=calls,
        failure=iteration.failure,
        emitted=iteration.emitted,
        unclosed=iteration.unclosed,
        reply=iteration.reply,
        details=iteration.details,
        words=iteration.words,
    )
    output = ToolProgress(tool_use_id=tool_use_id, text=event.text)
    return LoopState(control=state.control, data=with_iteration(state.data, next_iteration)), (Emit(output=output),)


def tool_finished(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Record a result; it may cancel its batch or stop the run, and it may let others start."""
    assert isinstance(event, ToolFinished)
    rounds = Round(charged(state, event.usage))
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
    rounds.tools = evolve(rounds.tools, stopped=True)
    for other, call in enumerate(rounds.calls):
        if call.state is CallState.EXECUTING and not call.started:
            rounds.effects.append(Cancel(id=call.effect))
            rounds.flight = tuple([item for item in rounds.flight if item.id != call.effect])
            rounds.calls[other] = evolve(call, state=CallState.QUEUED, effect="")
    iteration = evolve(rounds.state.data.iteration, words=(*rounds.state.data.iteration.words, words))
    rounds.state = LoopState(control=rounds.state.control, data=evolve(rounds.state.data, iteration=iteration))


def _cancel_siblings(rounds: Round, position: int) -> None:
    """A failure cancels what runs beside it and answers what waits, naming the cause."""
    name = rounds.data[position].use.name
    rounds.tools = evolve(rounds.tools, failed=name)
    words = texts.sibling_failed(name)
    for other, call in enumerate(rounds.calls):
        if call.state is CallState.QUEUED or (call.state is CallState.EXECUTING and not call.started):
            rounds.refuse(other, words)
        elif call.state is CallState.EXECUTING:
            rounds.refuse(other, f"{words} {texts.unknown_with_tail(rounds.data[other].tail)}")
