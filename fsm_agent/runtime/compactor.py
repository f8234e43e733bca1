"""The compactor: a model call of its own, without tools, that sums up older messages (spec 02, layer 5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing

import anyio
from anyio import to_thread
from attrs import field, frozen, mutable

from ..core.blocks import Block, block_text, dumps, text_block
from ..core.config import LoopConfig
from ..core.effects import CallModel, Compact, StageCollapse
from ..core.events import (
    BlockCompleted,
    CollapseFailed,
    CollapseStaged,
    CompactionFailed,
    CompactionFinished,
    StreamCompleted,
    StreamFailed,
)
from ..core.failures import TRANSIENT_KINDS, ErrorKind, ModelFailure
from ..core.messages import Message, MessageKind, message
from ..core.models import ModelInfo
from ..core.request.encode import wire_of
from ..core.tokens import estimate_text
from ..core.usage import ModelUsage, add_usage
from ..core.wire import CHAIN_START, Request
from .api_compact import compact_by_api
from .compact_ladder import MAX_TRIES, Input, next_room, pieces, shrink, whole
from .compact_text import (
    ASK,
    ASK_SPAN,
    FOLLOWS,
    SO_FAR,
    SUMMARY_SYSTEM,
    WISHES,
    clip,
    part,
    request_text,
    rounds_of,
    transcript,
)
from .error_table import failure
from .model_data import find_model
from .ports import Model
from .reattach import Reread, attach, room_for_files

MAX_RETRIES = 2
"""Transient failures that one compaction survives."""
MAX_WAIT_MS = 10_000
"""Longer waits asked by the server make the compaction fail: the loop decides what to do without it."""
_FIRST_WAIT_MS = 500
_LEAST_SUMMARY = 1_000
_MOST_SUMMARY = 6_000
"""Bounds of a summary in tokens."""
_THINKING_ROOM = 8_000
"""Output tokens more where the summariser cannot be told not to think."""
_REQUEST_TOKENS = 1_000
"""What is shown of the request that is being worked on."""

Sleep = Callable[[float], Awaitable[None]]


@frozen
class Reply:
    """What a summariser answered."""

    blocks: tuple[Block, ...]
    stop_reason: str | None

    @property
    def text(self) -> str:
        """Its text."""
        return "\n".join(words for block in self.blocks if (words := block_text(block).strip()))

    @property
    def usable(self) -> bool:
        """It ended by itself and says something."""
        return self.stop_reason in ("end_turn", "stop_sequence") and bool(self.text)


@frozen
class _Job:
    """One summary to be written: with which model, around which words."""

    id: str
    info: ModelInfo
    window: int
    target: int
    ask: str
    notes: tuple[str, ...]
    thinks: bool

    @property
    def limit(self) -> int:
        """Tokens that the summary may have."""
        return max(_LEAST_SUMMARY, min(self.target, _MOST_SUMMARY))

    @property
    def max_tokens(self) -> int:
        """Output limit of the call."""
        wanted = self.limit + self.limit // 4 + (_THINKING_ROOM if self.thinks else 0)
        return max(1, min(wanted, self.info.max_output, self.window // 3))

    @property
    def words(self) -> str:
        """What is asked of the summariser."""
        return self.ask.format(words=self.limit * 3 // 5)

    @property
    def room(self) -> int:
        """Tokens of transcript that should fit."""
        around = estimate_text(SUMMARY_SYSTEM) + sum(map(estimate_text, self.notes)) + estimate_text(self.words)
        return max(1, self.window - self.max_tokens - around - self.window // 20)


@mutable
class _Spent:
    """What one compaction has used up."""

    usage: tuple[ModelUsage, ...] = ()
    calls: int = 0
    retries: int = 0
    longer: bool = field(default=False)


class ModelCompactor:
    """Implements :class:`~fsm_agent.runtime.ports.Compactor` over a model.

    Args:
        model: performs the calls.
        config: settings of the run: capabilities and window of the models.
        summariser: the model that writes summaries; None for the one in use.
        sleep: waits between attempts, in seconds.
        files: gives the files that are shown again behind the summary; None shows none.
    """

    def __init__(
        self,
        model: Model,
        config: LoopConfig,
        *,
        summariser: str | None = None,
        sleep: Sleep = anyio.sleep,
        files: Reread | None = None,
    ) -> None:
        self._model = model
        self._config = config
        self._summariser = summariser
        self._sleep = sleep
        self._files = files

    def using(self, model: Model, config: LoopConfig) -> ModelCompactor:
        """Give the same compactor for another run: with its model and its configuration."""
        return ModelCompactor(model, config, summariser=self._summariser, sleep=self._sleep)

    async def compact(self, effect: Compact) -> CompactionFinished | CompactionFailed:
        """Sum up ``effect.messages``: by the API itself where it can, unless another model is to write the summary.

        Returns:
            The blocks and stop reason as received, which the core judges; or why there is no reply. Files in use are
            attached within the room that the compaction makes. With nothing to sum up there is no summary and no call:
            the core then only drops refused media from what it keeps.
        """
        if not effect.messages:
            return CompactionFinished(id=effect.id, summary=())
        spent = _Spent()
        if effect.prefix is not None and self._summariser in (None, effect.model):
            asked = await compact_by_api(self._model, effect, effect.prefix, self._sleep)
            spent.usage = asked.usage
            if asked.block is not None:
                return await self._finished(effect, Reply(blocks=(asked.block,), stop_reason="compaction"), spent)
        return await self._own_summary(effect, spent)

    async def _finished(self, effect: Compact, reply: Reply, spent: _Spent) -> CompactionFinished:
        attachments: tuple[Message, ...] = ()
        dropped: tuple[str, ...] = ()
        if self._files is not None:
            size = sum(block.tokens for block in reply.blocks)
            room = room_for_files(effect.messages, effect.tail, size, self._config, effect.model)
            files = await to_thread.run_sync(self._files, effect.messages, effect.tail)
            attachments, dropped = attach(effect.id, files, room)
        return CompactionFinished(
            id=effect.id,
            summary=reply.blocks,
            stop_reason=reply.stop_reason,
            attachments=attachments,
            dropped=dropped,
            summarised=len(effect.messages),
            usage=spent.usage,
        )

    async def _own_summary(self, effect: Compact, spent: _Spent) -> CompactionFinished | CompactionFailed:
        notes: list[str] = []
        if request := request_text(effect.tail):
            notes.append(FOLLOWS.format(request=clip(part("", request), _REQUEST_TOKENS).text))
        if effect.instructions.strip():
            notes.append(WISHES.format(instructions=effect.instructions.strip()))
        job = self._job(effect.id, effect.model, effect.target, ASK, tuple(notes))
        room = job.room
        if effect.over_tokens:
            # The refused prompt held these messages and the tail: less than that by the gap is what fits.
            held = sum(item.tokens for item in (*effect.messages, *effect.tail))
            room = max(1, min(room, held - effect.over_tokens))
        reply = await self._climb(job, effect.messages, room, spent)
        if isinstance(reply, ModelFailure):
            return CompactionFailed(id=effect.id, failure=reply, usage=spent.usage)
        return await self._finished(effect, reply, spent)

    async def collapse(self, effect: StageCollapse) -> CollapseStaged | CollapseFailed:
        """Sum up one span; a reply that is cut, refused or says nothing is a failure."""
        spent = _Spent()
        size = sum(item.tokens for item in effect.messages)
        job = self._job(effect.id, effect.model, size // 4, ASK_SPAN, ())
        reply = await self._climb(job, effect.messages, job.room, spent)
        if isinstance(reply, Reply) and not reply.usable:
            reply = failure(ErrorKind.INVALID_REQUEST, f"the summariser gave no usable summary ({reply.stop_reason})")
        if isinstance(reply, ModelFailure):
            return CollapseFailed(id=effect.id, failure=reply, usage=spent.usage)
        return CollapseStaged(id=effect.id, summary=text_block(reply.text), usage=spent.usage)

    def _job(self, identity: str, model: str, target: int, ask: str, notes: tuple[str, ...]) -> _Job:
        name = self._summariser or model
        info = self._config.info(name)
        info = info if info.known else find_model(name)
        own = self._config.context.context_window
        window = info.context_window if own is None else min(own, info.context_window)
        thinks = info.thinking_default and not {"disabled", "between_tools"} & set(info.thinking)
        return _Job(id=identity, info=info, window=window, target=target, ask=ask, notes=notes, thinks=thinks)

    async def _climb(self, job: _Job, messages: Sequence[Message], room: int, spent: _Spent) -> Reply | ModelFailure:
        """Try ever smaller inputs until one is taken (field report 4)."""
        rounds = rounds_of(messages)
        if not rounds:
            return failure(ErrorKind.INVALID_REQUEST, "there is nothing to sum up")
        tried = whole(rounds, room)
        for attempt in range(1, MAX_TRIES):
            reply = await self._write(job, transcript(tried.rounds), job.notes, spent)
            if not isinstance(reply, ModelFailure) or reply.kind is not ErrorKind.PROMPT_TOO_LONG:
                return reply
            smaller = next_room(tried.tokens, reply.over_tokens, attempt)
            shrunk = shrink(rounds, smaller)
            if attempt < MAX_TRIES - 1 and shrunk.tokens < tried.tokens:
                tried = shrunk
                continue
            room = max(1, smaller // 3)
            parts = pieces(rounds, room)
            if max(item.tokens for item in parts) >= tried.tokens:
                return reply  # Nothing is left to leave out.
            return await self._by_pieces(job, parts, room, spent)
        raise AssertionError("the last try returns")  # pragma: no cover

    async def _by_pieces(self, job: _Job, parts: Sequence[Input], room: int, spent: _Spent) -> Reply | ModelFailure:
        """Sum up one piece after the other, each together with the summary of those before it."""
        so_far = ""
        reply: Reply | ModelFailure = failure(ErrorKind.INVALID_REQUEST, "there is nothing to sum up")
        for item in parts:
            before = (SO_FAR.format(summary=clip(part("", so_far), max(room, 200)).text),) if so_far else ()
            reply = await self._write(job, transcript(item.rounds), (*before, *job.notes), spent)
            if isinstance(reply, ModelFailure) or not reply.usable:
                return reply
            so_far = reply.text
        return reply

    async def _write(self, job: _Job, text: str, notes: Sequence[str], spent: _Spent) -> Reply | ModelFailure:
        """Ask for one summary; transient failures and a first unusable reply are tried again."""
        again = True
        while True:
            spent.calls += 1
            answer = await self._call(job, text, notes, spent)
            if isinstance(answer, ModelFailure):
                if not await self._may_retry(answer, spent):
                    return answer
            elif answer.usable or answer.stop_reason == "refusal" or not again:
                return answer
            else:
                again = False
                spent.longer = answer.stop_reason == "max_tokens"

    async def _may_retry(self, problem: ModelFailure, spent: _Spent) -> bool:
        if problem.kind not in TRANSIENT_KINDS or spent.retries >= MAX_RETRIES:
            return False
        wait = problem.retry_after_ms if problem.retry_after_ms is not None else _FIRST_WAIT_MS << spent.retries
        if wait > MAX_WAIT_MS:
            return False
        spent.retries += 1
        await self._sleep(wait / 1_000)
        return True

    async def _call(self, job: _Job, text: str, notes: Sequence[str], spent: _Spent) -> Reply | ModelFailure:
        call = CallModel(id=f"{job.id}/summary-{spent.calls}", request=_request(job, text, notes, longer=spent.longer))
        blocks: list[Block] = []
        answer: Reply | ModelFailure = failure(ErrorKind.ENGINE_ERROR, "the model call ended without an answer")
        async with aclosing(self._model.stream(call)) as items:
            async for item in items:
                match item:
                    case BlockCompleted():
                        blocks.append(item.block)
                    case StreamCompleted():
                        spent.usage = add_usage(spent.usage, item.usage)
                        answer = Reply(blocks=tuple(blocks), stop_reason=item.stop_reason)
                    case StreamFailed():
                        spent.usage = add_usage(spent.usage, item.usage)
                        answer = item.failure
                    case _:
                        pass
        return answer


def _request(job: _Job, text: str, notes: Sequence[str], *, longer: bool) -> Request:
    """Make the request: a system prompt, no tools, and one user message that ends with what is asked."""
    blocks = tuple(text_block(words) for words in (f"Transcript:\n\n{text}", *notes, job.words))
    asked = message(f"{job.id}/ask", "user", MessageKind.META, blocks)
    limit = min(job.max_tokens * 2, job.info.max_output, job.window // 3) if longer else job.max_tokens
    head = f'{{"model":{dumps(job.info.name)},"max_tokens":{limit},"stream":true,"system":{dumps(SUMMARY_SYSTEM)}'
    if job.info.thinking_default and not job.thinks:
        head += ',"thinking":{"type":"%s"}' % ("disabled" if "disabled" in job.info.thinking else "between_tools")
    return Request(
        model=job.info.name,
        max_tokens=limit,
        head=(head + "}").encode(),
        messages=(wire_of(asked, CHAIN_START),),
        estimate=asked.tokens + estimate_text(SUMMARY_SYSTEM),
    )
