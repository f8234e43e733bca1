"""Slash commands that users write as Markdown files (spec 03, Session; api-facts C6)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path

from attrs import field, frozen

from .frontmatter import Document, DocumentProblem, read_document
from .places import files_in, places
from .settings import DISCOVERED, Source

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
    for place in places("commands", cwd, home):
        if (Source.PROJECT if place.project else Source.USER) not in wanted:
            continue
        for path in files_in(place, "**/*.md"):
            try:
                command = _command(path, place.path, trusted or not place.project)
            except DocumentProblem as error:
                warnings.append(str(error))
            else:
                if command is not None:
                    found[command.name] = command
    return Commands(dict(sorted(found.items())), tuple(warnings))


def _command(path: Path, place: Path, trusted: bool) -> MarkdownCommand | None:
    parts = path.relative_to(place).with_suffix("").parts
    if not all(_NAME.match(part) for part in parts):
        return None
    return from_document(read_document(path), ":".join(parts), trusted)


def from_document(made: Document, name: str, trusted: bool) -> MarkdownCommand:
    """Make a command of a file that was read.

    Raises:
        DocumentProblem: for a setting that is not of its kind.
    """
    model = made.text("model")
    return MarkdownCommand(
        name=name,
        path=made.path,
        trusted=trusted,
        description=made.text("description") or first_paragraph(made.body)[:200],
        hint=made.text("argument-hint"),
        arguments=made.words("arguments", None) or (),
        allowed_tools=rule_words(made, "allowed-tools"),
        model="" if model == "inherit" else model,
        body=made.body,
    )


def first_paragraph(body: str) -> str:
    """Give the first paragraph on one line, a heading without its marks."""
    return next((line for part in re.split(r"\n\s*\n", body) if (line := " ".join(part.split()).lstrip("# "))), "")


def rule_words(made: Document, name: str) -> tuple[str, ...]:
    """Give a setting that lists permission rules: a list, or a text of rules between commas or spaces.

    Parentheses hold together: ``Bash(git add:*), Read`` has two rules.

    Raises:
        DocumentProblem: if it is neither.
    """
    if not isinstance(made.fields.get(name), str):
        return made.words(name) or ()
    words: list[str] = []
    word, depth = "", 0
    for char in made.text(name):
        depth += (char == "(") - (char == ")" and depth > 0)
        if depth == 0 and (char == "," or char.isspace()):
            words.append(word)
            word = ""
        else:
            word += char
    return tuple(item for item in (*words, word) if item)


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


def _for_shell(command: MarkdownCommand, place: re.Match[str], value: str | None, plain: Callable[[re.Match[str]], str]) -> str:
    """Give what stands in a place of a shell line: quoted as the place needs it, so that a value is never shell code."""
    text = plain(place)
    if value is None or "\0" in text:
        return text
    quote = _open_quote(place.string[: place.start()])
    if quote is None:
        raise CommandError(f"/{command.name}: {place[0]} stands in `{place.string}` where it cannot be quoted ({command.path})")
    if quote == '"':
        return re.sub(r'([\\"$`])', r"\\\1", text)
    return text.replace("'", "'\\''") if quote == "'" else shlex.quote(text)


def _open_quote(line: str) -> str | None:
    """Give the quote that is open at the end of the beginning of a shell line, empty if none, None if that is not plain."""
    quote = ""
    chars = iter(enumerate(line))
    for at, char in chars:
        if char == "\\" and quote != "'":
            if next(chars, None) is None:
                return None
        elif quote:
            if quote == '"' and line.startswith(("$(", "${"), at):
                return None
            quote = "" if char == quote else quote
        elif char in "'\"":
            if line[:at].endswith("$"):
                return None
            quote = char
        elif line.startswith(("<<", "${", "$(("), at) or (char == "#" and (at == 0 or line[at - 1].isspace())):
            return None
    return quote


async def expand(
    command: MarkdownCommand,
    arguments: str,
    *,
    variables: Mapping[str, str],
    insert: Callable[[str], Awaitable[str]] | None = None,
    written: list[str] | None = None,
) -> str:
    """Turn a command into what is said to the model.

    ``$ARGUMENTS``, ``$ARGUMENTS[N]``, ``$N`` (from 0), ``$name`` and ``${VARIABLE}`` are replaced, once: what the arguments say
    is never read as a place or as an insertion. In ``!`command``` they are quoted for the shell, inside quotes too.

    Args:
        command: the command.
        arguments: what was typed behind it.
        variables: values of ``${...}``.
        insert: runs one shell command and gives its output; None where that is not allowed.
        written: takes the parts that somebody wrote or typed: all but the output of insertions.

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

    pieces: list[str] = []
    own = written if written is not None else []
    end = 0
    for found in _INSERTION.finditer(command.body):
        own.append(_PLACE.sub(plain, command.body[end : found.start()]))
        pieces.append(own[-1])
        line = _PLACE.sub(lambda place: _for_shell(command, place, values.of(place), plain), found[1])
        if insert is None:
            raise CommandError(
                f"/{command.name} inserts the output of `{line}`, and {command.path} lies in a folder that is not trusted"
            )
        pieces.append(await insert(line))
        end = found.end()
    own.append(_PLACE.sub(plain, command.body[end:]))
    pieces.append(own[-1])
    text = "".join(pieces).strip()
    if arguments and not used:
        own.append(arguments)
        text += f"\n\nARGUMENTS: {arguments}"
    return text
