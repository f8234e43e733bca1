"""Parts that act by script, for runs of the real core."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

import anyio
from attrs import field, frozen

from fsm_agent.core.blocks import text_block, tool_result, tool_use
from fsm_agent.core.config import ToolSchema
from fsm_agent.core.effects import (
    CallModel,
    Compact,
    GatherAttachments,
    RunPostSamplingHooks,
    RunStopHooks,
    RunTool,
    StageCollapse,
    StartPrefetch,
    SummarizeToolUse,
)
from fsm_agent.core.events import (
    AttachmentsGathered,
    BlockCompleted,
    CollapseFailed,
    CollapseStaged,
    CompactionFailed,
    CompactionFinished,
    Outcome,
    PrefetchFinished,
    StopHooksFinished,
    StreamCompleted,
    StreamFailed,
    StreamStarted,
    ToolFinished,
    ToolTraits,
    ToolUse,
    ToolUseSummaryReady,
)
from fsm_agent.core.failures import ErrorKind, ModelFailure
from fsm_agent.core.messages import MessageKind, message
from fsm_agent.core.outputs import TextDelta
from fsm_agent.core.state import LoopState, initial
from fsm_agent.core.usage import ModelUsage
from fsm_agent.runtime.ports import Deps, ModelItem, ToolPorts
from fsm_agent.session.agent import Agent

USAGE = (ModelUsage(model="m", input_tokens=100, output_tokens=10, cost=1_500),)


@frozen
class Say:
    """A text block, complete ``at`` seconds after the call began."""

    text: str
    at: float = 0.0


@frozen
class Use:
    """A call of a tool, complete ``at`` seconds after the call began."""

    name: str
    input: dict[str, Any] = field(factory=dict)
    at: float = 0.0


@frozen
class Fail:
    """The call fails ``at`` seconds after it began."""

    kind: ErrorKind
    at: float = 0.0


@frozen
class Hang:
    """The stream says nothing more."""


@frozen
class Crash:
    """The model's code raises."""

    error: Exception


Part = Say | Use | Fail | Hang | Crash
Reply = Sequence[Part]


def reply(*parts: Part) -> Reply:
    return parts


class Model:
    """Plays one reply a call; ``ends`` gives when each stream ends, in seconds after its call began."""

    def __init__(self, *replies: Reply, ends: Sequence[float] = (), traits: dict[str, ToolTraits] | None = None) -> None:
        self.replies = list(replies)
        self.ends = list(ends)
        self.traits = traits or {}
        self.requests: list[list[dict[str, Any]]] = []
        self.log: list[str] = []
        self.open = 0

    async def stream(self, effect: CallModel) -> AsyncGenerator[ModelItem, None]:
        number = len(self.requests)
        self.requests.append([json.loads(wire.body) for wire in effect.request.messages])
        begun = anyio.current_time()
        self.log.append(f"call {number}")
        self.open += 1
        try:
            yield StreamStarted(effect.id, f"msg_{number}", effect.request.model)
            used = False
            for index, part in enumerate(self.replies[number]):
                if isinstance(part, Hang):
                    await anyio.sleep_forever()
                if isinstance(part, Crash):
                    raise part.error
                await anyio.sleep(max(0.0, begun + part.at - anyio.current_time()))
                if isinstance(part, Fail):
                    yield StreamFailed(effect.id, ModelFailure(part.kind, f"scripted {part.kind}"), USAGE)
                    return
                if isinstance(part, Say):
                    yield TextDelta(effect.id, index, part.text)
                    yield BlockCompleted(effect.id, index, text_block(part.text))
                    continue
                used = True
                yield self._call(effect, number, index, part)
            end = self.ends[number] if number < len(self.ends) else 0.0
            await anyio.sleep(max(0.0, begun + end - anyio.current_time()))
            self.log.append(f"end {number}")
            yield StreamCompleted(effect.id, "tool_use" if used else "end_turn", USAGE, context_tokens=110)
        finally:
            self.open -= 1

    def _call(self, effect: CallModel, number: int, index: int, part: Use) -> BlockCompleted:
        text = json.dumps(part.input)
        use = ToolUse(f"toolu_{number}_{index}", part.name, text, text, traits=self.traits.get(part.name, ToolTraits()))
        return BlockCompleted(effect.id, index, tool_use(use.id, use.name, text), use)


READ = ToolTraits(read_only=True, concurrency_safe=True)


class Tools:
    """Tools by name: seconds that they take; an exception, raised; or a function of the input."""

    def __init__(self, log: list[str] | None = None, **behaviour: float | Exception) -> None:
        self.behaviour = behaviour
        self.log = log if log is not None else []
        self.running = 0
        self.denials: list[dict[str, Any]] = []

    def schemas(self) -> tuple[ToolSchema, ...]:
        names = sorted(self.behaviour)
        return tuple(ToolSchema(n, json.dumps({"name": n, "input_schema": {"type": "object"}})) for n in names)

    def traits(self, name: str, input_json: str | None) -> ToolTraits:
        return ToolTraits(known=name in self.behaviour)

    async def run(self, effect: RunTool, ports: ToolPorts) -> ToolFinished:
        how = self.behaviour[effect.name]
        if isinstance(how, Exception):
            raise how
        if how == float("-inf"):
            self.denials.append({"tool_name": effect.name, "tool_use_id": effect.tool_use_id, "tool_input": {}})
            return ToolFinished(effect.id, Outcome.FAILED, tool_result(effect.tool_use_id, "denied", is_error=True))
        if not await ports.started("0" * 64):
            return ToolFinished(effect.id, Outcome.FAILED, tool_result(effect.tool_use_id, "late", is_error=True))
        self.log.append(f"start {effect.name}")
        self.running += 1
        try:
            await anyio.sleep(how)
        finally:
            self.running -= 1
        self.log.append(f"finish {effect.name}")
        return ToolFinished(effect.id, Outcome.OK, tool_result(effect.tool_use_id, f"{effect.name} done"), digest=effect.id)


class Hooks:
    """Stop hooks that take ``seconds``, then answer with what is next in ``blocks``, then pass."""

    def __init__(self, seconds: float = 0.0, blocks: Sequence[str] = (), error: Exception | None = None) -> None:
        self.seconds = seconds
        self.blocks = list(blocks)
        self.error = error
        self.sampled = 0

    async def stop(self, effect: RunStopHooks) -> StopHooksFinished:
        await anyio.sleep(self.seconds)
        if self.error is not None:
            raise self.error
        return StopHooksFinished(effect.id, blocking=(self.blocks.pop(0),) if self.blocks else ())

    async def post_sampling(self, effect: RunPostSamplingHooks) -> None:
        await anyio.sleep(0)
        self.sampled += 1


class Providers:
    """Providers that take ``seconds``."""

    def __init__(self, seconds: float = 0.0, error: Exception | None = None) -> None:
        self.seconds = seconds
        self.error = error

    async def attachments(self, effect: GatherAttachments) -> AttachmentsGathered:
        await anyio.sleep(self.seconds)
        if self.error is not None:
            raise self.error
        return AttachmentsGathered(effect.id)

    async def prefetch(self, effect: StartPrefetch) -> PrefetchFinished:
        if self.error is not None:
            raise self.error
        return PrefetchFinished(effect.id)

    async def summarize(self, effect: SummarizeToolUse) -> ToolUseSummaryReady:
        return ToolUseSummaryReady(effect.id, "tools ran")


class Compactor:
    """A compactor that takes ``seconds``."""

    def __init__(self, seconds: float = 0.0, error: Exception | None = None) -> None:
        self.seconds = seconds
        self.error = error
        self.calls = 0

    async def compact(self, effect: Compact) -> CompactionFinished | CompactionFailed:
        self.calls += 1
        await anyio.sleep(self.seconds)
        if self.error is not None:
            raise self.error
        return CompactionFinished(effect.id, (text_block("a summary"),), summarised=len(effect.messages))

    async def collapse(self, effect: StageCollapse) -> CollapseStaged | CollapseFailed:
        return CollapseStaged(effect.id, text_block("a short summary"))


def deps(model: Model, tools: Tools | None = None, **parts: Any) -> Deps:
    return Deps(model=model, tools=tools or Tools(), **parts)


def history(agent: Agent, words: int) -> LoopState:
    """Give a conversation of old rounds."""
    rounds = []
    for n in range(6):
        rounds.append(message(f"old/u{n}", "user", MessageKind.PROMPT, (text_block("word " * words),)))
        rounds.append(message(f"old/a{n}", "assistant", MessageKind.ASSISTANT, (text_block("word " * words),), model="m"))
    return initial(agent.config, tuple(rounds))


Until = Callable[[], bool]


async def until(condition: Until) -> None:
    """Wait for a condition, without looking at a clock; one that never comes is an error."""
    for _ in range(5_000):
        if condition():
            return
        await anyio.sleep(0.001)
    raise AssertionError("what the test waits for never came")
