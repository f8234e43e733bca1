"""Runs one shell command through the toolbox in a fresh process: ``python flood_engine.py FOLDER TIMEOUT_MS COMMAND``.

Prints the result and the most memory that this process ever had, in kilobytes.
"""

from __future__ import annotations

import json
import os
import sys

import anyio

from fsm_agent.core.effects import RunTool
from fsm_agent.core.events import ToolFinished
from fsm_agent.runtime.permissions.decide import Policy
from fsm_agent.runtime.permissions.modes import Mode
from fsm_agent.runtime.permissions.rules import parse_rules
from fsm_agent.runtime.ports import ToolPorts
from fsm_agent.runtime.tools.builtin import builtin_tools
from fsm_agent.runtime.tools.environment import child_environment
from fsm_agent.runtime.tools.paths import Workspace
from fsm_agent.runtime.tools.pipeline import ToolBox

progress: list[int] = []


async def started(digest: str) -> bool:
    """Every call is accepted."""
    return True


async def told(text: str) -> None:
    """Count what progress was told."""
    progress.append(len(text))


async def main(folder: str, timeout: int, command: str) -> ToolFinished:
    """Run the command."""
    policy = Policy(Workspace.at(folder), Mode.BYPASS, parse_rules())
    box = ToolBox(builtin_tools(), policy=policy, env=child_environment(os.environ))
    text = json.dumps({"command": command, "timeout": timeout})
    effect = RunTool("run/tool-1", "toolu_1", "Bash", text, box.traits("Bash", text))
    return await box.run(effect, ToolPorts(started=started, progress=told))


finished = anyio.run(main, sys.argv[1], int(sys.argv[2]), sys.argv[3])
# Not ru_maxrss: that keeps what the process that started this one had.
with open("/proc/self/status") as status:
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
print(
    json.dumps(
        {"outcome": finished.outcome.value, "result": json.loads(finished.result.json), "peak": peak, "progress": progress}
    )
)
