"""The laws of the loop, each a named function (spec 04, I1 to I17)."""

from __future__ import annotations

from .law import Edge, Law, Over, edge_law, run_law, state_law

LAWS: tuple[Law, ...] = ()

__all__ = ["LAWS", "Edge", "Law", "Over", "edge_law", "run_law", "state_law"]
