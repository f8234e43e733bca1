"""What a project and its user's home bring to an agent: memory files, skills, sub-agents; ready for ``Agent(...)``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import field, frozen

from ..runtime.permissions.rules import NO_RULES, RuleSet
from ..runtime.tools.base import Tool
from ..runtime.tools.builtin import builtin_tools
from ..runtime.tools.todo import TodoWrite
from .agents import AgentDefinition, agent_set, load_agents
from .memory import MemoryFile, NestedMemory, load_memory, user_context
from .skills import Skill, SkillPrefetch, SkillTool, load_skills
from .subagents import AgentTool


@frozen
class Discovered:
    """What was found.

    Attributes:
        cwd: the project.
        memory: memory files, in order.
        skills: by name.
        agents: by name, the built-in one included.
        warnings: what was left out, and why.
        trusted: the user trusts the project.
    """

    cwd: Path
    memory: tuple[MemoryFile, ...] = ()
    skills: Mapping[str, Skill] = field(factory=dict)
    agents: Mapping[str, AgentDefinition] = field(factory=lambda: agent_set().agents)
    warnings: tuple[str, ...] = ()
    trusted: bool = False

    def tools(self) -> tuple[Tool, ...]:
        """Make the tools that go with it: ``TodoWrite``, ``Agent``, and ``Skill`` where there are skills."""
        made: list[Tool] = [TodoWrite(), AgentTool(agent_set(self.agents.values()))]
        if any(skill.for_model for skill in self.skills.values()):
            made.append(SkillTool(self.skills.values()))
        return tuple(made)

    def settings(self, tools: Sequence[Tool] | None = None) -> dict[str, Any]:
        """Give arguments for :class:`~fsm_agent.session.agent.Agent`.

        Args:
            tools: the tools besides, such as those of MCP servers; the built-in ones by default.
        """
        skills = SkillPrefetch(self.skills.values())
        return {
            "tools": (*(builtin_tools() if tools is None else tools), *self.tools()),
            "user_context": user_context(self.memory),
            "attachment_providers": (NestedMemory(self.cwd, trusted=self.trusted).provider(),),
            "skill_providers": (skills.provider(),) if self.skills else (),
            "read_dirs": tuple(str(skill.folder) for skill in self.skills.values() if not skill.project),
        }


def discover(cwd: Path, home: Path | None = None, *, trusted: bool = False, rules: RuleSet = NO_RULES) -> Discovered:
    """Find what a project and the user's home bring.

    Nothing of it grants anything: skills and agents are texts, and what they ask for is judged call by call. In a project
    that is not trusted, imports of memory files stay inside the folder that they are in, and agents have their caller's model.

    Args:
        cwd: the project.
        home: the user's home; None to leave it out.
        trusted: the user trusts the project.
        rules: memory files that a deny or ask rule of ``Read`` names are left out.
    """
    memory = load_memory(cwd, home, trusted=trusted, rules=rules)
    skills, agents = load_skills(cwd, home), load_agents(cwd, home, trusted=trusted)
    warnings = (*memory.warnings, *skills.warnings, *agents.warnings)
    return Discovered(cwd, tuple(memory.files), skills.skills, agents.agents, warnings, trusted)
