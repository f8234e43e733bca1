"""Slash commands that users write as Markdown files (spec 03, Session; api-facts C6)."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path

from attrs import field, frozen

from .frontmatter import Markdown, MarkdownError, read_markdown
from .settings import DISCOVERED, FOLDERS, Source

MAX_COMMANDS = 500
"""Files that are looked at in one folder."""
_NAME = re.compile(r"[A-Za-z][\w.-]*\Z")
_INSERTION = re.compile(r"!`([^`\n]+)`")
_PLACE = re.compile(
    r"\$(?:ARGUMENTS\[(?P<index>\d{1,3})\]|(?P<all>ARGUMENTS)\b|(?P<number>\d{1,3})\b|\{(?P<var>[A-Z_]+)\}|(?P<name>[a-z][\w-]*))"
)


class CommandError(ValueError):
    """A command that cannot be expanded; the text says why and what to do."""


@frozen
class MarkdownCommand:
    """One command.

    Attributes:
        name: what is typed behind the slash; files in a subfolder are called ``folder:name``.
        path: its file.
        trusted: it may grant tools and insert the output of programs.
        description: one line for people.
        hint: of its arguments.
        arguments: names of its arguments, for ``$name``.
        allowed_tools: allow rules for the run that it begins.
        model: the model for that run, empty for the session's.
        body: what is said to the model.
    """

    name: str
    path: Path
    trusted: bool
    description: str = ""
    hint: str = ""
    arguments: tuple[str, ...] = ()
    allowed_tools: tuple[str, ...] = ()
    model: str = ""
    body: str = ""


@frozen
class Commands:
    """The commands that were found.

    Attributes:
        by_name: the commands.
        warnings: files that could not be read, and why.
    """

    by_name: Mapping[str, MarkdownCommand] = field(factory=dict)
    warnings: tuple[str, ...] = ()


def find_commands(cwd: Path, home: Path | None, *, sources: Iterable[Source] = DISCOVERED, trusted: bool = False) -> Commands:
    """Find the commands of the user and of the project; the project's win, and ``.fsm-agent`` wins over ``.claude``.

    Args:
        cwd: the workspace.
        home: the user's home directory, None without one.
        sources: ``user`` and ``project`` count.
        trusted: the workspace is trusted.

    Returns:
        The commands by name. A broken file is a warning.
    """
    found: dict[str, MarkdownCommand] = {}
    warnings: list[str] = []
    wanted = tuple(sources)
    for source, root in ((Source.USER, home), (Source.PROJECT, cwd)):
        if root is None or source not in wanted:
            continue
        for folder in FOLDERS:
            place = root / folder / "commands"
            for path in _files(place):
                try:
                    command = _command(path, place, trusted or source is Source.USER)
                except MarkdownError as error:
                    warnings.append(str(error))
                except OSError as error:
                    warnings.append(f"{path}: {error.strerror}")
                else:
                    if command is not None:
                        found[command.name] = command
    return Commands(dict(sorted(found.items())), tuple(warnings))


def _files(place: Path) -> list[Path]:
    found: list[Path] = []
    for folder, folders, names in os.walk(place):  # links to folders are not followed: they may be circles
        folders.sort()
        found += [Path(folder) / name for name in sorted(names) if name.endswith(".md")]
        if len(found) >= MAX_COMMANDS:
            break
    return found[:MAX_COMMANDS]


def _command(path: Path, place: Path, trusted: bool) -> MarkdownCommand | None:
    parts = path.relative_to(place).with_suffix("").parts
    if not all(_NAME.match(part) for part in parts):
        return None
    made = read_markdown(path)
    return from_markdown(made, ":".join(parts), path, trusted)


def from_markdown(made: Markdown, name: str, path: Path, trusted: bool) -> MarkdownCommand:
    """Make a command of a file that was read."""
    return MarkdownCommand(
        name=name,
        path=path,
        trusted=trusted,
        description=made.text("description") or made.summary[:200],
        hint=made.text("argument-hint"),
        arguments=made.words("arguments"),
        allowed_tools=made.words("allowed-tools"),
        model="" if made.text("model") == "inherit" else made.text("model"),
        body=made.body,
    )


def split_arguments(text: str) -> list[str]:
    """Split arguments as a shell does; what a shell could not split is split at spaces."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


@frozen
class _Values:
    """What the places of a body stand for."""

    whole: str
    items: tuple[str, ...]
    names: tuple[str, ...]
    variables: Mapping[str, str]

    def of(self, found: re.Match[str]) -> str | None:
        """Give the value of a place, None for what is no place."""
        if found["all"]:
            return self.whole
        number = found["index"] or found["number"]
        if number:
            return self.items[int(number)] if int(number) < len(self.items) else ""
        if found["var"]:
            return self.variables.get(found["var"])
        name = found["name"]
        if name not in self.names:
            return None
        place = self.names.index(name)
        return self.items[place] if place < len(self.items) else ""


async def expand(
    command: MarkdownCommand,
    arguments: str,
    *,
    variables: Mapping[str, str],
    insert: Callable[[str], Awaitable[str]] | None = None,
) -> str:
    """Turn a command into what is said to the model.

    ``$ARGUMENTS``, ``$ARGUMENTS[N]``, ``$N`` (from 0), ``$name`` and ``${VARIABLE}`` are replaced, once: what the arguments say
    is never read as a place or as an insertion. In ``!`command``` they are quoted for the shell.

    Args:
        command: the command.
        arguments: what was typed behind it.
        variables: values of ``${...}``.
        insert: runs one shell command and gives its output; None where that is not allowed.

    Raises:
        CommandError: if an insertion may not be run, or failed.
    """
    values = _Values(arguments, tuple(split_arguments(arguments)), command.arguments, variables)
    used = False

    def plain(found: re.Match[str]) -> str:
        nonlocal used
        value = values.of(found)
        used = used or (value is not None and not found["var"])
        return found[0] if value is None else value

    def quoted(found: re.Match[str]) -> str:
        return plain(found) if found["var"] or values.of(found) is None else shlex.quote(plain(found))

    pieces: list[str] = []
    end = 0
    for found in _INSERTION.finditer(command.body):
        pieces.append(_PLACE.sub(plain, command.body[end : found.start()]))
        line = _PLACE.sub(quoted, found[1])
        if insert is None:
            raise CommandError(
                f"/{command.name} inserts the output of `{line}`, and {command.path} lies in a folder that is not trusted"
            )
        pieces.append(await insert(line))
        end = found.end()
    pieces.append(_PLACE.sub(plain, command.body[end:]))
    text = "".join(pieces).strip()
    if arguments and not used:
        text += f"\n\nARGUMENTS: {arguments}"
    return text
