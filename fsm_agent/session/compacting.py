"""Compaction by hand between runs: the compactor is called, no other model, and nothing starts (spec 03; field report 18)."""

from __future__ import annotations

from attrs import evolve, frozen

from ..core.config import LoopConfig
from ..core.context.compact import after_compaction, apply, plan, valid
from ..core.control import AutoCompactTracking
from ..core.effects import Compact
from ..core.events import CompactionFailed, CompactionFinished
from ..core.outputs import Boundary
from ..core.phases import CompactKind
from ..core.state import LoopState, call_ids
from ..core.usage import ModelUsage, add_usage
from ..runtime.faults import describe
from ..runtime.ports import Compactor


@frozen
class ByHand:
    """What a compaction by hand came to.

    Attributes:
        state: the conversation after it; the same messages if it failed.
        boundary: what was cut, None if nothing was.
        problem: why nothing was cut, empty if something was.
        usage: what the compactor used.
    """

    state: LoopState
    boundary: Boundary | None = None
    problem: str = ""
    usage: tuple[ModelUsage, ...] = ()


async def compact_by_hand(
    state: LoopState, config: LoopConfig, compactor: Compactor, *, key: str, model: str, instructions: str = ""
) -> ByHand:
    """Compact a conversation at rest. All or nothing: an interruption leaves it as it was.

    Args:
        state: at rest: from ``initial`` or ``next_run``.
        config: the agent's.
        compactor: writes the summary.
        key: unique prefix for ids.
        model: the model in use.
        instructions: the user's wishes for the summary.
    """
    view = state.messages
    cut = plan(view, config, model)
    if not cut.messages:
        return ByHand(state, problem="there is nothing to compact: the newest request and the last rounds are always kept")
    before = sum(item.tokens for item in view)
    effect = Compact(
        id=f"{key}/compact-1",
        kind=CompactKind.MANUAL,
        messages=cut.messages,
        tail=cut.tail,
        model=model,
        target=max(1, before // 2),
        instructions=instructions,
    )
    try:
        answer: CompactionFinished | CompactionFailed = await compactor.compact(effect)
    except Exception as error:
        return ByHand(state, problem=f"the compactor failed: {describe(error)}")
    charged = _charged(state, answer.usage)
    if isinstance(answer, CompactionFailed):
        why = answer.failure.message or answer.failure.kind.value
        return ByHand(charged, problem=f"the compaction failed ({why}); the history stays as it was", usage=answer.usage)
    refused = valid(answer, cut.replacing)
    if refused:
        return ByHand(charged, problem=f"{refused}; the history stays as it was", usage=answer.usage)
    done = apply(view, config, answer, CompactKind.MANUAL, f"{key}/compact", model=model)
    facts = evolve(charged.control.context, tracking=AutoCompactTracking(compacted=True), staged=0)
    queue = evolve(charged.control.queue, compact=False)
    compacted = LoopState(
        control=evolve(charged.control, context=facts, queue=queue),
        data=evolve(
            charged.data,
            messages=done.messages,
            context=after_compaction(charged.data.context, config, model, done.after),
            call_ids=call_ids(done.messages),
        ),
    )
    detail = f"left out for want of room: {', '.join(done.dropped)}" if done.dropped else ""
    boundary = Boundary(kind="compact", trigger="manual", before=done.before, after=done.after, detail=detail)
    return ByHand(compacted, boundary, usage=answer.usage)


def _charged(state: LoopState, usage: tuple[ModelUsage, ...]) -> LoopState:
    """Put what was used on the session's account."""
    return LoopState(control=state.control, data=evolve(state.data, session_usage=add_usage(state.data.session_usage, usage)))
