"""The user or the consumer ends the run; what happened is kept and the model is told once (spec 01, section 12)."""

from __future__ import annotations

from .. import texts
from ..config import LoopConfig
from ..control import COMPLETED, EXECUTING, YIELDED
from ..effects import Effect, Emit
from ..events import AbortRequested, Event
from ..evolving import evolve
from ..messages import MessageKind
from ..outputs import UserOutput
from ..phases import AbortReason, Cause, TerminalReason
from ..state import LoopState
from .common import Issuer, charged, discard, finish, history, user_message
from .keeping import closed, keep
from .tools import Round

ABORT_CAUSES = {
    AbortReason.INTERRUPT: Cause.INTERRUPT,
    AbortReason.SUBMIT: Cause.SUBMIT,
    AbortReason.CLOSE: Cause.CONSUMER_CLOSED,
}


def _marked(state: LoopState, event: Event) -> tuple[LoopState, AbortReason]:
    assert isinstance(event, AbortRequested)
    state = charged(state, event.usage)
    context = evolve(state.control.tool_use_context, abort=event.reason)
    return LoopState(control=evolve(state.control, tool_use_context=context), data=state.data), event.reason


def _words(reason: AbortReason, tools: bool) -> str:
    match reason:
        case AbortReason.INTERRUPT:
            return texts.INTERRUPTED_TOOLS if tools else texts.INTERRUPTED
        case AbortReason.CLOSE:
            return texts.CLOSED_TOOLS if tools else texts.CLOSED
        case AbortReason.SUBMIT:
            return ""


def _end(state: LoopState, reason: AbortReason, terminal: TerminalReason, tools: bool) -> tuple[LoopState, tuple[Effect, ...]]:
    issuer = Issuer(state.control.run)
    before = len(state.data.iteration.view) if state.data.iteration.view else len(state.data.messages)
    messages = history(state, issuer) if state.data.iteration.view else state.data.messages
    words = _words(reason, tools)
    if words and messages:
        messages = (*messages, user_message(issuer.new("msg"), MessageKind.META, words))
    shown = tuple(Emit(output=UserOutput(message=item)) for item in messages[before:] if item.role == "user")
    ended, effects = finish(
        LoopState(control=evolve(state.control, run=issuer.run), data=state.data),
        terminal,
        ABORT_CAUSES[reason],
        messages,
        detail="",
        error=state.data.iteration.failure,
    )
    return ended, shown + effects


def abort_ready(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """End before anything began."""
    marked, reason = _marked(state, event)
    return finish(marked, TerminalReason.ABORTED_STREAMING, ABORT_CAUSES[reason], marked.data.messages)


def abort_streaming(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """End while the model is called, waited for, or judged, and no call has begun: a reply in flight is dropped."""
    marked, reason = _marked(state, event)
    effects: tuple[Effect, ...] = ()
    if marked.data.iteration.reply is None and marked.control.call.streaming:
        marked, effects = discard(marked)
    ended, more = _end(marked, reason, TerminalReason.ABORTED_STREAMING, tools=False)
    return ended, effects + more


def abort_tools(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """End while tools run: results stay, what runs has an unknown outcome, what waits was not run."""
    marked, reason = _marked(state, event)
    effects: tuple[Effect, ...] = ()
    if marked.data.iteration.reply is None:
        marked, effects = keep(marked, closed(marked), event)
    tools = evolve(marked.control.tools, after_stream=True)
    rounds = Round(LoopState(control=evolve(marked.control, tools=tools), data=marked.data))
    for position, call in enumerate(rounds.calls):
        if call.state in (COMPLETED, YIELDED):
            continue
        if call.state is EXECUTING and call.started:
            rounds.refuse(position, texts.unknown_with_tail(rounds.data[position].tail))
        else:
            rounds.refuse(position, texts.NOT_RUN_INTERRUPTED)
    settled, more = rounds.done(config)
    ended, last = _end(settled, reason, TerminalReason.ABORTED_TOOLS, tools=True)
    return ended, effects + more + last
