"""What is kept of a reply: which blocks, in which form, and what the consumer hears of it (spec 01, sections 7, 10, 13)."""

from __future__ import annotations

from ..context.usage import with_usage
from ..control import YIELDED, Control
from ..effects import Effect, Emit, RunPostSamplingHooks
from ..events import Event, StreamCompleted
from ..evolving import evolve
from ..messages import MessageKind, message
from ..outputs import AssistantOutput, CallEnd, Ending, Tombstone
from ..request.pairing import has_open_server_calls
from ..state import LoopState
from .stream import block_id, empty_call
from .tools import Round, result_id


def closed(state: LoopState) -> tuple[int, ...]:
    """Give the positions of all blocks that the stream closed."""
    iteration = state.data.iteration
    everything = range(len(iteration.blocks))
    if not iteration.unclosed:
        return tuple(everything)
    return tuple([position for position in everything if position not in iteration.unclosed])


def without_calls(state: LoopState) -> tuple[int, ...]:
    """Give the positions of text, closed thinking and whole server work: what a cut reply may be continued from."""
    iteration = state.data.iteration
    answered = {block.id for block in iteration.blocks if block.type.endswith("_tool_result")}
    chosen = []
    for position, block in enumerate(iteration.blocks):
        if block.type == "tool_use" or (block.type.endswith("tool_use") and block.id not in answered):
            continue
        if position in iteration.unclosed and block.type != "text":
            continue
        chosen.append(position)
    return tuple(chosen)


def last_started(control: Control) -> int:
    """Give the block position of the last call that has begun, -1 if none has."""
    return max((call.index for call in control.tools.calls if call.started), default=-1)


def keep(state: LoopState, positions: tuple[int, ...], event: Event) -> tuple[LoopState, tuple[Effect, ...]]:
    """Keep blocks as the reply: :func:`kept_round` as a state."""
    rounds, effects = kept_round(state, positions, event)
    return rounds.built(), effects


def kept_round(state: LoopState, positions: tuple[int, ...], event: Event) -> tuple[Round, tuple[Effect, ...]]:
    """Keep the blocks at ``positions`` as the reply, without trailing thinking; the rest gets its tombstones.

    Calls whose block is not kept are dropped from the records; what of them is in flight must be cancelled by the
    caller. With nothing to keep the reply stays None, and the consumer hears that the call was discarded. A kept reply that
    ended by itself is the base of later counts: its usage, which ``event`` brings, is that of the whole view before it.
    """
    control, iteration = state.control, state.data.iteration
    chosen = list(positions)
    while chosen and (iteration.blocks[chosen[-1]].is_thinking or iteration.blocks[chosen[-1]].blank):
        chosen.pop()
    kept = frozenset(chosen)
    call_id = control.call.id
    gone = [block_id(call_id, position) for position in range(len(iteration.blocks)) if position not in kept]
    calls, records = [], []
    stored = {}
    for call, record in zip(control.tools.calls, iteration.calls, strict=True):
        if call.index not in kept:
            if call.state is YIELDED:
                gone.append(result_id(call_id, call.index))
            continue
        calls.append(call)
        records.append(record)
        if not call.whole:
            stored[call.index] = empty_call(call, record.use)
    rounds = Round(state)
    effects: tuple[Effect, ...] = (Emit(output=Tombstone(ids=tuple(gone))),) if gone else ()
    reply = None
    if chosen:
        blocks = tuple([stored.get(position, iteration.blocks[position]) for position in chosen])
        reply = message(call_id, "assistant", MessageKind.ASSISTANT, blocks, model=control.tool_use_context.model)
        effects += (Emit(AssistantOutput(reply)), Emit(CallEnd(call_id, Ending.KEPT)), RunPostSamplingHooks(reply))
        if has_open_server_calls((reply,)):
            rounds.context = evolve(rounds.context, open_server_calls=True)
        if isinstance(event, StreamCompleted):
            rounds.context = with_usage(rounds.context, reply.model, reply.id, event.context_tokens)
        if rounds.guards.empty_retried or rounds.guards.malformed:
            rounds.guards = evolve(rounds.guards, empty_retried=False, malformed=0)
    else:
        effects += (Emit(output=CallEnd(call=call_id, ending=Ending.DISCARDED)),)
    rounds.calls, rounds.data, rounds.reply = calls, records, reply
    rounds.yielded = len([call for call in calls if call.state is YIELDED])
    return rounds, effects
