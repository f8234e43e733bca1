"""Memory files: ``AGENTS.md``, else ``CLAUDE.md``, of the user and of each folder down to the file in hand (api-facts C4)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from weakref import WeakKeyDictionary

from attrs import define, field, frozen

from ..core.effects import GatherAttachments
from ..runtime.permissions.rules import NO_RULES, RuleSet, matches_path
from ..runtime.providers import Provider
from ..runtime.scope import SCOPE
from ..runtime.tools.files import FileMemory
from ..runtime.tools.paths import is_inside
from ..runtime.tools.pipeline import ToolBox
from .frontmatter import DocumentProblem, read_text
from .reminders import harmless, reminder

NAMES = ("AGENTS.md", "CLAUDE.md", ".claude/CLAUDE.md")
"""The first one that is there counts; ``LOCAL`` is read besides."""
LOCAL = "CLAUDE.local.md"
MAX_DEPTH = 4
"""How deep imports may import."""
MAX_CHARS = 40_000
"""Characters of one file that are shown."""
MAX_ALL = 120_000
"""Characters of all files together."""
_MAX_IMPORTS = 50
_IMPORT = re.compile(r"(?:(?<=\s)|^)@((?:\\ |[^\s`])+)", re.MULTILINE)
_FENCE = re.compile(r"^[ \t]*(```+|~~~+).*?(?:^[ \t]*\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)


@frozen
class MemoryFile:
    """One file: where it is, what it says, and which file imported it."""

    path: Path
    text: str
    imported_by: Path | None = None


@define
class Memory:
    """Memory files in the order in which the model reads them.

    Args:
        trusted: imports may lead out of the folder of the file that names them.
        readable: says of a real path whether it may be read without a question.

    Attributes:
        files: what was read.
        warnings: what was left out, and why.
    """

    trusted: bool = False
    readable: Callable[[str], bool] = field(default=lambda real: True)
    files: list[MemoryFile] = field(factory=list)
    warnings: list[str] = field(factory=list)
    _read: set[str] = field(factory=set)
    _room: int = MAX_ALL

    def add_folder(self, folder: Path, *, user: bool = False) -> tuple[MemoryFile, ...]:
        """Read the memory files of one folder, with what they import.

        Args:
            folder: the folder.
            user: it is the user's own, so its imports may lead anywhere.

        Returns:
            What was read now; files that were read before are left out.
        """
        start = len(self.files)
        chosen = next((folder / name for name in NAMES if os.path.isfile(folder / name)), None)
        for path in (chosen, folder / LOCAL):
            if path is not None and os.path.isfile(path):
                self._add(path, None, 0, None if user or self.trusted else folder)
        return tuple(self.files[start:])

    def _add(self, path: Path, importer: Path | None, depth: int, root: Path | None) -> None:
        real = os.path.realpath(path)
        if real in self._read or len(self._read) > _MAX_IMPORTS * 4:
            return
        if root is not None and not is_inside(real, os.path.realpath(root)):
            self.warnings.append(f"{path} lies outside {root}, which is not trusted; it was not read")
            return
        self._read.add(real)
        if not self.readable(real):
            self.warnings.append(f"{path} was not read: a rule of Read speaks of it")
            return
        try:
            text = read_text(path)
        except DocumentProblem as problem:
            self.warnings.append(str(problem))
            return
        shown = text[: min(MAX_CHARS, max(0, self._room))]
        if len(shown) < len(text):
            self.warnings.append(f"{path} has {len(text)} characters; {len(shown)} of them are shown")
            shown += f"\n[{len(text) - len(shown)} characters left out]"
        self._room -= len(shown)
        if shown.strip():
            self.files.append(MemoryFile(path, shown, importer))
        if depth < MAX_DEPTH:
            for name in imports_of(text):
                found = _resolve(name, path.parent)
                if found is not None:
                    self._add(found, path, depth + 1, root)


def unasked(rules: RuleSet, cwd: str) -> Callable[[str], bool]:
    """Give what says of a real path that no deny or ask rule of ``Read`` names it: an import must not go around them."""
    named = [rule for rule in (*rules.deny, *rules.ask) if rule.tool == "Read" and rule.spec is not None]
    return lambda real: not any(matches_path(rule, real, cwd) for rule in named)


def load_memory(cwd: Path, home: Path | None = None, *, trusted: bool = False, rules: RuleSet = NO_RULES) -> Memory:
    """Read the memory files of the user and of every folder from the top down to the project.

    Args:
        cwd: the project.
        home: the user's home; None to leave it out.
        trusted: imports may lead out of the folder of the file that names them.
        rules: files that a deny or ask rule of ``Read`` names are left out.
    """
    memory = Memory(trusted, unasked(rules, os.path.realpath(cwd)))
    if home is not None:
        for folder in (home / ".fsm-agent", home / ".claude"):
            memory.add_folder(folder, user=True)
    for folder in (*reversed(cwd.parents), cwd):
        if folder == cwd or _ours(folder):
            memory.add_folder(folder)
    return memory


def user_context(files: tuple[MemoryFile, ...] | list[MemoryFile]) -> str:
    """Write files down for the model; empty without any."""
    return "\n\n".join(_section(file) for file in files)


def imports_of(text: str) -> Iterator[str]:
    """Give the paths that a text imports by ``@path``; what stands in code is no import."""
    plain = _SPAN.sub(" ", _FENCE.sub("\n", text))
    for number, found in enumerate(_IMPORT.finditer(plain)):
        if number >= _MAX_IMPORTS:
            return
        yield found.group(1).replace("\\ ", " ")


def _resolve(name: str, base: Path) -> Path | None:
    """Find the file that an import means; a mail address or a handle means none."""
    for text in dict.fromkeys((name, name.rstrip(".,;:!?)'\""))):
        if text and "\0" not in text:
            path = base / os.path.expanduser(text)
            try:
                if path.is_file():
                    return path
            except OSError:
                continue
    return None


def _ours(folder: Path) -> bool:
    """True unless another user may have put files there, as in ``/tmp``, which may well lie above a project."""
    try:
        found = os.stat(folder)
    except OSError:
        return False
    return not (found.st_mode & 0o002)


def _section(file: MemoryFile) -> str:
    origin = f" (imported by {file.imported_by})" if file.imported_by is not None else ""
    return f"Contents of {file.path}{origin}:\n\n{harmless(file.text.strip())}"


class NestedMemory:
    """Attaches the memory files of folders below the project when a file in them has been read or written.

    Args:
        cwd: the project.
        trusted: imports may lead out of their folder.
    """

    def __init__(self, cwd: Path, *, trusted: bool = False) -> None:
        self._cwd = Path(os.path.realpath(cwd))
        self._trusted = trusted
        self._known: WeakKeyDictionary[FileMemory, tuple[Memory, set[Path]]] = WeakKeyDictionary()

    def provider(self) -> Provider:
        """Give it as a provider of attachments."""
        return Provider("memory files", self)

    def __call__(self, effect: GatherAttachments) -> list[str]:
        """Give what the files read since the last round bring with them."""
        scope = SCOPE.get()
        if scope is None or not isinstance(scope.deps.tools, ToolBox):
            return []
        return self.attach(scope.deps.tools.files, scope.deps.tools.policy.rules)

    def attach(self, files: FileMemory, rules: RuleSet = NO_RULES) -> list[str]:
        """Give the memory files of folders that were not looked at yet, the outer ones first.

        Args:
            files: what was read and written.
            rules: files that a deny or ask rule of ``Read`` names are left out.
        """
        memory, seen = self._known.setdefault(files, (Memory(self._trusted), set()))
        memory.readable = unasked(rules, str(self._cwd))
        texts: list[str] = []
        for real in files.paths():
            path = Path(real)
            if not is_inside(real, str(self._cwd)):
                continue
            below = [folder for folder in reversed(path.parents) if self._cwd in folder.parents]
            for folder in below:
                if folder not in seen:
                    seen.add(folder)
                    # A memory file that the model has just read needs no second showing.
                    found = [file for file in memory.add_folder(folder) if os.path.realpath(file.path) != real]
                    if found:
                        texts.append(reminder(user_context(found)))
        return texts
