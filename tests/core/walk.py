"""A random environment for the bare reducer: every effect gets some answer, the user does something now and then."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

from attrs import frozen

from fsm_agent.core.blocks import read_block, text_block, tool_result
from fsm_agent.core.config import LoopConfig
from fsm_agent.core.control import Flight
from fsm_agent.core.effects import AnsweredEffect, Cancel, EffectKind, RunTool
from fsm_agent.core.events import (
    AbortRequested,
    AttachmentsGathered,
    BlockCompleted,
    CollapseFailed,
    CollapseStaged,
    CommandQueued,
    CompactionFailed,
    CompactionFinished,
    CompactRequested,
    EffectFailed,
    EffectLost,
    Event,
    ModelSwitched,
    Outcome,
    PrefetchFinished,
    RunStarted,
    StopHooksFinished,
    StreamCompleted,
    StreamFailed,
    StreamStarted,
    TimerFired,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    ToolTraits,
    ToolUse,
    ToolUseSummaryReady,
)
from fsm_agent.core.failures import ErrorKind, ModelFailure
from fsm_agent.core.messages import MessageKind, message
from fsm_agent.core.phases import TERMINAL_SET, AbortReason
from fsm_agent.core.state import LoopState, Step, initial
from fsm_agent.core.step import next_run, step
from fsm_agent.core.usage import ModelUsage

KINDS = {
    "read": ToolTraits(read_only=True, concurrency_safe=True, compactable=True),
    "safe": ToolTraits(concurrency_safe=True),
    "write": ToolTraits(),
    "shell": ToolTraits(cancels_siblings_on_error=True),
    "nosuch": ToolTraits(known=False),
}
STOPS = ("end_turn", "tool_use", "max_tokens", "refusal", "model_context_window_exceeded", "strange", None)


@frozen
class Taken:
    """One step of a walk: the state before, the event, what came of it."""

    before: LoopState
    event: Event
    made: Step


class Environment:
    """Answers effects at random; remembers what it asked of whom."""

    def __init__(self, seed: int, config: LoopConfig, calm: float = 0.5) -> None:
        self.random = random.Random(seed)
        self.config = config
        self.calm = calm
        self.effects: dict[str, AnsweredEffect] = {}
        self.index: dict[str, int] = {}
        self.serial = 0
        self.pending: dict[str, str] = {}
        self.started: dict[str, int] = {}

    def note(self, made: Step) -> None:
        """Remember new effects, forget cancelled ones."""
        for effect in made.effects:
            if isinstance(effect, Cancel):
                self.effects.pop(effect.id, None)
            elif hasattr(effect, "id") and not hasattr(effect, "output"):
                self.effects[effect.id] = effect  # type: ignore[assignment]

    def usage(self) -> tuple[ModelUsage, ...]:
        out = self.random.choice((0, 10, 400, 2_000))
        return (ModelUsage(model=self.config.model, input_tokens=100, output_tokens=out, cost=out),)

    def failure(self) -> ModelFailure:
        kind = self.random.choice(list(ErrorKind))
        return ModelFailure(kind=kind, message=kind.value, retry_after_ms=self.random.choice((None, None, 500, 999_999)))

    def user(self, state: LoopState) -> Event:
        """What the user does."""
        self.serial += 1
        choice = self.random.random()
        if choice < 0.5:
            item = message(f"cmd-{self.serial}", "user", MessageKind.COMMAND, (text_block(f"command {self.serial}"),))
            return CommandQueued(command_id=f"c{self.serial}", message=item)
        if choice < 0.7:
            return CompactRequested()
        if choice < 0.85:
            return ModelSwitched(model=self.random.choice((self.config.model, *self.config.fallback_models, "another")))
        return AbortRequested(reason=self.random.choice(list(AbortReason)))

    def answer(self, state: LoopState) -> Event:
        """Answer one effect in flight."""
        pick = self.random
        flight = pick.choice(state.control.flight)
        if pick.random() < 0.02:
            return EffectLost(id=flight.id)
        if pick.random() < 0.02:
            return EffectFailed(id=flight.id, failure=self.failure())
        match flight.kind:
            case EffectKind.CALL:
                return self.stream(state, flight)
            case EffectKind.TOOL:
                return self.tool(state, flight)
            case EffectKind.COMPACT:
                if pick.random() < 0.4:
                    return CompactionFailed(id=flight.id, failure=self.failure())
                words = pick.choice(("done: all of it", "", "word " * 3_000))
                stop = pick.choice(("end_turn", "end_turn", "max_tokens", "refusal"))
                return CompactionFinished(id=flight.id, summary=(text_block(words),), stop_reason=stop, summarised=1)
            case EffectKind.COLLAPSE:
                if pick.random() < 0.3:
                    return CollapseFailed(id=flight.id, failure=self.failure())
                return CollapseStaged(id=flight.id, summary=text_block("a span"))
            case EffectKind.ATTACHMENTS:
                self.serial += 1
                item = message(f"att-{self.serial}", "user", MessageKind.ATTACHMENT, (text_block("attached"),))
                return AttachmentsGathered(id=flight.id, messages=(item,) * pick.choice((0, 1)))
            case EffectKind.MEMORY | EffectKind.SKILLS:
                self.serial += 1
                item = message(f"pre-{self.serial}", "user", MessageKind.ATTACHMENT, (text_block("fetched"),))
                return PrefetchFinished(id=flight.id, messages=(item,))
            case EffectKind.SUMMARY:
                return ToolUseSummaryReady(id=flight.id, text=pick.choice(("", "read files")))
            case EffectKind.HOOKS:
                return StopHooksFinished(
                    id=flight.id,
                    blocking=("more work",) * pick.choice((0, 1, 2)),
                    prevented=pick.choice((None, None, None, "stop")),
                )
            case EffectKind.TIMER:
                return TimerFired(id=flight.id)

    def stream(self, state: LoopState, flight: Flight) -> Event:
        """Go on with the reply."""
        pick = self.random
        index = self.index.get(flight.id, -1)
        if index < 0:
            self.index[flight.id] = 0
            if pick.random() < 0.15:
                return StreamFailed(id=flight.id, failure=self.failure(), usage=self.usage())
            return StreamStarted(id=flight.id)
        if pick.random() < 0.35 or index > 5:
            if pick.random() < 0.2:
                return StreamFailed(id=flight.id, failure=self.failure(), usage=self.usage())
            context = pick.choice((0, 200, 9_000, 14_000, 17_000))
            pending = self.pending.pop(flight.id, "")
            if pending:
                reason: str | None = "pause_turn"  # only a server tool that runs on pauses a reply
            else:
                reason = pick.choice(STOPS if pick.random() < 0.5 else ("end_turn", "tool_use"))
            return StreamCompleted(
                id=flight.id,
                stop_reason=reason,
                usage=self.usage(),
                context_tokens=context,
                unresolved=bool(pending),
            )
        self.index[flight.id] = index + 1
        return self.block(flight, index)

    def block(self, flight: Flight, index: int) -> Event:
        pick = self.random
        pending = self.pending.get(flight.id, "")
        if pending:
            del self.pending[flight.id]
            value = {"type": "web_search_tool_result", "tool_use_id": pending, "content": []}
            return BlockCompleted(id=flight.id, index=index, block=read_block(value))
        kind = pick.choice(("text", "blank", "thinking", "tool", "tool", "server"))
        if kind == "text":
            return BlockCompleted(id=flight.id, index=index, block=text_block("some words"), closed=pick.random() < 0.9)
        if kind == "blank":
            return BlockCompleted(id=flight.id, index=index, block=text_block(" \n"))
        if kind == "thinking":
            block = read_block({"type": "thinking", "thinking": "hm", "signature": "s"})
            return BlockCompleted(id=flight.id, index=index, block=block)
        if kind == "server":
            self.serial += 1
            identity = f"srvtoolu_{self.serial}"
            self.pending[flight.id] = identity
            value = {"type": "server_tool_use", "id": identity, "name": "web_search", "input": {"query": "q"}}
            block = read_block(value)
            return BlockCompleted(id=flight.id, index=index, block=block)
        self.serial += 1
        name = pick.choice(list(KINDS))
        identity = pick.choice((f"t{self.serial}", f"t{self.serial}", f"t{self.serial}", "t1", "", "bad id!"))
        good = pick.random() < 0.8
        raw = json.dumps({"n": pick.choice((1, self.serial))}) if good else '{"n": 1,,}'
        block = read_block({"type": "tool_use", "id": identity, "name": name, "input": {}})
        use = ToolUse(id=identity, name=name, raw=raw, input_json=raw if good else None, traits=KINDS[name])
        return BlockCompleted(id=flight.id, index=index, block=block, tool=use, last=pick.random() < 0.2)

    def tool(self, state: LoopState, flight: Flight) -> Event:
        pick = self.random
        begun = self.started.get(flight.id, 0)
        if not begun and pick.random() < 0.9:
            self.started[flight.id] = 1
            return ToolStarted(id=flight.id, final_input_digest="d")
        if begun and pick.random() < 0.2:
            return ToolProgressed(id=flight.id, text="working ")
        effect = self.effects[flight.id]
        assert isinstance(effect, RunTool)
        outcome = pick.choice((Outcome.OK, Outcome.OK, Outcome.ERROR, Outcome.FAILED))
        return ToolFinished(
            id=flight.id,
            outcome=outcome,
            result=tool_result(effect.tool_use_id, pick.choice(("fine", "x" * 3_000)), is_error=outcome is not Outcome.OK),
            digest=pick.choice(("", "same")),
            stop=pick.choice((None,) * 12 + ("a hook says stop",)),
            usage=self.usage(),
        )


def walk(seed: int, config: LoopConfig, steps: int = 400, runs: int = 3) -> Iterator[Taken]:
    """Walk through some runs of one session."""
    environment = Environment(seed, config)
    state = initial(config)
    for number in range(runs):
        prompt = message(f"prompt-{number}", "user", MessageKind.PROMPT, (text_block(f"request {number}"),))
        event: Event = RunStarted(
            run_id=f"r{number}", messages=(prompt,), token_budget=environment.random.choice((None, 3_000)), source="sdk"
        )
        for _ in range(steps):
            made = step(state, event, config)
            environment.note(made)
            yield Taken(before=state, event=event, made=made)
            state = made.state
            if state.phase in TERMINAL_SET:
                break
            if not state.control.flight or environment.random.random() < 0.04:
                event = environment.user(state)
            else:
                event = environment.answer(state)
        if state.phase not in TERMINAL_SET:
            made = step(state, AbortRequested(), config)
            yield Taken(before=state, event=AbortRequested(), made=made)
            state = made.state
        state = next_run(state, config)
