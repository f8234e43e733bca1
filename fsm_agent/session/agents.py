"""Definitions of sub-agents: Markdown files whose head says what an agent may use and whose body is its system prompt."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType

from attrs import evolve, frozen

from ..core.config import EFFORTS
from ..runtime.permissions.modes import Mode, mode_of
from .frontmatter import Document, DocumentProblem, read_document
from .places import files_in, places

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")
_MAX_DESCRIPTION = 1_024
_STRICTNESS = (Mode.BYPASS, Mode.ACCEPT_EDITS, Mode.DEFAULT, Mode.DONT_ASK, Mode.PLAN)
_UNUSED = ("hooks", "mcpServers", "memory", "background", "isolation", "skills", "initialPrompt")
"""Settings of other engines that change what an agent does and that are not known here: left out with a warning."""


@frozen
class AgentDefinition:
    """One kind of sub-agent.

    Attributes:
        name: what the model calls it; its runs have the source and the address ``agent:<name>``.
        description: when to use it, for the calling model.
        prompt: its system prompt.
        tools: names or patterns of the tools it has; None for all of its caller's.
        disallowed: names or patterns of tools it has not.
        model: another model; empty for the caller's.
        mode: a permission mode; it counts only where it is stricter than the caller's.
        max_turns: rounds, None for what the caller has left.
        effort: effort level, None for the caller's.
        path: the file it was read from, None for one made in code.
    """

    name: str
    description: str
    prompt: str
    tools: tuple[str, ...] | None = None
    disallowed: tuple[str, ...] = ()
    model: str = ""
    mode: Mode | None = None
    max_turns: int | None = None
    effort: str | None = None
    path: Path | None = None

    def __attrs_post_init__(self) -> None:
        if not _NAME.match(self.name):
            raise ValueError(f"{self.name!r} is no name for an agent: letters, digits, - and _, at most 64")
        if not self.prompt.strip():
            raise ValueError(f"agent {self.name}: the prompt is empty")
        if self.max_turns is not None and self.max_turns < 1:
            raise ValueError(f"agent {self.name}: max_turns must be at least 1")

    def keeps(self, tool: str) -> bool:
        """True if the agent has this tool of its caller's."""
        if any(fnmatchcase(tool, pattern) for pattern in self.disallowed):
            return False
        return self.tools is None or any(fnmatchcase(tool, pattern) for pattern in self.tools)

    def mode_under(self, caller: Mode) -> Mode:
        """Give the permission mode below a caller: its own where that is stricter, else the caller's."""
        return caller if self.mode is None else max(caller, self.mode, key=_STRICTNESS.index)


GENERAL = AgentDefinition(
    name="general",
    description="Works on any task that takes several steps, such as a search in many files, and reports what it found.",
    prompt=(
        "You are an agent that works on one task for another agent. Work on your own: nobody answers questions. Use the "
        "tools until the task is done, then end with one message that holds all the caller needs: what you found or did, "
        "with file paths and line numbers, and what is still open. The caller sees that last message and nothing else."
    ),
)


@frozen
class AgentSet:
    """The agents that may be called.

    Attributes:
        agents: by name, in order.
        warnings: files and settings that were left out, and why.
    """

    agents: Mapping[str, AgentDefinition]
    warnings: tuple[str, ...] = ()


def agent_set(definitions: Iterable[AgentDefinition] = ()) -> AgentSet:
    """Make the set of the built-in agent and the given ones; a later one of the same name takes the place of an earlier."""
    agents = {GENERAL.name: GENERAL}
    for definition in definitions:
        agents[definition.name] = definition
    return AgentSet(MappingProxyType(agents))


def load_agents(cwd: Path, home: Path | None = None, *, trusted: bool = True) -> AgentSet:
    """Read the agents of a project and of the user; the project's win, and ``.fsm-agent`` wins over ``.claude``.

    A definition grants nothing: tools are among the caller's, and each call is judged by the caller's rules.

    Args:
        cwd: the project.
        home: the user's home; None to leave it out.
        trusted: the user trusts the project; if not, its agents choose no model and no effort: those cost money.

    Returns:
        The agents; files that cannot be read are named in its warnings.
    """
    found: list[AgentDefinition] = []
    warnings: list[str] = []
    for place in places("agents", cwd, home):
        for path in files_in(place, "*.md"):
            try:
                definition, notes = read_agent(read_document(path))
            except ValueError as problem:
                warnings.append(f"agent left out: {problem}")
                continue
            if not trusted and place.project and (definition.model or definition.effort):
                definition = evolve(definition, model="", effort=None)
                warnings.append(f"{path} lies in a folder that is not trusted: its model and effort were left out")
            found.append(definition)
            warnings += notes
    made = agent_set(found)
    return AgentSet(made.agents, tuple(warnings))


def read_agent(file: Document) -> tuple[AgentDefinition, tuple[str, ...]]:
    """Make a definition from a file.

    Returns:
        The definition, and what of its settings was left out.

    Raises:
        DocumentProblem: if a setting cannot hold.
    """
    path = file.path
    tools, notes = _tools(file)
    notes += [f"{path}: {name} is not known here; left out" for name in _UNUSED if file.fields.get(name) is not None]
    model, word = file.text("model"), file.text("permissionMode")
    try:
        definition = AgentDefinition(
            name=file.text("name") or path.stem,
            description=(file.text("description") or "No description.")[:_MAX_DESCRIPTION],
            prompt=file.body.strip(),
            tools=tools,
            # What is forbidden in part is forbidden as a whole: the stricter reading.
            disallowed=tuple(item.partition("(")[0] for item in file.words("disallowedTools") or ()),
            model="" if model == "inherit" else model,
            mode=mode_of(word) if word else None,
            max_turns=_number(file),
            effort=_effort(file),
            path=path,
        )
    except DocumentProblem:
        raise
    except ValueError as problem:
        raise DocumentProblem(f"{path}: {problem}") from None
    return definition, tuple(notes)


def _tools(file: Document) -> tuple[tuple[str, ...] | None, list[str]]:
    """Read the list of tools. A specifier, as in ``Bash(git:*)``, cannot be kept here, so its tool is left out."""
    items = file.words("tools")
    if items is None or items == ("*",):
        return None, []
    narrow = [item for item in items if "(" in item]
    notes = [f"{file.path}: {item} in tools: restrict a tool by a permission rule; the tool is left out" for item in narrow]
    return tuple(item for item in items if item not in narrow), notes


def _effort(file: Document) -> str | None:
    from ..runtime.model_data import load_models

    word = file.text("effort")
    if not word:
        return None
    known = dict.fromkeys((*EFFORTS, *(level for info in load_models() for level in info.efforts)))
    if word not in known:
        raise DocumentProblem(f"{file.path}: effort must be one of {', '.join(known)}, not {word!r}")
    return word


def _number(file: Document) -> int | None:
    value = file.fields.get("maxTurns")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise DocumentProblem(f"{file.path}: maxTurns must be a whole number")
    return value
