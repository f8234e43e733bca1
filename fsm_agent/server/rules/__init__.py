"""The rules of the wire, by theme; the registry names each one."""

from __future__ import annotations

from . import shape
from .base import Breach, Memory, Rule, Wire

__all__ = ["RULES", "Breach", "Memory", "Rule", "Wire"]

RULES: tuple[Rule, ...] = (*shape.RULES,)
