"""Skills: folders with a ``SKILL.md``: the head is always known, the body when used, files on demand (api-facts C5)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any
from weakref import WeakKeyDictionary

from attrs import frozen

from ..core.blocks import block_text
from ..core.effects import StartPrefetch
from ..core.messages import REAL_REQUESTS
from ..runtime.providers import Provider
from ..runtime.scope import SCOPE
from ..runtime.tools.base import JsonObject, Tool, ToolContext, ToolError, ToolOutput, object_schema
from .frontmatter import Document, DocumentProblem, read_document
from .markdown_commands import CommandError, MarkdownCommand, expand, first_paragraph
from .places import files_in, places
from .reminders import reminder

LISTED = 1_536
"""Characters of one skill in the list."""
LISTED_ALL = 24_000
"""Characters of the whole list; skills behind that are named only."""
SUGGESTED = 2
"""Skills that one prefetch may bring up."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")
_WORD = re.compile(r"[^\W\d_][\w-]{2,}")
_COMMON = frozenset(
    word
    for line in (
        "and are can for from has have how into its not our out that the them then this use used using what when where",
        "which with you your please need want make does all any also via file files",
    )
    for word in line.split()
)


@frozen
class Skill:
    """One skill.

    Attributes:
        name: what it is called; the folder's name unless its head says another.
        description: what it is for, and when to use it.
        path: its ``SKILL.md``.
        arguments: names of its arguments.
        hint: of its arguments, for people.
        for_model: the model may use it by itself.
        for_user: people may use it by ``/name``.
        project: it belongs to a project, not to the user.
    """

    name: str
    description: str
    path: Path
    arguments: tuple[str, ...] = ()
    hint: str = ""
    for_model: bool = True
    for_user: bool = True
    project: bool = False

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return self.path.parent

    def command(self) -> MarkdownCommand:
        """Read its body, as the command that it also is.

        Raises:
            DocumentProblem: if the file cannot be read any more.
        """
        body = read_document(self.path).body
        return MarkdownCommand(self.name, self.path, False, self.description, self.hint, self.arguments, body=body)


@frozen
class SkillSet:
    """The skills that were found.

    Attributes:
        skills: by name, in order.
        warnings: what was left out, and why.
    """

    skills: Mapping[str, Skill]
    warnings: tuple[str, ...] = ()


def load_skills(cwd: Path, home: Path | None = None) -> SkillSet:
    """Read the heads of all skills; the project's win over the user's, and ``.fsm-agent`` over ``.claude``.

    Args:
        cwd: the project.
        home: the user's home; None to leave it out.

    Returns:
        The skills; files that cannot be read are named in its warnings.
    """
    found: dict[str, Skill] = {}
    warnings: list[str] = []
    for place in places("skills", cwd, home):
        for path in files_in(place, "*/SKILL.md"):
            try:
                skill = read_skill(read_document(path), project=place.project)
            except DocumentProblem as problem:
                warnings.append(f"skill left out: {problem}")
            else:
                found[skill.name] = skill
    return SkillSet(MappingProxyType(dict(sorted(found.items()))), tuple(warnings))


def read_skill(file: Document, *, project: bool = False) -> Skill:
    """Make a skill from its file.

    Raises:
        DocumentProblem: if a setting cannot hold.
    """
    name = file.text("name") or file.path.parent.name
    if not _NAME.match(name):
        raise DocumentProblem(f"{file.path}: {name[:80]!r} is no name for a skill: letters, digits and -, at most 64")
    parts = [file.text("description") or first_paragraph(file.body), file.text("when_to_use")]
    description = " ".join(" ".join(part.split()) for part in parts if part)
    if not description:
        raise DocumentProblem(f"{file.path}: it has no description, so nobody knows when to use it")
    return Skill(
        name=name,
        description=description,
        path=file.path,
        arguments=file.words("arguments", None) or (),
        hint=file.text("argument-hint"),
        for_model=not file.flag("disable-model-invocation"),
        for_user=file.flag("user-invocable", True),
        project=project,
    )


def listing(skills: Iterable[Skill]) -> str:
    """List skills for the model: one line each, bounded each and as a whole."""
    lines: list[str] = []
    room = LISTED_ALL
    for skill in skills:
        line = f"- {skill.name}: {skill.description}"
        line = line if len(line) <= LISTED else line[: LISTED - 3] + "..."
        line = line if len(line) < room else f"- {skill.name}"
        room -= len(line) + 1
        lines.append(line)
    return "\n".join(lines)


class SkillTool(Tool):
    """Loads the body of a skill.

    Args:
        skills: those that the model may use.
    """

    name = "Skill"
    idempotent = True
    needs_permission = False
    max_result_chars = 100_000

    def __init__(self, skills: Iterable[Skill]) -> None:
        self.skills = {skill.name: skill for skill in skills if skill.for_model}
        self.description = (
            "Loads the instructions of a skill, which say how to do one kind of task well. Use it before you begin such a "
            "task. It runs nothing by itself: what the instructions ask for, you do with your other tools.\nSkills:\n"
            + listing(self.skills.values())
        )
        self.input_schema = object_schema(
            {
                "skill": {"type": "string", "enum": list(self.skills)},
                "args": {"type": "string", "description": "Arguments, as typed behind the skill's name"},
            },
            required=("skill",),
        )

    def is_read_only(self, tool_input: JsonObject) -> bool:
        """It reads a file."""
        return True

    def is_concurrency_safe(self, tool_input: JsonObject) -> bool:
        """It reads a file."""
        return True

    async def run(self, tool_input: JsonObject, context: ToolContext) -> ToolOutput:
        """Give the body, with arguments put in, and say where the skill's files are."""
        skill = self.skills[str(tool_input["skill"])]
        variables = {"CLAUDE_SKILL_DIR": str(skill.folder), "CLAUDE_PROJECT_DIR": context.workspace.cwd}
        try:
            text = await expand(skill.command(), str(tool_input.get("args") or ""), variables=variables, insert=_shown)
        except (DocumentProblem, CommandError) as problem:
            raise ToolError(f"The skill {skill.name} cannot be loaded: {problem}") from None
        return ToolOutput(f"Skill {skill.name}. Its files are in {skill.folder}; read them as they are needed.\n\n{text}")


async def _shown(line: str) -> str:
    """A command in the text of a skill stays text: the model runs it by its own tool, where rules hold."""
    return f"(run this with Bash if it is needed: {line})"


class SkillPrefetch:
    """Brings up skills that fit what the user asked, while the model streams; each once in a conversation.

    Args:
        skills: those that the model may use.
    """

    def __init__(self, skills: Iterable[Skill]) -> None:
        self._skills = tuple(skill for skill in skills if skill.for_model)
        self._words = {skill.name: _words(f"{skill.name.replace('-', ' ')} {skill.description}") for skill in self._skills}
        self._said: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()

    def provider(self) -> Provider:
        """Give it as a provider of skills."""
        return Provider("skills", self)

    def __call__(self, effect: StartPrefetch) -> str | None:
        """Suggest skills for the newest request."""
        asked = next((item for item in reversed(effect.messages) if item.kind in REAL_REQUESTS), None)
        if asked is None:
            return None
        words = _words(" ".join(block_text(block) for block in asked.blocks))
        scope = SCOPE.get()
        said = set() if scope is None else self._said.setdefault(scope.deps.tools, set())
        fitting = [
            skill for skill in self._skills if skill.name not in said and fits(words, self._words[skill.name], skill.name)
        ]
        fitting = sorted(fitting, key=lambda skill: -len(words & self._words[skill.name]))[:SUGGESTED]
        if not fitting:
            return None
        said.update(skill.name for skill in fitting)
        return reminder(f"These skills may fit the request; load one with the Skill tool if it does:\n{listing(fitting)}")


def fits(asked: frozenset[str], skill: frozenset[str], name: str) -> bool:
    """True if a request speaks of a skill: it says its name, or shares three words with what it is for."""
    return frozenset(name.lower().split("-")) <= asked or len(asked & skill) >= 3


def _words(text: str) -> frozenset[str]:
    return frozenset(found.group().lower().rstrip("s") for found in _WORD.finditer(text)) - _COMMON
