"""What arrives beside the loop: commands, switches, background answers. Recorded at once, used at a safe place."""

from __future__ import annotations

from ..config import LoopConfig, why_not
from ..context.collapse import drop, settle, staged
from ..control import Queue
from ..effects import Effect, Emit
from ..events import (
    CollapseFailed,
    CollapseStaged,
    CommandQueued,
    CompactRequested,
    Event,
    ModelSwitched,
    PrefetchFinished,
    ToolUseSummaryReady,
)
from ..evolving import evolve
from ..outputs import Notice, ToolUseSummary
from ..phases import CompactKind
from ..rebuild import with_inbox, with_queue
from ..state import Inbox, LoopState
from .common import charged, find, without


def queue_command(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Keep what the user typed until the next safe place; what is for another address is kept and handed back at the end."""
    assert isinstance(event, CommandQueued)
    queue, inbox = state.control.queue, state.data.inbox
    waiting = (*queue.commands, event.command_id) if event.address == config.address else queue.commands
    next_queue = Queue(waiting, queue.compact, queue.forced, queue.switch, queue.pending_tool_use_summary)
    commands = (*inbox.commands, (event.command_id, event.message))
    next_inbox = Inbox(commands, inbox.attachments, inbox.prefetched, inbox.notices, inbox.instructions)
    return LoopState(with_queue(state.control, next_queue), with_inbox(state.data, next_inbox)), ()


def request_compaction(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Remember that the user wants a compaction at the next pass."""
    assert isinstance(event, CompactRequested)
    queue = evolve(state.control.queue, compact=True)
    facts = state.control.context
    if CompactKind.MANUAL not in facts.tried:  # not in the pass that is under way: the next one clears this
        facts = evolve(facts, tried=(*facts.tried, CompactKind.MANUAL))
    inbox = evolve(state.data.inbox, instructions=event.instructions)
    return LoopState(control=evolve(state.control, queue=queue, context=facts), data=evolve(state.data, inbox=inbox)), ()


def switch_model(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Remember the model that the user wants from the next pass on; one that cannot be used is refused with a warning."""
    assert isinstance(event, ModelSwitched)
    why = why_not(config, event.model)
    if why:
        text = f"The model {event.model!r} cannot be used: {why}. The run stays with the one that it has."
        return state, (Emit(output=Notice(text=text, level="warning")),)
    queue = evolve(state.control.queue, switch=event.model)
    return LoopState(control=evolve(state.control, queue=queue), data=state.data), ()


def take_prefetch(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Keep what a prefetch brought until the next safe place; it is injected once."""
    assert isinstance(event, PrefetchFinished)
    state = charged(state, event.usage)
    inbox = evolve(state.data.inbox, prefetched=state.data.inbox.prefetched + event.messages)
    control = evolve(state.control, flight=without(state.control.flight, event.id))
    return LoopState(control=control, data=evolve(state.data, inbox=inbox)), ()


def show_summary(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Show a summary of tools at once; the field is cleared if it waits for this one."""
    assert isinstance(event, ToolUseSummaryReady)
    state = charged(state, event.usage)
    queue = state.control.queue
    if queue.pending_tool_use_summary == event.id:
        queue = evolve(queue, pending_tool_use_summary="")
    control = evolve(state.control, queue=queue, flight=without(state.control.flight, event.id))
    effects = (Emit(output=ToolUseSummary(text=event.text)),) if event.text.strip() else ()
    return LoopState(control=control, data=state.data), effects


def stage_collapse(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Put a span's summary into the collapse store; the view does not change before it is committed."""
    assert isinstance(event, CollapseStaged)
    state = charged(state, event.usage)
    flight = find(state.control.flight, event.id)
    context = settle(state.data.context, flight.call if flight is not None else "", event.summary)
    facts = evolve(state.control.context, staged=staged(context))
    control = evolve(state.control, context=facts, flight=without(state.control.flight, event.id))
    return LoopState(control=control, data=evolve(state.data, context=context)), ()


def drop_collapse(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """A span could not be summarised: it stays as it is."""
    assert isinstance(event, CollapseFailed)
    state = charged(state, event.usage)
    flight = find(state.control.flight, event.id)
    context = drop(state.data.context, flight.call if flight is not None else "")
    control = evolve(state.control, flight=without(state.control.flight, event.id))
    return LoopState(control=control, data=evolve(state.data, context=context)), ()
