"""Warnings that belong to no answer: whatever a run performs may say one, and its consumer sees it as a ``notice``."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

SINK: ContextVar[Callable[[str], None] | None] = ContextVar("fsm_agent_notices", default=None)
"""Where warnings go; set by the driver of a run, and inherited by every task that it starts."""


def warn(text: str) -> None:
    """Tell the consumer of the run that this code belongs to; outside a run nobody hears it."""
    sink = SINK.get()
    if sink is not None:
        sink(text)
