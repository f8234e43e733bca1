"""The pure core: the reducer and its values. No clock, no randomness, no I/O; the standard library and ``attrs`` only.

What an embedder needs stands here, imported when it is first used. ``step(state, event, config)`` takes one event (it is
in ``core.step``, and is ``fsm_agent.step``); ``initial(config)`` is the state before the first run, ``next_run(state,
config)`` that before the next; the events are in ``core.events``, the effects in ``core.effects``, the declared table in
``core.rows``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .config import ConfigError, ContextConfig, LoopConfig
    from .outputs import Terminal
    from .phases import Cause, ContinueReason, Phase, TerminalReason
    from .rows import TABLE
    from .state import LoopState, Step, initial
    from .step import next_run

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
    home: Any
    if name in ("ConfigError", "ContextConfig", "LoopConfig"):
        from . import config as home
    elif name in ("Cause", "ContinueReason", "Phase", "TerminalReason"):
        from . import phases as home
    elif name in ("LoopState", "Step", "initial"):
        from . import state as home
    elif name == "Terminal":
        from . import outputs as home
    elif name == "TABLE":
        from . import rows as home
    elif name == "next_run":
        from . import step as home
    else:
        raise AttributeError(f"module 'fsm_agent.core' has no attribute {name!r}")
    return getattr(home, name)


def __dir__() -> list[str]:
    return sorted(__all__)
