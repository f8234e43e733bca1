"""How each effect is performed: one function a kind. No policy, no order: only the call of the part that does it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar, assert_never

import anyio

from ..core.config import ConfigError, LoopConfig
from ..core.effects import (
    AnsweredEffect,
    CallModel,
    Compact,
    GatherAttachments,
    RunStopHooks,
    RunTool,
    StageCollapse,
    StartPrefetch,
    StartTimer,
    SummarizeToolUse,
)
from ..core.events import (
    Answer,
    AttachmentsGathered,
    BlockCompleted,
    CollapseFailed,
    CollapseStaged,
    CompactionFailed,
    CompactionFinished,
    EffectFailed,
    PrefetchFinished,
    StopHooksFinished,
    StreamCompleted,
    StreamFailed,
    StreamStarted,
    TimerFired,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    ToolUseSummaryReady,
)
from ..core.failures import ErrorKind, ModelFailure
from .faults import EngineFault, describe
from .flights import GRACE, Flight
from .inbox import Delta, Inbox, Receipt
from .ports import Deps, LongLived, ToolPorts

JITTER = 0.1
"""A wait is lengthened by up to this share, so that many clients do not come back at once."""

Part = TypeVar("Part")


class FlightChannel:
    """What one flight sends before its final answer."""

    __slots__ = ("_flight", "_inbox")

    def __init__(self, inbox: Inbox, flight: Flight) -> None:
        self._inbox = inbox
        self._flight = flight

    async def send(self, value: Answer | Delta) -> None:
        """Send one item; waits while the consumer is behind."""
        await self._inbox.put(value, self._flight)

    async def accepted(self, value: Answer) -> bool:
        """Send one event and wait until it is on disk; True if the step accepted it."""
        receipt = Receipt()
        await self._inbox.put(value, self._flight, receipt)
        return await receipt.wait()


def check_parts(deps: Deps, config: LoopConfig) -> None:
    """Refuse a configuration that asks for parts that are not there.

    Raises:
        ConfigError: names the setting and the part.
    """
    wanted = (
        ("stop_hooks", config.stop_hooks, deps.hooks, "hooks"),
        ("attachments", config.attachments, deps.providers, "providers"),
        ("prefetch_memory", config.prefetch_memory, deps.providers, "providers"),
        ("prefetch_skills", config.prefetch_skills, deps.providers, "providers"),
        ("tool_summaries", config.tool_summaries, deps.providers, "providers"),
        ("context.collapse", config.context.collapse, deps.compactor, "compactor"),
    )
    for name, asked, part, needed in wanted:
        if asked and part is None:
            raise ConfigError(f"{name} is set, but the run has no {needed}")


def failed(effect: AnsweredEffect, error: BaseException) -> EffectFailed:
    """The answer of an effect that could not be performed."""
    return EffectFailed(id=effect.id, failure=ModelFailure(kind=ErrorKind.ENGINE_ERROR, message=describe(error)))


async def perform(
    effect: AnsweredEffect, deps: Deps, channel: FlightChannel, random: Callable[[], float], *, begun: bool = False
) -> Answer:
    """Perform one effect and give its final answer.

    Args:
        effect: what to do.
        deps: the parts that do it.
        channel: takes what comes before the final answer.
        random: gives a number from 0 up to 1, for the jitter of timers.
        begun: the effect had begun when an engine died, and is gone on with.

    Raises:
        Exception: whatever the part raised; the caller turns it into ``EffectFailed``.
    """
    match effect:
        case CallModel():
            return await _call_model(effect, deps, channel)
        case RunTool():
            return await _run_tool(effect, deps, channel, begun)
        case Compact():
            part = _present(deps.compactor, "compactor")
            return await _one(effect, part.compact(effect), CompactionFinished, CompactionFailed)
        case StageCollapse():
            part = _present(deps.compactor, "compactor")
            return await _one(effect, part.collapse(effect), CollapseStaged, CollapseFailed)
        case GatherAttachments():
            providers = _present(deps.providers, "providers")
            return await _one(effect, providers.attachments(effect), AttachmentsGathered)
        case StartPrefetch():
            providers = _present(deps.providers, "providers")
            return await _one(effect, providers.prefetch(effect), PrefetchFinished)
        case SummarizeToolUse():
            providers = _present(deps.providers, "providers")
            return await _one(effect, providers.summarize(effect), ToolUseSummaryReady)
        case RunStopHooks():
            return await _one(effect, _present(deps.hooks, "hooks").stop(effect), StopHooksFinished)
        case StartTimer():
            await anyio.sleep(effect.delay_ms * (1 + JITTER * random()) / 1000)
            return TimerFired(id=effect.id)
        case _:
            assert_never(effect)


def _present(part: Part | None, name: str) -> Part:
    if part is None:
        raise EngineFault(f"the run has no {name}")
    return part


def _checked(effect: AnsweredEffect, answer: object, *kinds: type) -> None:
    """Refuse an answer of another kind or of another effect: the core would wait for the right one for ever."""
    if not isinstance(answer, kinds):
        raise EngineFault(f"{effect.id} was answered by a {type(answer).__name__}")
    if getattr(answer, "id", None) != effect.id:
        raise EngineFault(f"{effect.id} was answered under the id {getattr(answer, 'id', None)!r}")


Final = TypeVar("Final", bound=Answer)


async def _one(effect: AnsweredEffect, work: Awaitable[Final], *kinds: type) -> Final:
    answer = await work
    _checked(effect, answer, *kinds)
    return answer


async def _call_model(effect: CallModel, deps: Deps, channel: FlightChannel) -> Answer:
    stream = deps.model.stream(effect)
    try:
        async for item in stream:
            if isinstance(item, Delta):
                await channel.send(item)
                continue
            _checked(effect, item, StreamStarted, BlockCompleted, StreamCompleted, StreamFailed)
            if isinstance(item, StreamCompleted | StreamFailed):
                return item
            await channel.send(item)
    finally:
        # A generator that is left half-way closes its connection here, also when this task is being cancelled.
        # An error of that closing changes nothing: the answer is known, or nobody waits for one.
        with anyio.move_on_after(GRACE, shield=True), suppress(Exception):
            await stream.aclose()
    raise EngineFault("the model's stream ended without a last item")


async def _run_tool(effect: RunTool, deps: Deps, channel: FlightChannel, begun: bool) -> Answer:
    async def started(digest: str) -> bool:
        return await channel.accepted(ToolStarted(id=effect.id, final_input_digest=digest))

    async def progress(text: str) -> None:
        if text:
            await channel.send(ToolProgressed(id=effect.id, text=text))

    ports = ToolPorts(started=started, progress=progress)
    tools = deps.tools
    answer = await (tools.go_on(effect, ports) if begun and isinstance(tools, LongLived) else tools.run(effect, ports))
    _checked(effect, answer, ToolFinished)
    return answer
