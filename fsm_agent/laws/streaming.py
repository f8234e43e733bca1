"""I10, I12: a reply and its results as they come, and what is known of them when they end (spec 01, sections 7 and 11)."""

from __future__ import annotations

import re
from typing import Any

from ..core.blocks import Block
from ..core.control import CallState
from ..core.effects import Emit, SummarizeToolUse
from ..core.events import BlockCompleted, StreamCompleted, ToolFinished, ToolProgressed
from ..core.outputs import Boundary, ToolProgress, ToolResult
from ..core.phases import Phase
from .keeping import positions
from .law import Edge, edge_law
from .micro import Micro, micros

CUT = ("max_tokens", "model_context_window_exceeded")
"""Stop reasons of a reply that a limit cut off."""
LONGEST = 128
"""Characters of an id of a call that the API takes."""
_TAKEN = re.compile(r"[A-Za-z0-9_-]+")


def _says(block: Block) -> bool:
    return block.type not in ("thinking", "redacted_thinking", "tool_use") and not block.blank


def _shown(one: Micro, kind: type) -> list[Any]:
    """Give the outputs of a kind."""
    return [effect.output for effect in one.effects if isinstance(effect, Emit) and isinstance(effect.output, kind)]


@edge_law("I10", costly=True)
def the_end_tells_what_can_be_used(edge: Edge) -> str:
    """A reply can be used if a closed block of it says something; one that was cut, also by text that was not closed."""
    for one in micros(edge):
        if not isinstance(one.event, StreamCompleted) or one.name != "stream_completed":
            continue
        was, cut = one.before.data.iteration, one.event.stop_reason in CUT
        says = [place for place, block in enumerate(was.blocks) if _says(block) and (cut or place not in was.unclosed)]
        if one.new.call.usable != bool(says):
            return f"blocks {says} can be used, the reply counts as {'usable' if one.new.call.usable else 'empty'}"
    return ""


@edge_law("I12", costly=True)
def the_end_tells_what_is_whole(edge: Edge) -> str:
    """A call that began is whole; any other if the stream closed it as an object, and it is not the last of a cut reply."""
    for one in micros(edge):
        if not isinstance(one.event, StreamCompleted) or one.name != "stream_completed":
            continue
        cut = one.event.stop_reason in CUT
        for old, new in zip(one.old.tools.calls, one.new.tools.calls, strict=True):
            whole = old.started or (old.whole and not (old.last and cut))
            if new.whole != whole:
                return f"{old.id} is {'whole' if whole else 'not whole'}, and counts as the opposite"
            rest = (old.id, old.index, old.state, old.effect, old.started, old.last, old.outcome, old.traits)
            if rest != (new.id, new.index, new.state, new.effect, new.started, new.last, new.outcome, new.traits):
                return f"the record of {old.id} changed with the end of the reply"
    return ""


@edge_law("I10", costly=True)
def edits_of_the_api_are_reported(edge: Edge) -> str:
    """What the API cleared is reported by the layer with the number that its boundary shows: before less after."""
    for one in micros(edge):
        if one.name != "stream_completed":
            continue
        old, new = one.before.data.iteration.reports, one.after.data.iteration.reports
        shown = _shown(one, Boundary)
        freed = [report.freed for report in new[len(old) :]]
        if new[: len(old)] != old or freed != [mark.before - mark.after for mark in shown]:
            return f"the boundaries are {shown}, reported is {freed}"
    return ""


@edge_law("I6", costly=True)
def calls_are_stored_as_the_api_takes_them(edge: Edge) -> str:
    """The id under which a call is stored is new, of the letters that the API takes, and no longer; a good call stays as is."""
    for one in micros(edge):
        event = one.event
        if not isinstance(event, BlockCompleted) or event.tool is None or not event.closed:
            continue
        call, block = one.new.tools.calls[-1], one.after.data.iteration.blocks[-1]
        known = {item.id for message in one.before.data.messages for item in message.calls}
        known |= {item.id for item in one.old.tools.calls}
        if call.id in known or not _TAKEN.fullmatch(call.id) or len(call.id) > LONGEST:
            return f"the call {event.tool.id!r} is stored as {call.id!r}"
        if call.id != event.tool.id:
            fault = _own(one, call.id)
            if fault:
                return fault
        told = (event.tool.id, event.tool.name) == (event.block.id, event.block.name) == (call.id, block.name)
        if told and block is not event.block:
            return f"the block of {call.id} was made anew"
    return ""


def _own(one: Micro, stored: str) -> str:
    """An id of our own is the run's next one, other letters as underscores; of one that is too long the end is kept."""
    name = f"{one.old.run.id}/use-{one.old.run.issued + 1}"
    due = "".join(letter if _TAKEN.fullmatch(letter) else "_" for letter in name)[-LONGEST:]
    return "" if stored == due else f"the fresh id is {stored!r}, not {due!r}"


@edge_law("I12", costly=True)
def a_result_is_stored_as_it_came(edge: Edge) -> str:
    """A result that answers its own call is the block that came: it is not made anew."""
    for one in micros(edge):
        event = one.event
        if not isinstance(event, ToolFinished) or one.name not in ("tool_finished", "early_tool_finished"):
            continue
        place, call = next((at, call) for at, call in enumerate(one.old.tools.calls) if call.effect == event.id)
        calls = one.after.data.iteration.calls
        mine = event.result.type == "tool_result" and event.result.id == call.id
        if mine and calls and calls[place].result is not event.result:
            return f"the result of {call.id} was made anew"
    return ""


@edge_law("I12", costly=True)
def progress_is_shown_at_once(edge: Edge) -> str:
    """What a call says of its progress is shown in the same step, as it said it, and nothing else is."""
    for one in micros(edge):
        shown = _shown(one, ToolProgress)
        event = one.event
        due = []
        if isinstance(event, ToolProgressed):
            due = [ToolProgress(call.id, event.text) for call in one.old.tools.calls if call.effect == event.id]
        if shown != due:
            return f"{one.row.name}: shown is {shown}, said was {due}"
    return ""


@edge_law("I12", costly=True)
def an_abort_shows_the_results_that_it_keeps(edge: Edge) -> str:
    """Each call that an abort keeps has its result shown, once: those that were not shown before are, in the order of calls."""
    for one in micros(edge):
        if one.name != "aborted_tools":
            continue
        kept = positions(one)
        calls = [call for call in one.old.tools.calls if kept is None or call.index in kept]
        due = [call.id for call in calls if call.state is not CallState.YIELDED]
        shown = [item.tool_use_id for item in _shown(one, ToolResult)]
        if shown != due:
            return f"results of {shown} were shown, of {due} should be"
    return ""


@edge_law("I12", costly=True)
def a_round_of_tools_has_calls(edge: Edge) -> str:
    """Tools run after a reply that was kept with calls, and after no other."""
    for one in micros(edge):
        enters = one.row.target is Phase.RUNNING_TOOLS and one.row.source is not Phase.RUNNING_TOOLS
        if enters and (not one.new.tools.calls or one.after.data.iteration.reply is None):
            return f"{one.row.name} leads to a round of tools, and no call was kept"
    return ""


@edge_law("I10", costly=True)
def rounds_are_summed_up_where_the_settings_say(edge: Edge) -> str:
    """Each finished round of tools is summed up, once, from the reply and its results, if the settings ask for it."""
    for one in micros(edge):
        asked = [effect for effect in one.effects if isinstance(effect, SummarizeToolUse)]
        finished = one.name in ("next_turn", "next_turn_salvaged")
        if len(asked) != (finished and one.config.tool_summaries):
            return f"{one.row.name}: {len(asked)} summaries were asked for"
        waits = one.old.queue.pending_tool_use_summary
        if finished and one.new.queue.pending_tool_use_summary != (asked[0].id if asked else waits):
            return f"{one.row.name}: {one.new.queue.pending_tool_use_summary!r} is waited for"
        if asked:
            reply = one.before.data.iteration.reply
            ids = [block.id for item in asked[0].messages[1:] for block in item.results]
            if asked[0].messages[:1] != (reply,) or ids != [call.id for call in one.old.tools.calls]:
                return f"{one.row.name}: another round is summed up"
    return ""
