"""Small cases for tests of the explorer itself: seconds, not minutes."""

from __future__ import annotations

from attrs import evolve

from fsm_agent.explorer.bounds import Bounds, Piece
from fsm_agent.explorer.matrix import CALM, SMALL, Case

TINY = Case(
    "tiny",
    evolve(SMALL, max_model_calls=2),
    evolve(CALM, stops=("end_turn", "tool_use", "max_tokens"), strangers=False),
)
"""One turn, at most one read-only call a reply, two model calls."""

NARROW = Bounds(
    blocks=1,
    tools=0,
    pieces=(Piece.TEXT,),
    stops=("end_turn",),
    errors=(),
    long_waits=False,
    commands=0,
    requests=False,
    switches=False,
    crashes=False,
    strangers=False,
)
"""A world in which almost nothing can happen."""
