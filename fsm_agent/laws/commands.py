"""I11: queued commands are taken up once and in order, or handed back."""

from __future__ import annotations

from ..core.config import LoopConfig
from ..core.events import CommandQueued
from ..core.state import LoopState
from .law import Edge, edge_law, state_law


@state_law("I11")
def queue_and_content_agree(state: LoopState, config: LoopConfig) -> str:
    """The ids in the queue are those of the kept messages that are for this run, in order."""
    ids = tuple(name for name, _ in state.data.inbox.commands)
    mine = tuple(name for name in ids if name in state.control.queue.commands)
    return "" if mine == state.control.queue.commands else f"queue {state.control.queue.commands}, content {ids}"


@edge_law("I11")
def commands_are_taken_in_order(edge: Edge) -> str:
    """What is taken up stood at the front of the queue; the rest stays, in order, and the terminal names it."""
    waiting = list(edge.old.queue.commands)
    if isinstance(edge.event, CommandQueued) and edge.event.address == edge.config.address:
        waiting.append(edge.event.command_id)
    taken = edge.notified
    if waiting[: len(taken)] != taken:
        return f"taken up {taken}, the queue was {waiting}"
    if list(edge.new.queue.commands) != waiting[len(taken) :]:
        return f"the queue is {edge.new.queue.commands}, it should be {waiting[len(taken) :]}"
    terminal = edge.made.state.data.terminal
    if edge.ended and terminal is not None:
        handed = [name for name in terminal.undelivered if name in waiting]
        if handed != waiting[len(taken) :]:
            return f"undelivered {terminal.undelivered} of {waiting}"
    return ""


@edge_law("I11")
def what_is_taken_up_is_in_the_history(edge: Edge) -> str:
    """A command that was taken up stands in the messages; its content is not lost."""
    if not edge.notified:
        return ""
    contents = {name: item.id for name, item in edge.before.data.inbox.commands}
    held = {item.id for item in edge.made.state.data.messages}
    lost = [name for name in edge.notified if contents.get(name, name) not in held]
    return f"taken up and nowhere to be seen: {lost}" if lost else ""
