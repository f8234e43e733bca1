"""A project as the user has it: settings, commands, memory, skills and sub-agents, within what is trusted (spec 03, 05)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import evolve, field, frozen

from .discovery import Discovered, discover
from .frontmatter import DocumentProblem
from .markdown_commands import Commands, MarkdownCommand, find_commands
from .settings import DISCOVERED, Settings, Source, load_settings

if TYPE_CHECKING:
    from ..runtime.tools.base import Tool
    from .agent import Agent
    from .session import Session


@frozen
class Project:
    """What a folder and its user's home bring to an agent.

    Attributes:
        cwd: the folder.
        trusted: the user trusts it.
        settings: all settings together.
        commands: commands, and the skills that people may call by name.
        found: memory files, skills and sub-agents; None where nothing is discovered.
        warnings: what was left out, and why.
    """

    cwd: Path
    trusted: bool = False
    settings: Settings = field(factory=Settings)
    commands: Commands = field(factory=Commands)
    found: Discovered | None = None
    warnings: tuple[str, ...] = ()

    def agent_settings(self, tools: Sequence[Tool] | None = None) -> dict[str, Any]:
        """Give arguments for :class:`~fsm_agent.session.agent.Agent`; the model and its fallbacks are not among them.

        Args:
            tools: the tools besides those of the project; the built-in ones by default.
        """
        settings = self.settings
        given: dict[str, Any] = {"rules": settings.rules, "hooks": settings.hooks, "add_dirs": settings.add_dirs}
        if settings.env:
            given["env"] = {**os.environ, **settings.env}
        if self.found is not None:
            given.update(self.found.settings(tools))
        elif tools is not None:
            given["tools"] = tuple(tools)
        return given

    def session(self, agent: Agent, **options: Any) -> Session:
        """Make a session with the project's commands."""
        from .session import Session

        return self.equip(Session(agent, **options))

    def equip(self, session: Session) -> Session:
        """Give a session the project's commands, and what it says of itself."""
        session.commands = self.commands
        if self.found is not None:
            session.described.update(agents=list(self.found.agents), skills=list(self.found.skills))
        return session


def load_project(
    cwd: str | os.PathLike[str],
    *,
    home: str | os.PathLike[str] | None = None,
    sources: Iterable[Source] = DISCOVERED,
    flag: str | None = None,
    trusted: bool = False,
    bare: bool = False,
) -> Project:
    """Read what a project brings.

    Args:
        cwd: the folder.
        home: the user's home; None to leave it out.
        sources: where settings and commands are taken from.
        flag: what ``--settings`` was given.
        trusted: the user trusts the folder; if not, its files restrict and grant nothing, and one warning says so.
        bare: look at nothing but ``flag``.

    Raises:
        SettingsError: for settings that cannot be used.
    """
    root = Path(cwd).absolute()
    if bare:
        settings = load_settings(root, sources=(), flag=flag, trusted=True)
        return Project(root, True, settings, warnings=settings.warnings)
    wanted = tuple(sources)
    user = Path(home) if home is not None and Source.USER in wanted else None
    settings = load_settings(root, home=home, sources=wanted, flag=flag, trusted=trusted)
    commands = find_commands(root, user, sources=wanted, trusted=trusted)
    found = discover(root, user, trusted=trusted, rules=settings.rules)
    warnings = [*settings.warnings, *commands.warnings, *found.warnings]
    by_name = dict(commands.by_name)
    warnings += _add_skills(by_name, found, trusted)
    withheld = [*settings.withheld, *withheld_files(root)] if not trusted else []
    if withheld:
        warnings.append(f"{root} is not trusted: left out were {'; '.join(withheld)}")
    return Project(root, trusted, settings, Commands(dict(sorted(by_name.items()))), found, tuple(warnings))


def _add_skills(by_name: dict[str, MarkdownCommand], found: Discovered, trusted: bool) -> list[str]:
    """Skills are commands too, and win over commands of the same name."""
    warnings: list[str] = []
    for skill in found.skills.values():
        if not skill.for_user:
            continue
        try:
            by_name[skill.name] = evolve(skill.command(), trusted=trusted or not skill.project)
        except DocumentProblem as problem:
            warnings.append(f"skill left out: {problem}")
    return warnings


def withheld_files(cwd: Path) -> tuple[str, ...]:
    """Name what else a folder would grant if it were trusted."""
    return (f"MCP servers in {cwd / '.mcp.json'}",) if os.path.isfile(cwd / ".mcp.json") else ()


def asks_for_trust(cwd: str | os.PathLike[str], *, sources: Iterable[Source] = DISCOVERED) -> tuple[str, ...]:
    """Say what a folder would grant if it were trusted, in words; empty if there is nothing to ask the user about.

    Raises:
        SettingsError: for settings that cannot be used.
    """
    root = Path(cwd).absolute()
    wanted = tuple(sources)
    names = [
        f"command /{command.name}"
        for command in find_commands(root, None, sources=wanted).by_name.values()
        if command.allowed_tools or command.model or "!`" in command.body
    ]
    return (*load_settings(root, sources=wanted, trusted=False).withheld, *withheld_files(root), *names)
