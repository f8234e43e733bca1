"""What the interpreter needs from outside, as protocols. Each part can be replaced; none of them holds policy of the loop."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from attrs import frozen

from ..core.config import LoopConfig, ToolSchema
from ..core.effects import (
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
from ..core.events import (
    AttachmentsGathered,
    BlockCompleted,
    CollapseFailed,
    CollapseStaged,
    CompactionFailed,
    CompactionFinished,
    Event,
    PrefetchFinished,
    StopHooksFinished,
    StreamCompleted,
    StreamFailed,
    StreamStarted,
    ToolFinished,
    ToolTraits,
    ToolUseSummaryReady,
)
from ..core.outputs import RawStreamEvent, TextDelta, ThinkingDelta
from ..core.state import LoopState, Step

ModelItem = StreamStarted | BlockCompleted | StreamCompleted | StreamFailed | TextDelta | ThinkingDelta | RawStreamEvent
"""What a model call yields: events for the core, deltas for the consumer. The last item is a completed or failed stream."""


class Model(Protocol):
    """Performs model calls."""

    def stream(self, effect: CallModel) -> AsyncGenerator[ModelItem, None]:
        """Perform one attempt; never raises for a failure of the call. Cancellation closes the connection."""
        ...


class Compactor(Protocol):
    """Summarises older messages, with a bounded ladder of its own."""

    async def compact(self, effect: Compact) -> CompactionFinished | CompactionFailed:
        """Summarise ``effect.messages``."""
        ...

    async def collapse(self, effect: StageCollapse) -> CollapseStaged | CollapseFailed:
        """Summarise one span."""
        ...


@frozen
class ToolPorts:
    """How a running tool talks back.

    Attributes:
        started: call it with the SHA-256 of the final input right before the body runs; it returns once the
            record is durable, True if the core accepted it, False if the call was cancelled meanwhile.
        progress: call it with the text since the last call.
    """

    started: Callable[[str], Awaitable[bool]]
    progress: Callable[[str], Awaitable[None]]


class ToolRunner(Protocol):
    """Runs tools through the whole pipeline: hooks, permission, limits."""

    def schemas(self) -> tuple[ToolSchema, ...]:
        """Definitions for the model, in a fixed order."""
        ...

    def traits(self, name: str, input_json: str | None) -> ToolTraits:
        """What the tool says of this call; an unknown tool is ``known=False``. Never raises."""
        ...

    async def run(self, effect: RunTool, ports: ToolPorts) -> ToolFinished:
        """Run one call; every outcome is a result for the model, never an exception (but cancellation)."""
        ...


@runtime_checkable
class LongLived(Protocol):
    """What a tool runner may do besides: go on with calls whose work outlives the engine (sub-agents have logs)."""

    def goes_on(self, effect: RunTool, log: Path) -> bool:
        """Say whether a call that had begun when the engine died can be gone on with, in the run of ``log``."""
        ...

    async def go_on(self, effect: RunTool, ports: ToolPorts) -> ToolFinished:
        """Go on with such a call, to its end; its start is recorded, ``ports.started`` is not called."""
        ...


class Hooks(Protocol):
    """Hooks of the loop itself (the tool hooks belong to the tool runner)."""

    async def stop(self, effect: RunStopHooks) -> StopHooksFinished:
        """Run the stop hooks. A hook that crashes or times out is a warning, not a block."""
        ...

    async def post_sampling(self, effect: RunPostSamplingHooks) -> None:
        """Run the hooks that look at a kept reply; nothing waits for their answer but the end of the run."""
        ...


class Providers(Protocol):
    """Sources of context beside the conversation."""

    async def attachments(self, effect: GatherAttachments) -> AttachmentsGathered:
        """Gather what is to be injected after this round."""
        ...

    async def prefetch(self, effect: StartPrefetch) -> PrefetchFinished:
        """Fetch memory or skills."""
        ...

    async def summarize(self, effect: SummarizeToolUse) -> ToolUseSummaryReady:
        """Sum up a round of tools."""
        ...


class Recorder(Protocol):
    """The write-ahead log of one run."""

    def append(self, event: Event, step: Step, *, sync: bool) -> None:
        """Append one record; with ``sync`` it is on disk when the call returns.

        Raises:
            OSError: if it could not be written; the run then stops loudly.
        """
        ...

    def close(self, state: LoopState) -> None:
        """Write the closing record, if the run ended, and release the file."""
        ...


class RunWatcher(Protocol):
    """Looks on while one run is on; it changes nothing."""

    def step(self, event: Event, step: Step) -> None:
        """Take a recorded step, in the run's own task and before its effects are performed."""
        ...

    def abandon(self) -> None:
        """The run is over; called always, after its last step."""
        ...


class Observer(Protocol):
    """Makes what looks on, one for each run (traces)."""

    def watch(self, config: LoopConfig) -> RunWatcher:
        """Make the watcher of a run that is about to start, in the run's own task."""
        ...


class Telemetry(Observer, Protocol):
    """Looks on at all of an agent: runs, model calls and tools."""

    @property
    def middleware(self) -> tuple[Any, ...]:
        """What the SDK is to run around each request."""
        ...

    def model(self, inner: Model) -> Model:
        """Wrap what performs model calls."""
        ...

    def tool(self, effect: RunTool) -> AbstractContextManager[Callable[[ToolFinished], None]]:
        """Make what is entered around one call and takes its result."""
        ...


@frozen
class Deps:
    """All that the interpreter uses. ``None`` parts are absent: the config must not ask for them."""

    model: Model
    tools: ToolRunner
    compactor: Compactor | None = None
    hooks: Hooks | None = None
    providers: Providers | None = None
    recorder: Recorder | None = None
    observer: Observer | None = None
