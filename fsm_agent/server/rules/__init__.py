"""The rules of the wire, by theme; the registry names each one."""

from __future__ import annotations

from . import calling, compacting, limits, marks, media, order, shape, thinking
from .base import Breach, Memory, Rule, Wire

__all__ = ["RULES", "Breach", "Memory", "Rule", "Wire"]

RULES: tuple[Rule, ...] = (
    media.body_size,
    *shape.RULES,
    *order.RULES,
    *calling.RULES,
    *compacting.RULES,
    *thinking.RULES,
    *limits.RULES,
    *marks.RULES,
    media.media,
)
"""All rules, in the order in which they are looked at: what decides comes first."""
