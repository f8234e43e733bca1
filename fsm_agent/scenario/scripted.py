"""Scripted parts of the interpreter: the protocols of ``runtime.ports`` over one scenario (spec 04, testing kit).

They sleep with anyio, so that virtual time of trio plays a scenario at once. All parts of one run share a :class:`World`,
which counts calls and knows what runs beside the model's stream.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager, nullcontext

import anyio
from attrs import define, field

from ..core.blocks import block_value, tool_result
from ..core.config import ToolSchema
from ..core.effects import (
    CallModel,
    Compact,
    GatherAttachments,
    PrefetchKind,
    RunPostSamplingHooks,
    RunStopHooks,
    RunTool,
    StageCollapse,
    StartPrefetch,
    SummarizeToolUse,
)
from ..core.events import (
    AttachmentsGathered,
    BlockCompleted,
    CollapseFailed,
    CollapseStaged,
    CompactionFailed,
    CompactionFinished,
    Event,
    Outcome,
    PrefetchFinished,
    StopHooksFinished,
    StreamFailed,
    StreamStarted,
    ToolFinished,
    ToolTraits,
    ToolUseSummaryReady,
)
from ..core.failures import ErrorKind
from ..core.outputs import TextDelta, ThinkingDelta
from ..core.state import Step
from ..runtime.ports import Deps, ModelItem, Recorder, ToolPorts
from .answering import (
    attachment_messages,
    attachments_gathered,
    collapse_answer,
    compaction_answer,
    hooks_finished,
    input_digest,
    nothing_to_summarise,
    tool_finished,
)
from .answers import Reply, SummarySpec, SummaryWord
from .format import HookWord, Scenario
from .playing import Pause, ScenarioCrash, exhausted, scripted_traits, stream_of, traits_of

TICK = 0.01
"""Seconds between two looks at whether everything beside the stream has settled."""
QUIET_TICKS = 3
"""How often in a row nothing may be running before that counts as settled: a tool needs a moment to start."""
PIECE = 12
"""Characters of one piece of streamed text."""


@define
class World:
    """What the scripted parts of one run share."""

    counts: dict[str, int] = field(factory=dict)
    running: int = 0
    starting: int = 0
    streams: int = 0
    issued: dict[str, int] = field(factory=dict)
    """Streams that had begun when an effect was asked for; its task may start much later, in any order."""

    def observe(self, event: Event, step: Step) -> None:
        """Look at one step of the run."""
        self.streams += isinstance(event, StreamStarted)
        for effect in step.effects:
            if isinstance(effect, StartPrefetch | SummarizeToolUse | StageCollapse):
                self.issued[effect.id] = self.streams

    async def background(self, effect_id: str, milliseconds: int) -> None:
        """Take time beside the stream; it counts from the stream's begin, which over HTTP is not at once."""
        with self.beside():
            while self.streams == self.issued.get(effect_id, -1):
                await anyio.sleep(TICK)
            await _sleep(milliseconds)

    def count(self, what: str) -> int:
        """Number a call among those of its kind, from 0."""
        number = self.counts.get(what, 0)
        self.counts[what] = number + 1
        return number

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Mark work that runs beside the stream and will end by itself."""
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1

    async def pause(self, until: str) -> None:
        """Wait until what runs beside the stream is ``finished``, until tools are ``started``, or for ``never``."""
        if until == "never":
            await anyio.sleep_forever()
        quiet = 0
        while quiet < QUIET_TICKS:
            await anyio.sleep(TICK)
            busy = self.starting if until == "started" else self.running
            quiet = 0 if busy else quiet + 1


async def _sleep(milliseconds: int) -> None:
    await anyio.sleep(milliseconds / 1000)


class ScriptedModel:
    """The model of a scenario."""

    def __init__(self, scenario: Scenario, world: World, traits: Callable[[str, str | None], ToolTraits] | None = None) -> None:
        self._scenario = scenario
        self._world = world
        self._traits = traits or scripted_traits(scenario)

    async def stream(self, effect: CallModel) -> AsyncGenerator[ModelItem, None]:
        """Play the reply of this call."""
        number = self._world.count("replies")
        replies = self._scenario.replies
        if number >= len(replies):
            yield exhausted(effect.id, "replies", len(replies))
            return
        reply = replies[number]
        model = effect.request.model
        for part in stream_of(reply, effect.id, number, self._scenario.config, model, self._traits):
            if isinstance(part, Pause):
                await self._world.pause(part.until)
                continue
            if isinstance(part, StreamFailed) and part.failure.kind is ErrorKind.ENGINE_ERROR:
                raise ScenarioCrash(part.failure.message)
            if isinstance(part, BlockCompleted):
                async for delta in _deltas(part, reply):
                    yield delta
            yield part


async def _deltas(part: BlockCompleted, reply: Reply) -> AsyncGenerator[TextDelta | ThinkingDelta, None]:
    if part.block.type not in ("text", "thinking"):
        return
    text = block_value(part.block)[part.block.type]
    make = TextDelta if part.block.type == "text" else ThinkingDelta
    size = PIECE if reply.pace_ms else max(1, len(text))
    for start in range(0, len(text), size):
        if reply.pace_ms:
            await _sleep(reply.pace_ms)
        yield make(call=part.id, index=part.index, text=text[start : start + size])


class ScriptedTools:
    """The tools of a scenario."""

    def __init__(self, scenario: Scenario, world: World) -> None:
        self._scenario = scenario
        self._world = world

    def schemas(self) -> tuple[ToolSchema, ...]:
        """Give the schemas of the scripted tools."""
        return self._scenario.config.tools

    def traits(self, name: str, input_json: str | None) -> ToolTraits:
        """Give the traits that the scenario declares."""
        return traits_of(self._scenario.tool(name))

    async def run(self, effect: RunTool, ports: ToolPorts) -> ToolFinished:
        """Behave as the scenario says."""
        spec = self._scenario.tool(effect.name)
        number = self._world.count(f"tool {effect.name}")
        if spec is None:
            return tool_finished(effect.id, effect.tool_use_id, None, number)
        with nullcontext() if spec.hang else self._world.beside():
            if not spec.denied and not await self._start(effect, ports):
                cancelled = tool_result(effect.tool_use_id, "cancelled before it started", is_error=True)
                return ToolFinished(id=effect.id, outcome=Outcome.FAILED, result=cancelled)
            slept = 0
            for place, text in enumerate(() if spec.denied else spec.progress, 1):
                due = spec.duration_ms * place // (len(spec.progress) + 1)
                await _sleep(due - slept)
                slept = due
                await ports.progress(text)
            if spec.hang:
                await anyio.sleep_forever()
            await _sleep(spec.duration_ms - slept)
            return tool_finished(effect.id, effect.tool_use_id, spec, number)

    async def _start(self, effect: RunTool, ports: ToolPorts) -> bool:
        self._world.starting += 1
        try:
            return await ports.started(input_digest(effect.input_json))
        finally:
            self._world.starting -= 1


class ScriptedHooks:
    """The stop hooks of a scenario."""

    def __init__(self, scenario: Scenario, world: World) -> None:
        self._scenario = scenario
        self._world = world

    async def stop(self, effect: RunStopHooks) -> StopHooksFinished:
        """Give the next answer; a list that is used up passes."""
        number = self._world.count("hooks")
        hooks = self._scenario.stop_hooks
        hook = hooks[number] if number < len(hooks) else None
        if hook is not None and hook.word is HookWord.HANG:
            await anyio.sleep_forever()
        return hooks_finished(effect.id, hook)

    async def post_sampling(self, effect: RunPostSamplingHooks) -> None:
        """Look at nothing."""


class ScriptedProviders:
    """Attachments, prefetches and summaries of a scenario."""

    def __init__(self, scenario: Scenario, world: World) -> None:
        self._scenario = scenario
        self._world = world

    async def attachments(self, effect: GatherAttachments) -> AttachmentsGathered:
        """Give the attachments of this round."""
        return attachments_gathered(effect.id, self._scenario.attachments, self._world.count("attachments"))

    async def prefetch(self, effect: StartPrefetch) -> PrefetchFinished:
        """Bring memory or skills."""
        background = self._scenario.memory if effect.kind is PrefetchKind.MEMORY else self._scenario.skills
        if background is None:
            return PrefetchFinished(id=effect.id)
        await self._world.background(effect.id, background.duration_ms)
        return PrefetchFinished(id=effect.id, messages=attachment_messages(background.text, effect.id))

    async def summarize(self, effect: SummarizeToolUse) -> ToolUseSummaryReady:
        """Sum up a round of tools."""
        background = self._scenario.summary
        if background is None:
            return ToolUseSummaryReady(id=effect.id)
        await self._world.background(effect.id, background.duration_ms)
        return ToolUseSummaryReady(id=effect.id, text=background.text)


class ScriptedCompactor:
    """The summariser of a scenario."""

    def __init__(self, scenario: Scenario, world: World) -> None:
        self._scenario = scenario
        self._world = world

    async def compact(self, effect: Compact) -> CompactionFinished | CompactionFailed:
        """Give the next summary of a compaction."""
        if not effect.messages:
            return nothing_to_summarise(effect.id)
        number = self._world.count("compactions")
        await _wait_for(self._scenario.compactor, number)
        return compaction_answer(effect, self._scenario, number)

    async def collapse(self, effect: StageCollapse) -> CollapseStaged | CollapseFailed:
        """Give the next summary of a span."""
        number = self._world.count("collapses")
        with self._world.beside():
            await _wait_for(self._scenario.collapses, number)
        return collapse_answer(effect.id, self._scenario.collapses, number)


async def _wait_for(specs: tuple[SummarySpec, ...], number: int) -> None:
    if number < len(specs):
        spec = specs[number]
        if spec.word is SummaryWord.HANG:
            await anyio.sleep_forever()
        await _sleep(spec.duration_ms)


def scripted_deps(scenario: Scenario, recorder: Recorder | None = None, world: World | None = None) -> Deps:
    """Make all parts of the interpreter from one scenario; ``world`` is what they share, None for one of their own."""
    world = World() if world is None else world
    return Deps(
        model=ScriptedModel(scenario, world),
        tools=ScriptedTools(scenario, world),
        compactor=ScriptedCompactor(scenario, world),
        hooks=ScriptedHooks(scenario, world),
        providers=ScriptedProviders(scenario, world),
        recorder=recorder,
    )
