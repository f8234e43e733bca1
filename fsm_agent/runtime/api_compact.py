"""Compaction by the API itself, on demand (api-facts A9(3)): one request, one signed block.

What the API cannot or will not compact is left to our own summariser, so every failure here has a way on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing

from attrs import frozen

from ..core.blocks import Block
from ..core.context.api_block import own_block
from ..core.effects import CallModel, Compact
from ..core.events import BlockCompleted, StreamCompleted, StreamFailed
from ..core.failures import TRANSIENT_KINDS, ErrorKind, ModelFailure
from ..core.usage import ModelUsage, add_usage
from ..core.wire import Request
from .error_table import failure
from .ports import Model

MAX_RETRIES = 2
"""Transient failures that are tried again, ``compaction_unavailable`` among them."""
MAX_WAIT_MS = 10_000
_FIRST_WAIT_MS = 500
_STOP = "compaction"

Sleep = Callable[[float], Awaitable[None]]


@frozen
class Answer:
    """What came of asking the API.

    Attributes:
        block: the compaction block as it came; None if there is none that can be used.
        usage: what all attempts used.
        problem: why there is no block.
    """

    block: Block | None
    usage: tuple[ModelUsage, ...] = ()
    problem: ModelFailure | None = None


async def compact_by_api(model: Model, effect: Compact, request: Request, sleep: Sleep) -> Answer:
    """Ask the API to compact what stands before the protected tail.

    Args:
        model: performs the calls.
        effect: the compaction.
        request: its prefix, ready to be sent.
        sleep: waits between attempts, in seconds.

    Returns:
        The block, or why there is none. A block whose summary failed (content null) is none.
    """
    usage: tuple[ModelUsage, ...] = ()
    retries = 0
    while True:
        found = await _ask(model, CallModel(id=f"{effect.id}/api-{retries + 1}", request=request))
        usage = add_usage(usage, found.usage)
        problem = found.problem
        if problem is None or problem.kind not in TRANSIENT_KINDS or retries == MAX_RETRIES:
            return Answer(found.block, usage, problem)
        wait = problem.retry_after_ms if problem.retry_after_ms is not None else _FIRST_WAIT_MS << retries
        if wait > MAX_WAIT_MS:
            return Answer(None, usage, problem)
        retries += 1
        await sleep(wait / 1_000)


async def _ask(model: Model, call: CallModel) -> Answer:
    blocks: list[Block] = []
    answer = Answer(None, problem=failure(ErrorKind.ENGINE_ERROR, "the model call ended without an answer"))
    async with aclosing(model.stream(call)) as items:
        async for item in items:
            match item:
                case BlockCompleted():
                    blocks.append(item.block)
                case StreamCompleted():
                    block = own_block(tuple(blocks)) if item.stop_reason == _STOP else None
                    words = f"the API's compaction gave no summary (stop reason {item.stop_reason})"
                    problem = None if block is not None else failure(ErrorKind.INVALID_REQUEST, words)
                    answer = Answer(block, item.usage, problem)
                case StreamFailed():
                    answer = Answer(None, item.usage, item.failure)
                case _:
                    pass
    return answer
