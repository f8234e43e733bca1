"""Which calls may run now (spec 01, section 11). Policy only: starting them is an effect."""

from __future__ import annotations

from collections.abc import Sequence

from .config import EarlyStart, LoopConfig
from .control import EXECUTING, QUEUED, ToolCall


def may_start_early(call: ToolCall, config: LoopConfig) -> bool:
    """A whole call that the settings let run while the model still streams."""
    if not call.whole or call.last or not call.traits.known:
        return False
    match config.early_start:
        case EarlyStart.READ_ONLY:
            return call.traits.read_only and call.traits.concurrency_safe
        case EarlyStart.CONCURRENCY_SAFE:
            return call.traits.concurrency_safe
        case EarlyStart.ANY:
            return True
        case EarlyStart.NEVER:
            return False


def startable(calls: Sequence[ToolCall], after_stream: bool, config: LoopConfig) -> tuple[int, ...]:
    """Give positions of the calls that may start now, in order.

    A call starts when nothing executes, or when it and all that execute are concurrency-safe; else it and all
    behind it wait. While the model streams, the first call that may not start early ends early starts.
    """
    executing = 0
    all_safe = True
    for call in calls:
        if call.state is EXECUTING:
            executing += 1
            all_safe = all_safe and call.traits.concurrency_safe
    chosen: list[int] = []
    for position, call in enumerate(calls):
        if call.state is not QUEUED:
            continue
        if not after_stream and not may_start_early(call, config):
            break
        safe = call.traits.concurrency_safe
        if executing and not (safe and all_safe):
            break
        if executing >= config.tool_concurrency:
            break
        chosen.append(position)
        executing += 1
        all_safe = all_safe and safe
    return tuple(chosen)
