"""I6, I10: what is kept of a reply, and what the next pass begins with: the columns of spec 01, sections 4 and 7."""

from __future__ import annotations

import json
from collections.abc import Iterable

from ..core import texts
from ..core.blocks import Block
from ..core.control import CallState
from ..core.effects import Emit, NotifyCommand, RunPostSamplingHooks
from ..core.messages import Message, MessageKind
from ..core.outputs import AssistantOutput, CallEnd, Ending, Tombstone, UserOutput
from ..core.state import Iteration
from .choices import begun, repeats
from .law import Edge, edge_law
from .micro import Micro, micros

CLOSED = (
    "run_tools",
    "malformed_answered",
    "malformed_tool_use",
    "pause_resume",
    "pause_limit",
    "ask_stop_hooks",
    "unknown_stop_reason",
)
"""Rows that keep all closed blocks."""
CUT = ("max_output_tokens_recovery", "window_recovery", "output_exhausted", "window_exhausted")
"""Rows that keep what a reply can be continued from."""
SALVAGED = ("salvage", "salvage_and_end")


def positions(one: Micro) -> list[int] | None:
    """Give the blocks of a reply that a row keeps, in order; None if it decides on no reply."""
    was = one.before.data.iteration
    closed = [place for place in range(len(was.blocks)) if place not in was.unclosed]
    begins = [call.index for call in one.old.tools.calls if call.started]
    if one.name in SALVAGED or (one.name == "refusal" and begun(one.old)):
        kept = [place for place in closed if place <= max(begins, default=-1)]
    elif one.name in CLOSED or (one.name == "aborted_tools" and was.reply is None):
        kept = closed
    elif one.name in CUT:
        kept = _to_go_on_from(was)
    else:
        return None
    while kept and (was.blocks[kept[-1]].is_thinking or was.blocks[kept[-1]].blank):
        kept.pop()
    return kept


def _to_go_on_from(was: Iteration) -> list[int]:
    """Give text, closed thinking, and server work that is whole."""
    answered = {block.id for block in was.blocks if block.type.endswith("_tool_result")}
    kept = []
    for place, block in enumerate(was.blocks):
        call = block.type.endswith("tool_use")
        whole = not call or (block.type != "tool_use" and block.id in answered)
        if whole and (place not in was.unclosed or block.type == "text"):
            kept.append(place)
    return kept


def _same(one: Micro, place: int, stored: Block) -> bool:
    was = one.before.data.iteration
    call = next((item for item in one.old.tools.calls if item.index == place), None)
    if call is None or call.whole:
        return stored is was.blocks[place]
    value = json.loads(stored.json)
    return bool(value["id"] == call.id and value["input"] == {} and value["name"] == was.blocks[place].name)


@edge_law("I10", costly=True)
def replies_are_kept_as_the_list_says(edge: Edge) -> str:
    """Of a reply stays what the row's line of section 7 keeps; what is not whole has an empty input; the rest dies."""
    for one in micros(edge):
        kept = positions(one)
        if kept is None:
            continue
        outputs = [effect.output for effect in one.effects if isinstance(effect, Emit)]
        replies = [item.message for item in outputs if isinstance(item, AssistantOutput)]
        sampled = [effect.reply for effect in one.effects if isinstance(effect, RunPostSamplingHooks)]
        ends = [item for item in outputs if isinstance(item, CallEnd)]
        name = one.old.call.id
        if [(item.call, item.ending) for item in ends] != [(name, Ending.KEPT if kept else Ending.DISCARDED)]:
            return f"{one.row.name}: the reply ended as {ends}"
        if sampled != replies or len(replies) != bool(kept):
            return f"{one.row.name}: {len(replies)} replies were kept, {len(sampled)} went on"
        tombs = [name for item in outputs if isinstance(item, Tombstone) for name in item.ids]
        was = one.before.data.iteration
        dead = [f"{name}/{place}" for place in range(len(was.blocks)) if place not in kept]
        dead += [
            f"{name}/result-{call.index}"
            for call in one.old.tools.calls
            if call.index not in kept and call.state is CallState.YIELDED
        ]
        if tombs != dead:
            return f"{one.row.name}: tombstones for {tombs}, not for {dead}"
        for reply in replies:
            fault = _reply(one, reply, kept)
            if fault:
                return f"{one.row.name}: {fault}"
    return ""


def _reply(one: Micro, reply: Message, kept: list[int]) -> str:
    whose = (reply.id, reply.role, reply.kind, reply.model)
    if whose != (one.old.call.id, "assistant", MessageKind.ASSISTANT, one.old.tool_use_context.model):
        return f"the reply is {whose}"
    if len(reply.blocks) != len(kept) or not all(map(lambda place, block: _same(one, place, block), kept, reply.blocks)):
        return f"the reply holds {len(reply.blocks)} blocks, it should hold {kept}"
    return ""


def _added(one: Micro) -> list[Message] | None:
    """Give the reply and the results that a row adds to the view, where it adds them; None where it does not look at them."""
    was, now = one.before.data.iteration, one.after.data.messages
    view = was.view
    if not view or now[: len(view)] != view:
        return None
    return list(now[len(view) :])


ENDS_ROUND = ("next_turn", "next_turn_salvaged", "hook_stopped", "loop_detected", "error_remembered", "max_turns")
AFTER_HOOKS = (
    "stop_hook_blocking",
    "token_budget_continuation",
    "stop_hook_prevented",
    "structured_output_exhausted",
    "stop_hook_cap",
    "diminishing_returns",
    "budget_reached",
    "completed",
)


def _expected(one: Micro) -> list[tuple[str, str]]:
    """Give (kind, words or id) of each message that a row puts behind the view."""
    was, control = one.before.data.iteration, one.old
    reply = [("assistant", was.reply.id)] if was.reply is not None else []
    if one.name in AFTER_HOOKS:
        words = {
            "stop_hook_blocking": texts.stop_hook_errors(was.words),
            "token_budget_continuation": texts.budget_nudge(control.budget.output_tokens, control.budget.token_budget or 1),
        }.get(one.name)
        return reply + ([("meta", words)] if words is not None else [])
    answers = [("tool_results", ",".join(call.id for call in control.tools.calls))] if control.tools.calls else []
    found = reply + answers
    if one.name.startswith("next_turn") and not control.call.unresolved:
        inbox = one.before.data.inbox
        found += [(item.kind.value, item.id) for name, item in inbox.commands if name in control.queue.commands]
        found += [(item.kind.value, item.id) for item in (*inbox.attachments, *inbox.prefetched)]
        found += [("notice", text) for text in inbox.notices]
        if warns(one):
            found.append(("notice", texts.LOOP_WARNING))
    return found


def warns(one: Micro) -> bool:
    """Section 11: at N equal rounds one warning goes in."""
    return repeats(one.old.guards.rounds) >= one.config.loop_rounds and not one.old.guards.loop_warned


def shown_users(one: Micro) -> list[Message]:
    """Give the messages of the user's side that a row shows."""
    outputs = [effect.output for effect in one.effects if isinstance(effect, Emit)]
    return [output.message for output in outputs if isinstance(output, UserOutput)]


def told(messages: Iterable[Message]) -> list[tuple[str, str]]:
    """Say what messages tell: kind, and words or id of each."""
    found = []
    for item in messages:
        if item.kind in (MessageKind.META, MessageKind.NOTICE):
            found.append((item.kind.value, "".join(json.loads(block.json)["text"] for block in item.blocks)))
        elif item.kind is MessageKind.TOOL_RESULTS:
            found.append((item.kind.value, ",".join(block.id for block in item.blocks)))
        else:
            found.append((item.kind.value, item.id))
    return found


@edge_law("I6", costly=True)
def the_history_grows_as_the_table_says(edge: Edge) -> str:
    """A continue and an end after a kept reply add the reply, its results, and what is injected, in this order."""
    for one in micros(edge):
        if one.name not in (*ENDS_ROUND, *AFTER_HOOKS):
            continue
        added = _added(one)
        if added is None:
            return f"{one.row.name}: the view was changed"
        expected = _expected(one)
        if told(added) != expected:
            return f"{one.row.name}: {told(added)} was added, not {expected}"
        users = [item for item in added if item.role == "user"]
        shown = shown_users(one)
        if shown != users:
            return f"{one.row.name}: {len(shown)} messages were shown, {len(users)} were added"
        ours = (MessageKind.META, MessageKind.NOTICE, MessageKind.TOOL_RESULTS)
        ids = [item.id for item in added if item.kind in ours]
        if len(set(ids)) != len(ids):
            return f"{one.row.name}: two messages have one id"
        taken = [effect.command_id for effect in one.effects if isinstance(effect, NotifyCommand)]
        if taken and not one.name.startswith("next_turn"):
            return f"{one.row.name}: commands were taken up"
    return ""


@edge_law("I6", costly=True)
def a_nudge_follows_what_is_kept(edge: Edge) -> str:
    """After a cut or an empty reply the model is asked to go on, behind what was kept; a paused reply goes back as it is."""
    words = {
        "max_output_tokens_recovery": texts.OUTPUT_LIMIT,
        "window_recovery": texts.WINDOW_LIMIT,
        "empty_retry": texts.EMPTY_REPLY,
        "pause_resume": None,
    }
    for one in micros(edge):
        if one.name not in words:
            continue
        added, kept = _added(one), positions(one)
        due = words[one.name]
        expected = [("assistant", one.old.call.id)] if kept else []
        expected += [("meta", due)] if due is not None else []
        if added is None or told(added) != expected:
            return f"{one.row.name}: {None if added is None else told(added)} was added, not {expected}"
        shown = shown_users(one)
        if shown != [item for item in added if item.role == "user"]:
            return f"{one.row.name}: the words were not shown"
    return ""


@edge_law("I11", costly=True)
def the_inbox_is_emptied_once(edge: Edge) -> str:
    """What was injected is gone from the inbox; what was not, and what is for another address, waits on."""
    for one in micros(edge):
        if not one.name.startswith("next_turn"):
            continue
        was, now = one.before.data.inbox, one.after.data.inbox
        if one.old.call.unresolved:
            if (now.commands, now.prefetched, now.notices) != (was.commands, was.prefetched, was.notices):
                return "something was taken from the inbox while the API waits for its own results"
            continue
        left = tuple(entry for entry in was.commands if entry[0] not in one.old.queue.commands)
        if now.commands != left or now.prefetched or now.attachments or now.notices:
            return f"{len(now.commands)} commands wait on, {len(left)} should"
        if one.new.guards.loop_warned != (one.old.guards.loop_warned or warns(one)):
            return f"the warning counts as {'given' if one.new.guards.loop_warned else 'not given'}"
    return ""
