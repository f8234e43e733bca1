"""Plays the bare reducer step by step: what a test needs to bring a run to the place that it asks about."""

from __future__ import annotations

import json
from typing import Any

from fsm_agent.core.blocks import Block, read_block, text_block, tool_result, tool_use
from fsm_agent.core.config import LoopConfig, ToolSchema
from fsm_agent.core.control import Flight
from fsm_agent.core.effects import Effect, EffectKind, Emit
from fsm_agent.core.events import (
    BlockCompleted,
    Event,
    Outcome,
    RunStarted,
    StreamCompleted,
    StreamFailed,
    StreamStarted,
    ToolFinished,
    ToolStarted,
    ToolTraits,
    ToolUse,
)
from fsm_agent.core.failures import ErrorKind, ModelFailure
from fsm_agent.core.messages import Message, MessageKind, message
from fsm_agent.core.models import ModelInfo
from fsm_agent.core.outputs import Output
from fsm_agent.core.state import LoopState, Step, initial
from fsm_agent.core.step import step
from fsm_agent.core.usage import ModelUsage

MODELS = (
    ModelInfo(name="m", context_window=200_000, max_output=64_000, thinking=("adaptive",)),
    ModelInfo(name="n", context_window=200_000, max_output=64_000, thinking=("adaptive",)),
)
TOOLS = tuple(ToolSchema(name, f'{{"name":"{name}","input_schema":{{"type":"object"}}}}') for name in ("read", "write"))
READ = ToolTraits(read_only=True, concurrency_safe=True)
THINKING = read_block({"type": "thinking", "thinking": "hm", "signature": "s"})


def settings(**more: Any) -> LoopConfig:
    """Make a configuration of two models and two tools."""
    return LoopConfig(**{"model": "m", "models": MODELS, "tools": TOOLS, **more})


def prompt(text: str = "Go.", identity: str = "prompt") -> Message:
    """Make a request of the user."""
    return message(identity, "user", MessageKind.PROMPT, (text_block(text),))


class Player:
    """One conversation of the bare reducer."""

    def __init__(self, config: LoopConfig, state: LoopState | None = None) -> None:
        self.config = config
        self.state = initial(config) if state is None else state
        self.effects: list[Effect] = []
        self.taken: list[str] = []
        self._index = 0

    def feed(self, event: Event) -> Step:
        """Take one event; it must not be refused."""
        made = step(self.state, event, self.config)
        assert made.rejected is None, made.rejected
        self.state = made.state
        self.effects += made.effects
        self.taken += made.taken
        return made

    def start(self, run_id: str = "r", text: str = "Go.", **more: Any) -> Step:
        """Begin a run."""
        return self.feed(RunStarted(run_id=run_id, messages=(prompt(text, f"{run_id}/prompt"),), **more))

    def flights(self, kind: EffectKind) -> tuple[Flight, ...]:
        """Give the effects of a kind that are in flight."""
        return tuple(item for item in self.state.control.flight if item.kind is kind)

    def flight(self, kind: EffectKind) -> str:
        """Give the id of the one effect of its kind that is in flight."""
        (found,) = self.flights(kind)
        return found.id

    def outputs(self, kind: type[Output]) -> list[Any]:
        """Give what was emitted, of one kind."""
        return [effect.output for effect in self.effects if isinstance(effect, Emit) and isinstance(effect.output, kind)]

    def block(self, block: Block, *, closed: bool = True) -> Step:
        """Deliver a block of the reply."""
        self._index += 1
        return self.feed(BlockCompleted(id=self.flight(EffectKind.CALL), index=self._index, block=block, closed=closed))

    def call(
        self, identity: str, name: str = "read", raw: str = "{}", *, traits: ToolTraits = READ, last: bool = False
    ) -> Step:
        """Deliver a tool call of the reply; ``raw`` that is no JSON object makes it one that is not whole."""
        self._index += 1
        try:
            good = isinstance(json.loads(raw), dict)
        except ValueError:
            good = False
        use = ToolUse(id=identity, name=name, raw=raw, input_json=raw if good else None, traits=traits)
        block = tool_use(identity, name, raw if good else "{}")
        effect = self.flight(EffectKind.CALL)
        return self.feed(BlockCompleted(id=effect, index=self._index, block=block, tool=use, last=last))

    def ends(self, reason: str | None = "end_turn", *, context: int = 0, output: int = 0, unresolved: bool = False) -> Step:
        """End the reply."""
        usage = (ModelUsage(model="m", output_tokens=output),) if output else ()
        return self.feed(
            StreamCompleted(
                id=self.flight(EffectKind.CALL),
                stop_reason=reason,
                context_tokens=context,
                usage=usage,
                unresolved=unresolved,
            )
        )

    def fails(self, kind: ErrorKind, **more: Any) -> Step:
        """Let the attempt fail."""
        return self.feed(StreamFailed(id=self.flight(EffectKind.CALL), failure=ModelFailure(kind=kind, **more)))

    def says(self, text: str = "Done.", reason: str | None = "end_turn", *, context: int = 0, output: int = 0) -> Step:
        """Give a reply of one text."""
        self.feed(StreamStarted(id=self.flight(EffectKind.CALL)))
        self.block(text_block(text))
        return self.ends(reason, context=context, output=output)

    def begins(self, position: int = 0) -> Step:
        """Let the body of a call in flight begin."""
        return self.feed(ToolStarted(id=self.flights(EffectKind.TOOL)[position].id))

    def finishes(
        self, position: int = 0, text: str = "fine", *, outcome: Outcome = Outcome.OK, stop: str | None = None
    ) -> Step:
        """Answer a call in flight."""
        flight = self.flights(EffectKind.TOOL)[position]
        result = tool_result(flight.call, text, is_error=outcome is not Outcome.OK)
        return self.feed(ToolFinished(id=flight.id, outcome=outcome, result=result, stop=stop))

    def round(self, identity: str = "t1", *, context: int = 0, output: int = 0) -> Step:
        """Play a whole round: one read-only call, its result, and what follows without a wait."""
        self.call(identity)
        self.ends("tool_use", context=context, output=output)
        self.begins()
        return self.finishes()
