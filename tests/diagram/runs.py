"""The catalog's runs on the bare reducer, each driven once."""

from __future__ import annotations

from functools import cache

from fsm_agent.core.config import LoopConfig
from fsm_agent.core.state import LoopState, initial
from fsm_agent.scenario import load
from fsm_agent.scenario.drive import Driven, drive


@cache
def run(name: str) -> tuple[LoopConfig, LoopState, Driven]:
    """Drive one scenario of the catalog.

    Args:
        name: of the scenario.

    Returns:
        Its configuration, the state in which it begins, and the run.
    """
    scenario = load(name)
    return scenario.config, initial(scenario.config), drive(scenario)
