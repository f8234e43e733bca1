"""I7, I10: what the consumer sees of replies and errors."""

from __future__ import annotations

from ..core.outputs import Ending
from ..core.phases import SUCCESS, Cause, Phase
from .law import Edge, edge_law

SHOWN_ERRORS = frozenset(
    {
        "prompt_too_long",
        "media_too_large",
        "media_unreadable",
        "reactive_failed",
        "reactive_refused",
        "reactive_failed_media",
        "reactive_refused_media",
        "rate_limited_until",
        "attempts_exhausted",
        "access_refused",
        "engine_failed",
        "call_refused",
        "output_exhausted",
        "window_exhausted",
        "error_remembered",
    }
)
"""Rows that end a run because an error was mended by nothing."""


@edge_law("I7")
def an_error_is_shown_when_used_up(edge: Edge) -> str:
    """An error is shown once, by the step that ends the run because nothing mended it; never before, never otherwise."""
    used_up = edge.ended and edge.made.taken[-1] in SHOWN_ERRORS
    if len(edge.errors) != int(used_up):
        return f"{len(edge.errors)} errors were shown by {edge.made.taken}"
    if not used_up:
        return ""
    terminal = edge.made.state.data.terminal
    return "" if terminal is not None and terminal.error == edge.errors[0].failure else "another error is in the terminal"


@edge_law("I7")
def a_success_has_no_error(edge: Edge) -> str:
    """A run that ended well has no error in its terminal; one that an error ended has it there."""
    terminal = edge.made.state.data.terminal
    if not edge.ended or terminal is None:
        return ""
    if terminal.cause in SUCCESS and terminal.error is not None:
        return f"{terminal.cause} with error {terminal.error.kind}"
    if terminal.cause in (Cause.API_ERROR, Cause.AUTH, Cause.USED_UP, Cause.TOO_LARGE) and terminal.error is None:
        return f"{terminal.cause} without its error"
    return ""


@edge_law("I10")
def a_reply_is_decided_once(edge: Edge) -> str:
    """A call's reply is kept or discarded in the step that leaves it, once, and tombstones come with that only."""
    left = edge.old.phase is Phase.CALLING_MODEL and edge.new.phase is not Phase.CALLING_MODEL
    again = edge.old.phase is Phase.CALLING_MODEL and edge.new.call.id != edge.old.call.id
    ends = [item.call for item in edge.ends]
    if left or again:
        return "" if ends == [edge.old.call.id] else f"the reply {edge.old.call.id} was decided {len(ends)} times"
    if ends:
        return f"the reply {ends[0]} was decided while nobody left it"
    return "there are tombstones without a decision" if edge.tombstones else ""


@edge_law("I10")
def tombstones_are_exact(edge: Edge) -> str:
    """A discarded reply has one tombstone for each thing that was emitted of it; a kept one for what is not in it."""
    if not edge.ends:
        return ""
    tombs = edge.tombstones
    if len(set(tombs)) != len(tombs):
        return "something has two tombstones"
    emitted = [*edge.before.data.iteration.emitted, *(item.id for item in edge.blocks)]
    results = {item.id for item in edge.results}
    if not set(tombs) <= set(emitted) | results:
        return f"a tombstone for what was never emitted: {sorted(set(tombs) - set(emitted))}"
    if edge.ends[0].ending is Ending.DISCARDED:
        if set(tombs) != set(emitted):
            return f"emitted and dropped without a tombstone: {sorted(set(emitted) - set(tombs))}"
        return "a discarded reply was kept" if edge.kept else ""
    if len(edge.kept) != 1:
        return f"a kept reply was shown {len(edge.kept)} times"
    alive = [name for name in emitted if name not in set(tombs) and "/result-" not in name]
    message = edge.kept[0].message
    if len(alive) != len(message.blocks):
        return f"{len(alive)} emitted blocks are alive, the reply has {len(message.blocks)}"
    ids = {block.id for block in message.calls}
    positions = {int(name.rpartition("/")[2]) for name in alive}
    for call in edge.old.tools.calls:
        if (call.index in positions) != (call.id in ids):
            return f"call {call.id} is in the reply and has a tombstone, or neither"
    return ""


@edge_law("I10")
def no_thinking_at_the_end(edge: Edge) -> str:
    """A kept reply never ends with thinking, and is not empty; it goes to the post-sampling hooks once."""
    if len(edge.sampled) != len(edge.kept):
        return f"{len(edge.kept)} replies were kept, {len(edge.sampled)} went to post-sampling hooks"
    for item in edge.kept:
        if not item.message.blocks:
            return "an empty reply was kept"
        if item.message.blocks[-1].is_thinking:
            return "a kept reply ends with thinking"
    return ""
