"""I12: the calls of a reply, one by one: who may run, what each record becomes, and what a call that did not run is told.

Spec 01, section 11, read a second time. The words of synthetic results are those that the engine declares.
"""

from __future__ import annotations

import json
from typing import Any

from ..core import texts
from ..core.blocks import Block
from ..core.config import EarlyStart, LoopConfig
from ..core.control import CallState, ToolCall
from ..core.events import BlockCompleted, Outcome, ToolFinished, ToolProgressed, ToolStarted
from ..core.phases import Phase
from ..core.state import CallData, LoopState
from .law import Edge, edge_law, state_law
from .micro import Micro, micros

TAIL = 2_000
"""Characters of progress that are kept for a call that is interrupted."""
_DONE = (CallState.COMPLETED, CallState.YIELDED)
_OPEN = (CallState.QUEUED, CallState.EXECUTING)


def early_allowed(call: ToolCall, config: LoopConfig) -> bool:
    """Tell whether the settings let a call start while the model streams."""
    traits = call.traits
    allowed = {
        EarlyStart.NEVER: False,
        EarlyStart.READ_ONLY: traits.read_only and traits.concurrency_safe,
        EarlyStart.CONCURRENCY_SAFE: traits.concurrency_safe,
        EarlyStart.ANY: True,
    }[config.early_start]
    return allowed and traits.known and call.whole and not call.last


@state_law("I12")
def nobody_waits_in_vain(state: LoopState, config: LoopConfig) -> str:
    """The first call that waits may not run yet: something that may not run beside it executes, or the cap is reached."""
    tools = state.control.tools
    if state.control.phase not in (Phase.CALLING_MODEL, Phase.RUNNING_TOOLS) or tools.stopped or tools.failed:
        return ""
    first = next((call for call in tools.calls if call.state is CallState.QUEUED), None)
    running = [call for call in tools.calls if call.state is CallState.EXECUTING]
    if first is None or len(running) >= config.tool_concurrency:
        return ""
    if not tools.after_stream and not early_allowed(first, config):
        return ""
    beside = all(call.traits.concurrency_safe for call in (first, *running))
    return f"{first.id} waits, and may run" if beside or not running else ""


@edge_law("I12")
def calls_start_from_the_front(edge: Edge) -> str:
    """A call starts only when none before it waits; it runs with the input that was stored, under its own name."""
    data = edge.made.state.data.iteration
    for effect in edge.tools:
        place = next((place for place, call in enumerate(edge.new.tools.calls) if call.effect == effect.id), -1)
        if place < 0:
            return f"{effect.id} belongs to no call"
        call, use = edge.new.tools.calls[place], data.calls[place].use
        if any(item.state is CallState.QUEUED for item in edge.new.tools.calls[:place]):
            return f"{call.id} overtook a call that waits"
        told = (effect.tool_use_id, effect.name, effect.input_json, effect.traits)
        if told != (call.id, use.name, use.input_json, call.traits):
            return f"{call.id} was run as {told}"
        if call.started:
            return f"{call.id} counts as started before it was"
    return ""


@edge_law("I12")
def what_is_yielded_is_shown(edge: Edge) -> str:
    """Each result that counts as emitted was shown in the step that counts it."""
    old, new = edge.old.tools, edge.new.tools
    if edge.ended or edge.new.call.id != edge.old.call.id or len(new.calls) < len(old.calls):
        return ""
    more = new.yielded - old.yielded
    return "" if len(edge.results) == more else f"{len(edge.results)} results were shown, {more} count as emitted"


def results(one: Micro) -> dict[str, Block]:
    """Give the results of the calls after a microstep, also where the run has ended with it."""
    found = {item.id: block for item, data in zip(one.new.tools.calls, one.after.data.iteration.calls, strict=False)
             if (block := data.result) is not None}  # fmt: skip
    if one.after.data.terminal is not None:
        found = {block.id: block for item in one.after.data.messages for block in item.results}
    return found


def words_of(block: Block) -> Any:
    """Give the content of a result as the model reads it."""
    value = json.loads(block.json)
    content = value.get("content")
    if isinstance(content, list) and len(content) == 1 and content[0].get("type") == "text":
        content = content[0]["text"]
    return content if value.get("is_error") else None


def refusal_of(one: Micro, call: ToolCall, data: CallData) -> str:
    """Give what a call is told that got no result of its own in this microstep; empty if nothing is due."""
    tools, event = one.old.tools, one.event
    unknown = texts.unknown_with_tail(data.tail)
    waits = not call.started
    match one.name:
        case "early_tool_finished" | "tool_finished" if isinstance(event, ToolFinished) and call.effect != event.id:
            me = next(place for place, item in enumerate(tools.calls) if item.effect == event.id)
            name = one.before.data.iteration.calls[me].use.name
            if event.stop is not None:
                return texts.NOT_RUN_HOOK if waits and tools.after_stream else ""
            if cancels(one, tools.calls[me]):
                words = texts.sibling_failed(name)
                return words if waits else f"{words} {unknown}"
        case "salvage" | "salvage_and_end":
            return texts.NOT_RUN_CRASH if waits else ""
        case "refusal":
            return texts.NOT_RUN_REFUSED if waits else unknown
        case "aborted_tools":
            return texts.NOT_RUN_INTERRUPTED if waits else unknown
        case "run_tools" | "malformed_answered" | "malformed_tool_use":
            cut = call.last and one.old.call.stop_reason in ("max_tokens", "model_context_window_exceeded")
            if not call.whole and call.state is CallState.QUEUED:
                twice = data.use.input_json is not None and not cut
                return texts.NOT_RUN_DUPLICATE if twice else texts.not_whole(data.use.raw, data.use.problem, cut)
            return texts.NOT_RUN_HOOK if tools.stopped and waits else ""
        case _:
            pass
    return ""


def cancels(one: Micro, call: ToolCall) -> bool:
    """Tell whether a result cancels its batch: the tool could not run, or it reports an error and the settings say so."""
    event = one.event
    assert isinstance(event, ToolFinished)
    hard = event.outcome is Outcome.FAILED
    soft = event.outcome is Outcome.ERROR and one.config.cancel_siblings_on == "error"
    return call.traits.cancels_siblings_on_error and event.stop is None and (hard or soft)


@edge_law("I12", costly=True)
def what_did_not_run_is_told_why(edge: Edge) -> str:
    """Each kept call without a result of its own gets an error that says what happened, when it is due, and none before."""
    for one in micros(edge):
        after = results(one)
        answered = one.event.id if isinstance(one.event, ToolFinished) else ""
        gone = {call.id for call in one.old.tools.calls} - {call.id for call in one.new.tools.calls}
        for call, data in zip(one.old.tools.calls, one.before.data.iteration.calls, strict=True):
            if call.state not in _OPEN or (answered and call.effect == answered):
                continue
            if call.id in gone and call.id not in after:
                continue
            due = refusal_of(one, call, data)
            told = words_of(after[call.id]) if call.id in after else ""
            if told != due:
                return f"{one.row.name}: {call.id} is told {told!r}, not {due!r}"
    return ""


def _own(block: Block, call: ToolCall) -> str:
    """Say what is wrong with the result of a call as it is stored."""
    value = json.loads(block.json)
    ok = block.type == "tool_result" and value["tool_use_id"] == call.id == block.id
    return "" if ok else f"the result of {call.id} is {value}"


@edge_law("I12", costly=True)
def records_follow_answers(edge: Edge) -> str:
    """A start, progress and a result change the record of their own call alone, and to what they say."""
    for one in micros(edge):
        event = one.event
        if not isinstance(event, ToolStarted | ToolProgressed | ToolFinished):
            continue
        for place, call in enumerate(one.old.tools.calls):
            mine = call.effect == event.id
            fault = _record(one, place, mine)
            if fault:
                return f"{one.row.name}: {fault}"
    return ""


def _record(one: Micro, place: int, mine: bool) -> str:
    event, old = one.event, one.old.tools.calls[place]
    if one.new.tools.calls == () and one.old.tools.calls:
        return ""
    new = one.new.tools.calls[place]
    was, now = one.before.data.iteration.calls[place], one.after.data.iteration.calls[place]
    if was.use is not now.use or (old.id, old.index, old.whole, old.last) != (new.id, new.index, new.whole, new.last):
        return f"the call of {old.id} changed"
    if isinstance(event, ToolStarted | ToolProgressed):
        tail = (was.tail + event.text)[-TAIL:] if isinstance(event, ToolProgressed) and mine else was.tail
        started = old.started or (mine and isinstance(event, ToolStarted))
        if (now.tail, new.started) != (tail, started):
            return f"{old.id}: started {new.started}, tail {now.tail[-20:]!r}"
        return "" if (new.state, new.effect, now.result) == (old.state, old.effect, was.result) else f"{old.id} moved on"
    assert isinstance(event, ToolFinished)
    stopped = mine and event.stop is not None
    if new.started != (old.started or stopped):
        return f"{old.id}: started is {new.started}"
    if mine:
        if new.outcome is not event.outcome or now.digest != event.digest or now.result is None:
            return f"{old.id} ended as {new.outcome}, {now.digest!r}"
        return _own(now.result, old) or _content(event.result, now.result)
    if old.state in _DONE and (now.result, new.outcome) != (was.result, old.outcome):
        return f"the result of {old.id} changed"
    return ""


def _content(given: Block, stored: Block) -> str:
    """A result is stored with what it says; what is no result is its content."""
    said, kept = json.loads(given.json), json.loads(stored.json)
    if given.type == "tool_result":
        same = {**said, "tool_use_id": ""} == {**kept, "tool_use_id": ""}
    else:
        same = kept.get("content") == [said]
    return "" if same else f"the result says {kept}, it was {said}"


@edge_law("I12", costly=True)
def stops_and_failures_are_noted(edge: Edge) -> str:
    """A hook's stop and a cancelling failure mark the reply, with their words and the name of the tool, and stay."""
    for one in micros(edge):
        old, new = one.old.tools, one.new.tools
        if not old.calls or not new.calls or one.name not in ("tool_finished", "early_tool_finished"):
            continue
        event = one.event
        assert isinstance(event, ToolFinished)
        me = next(place for place, call in enumerate(old.calls) if call.effect == event.id)
        if new.stopped != (old.stopped or event.stop is not None):
            return f"stopped is {new.stopped}"
        name = one.before.data.iteration.calls[me].use.name if cancels(one, old.calls[me]) else old.failed
        if new.failed != name:
            return f"failed is {new.failed!r}, not {name!r}"
        words = one.before.data.iteration.words
        if one.after.data.iteration.words != ((*words, event.stop) if event.stop is not None else words):
            return f"the words are {one.after.data.iteration.words}"
        if event.stop is not None and any(call.effect and not call.started for call in new.calls):
            return "a call that has not begun may still begin after a stop"
    return ""


@edge_law("I12", costly=True)
def a_block_is_taken_as_it_came(edge: Edge) -> str:
    """A block goes to the end of the reply and is shown; a call gets its record, and is told if its batch has failed."""
    for one in micros(edge):
        event = one.event
        if not isinstance(event, BlockCompleted):
            continue
        was, now = one.before.data.iteration, one.after.data.iteration
        at = len(was.blocks)
        if len(now.blocks) != at + 1 or now.unclosed != (was.unclosed if event.closed else (*was.unclosed, at)):
            return f"{len(now.blocks)} blocks, not closed {now.unclosed}"
        shown = edge.blocks
        name = f"{one.old.call.id}/{at}"
        call = one.old.call.id
        if [(item.id, item.call, item.index, item.message_id, item.block) for item in shown] != [
            (name, call, event.index, call, now.blocks[-1])
        ] or now.emitted[: len(was.emitted) + 1] != (*was.emitted, name):
            return f"it was shown as {shown}"
        fault = _taken_call(one, event, at) if event.tool is not None and event.closed else _taken_block(one, event)
        if fault:
            return fault
    return ""


def _taken_block(one: Micro, event: BlockCompleted) -> str:
    says = event.block.type not in ("thinking", "redacted_thinking", "tool_use") and not event.block.blank
    if one.after.data.iteration.blocks[-1] is not event.block or one.new.tools is not one.old.tools:
        return "the block was changed"
    return "" if one.new.call.usable == (one.old.call.usable or says) else f"usable is {one.new.call.usable}"


def _taken_call(one: Micro, event: BlockCompleted, at: int) -> str:
    use = event.tool
    assert use is not None
    if len(one.new.tools.calls) != len(one.old.tools.calls) + 1 or one.new.call.usable != one.old.call.usable:
        return "the call has no record of its own"
    new, stored = one.new.tools.calls[-1], one.after.data.iteration.blocks[-1]
    twice = bool(use.id) and any(item.use.id == use.id for item in one.before.data.iteration.calls)
    whole = use.input_json is not None and not twice
    if (new.index, new.whole, new.last, new.started, new.traits) != (at, whole, event.last, False, use.traits):
        return f"the record of {use.id!r} is {new}"
    known = {block.id for item in one.before.data.messages for block in item.calls}
    sound = 0 < len(use.id) <= 128 and all(letter.isascii() and (letter.isalnum() or letter in "_-") for letter in use.id)
    kept = sound and not twice and use.id not in known
    if (new.id == use.id) != kept:
        return f"the id {use.id!r} became {new.id!r}"
    name = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "_-") else "_" for letter in use.name)[:64]
    value = json.loads(stored.json)
    if (value["id"], value["name"], stored.id, stored.name) != (new.id, name or "unknown", new.id, name or "unknown"):
        return f"the block is {value}"
    if value.get("input") != json.loads(event.block.json).get("input"):
        return "the input was changed"
    failed = one.old.tools.failed
    result = one.after.data.iteration.calls[-1].result
    told = words_of(result) if result is not None else ""
    return "" if told == (texts.sibling_failed(failed) if failed else "") else f"{new.id} is told {told!r}"
