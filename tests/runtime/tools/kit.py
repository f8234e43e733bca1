"""What the tests of tools share: a toolbox over a real folder, and ports that keep what they were told."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from attrs import define, field

from fsm_agent.core.effects import RunTool
from fsm_agent.core.events import ToolFinished
from fsm_agent.runtime.permissions.decide import Policy
from fsm_agent.runtime.permissions.modes import Mode
from fsm_agent.runtime.permissions.rules import parse_rules
from fsm_agent.runtime.ports import ToolPorts
from fsm_agent.runtime.tools.base import Tool
from fsm_agent.runtime.tools.builtin import builtin_tools
from fsm_agent.runtime.tools.environment import child_environment
from fsm_agent.runtime.tools.paths import Workspace
from fsm_agent.runtime.tools.pipeline import ToolBox


@define
class Bench:
    """A toolbox at work."""

    box: ToolBox
    accept: bool = True
    trouble: OSError | None = None
    started: list[str] = field(factory=list)
    progress: list[str] = field(factory=list)

    async def call(self, name: str, /, tool_use_id: str = "toolu_1", **fields: Any) -> ToolFinished:
        """Run one call with these fields as its input."""
        return await self.raw(name, json.dumps(fields), tool_use_id)

    async def raw(self, name: str, input_json: str, tool_use_id: str = "toolu_1") -> ToolFinished:
        """Run one call with this text as its input."""
        effect = RunTool("run/tool-1", tool_use_id, name, input_json, self.box.traits(name, input_json))
        return await self.box.run(effect, ToolPorts(started=self._started, progress=self._progress))

    async def text(self, name: str, /, **fields: Any) -> str:
        """Run one call and give the text of its result."""
        return text_of(await self.call(name, **fields))

    async def _started(self, digest: str) -> bool:
        if self.trouble is not None:
            raise self.trouble
        self.started.append(digest)
        return self.accept

    async def _progress(self, text: str) -> None:
        self.progress.append(text)


def text_of(finished: ToolFinished) -> str:
    """The text of a result."""
    content = json.loads(finished.result.json)["content"]
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def bench(
    folder: Path,
    tools: Iterable[Tool] | None = None,
    *,
    mode: Mode = Mode.BYPASS,
    rules: dict[str, Any] | None = None,
    **options: Any,
) -> Bench:
    """Make a toolbox over a folder."""
    policy = Policy(Workspace.at(folder), mode, parse_rules(**(rules or {})))
    env = options.pop("env", None) or child_environment(os.environ)
    return Bench(ToolBox(builtin_tools() if tools is None else tools, policy=policy, env=env, **options))


def is_alive(pid: int) -> bool:
    """True if a process runs; one that only waits to be reaped does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")
