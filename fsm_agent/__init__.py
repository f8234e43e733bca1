"""fsm_agent: an engine for AI agents whose loop is an explicit finite-state machine.

The names below are imported when they are first used, so ``import fsm_agent`` alone costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .core.config import ConfigError, ContextConfig, LoopConfig
    from .core.outputs import Terminal
    from .core.state import LoopState, initial
    from .core.step import next_run, step
    from .runtime.commands import CommandStatus
    from .runtime.faults import EngineFault, LogWriteError, RunBusy, RunEnded, RunError
    from .runtime.ports import Deps
    from .runtime.run import Run
    from .runtime.tools.base import ToolContext
    from .runtime.tools.decorator import tool
    from .session.agent import Agent
    from .session.endings import exit_code, succeeded
    from .session.query import query
    from .session.run_sync import Outcome, run_sync
    from .session.session import Session

_HOMES = {
    "Agent": "session.agent",
    "CommandStatus": "runtime.commands",
    "ConfigError": "core.config",
    "ContextConfig": "core.config",
    "Deps": "runtime.ports",
    "EngineFault": "runtime.faults",
    "LogWriteError": "runtime.faults",
    "LoopConfig": "core.config",
    "LoopState": "core.state",
    "Outcome": "session.run_sync",
    "Run": "runtime.run",
    "RunBusy": "runtime.faults",
    "RunEnded": "runtime.faults",
    "RunError": "runtime.faults",
    "Session": "session.session",
    "Terminal": "core.outputs",
    "ToolContext": "runtime.tools.base",
    "exit_code": "session.endings",
    "initial": "core.state",
    "next_run": "core.step",
    "query": "session.query",
    "run_sync": "session.run_sync",
    "step": "core.step",
    "succeeded": "session.endings",
    "tool": "runtime.tools.decorator",
}

__all__ = [
    "Agent",
    "CommandStatus",
    "ConfigError",
    "ContextConfig",
    "Deps",
    "EngineFault",
    "LogWriteError",
    "LoopConfig",
    "LoopState",
    "Outcome",
    "Run",
    "RunBusy",
    "RunEnded",
    "RunError",
    "Session",
    "Terminal",
    "ToolContext",
    "exit_code",
    "initial",
    "next_run",
    "query",
    "run_sync",
    "step",
    "succeeded",
    "tool",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'fsm_agent' has no attribute {name!r}")
    return getattr(import_module(f"fsm_agent.{home}"), name)


def __dir__() -> list[str]:
    return sorted((*globals(), *__all__))
