"""The laws of the loop, each a named function (spec 04, I1 to I17).

A law judges a state, an edge or a whole run; it says what is wrong, or nothing. ``LAWS`` are those that every reducer
state and step must keep; users add their own with :func:`state_law` and :func:`edge_law`. I14 and I15 are about the log
and its replay, and are judged there.
"""

from __future__ import annotations

from . import (
    aborts,
    calls,
    choices,
    commands,
    compactions,
    counters,
    endings,
    entering,
    flights,
    keeping,
    lines,
    loops,
    replies,
    requests,
    rounds,
    streaming,
    table,
    values,
    waits,
)
from .law import Edge, Law, LawError, Over, edge_law, need_laws, run_law, state_law
from .runs import judge_run

MODULES = (
    table,
    flights,
    aborts,
    replies,
    calls,
    counters,
    commands,
    requests,
    values,
    choices,
    lines,
    rounds,
    keeping,
    waits,
    endings,
    loops,
    compactions,
    entering,
    streaming,
)
LAWS: tuple[Law, ...] = tuple(law for module in MODULES for law in vars(module).values() if isinstance(law, Law))
"""All laws over states and edges, in the order of their modules."""

__all__ = ["LAWS", "Edge", "Law", "LawError", "Over", "edge_law", "judge_run", "need_laws", "run_law", "state_law"]
