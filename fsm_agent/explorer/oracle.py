"""What else may judge the steps of an exploration: a witness of its own, such as ``fsm_agent.diagram.agreement``."""

from __future__ import annotations

from typing import Protocol

from ..core.config import LoopConfig
from ..core.events import Event
from ..core.state import LoopState, Step
from ..core.step import Lookup


class Oracle(Protocol):
    """A second opinion on every step."""

    @property
    def lookup(self) -> Lookup:
        """The table that the reducer must run on while it is judged."""

    def begin(self) -> None:
        """Begin another exploration: what is seen is counted anew."""

    def judge(self, before: LoopState, event: Event, made: Step, config: LoopConfig) -> str:
        """Judge the step just taken; empty if nothing is wrong."""

    def news(self) -> tuple[int, ...]:
        """Give the valuations seen for the first time since the last call, as numbers that are equal in every process."""
