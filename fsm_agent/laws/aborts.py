"""Spec 01, section 12: an abort ends the run at once, says so, and leaves a history that can be gone on from."""

from __future__ import annotations

from ..core.events import AbortRequested, EffectFailed, EffectLost
from ..core.phases import TERMINAL_SET, AbortReason, Cause, Phase, TerminalReason
from .law import Edge, edge_law

_CAUSES = {
    AbortReason.INTERRUPT: Cause.INTERRUPT,
    AbortReason.SUBMIT: Cause.SUBMIT,
    AbortReason.CLOSE: Cause.CONSUMER_CLOSED,
}


@edge_law("I5", quiet=True)
def an_abort_ends_the_run(edge: Edge) -> str:
    """In every phase but a terminal one an abort ends the run in one step, with its own cause and the phase's reason."""
    event = edge.event
    if not isinstance(event, AbortRequested) or edge.old.phase in TERMINAL_SET:
        return ""
    terminal = edge.made.state.data.terminal
    if terminal is None:
        return "the run goes on"
    if terminal.cause is not _CAUSES[event.reason]:
        return f"{event.reason} ended as {terminal.cause}"
    if edge.new.tool_use_context.abort is not event.reason:
        return "the state does not name the reason"
    began = edge.old.phase is Phase.CALLING_MODEL and any(call.started for call in edge.old.tools.calls)
    tools = began or edge.old.phase in (Phase.RUNNING_TOOLS, Phase.GATHERING_ATTACHMENTS)
    expected = TerminalReason.ABORTED_TOOLS if tools else TerminalReason.ABORTED_STREAMING
    return "" if terminal.reason is expected else f"in {edge.old.phase} it ended as {terminal.reason}"


@edge_law("I16", quiet=True)
def lost_effects_are_dealt_with(edge: Edge) -> str:
    """An effect that failed or was lost is no longer in flight after the step, whatever the table makes of it."""
    if not isinstance(edge.event, (EffectLost, EffectFailed)):
        return ""
    before = any(item.id == edge.event.id for item in edge.old.flight)
    if before and any(item.id == edge.event.id for item in edge.new.flight):
        return f"{edge.event.id} is still in flight"
    return "it was refused" if before and edge.made.rejected is not None else ""
