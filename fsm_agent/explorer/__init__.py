"""Exhaustive exploration of the bounded machine (spec 04, testing kit)."""
