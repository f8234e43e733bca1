"""I12, I17: tool calls run alone where they must, once, in order, and are never forgotten."""

from __future__ import annotations

from ..core.config import LoopConfig
from ..core.control import CallState
from ..core.effects import EffectKind
from ..core.events import EffectLost
from ..core.phases import Phase
from ..core.state import LoopState
from .law import Edge, edge_law, state_law
from .rounds import early_allowed


@state_law("I12")
def unsafe_calls_run_alone(state: LoopState, config: LoopConfig) -> str:
    """Calls run at the same time only if all of them are concurrency-safe, and never more than the cap."""
    running = [call for call in state.control.tools.calls if call.state is CallState.EXECUTING]
    if len(running) > 1 and not all(call.traits.concurrency_safe for call in running):
        return f"{len(running)} calls run, and not all may"
    return "" if len(running) <= config.tool_concurrency else f"{len(running)} calls run at once"


@state_law("I12")
def call_records_agree(state: LoopState, config: LoopConfig) -> str:
    """A call executes exactly while its effect is in flight; results are emitted from the front; each has its data."""
    tools = state.control.tools
    flying = {item.id: item.call for item in state.control.flight if item.kind is EffectKind.TOOL}
    executing = {call.effect: call.id for call in tools.calls if call.state is CallState.EXECUTING}
    if flying != executing:
        return f"in flight {flying}, executing {executing}"
    for place, call in enumerate(tools.calls):
        if (call.state is CallState.YIELDED) != (place < tools.yielded):
            return f"call {place} is {call.state}, {tools.yielded} were emitted"
        done = call.state in (CallState.COMPLETED, CallState.YIELDED)
        record = state.data.iteration.calls[place]
        if done != (record.result is not None):
            return f"call {place} is {call.state}, and its result says otherwise"
        if record.result is not None and record.result.id != call.id:
            return f"the result of {call.id} answers {record.result.id}"
    ids = [call.id for call in tools.calls]
    if len(set(ids)) != len(ids):
        return f"two calls of a reply are stored under one id: {ids}"
    return "" if len(state.data.iteration.calls) == len(ids) else "calls and their data do not match"


@state_law("I12")
def round_waits_for_calls(state: LoopState, config: LoopConfig) -> str:
    """While tools run, something runs: no call waits for nothing."""
    tools = state.control.tools
    if state.control.phase is not Phase.RUNNING_TOOLS:
        return ""
    if not any(call.state is CallState.EXECUTING for call in tools.calls):
        return "no call executes"
    if any(call.state is CallState.QUEUED for call in tools.calls) and (tools.stopped or tools.failed):
        return "a call waits that will never run"
    return ""


@edge_law("I12")
def a_decision_runs_once(edge: Edge) -> str:
    """A call is run when it is whole and queued, and again only if a crash lost it before it began."""
    before = {call.id: call for call in edge.old.tools.calls}
    same = edge.old.call.id == edge.new.call.id
    after = {call.id: call for call in edge.new.tools.calls}
    seen: set[str] = set()
    for effect in edge.tools:
        call = before.get(effect.tool_use_id) if same else None
        if effect.tool_use_id in seen:
            return f"{effect.tool_use_id} was run twice in one step"
        seen.add(effect.tool_use_id)
        if call is not None:
            lost = isinstance(edge.event, EffectLost) and call.effect == edge.event.id
            if call.started or call.outcome is not None or (call.effect and not lost):
                return f"{call.id} was run again"
        now = after.get(effect.tool_use_id, call)
        if now is None or not now.whole:
            return f"{effect.tool_use_id} was run though it is not whole"
        if edge.new.tools.stopped or edge.new.tools.failed:
            return "a call was run after a stop or a cancelling failure"
        if not edge.new.tools.after_stream and not early_allowed(now, edge.config):
            return f"{effect.tool_use_id} was run while the model streams"
    return ""


@edge_law("I12")
def results_come_in_order(edge: Edge) -> str:
    """Results are emitted in the order of the calls, each after those before it, each once."""
    order = {call.id: place for place, call in enumerate(edge.old.tools.calls)}
    start = edge.old.tools.yielded
    for place, result in enumerate(edge.results):
        expected = start + place
        found = order.get(result.tool_use_id)
        if found is not None and found != expected:
            return f"the result of call {found} came at place {expected}"
        if result.block.id != result.tool_use_id:
            return f"the result of {result.tool_use_id} answers {result.block.id}"
    return ""


@edge_law("I17")
def started_calls_are_not_forgotten(edge: Edge) -> str:
    """A call that began and may have changed something is answered in the history, whatever becomes of its reply."""
    if edge.old.phase not in (Phase.CALLING_MODEL, Phase.RUNNING_TOOLS):
        return ""
    changed = [call for call in edge.old.tools.calls if call.started and not call.traits.read_only]
    if not changed:
        return ""
    kept = {call.id for call in edge.new.tools.calls} if edge.new.call.id == edge.old.call.id else set()
    missing = [call.id for call in changed if call.id not in kept]
    if not missing:
        return ""
    answered = {block.id for item in edge.made.state.data.messages for block in item.results}
    lost = [name for name in missing if name not in answered]
    return f"began, and is nowhere in the history: {lost}" if lost else ""


@edge_law("I17")
def only_begun_calls_are_salvaged(edge: Edge) -> str:
    """A failed attempt is salvaged exactly if a call began that may have changed something, or a hook stopped at one."""
    if not edge.took("stream_failed"):
        return ""
    tools = edge.old.tools
    due = tools.stopped or any(call.started and not call.traits.read_only for call in tools.calls)
    if edge.took("salvage", "salvage_and_end") != due:
        return f"salvage was {'due' if due else 'not due'}, the rows are {edge.taken}"
    return ""
