"""Sources of context beside the conversation: attachments, prefetch, summaries. Each is a callable; none can end a run."""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import anyio
import anyio.lowlevel
from attrs import field, frozen

from ..core.blocks import text_block
from ..core.effects import GatherAttachments, PrefetchKind, StartPrefetch, SummarizeToolUse
from ..core.events import AttachmentsGathered, PrefetchFinished, ToolUseSummaryReady
from ..core.messages import Message, MessageKind, message
from ..core.usage import ModelUsage
from .threads import run_on_thread
from .tools.body import failure_text

Pieces = str | Message | Sequence["str | Message"] | None
"""What a provider gives: texts or messages, or nothing."""

DEFAULT_TIMEOUT = 10.0


@frozen
class Provider:
    """One source.

    Attributes:
        name: how warnings name it.
        call: takes the effect; sync (run in a thread) or async.
        timeout: seconds.
    """

    name: str
    call: Callable[[Any], Any | Awaitable[Any]] = field(eq=False)
    timeout: float = DEFAULT_TIMEOUT


class ProviderSet:
    """The providers of a session. Implements ``runtime.ports.Providers``.

    Attributes:
        warnings: what went wrong with providers whose answer has no place for it, in order.
    """

    def __init__(
        self,
        *,
        attachments: Iterable[Provider] = (),
        memory: Iterable[Provider] = (),
        skills: Iterable[Provider] = (),
        summary: Provider | None = None,
    ) -> None:
        """Take the providers.

        Args:
            attachments: take ``GatherAttachments``, give ``Pieces``.
            memory: take ``StartPrefetch``, give ``Pieces``.
            skills: take ``StartPrefetch``, give ``Pieces``.
            summary: takes ``SummarizeToolUse``, gives a text, or a text and its usage.
        """
        self._attachments = tuple(attachments)
        self._prefetch = {PrefetchKind.MEMORY: tuple(memory), PrefetchKind.SKILLS: tuple(skills)}
        self._summary = summary
        self.warnings: list[str] = []

    @property
    def has_attachments(self) -> bool:
        """True if there is an attachment provider."""
        return bool(self._attachments)

    def prefetches(self, kind: PrefetchKind) -> bool:
        """True if there is a prefetch of this kind."""
        return bool(self._prefetch[kind])

    @property
    def summarizes(self) -> bool:
        """True if rounds of tools are summed up."""
        return self._summary is not None

    async def attachments(self, effect: GatherAttachments) -> AttachmentsGathered:
        """Ask all attachment providers side by side; the order is that of configuration."""
        messages, warnings = await self._all(self._attachments, effect, effect.id)
        return AttachmentsGathered(id=effect.id, messages=messages, warnings=warnings)

    async def prefetch(self, effect: StartPrefetch) -> PrefetchFinished:
        """Ask the prefetch providers of one kind."""
        messages, warnings = await self._all(self._prefetch[effect.kind], effect, effect.id)
        self.warnings += warnings
        return PrefetchFinished(id=effect.id, messages=messages)

    async def summarize(self, effect: SummarizeToolUse) -> ToolUseSummaryReady:
        """Ask for a summary; a failure is an empty one."""
        if self._summary is None:
            return ToolUseSummaryReady(id=effect.id)
        value, problem = await _ask(self._summary, effect)
        usage: tuple[ModelUsage, ...] = ()
        if isinstance(value, tuple) and len(value) == 2:
            value, usage = value[0], tuple(value[1])
        if not problem and not isinstance(value, str | None):
            problem = f"it gave {type(value).__name__}, not a text"
        if problem:
            self.warnings.append(f"{self._summary.name}: {problem}")
            return ToolUseSummaryReady(id=effect.id, usage=usage)
        return ToolUseSummaryReady(id=effect.id, text=value or "", usage=usage)

    async def _all(
        self, providers: tuple[Provider, ...], effect: Any, prefix: str
    ) -> tuple[tuple[Message, ...], tuple[str, ...]]:
        found: dict[int, tuple[Any, str]] = {}

        async def one(index: int, provider: Provider) -> None:
            found[index] = await _ask(provider, effect)

        async with anyio.create_task_group() as group:
            for index, provider in enumerate(providers):
                group.start_soon(one, index, provider)
        messages: list[Message] = []
        warnings: list[str] = []
        for index, provider in enumerate(providers):
            value, problem = found[index]
            try:
                messages += _messages(value, prefix, len(messages))
            except TypeError as bad:
                problem = str(bad)
            if problem:
                warnings.append(f"{provider.name}: {problem}")
        return tuple(messages), tuple(warnings)


def _messages(value: Any, prefix: str, start: int) -> list[Message]:
    if value is None:
        return []
    made: list[Message] = []
    for piece in [value] if isinstance(value, str | Message) else value:
        if isinstance(piece, Message):
            made.append(piece)
        elif isinstance(piece, str):
            if piece.strip():
                # Ids come from the effect, so that a replay makes the same ones.
                name = f"{prefix}/{start + len(made)}"
                made.append(message(name, "user", MessageKind.ATTACHMENT, (text_block(piece),)))
        else:
            raise TypeError(f"it gave {type(piece).__name__}, not texts or messages")
    return made


async def _ask(provider: Provider, effect: Any) -> tuple[Any, str]:
    """Call one provider within its timeout; gives its value, or what went wrong."""
    outcome: list[tuple[Any, str]] = []
    with anyio.move_on_after(provider.timeout) as limit:
        async with anyio.create_task_group() as group:
            group.start_soon(_call, provider, effect, outcome)
    if outcome:
        return outcome[0]
    return None, f"timed out after {provider.timeout:g} s" if limit.cancelled_caught else "it cancelled itself"


async def _call(provider: Provider, effect: Any, outcome: list[tuple[Any, str]]) -> None:
    try:
        if inspect.iscoroutinefunction(provider.call):
            outcome.append((await provider.call(effect), ""))
            return
        value = await run_on_thread(provider.call, effect)
        outcome.append((await value if inspect.isawaitable(value) else value, ""))
    except BaseException as problem:
        if isinstance(problem, GeneratorExit):
            raise
        if isinstance(problem, anyio.get_cancelled_exc_class()) and anyio.current_effective_deadline() == -math.inf:
            raise
        await anyio.lowlevel.checkpoint_if_cancelled()
        outcome.append((None, failure_text(problem)))
