"""The pure core: the reducer and its values. No clock, no randomness, no I/O; the standard library and ``attrs`` only.

What an embedder needs stands here, imported when it is first used. ``step(state, event, config)`` takes one event (it is
in ``core.step``, and is ``fsm_agent.step``); ``initial(config)`` is the state before the first run, ``next_run(state,
config)`` that before the next; the events are in ``core.events``, the effects in ``core.effects``, the declared table in
``core.rows``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .config import ConfigError, ContextConfig, LoopConfig
    from .outputs import Terminal
    from .phases import Cause, ContinueReason, Phase, TerminalReason
    from .rows import TABLE
    from .state import LoopState, Step, initial
    from .step import next_run

_HOMES = {
    "TABLE": "rows",
    "Cause": "phases",
    "ConfigError": "config",
    "ContextConfig": "config",
    "ContinueReason": "phases",
    "LoopConfig": "config",
    "LoopState": "state",
    "Phase": "phases",
    "Step": "state",
    "Terminal": "outputs",
    "TerminalReason": "phases",
    "initial": "state",
    "next_run": "step",
}

__all__ = [
    "TABLE",
    "Cause",
    "ConfigError",
    "ContextConfig",
    "ContinueReason",
    "LoopConfig",
    "LoopState",
    "Phase",
    "Step",
    "Terminal",
    "TerminalReason",
    "initial",
    "next_run",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'fsm_agent.core' has no attribute {name!r}")
    return getattr(import_module(f"fsm_agent.core.{home}"), name)


def __dir__() -> list[str]:
    return sorted((*globals(), *__all__))
