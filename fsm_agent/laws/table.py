"""I1 and I4: the machine is total, and moves along declared rows only."""

from __future__ import annotations

from ..core.config import LoopConfig
from ..core.control import Control
from ..core.events import Event, EventKind, RunStarted
from ..core.phases import TERMINAL_SET, TRANSIENT, ContinueReason, Phase
from ..core.rows import STALE
from ..core.state import LoopState
from ..core.step import LOOKUP
from ..core.table import Row, RowKind
from .law import IGNORES, ROWS, Edge, edge_law, state_law
from .micro import retraced


@state_law("I1")
def no_transient_phase(state: LoopState, config: LoopConfig) -> str:
    """A returned state is never in a phase that waits for nothing."""
    return f"the state rests in {state.phase}" if state.control.phase in TRANSIENT else ""


@edge_law("I1", quiet=True)
def every_event_is_taken_or_refused(edge: Edge) -> str:
    """An event is taken by a row, ignored by name, or refused; a refusal and an ignore change nothing."""
    made = edge.made
    if made.rejected is not None:
        if made.taken or not edge.quiet:
            return "a refused event changed something"
        return "" if made.rejected.because.strip() else "a refusal does not say why"
    if not made.taken:
        return "the event was neither taken nor refused"
    if (made.taken[0] == STALE or made.taken[0] in IGNORES) and not edge.quiet:
        return f"an ignored event ({made.taken[0]}) changed something"
    return ""


@edge_law("I4", quiet=True)
def rows_make_a_path(edge: Edge) -> str:
    """The rows taken are declared, begin at the phase before, follow each other, and end at the phase after."""
    here, after = edge.old.phase, edge.new.phase
    for place, name in enumerate(edge.made.taken):
        row = ROWS.get(name)
        if row is None:
            if place == 0 and len(edge.made.taken) == 1 and (name == STALE or name in IGNORES):
                continue
            return f"{name} is no declared row"
        if row.source is not here:
            return f"row {name} leaves {row.source}, but the run stood in {here}"
        if (row.event is EventKind.AUTO) == (place == 0):
            return f"row {name} was taken at place {place}"
        here = row.target
    return "" if here is after else f"the rows lead to {here}, the state is in {after}"


@edge_law("I1", quiet=True)
def a_run_starts_where_none_is_on(edge: Edge) -> str:
    """A run starts in ``ready`` and nowhere else: while one is on, and after its end, a start is refused."""
    if not isinstance(edge.event, RunStarted):
        return ""
    refused = edge.made.rejected is not None
    if refused == (edge.old.phase is Phase.READY):
        return f"in {edge.old.phase} a start was {'refused' if refused else 'taken'}"
    return ""


_WAYS: dict[Phase, tuple[Phase, ...]] = {
    Phase.READY: (Phase.PREPARING,),
    Phase.PREPARING: (Phase.COMPACTING, Phase.BACKING_OFF, Phase.CALLING_MODEL),
    Phase.COMPACTING: (Phase.PREPARING,),
    Phase.CALLING_MODEL: (Phase.DECIDING,),
    Phase.BACKING_OFF: (Phase.PREPARING,),
    Phase.DECIDING: (
        Phase.PREPARING,
        Phase.BACKING_OFF,
        Phase.REACTIVE_COMPACTING,
        Phase.RUNNING_TOOLS,
        Phase.RUNNING_STOP_HOOKS,
    ),
    Phase.REACTIVE_COMPACTING: (Phase.PREPARING,),
    Phase.RUNNING_TOOLS: (Phase.GATHERING_ATTACHMENTS,),
    Phase.GATHERING_ATTACHMENTS: (Phase.PREPARING,),
    Phase.RUNNING_STOP_HOOKS: (Phase.PREPARING,),
}
"""Where each phase leads, besides to an end or to itself (spec 01, sections 2, 4, 5, 7, 14)."""


@edge_law("I4")
def phases_follow_each_other(edge: Edge) -> str:
    """A phase leads where the specification says, to an end, or stays, if it is one that waits."""
    for name in edge.made.taken:
        row = ROWS.get(name)
        if row is None or row.target in TERMINAL_SET or (row.target is row.source and row.source not in TRANSIENT):
            continue
        if row.target not in _WAYS[row.source]:
            return f"{name} leads from {row.source} to {row.target}"
    return ""


@edge_law("I4")
def reasons_are_those_of_the_rows(edge: Edge) -> str:
    """The terminal's reason and cause, and the transition of a new pass, are those that its row declares."""
    continued: ContinueReason | None = None
    for name in edge.made.taken:
        row = ROWS.get(name)
        if row is not None and row.kind is RowKind.CONTINUE and isinstance(row.reason, ContinueReason):
            continued = row.reason
    if continued is not None and edge.new.run.transition is not continued:
        return f"the row says {continued}, the state {edge.new.run.transition}"
    if continued is None and not edge.took("run_started") and edge.new.run.transition is not edge.old.run.transition:
        return "the transition changed without a row that continues"
    if not edge.ended:
        return ""
    terminal = edge.made.state.data.terminal
    row = ROWS.get(edge.made.taken[-1])
    if terminal is None or row is None:
        return "the run ended without a terminal"
    if terminal.reason is not row.reason or terminal.cause not in row.causes:
        return f"row {row.name} ended as {terminal.reason}/{terminal.cause}"
    return ""


@state_law("I5")
def terminal_goes_with_phase(state: LoopState, config: LoopConfig) -> str:
    """A terminal is there exactly in terminal phases, with the phase's own reason and nothing in flight."""
    terminal = state.data.terminal
    if (terminal is not None) != (state.control.phase in TERMINAL_SET):
        return f"phase {state.phase} with terminal {terminal}"
    if terminal is None:
        return ""
    if terminal.reason.value != state.control.phase.value:
        return f"reason {terminal.reason} in phase {state.phase}"
    return "something is in flight after the end" if state.control.flight else ""


def holding(rows: tuple[Row, ...], control: Control, event: Event, config: LoopConfig) -> tuple[Row, ...]:
    """Give the rows of a cell whose condition holds while none that is declared before it does.

    This reads the declaration (``guard.earlier``) and not the order in which ``step`` looks, so it is a second opinion.
    """
    truth = {row.guard.name: row.guard.holds(control, event, config) for row in rows if row.guard is not None}
    return tuple(
        row
        for row in rows
        if row.guard is None or (truth[row.guard.name] and not any(truth[name] for name in row.guard.earlier))
    )


@edge_law("I4", costly=True)
def guards_are_a_partition(edge: Edge) -> str:
    """In each cell that a step passes exactly one row holds, the one that is taken; where the step rests, none does."""
    seen, rest_state = retraced(edge)
    for one in seen:
        cell = LOOKUP.cells[one.row.source][one.row.event]
        assert isinstance(cell, tuple)
        found = [item.name for item in holding(cell, one.old, one.event, edge.config)]
        if found != [one.row.name]:
            return f"row {one.row.name} was taken, but these hold: {found}"
    rest = LOOKUP.auto[rest_state.control.phase]
    left = holding(rest, rest_state.control, edge.event, edge.config)
    return f"the step rests, but {left[0].name} holds" if left else ""
