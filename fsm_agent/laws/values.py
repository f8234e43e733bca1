"""I2, I3, I16: the reducer is a function of values that cannot change, and a crash at any point is survived."""

from __future__ import annotations

from enum import Enum
from typing import Any

from ..core.config import LoopConfig
from ..core.events import EffectLost
from ..core.phases import TERMINAL_SET, Phase
from ..core.state import LoopState
from ..core.step import step
from .law import Edge, edge_law, state_law
from .requests import faults_of, unpaired

_PLAIN = (str, int, bool, bytes, type(None), Enum)


@edge_law("I2", costly=True)
def the_same_again(edge: Edge) -> str:
    """The same state and event give an equal step a second time."""
    again = step(edge.before, edge.event, edge.config)
    return "" if again == edge.made else "a second step differs"


def frozen_through(value: Any) -> str:
    """Find a part of a value that could be changed; empty if there is none."""
    if isinstance(value, _PLAIN):
        return ""
    if type(value) is tuple:
        return next((fault for fault in map(frozen_through, value) if fault), "")
    kind = type(value)
    if kind is frozenset:
        return "" if all(isinstance(item, _PLAIN) for item in value) else "a set of what can be changed"
    fields = getattr(kind, "__attrs_attrs__", None)
    if fields is None:
        return f"{kind.__name__} is no frozen record"
    try:
        setattr(value, fields[0].name if fields else "nothing", None)
    except AttributeError:
        pass
    else:
        return f"{kind.__name__} can be changed"
    return next((fault for fault in (frozen_through(getattr(value, item.name)) for item in fields) if fault), "")


@state_law("I3", costly=True)
def states_cannot_change(state: LoopState, config: LoopConfig) -> str:
    """A state is made of frozen records, tuples and plain values, all through."""
    return frozen_through(state)


@edge_law("I3", costly=True)
def effects_cannot_change(edge: Edge) -> str:
    """So are events and effects."""
    return frozen_through(edge.event) or frozen_through(edge.made.effects)


@state_law("I16", costly=True)
def a_crash_is_survived(state: LoopState, config: LoopConfig) -> str:
    """Resume, fed every unanswered effect as lost in order, comes to an end or to a wait with a valid history."""
    if state.control.phase in TERMINAL_SET or state.control.phase is Phase.READY:
        return ""
    after = state
    for flight in state.control.flight:
        if not any(item.id == flight.id for item in after.control.flight):
            continue
        made = step(after, EffectLost(flight.id), config)
        if made.rejected is not None:
            return f"{flight.id} was refused: {made.rejected.because}"
        after = made.state
    if after.control.phase in TERMINAL_SET:
        return unpaired(after.data.messages)
    if not after.control.flight:
        return f"nothing is awaited in {after.phase}"
    left = {item.id for item in state.control.flight} & {item.id for item in after.control.flight}
    if left:
        return f"still in flight after the crash: {sorted(left)}"
    request = after.data.iteration.request
    return faults_of(request) if request is not None and after.control.phase is Phase.CALLING_MODEL else ""
