"""The reply as it comes: blocks, early starts, and its end (spec 01, sections 6, 7, 10, 11)."""

from __future__ import annotations

import json
import re

from .. import texts
from ..blocks import Block, read_block, tool_use
from ..config import LoopConfig
from ..context.microcompact import LAYER as MICROCOMPACT
from ..context.microcompact import applied
from ..context.report import LayerReport
from ..control import QUEUED, Call, Control, Fault, Run, ToolCall, Tools
from ..effects import Effect, Emit
from ..events import BlockCompleted, Event, StreamCompleted, StreamFailed, StreamStarted, ToolUse
from ..evolving import evolve
from ..failures import ErrorKind, ModelFailure
from ..guards.call import CUT_REASONS, WINDOW_EXCEEDED
from ..outputs import BlockOutput
from ..rebuild import with_answer, with_block, with_call, with_end, with_iteration, with_reply
from ..state import CallData, Iteration, LoopState
from ..usage import add_usage
from .common import Issuer, charge, charged, without
from .tools import Round

_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_NAME = re.compile(r"[^A-Za-z0-9_-]")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
PASSIVE = ("thinking", "redacted_thinking", "tool_use")
"""Types that alone do not make a reply usable: thinking says nothing, calls are judged on their own."""


def block_id(call_id: str, position: int) -> str:
    """Name an emitted block, for tombstones."""
    return f"{call_id}/{position}"


def stream_started(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """The reply begins; nothing is decided by it."""
    assert isinstance(event, StreamStarted)
    return state, ()


def block_completed(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Take a block into the reply, show it, and start its call if it may run while the model streams."""
    assert isinstance(event, BlockCompleted)
    if event.tool is not None and event.closed:
        return _call_completed(state, event, event.tool, config)
    control, data = state.control, state.data
    call, block = control.call, event.block
    iteration = data.iteration
    output_id = block_id(call.id, len(iteration.blocks))
    if not call.usable and block.type not in PASSIVE and not block.blank:
        control = with_call(control, Call(call.id, call.attempt, call.overloads, True, True, None, None, False))
    unclosed = iteration.unclosed if event.closed else (*iteration.unclosed, len(iteration.blocks))
    next_iteration = with_block(iteration, (*iteration.blocks, block), (*iteration.emitted, output_id), unclosed)
    output = BlockOutput(output_id, call.id, event.index, call.id, block)
    return (
        LoopState(control, with_iteration(data, next_iteration)),
        (Emit(output),),
    )


def _call_completed(
    state: LoopState, event: BlockCompleted, use: ToolUse, config: LoopConfig
) -> tuple[LoopState, tuple[Effect, ...]]:
    # No id is not one id.
    twice = bool(use.id) and use.id in [item.use.id for item in state.data.iteration.calls]
    stored, block, run = _stored(state, event.block, use, twice)
    control, data = state.control, state.data
    iteration = data.iteration
    output_id = block_id(control.call.id, len(iteration.blocks))
    whole = use.input_json is not None and not twice
    record = ToolCall(
        stored, len(iteration.blocks), QUEUED, effect="", started=False, whole=whole, last=event.last, outcome=None,
        traits=use.traits,
    )  # fmt: skip
    rounds = Round(state)
    rounds.blocks = (*iteration.blocks, block)
    rounds.calls.append(record)
    rounds.data.append(CallData(use))
    rounds.emitted = (*iteration.emitted, output_id)
    rounds.run = run
    rounds.effects.append(Emit(BlockOutput(output_id, control.call.id, event.index, control.call.id, block)))
    if rounds.failed:
        rounds.refuse(len(rounds.calls) - 1, texts.sibling_failed(rounds.failed))
    return rounds.done(config)


def _stored(state: LoopState, block: Block, use: ToolUse, twice: bool) -> tuple[str, Block, Run]:
    """Give the id and the block under which a call is stored: a bad, used or repeated id is replaced by one of ours.

    The run is given too, since an id of ours moves its counter on.
    """
    run = state.control.run
    name = use.name if _PLAIN_NAME.fullmatch(use.name) else _NAME.sub("_", use.name)[:64] or "unknown"
    fresh = twice or not _ID.fullmatch(use.id) or f"\n{use.id}\n" in state.data.call_ids
    if not fresh and name == use.name and block.id == use.id:
        return use.id, block, run
    issuer = Issuer(run)
    stored = issuer.new("use").replace("/", "_").replace(".", "_") if fresh else use.id
    if fresh and not _ID.fullmatch(stored):
        stored = _NAME.sub("_", stored)[-128:]
    value = json.loads(block.json)
    value["id"] = stored
    value["name"] = name
    return stored, read_block(value), issuer.run


def stream_completed(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """The reply is over: note how it ended, and which calls are whole now that it is known."""
    assert isinstance(event, StreamCompleted)
    control, data = state.control, state.data
    budget = charge(control.budget, event.usage, attempt=True)
    usage = add_usage(data.usage, event.usage)
    cut = event.stop_reason in CUT_REASONS
    calls = tuple([_decided(call, cut) for call in control.tools.calls])
    usable = control.call.usable and (cut or _closed_usable(data.iteration))
    fault = None
    failure = None
    if event.stop_reason == WINDOW_EXCEEDED and not usable and not any(call.whole for call in calls):
        fault = Fault(kind=ErrorKind.PROMPT_TOO_LONG)
        failure = ModelFailure(kind=ErrorKind.PROMPT_TOO_LONG, message="the context window was full before anything was said")
    call = Call(control.call.id, control.call.attempt, 0, False, usable, event.stop_reason, fault, event.unresolved)
    old = control.tools
    tools = Tools(calls, old.yielded, old.stopped, old.failed, old.after_stream)
    next_control = with_answer(control, call, tools, budget, without(control.flight, event.id))
    iteration = with_end(data.iteration, failure, event.stop_details)
    context, boundary = applied(data.context, event.cleared_tokens, control.context.tokens)
    effects: tuple[Effect, ...] = ()
    if boundary is not None:
        freed = boundary.before - boundary.after
        report = LayerReport(MICROCOMPACT, freed=freed, detail=f"cached: {boundary.detail}")
        iteration = evolve(iteration, reports=(*iteration.reports, report))
        effects = (Emit(output=boundary),)
    return LoopState(next_control, with_reply(data, iteration, context, usage)), effects


def _decided(call: ToolCall, cut: bool) -> ToolCall:
    """Say of a call whether it is whole, now that it is known how the reply ended."""
    whole = call.started or (call.whole and not (cut and call.last))
    return call if call.whole is whole else evolve(call, whole=whole)


def _closed_usable(iteration: Iteration) -> bool:
    """A block that was closed says something: only a cut reply may be continued from what was not closed."""
    for position, block in enumerate(iteration.blocks):
        if block.type not in PASSIVE and not block.blank and position not in iteration.unclosed:
            return True
    return False


def stream_failed(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """The attempt failed: note why. Nothing is shown yet, since a recovery may mend it (withholding)."""
    assert isinstance(event, StreamFailed)
    state = charged(state, event.usage, attempt=True)
    control, data = state.control, state.data
    overloaded = event.failure.kind is ErrorKind.OVERLOADED
    call = evolve(
        control.call,
        overloads=control.call.overloads + 1 if overloaded else 0,
        streaming=False,
        fault=Fault(kind=event.failure.kind, retry_after_ms=event.failure.retry_after_ms),
    )
    iteration = evolve(data.iteration, failure=event.failure)
    return (
        LoopState(
            control=evolve(control, call=call, flight=without(control.flight, event.id)),
            data=evolve(data, iteration=iteration),
        ),
        (),
    )


def empty_call(call: ToolCall, use: ToolUse) -> Block:
    """Give the block under which a call that is not whole is stored: its input is an empty object."""
    return tool_use(call.id, _NAME.sub("_", use.name)[:64] or "unknown", "{}")


def is_cut(control: Control) -> bool:
    """The reply in hand was cut by a limit."""
    return control.call.stop_reason in CUT_REASONS
