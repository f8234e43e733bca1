"""Words of a shell line as bash makes them: quotes removed by our own rules, and what is not literal named."""

from __future__ import annotations

import re

from attrs import frozen

_BRACE = re.compile(r",|\.\.")
_GLOB = frozenset("*?")


@frozen
class Word:
    """One word of a command.

    Attributes:
        text: the word after quote removal; expansions stand in it as they were written.
        literal: bash hands on exactly ``text``.
        expands: it holds a parameter, a substitution, a tilde or braces: its value is not known.
        globs: it holds an unquoted ``*``, ``?`` or ``[``: it may become several names of files.
    """

    text: str
    expands: bool = False
    globs: bool = False

    @property
    def literal(self) -> bool:
        """True if the word's value is known."""
        return not (self.expands or self.globs)


@frozen
class Command:
    """One command of a line.

    Attributes:
        words: name and arguments.
        assignments: variables set for it, as ``NAME=value`` words.
        wrapper: it only runs another command of the list, which is judged for itself.
        carries: why its arguments may run something that no rule sees; empty if not.
        fed: it gets further arguments from its input (``xargs``).
    """

    words: tuple[Word, ...]
    assignments: tuple[Word, ...] = ()
    wrapper: bool = False
    carries: str = ""
    fed: bool = False

    @property
    def text(self) -> str:
        """The command as rules see it: words after quote removal, joined by spaces."""
        return " ".join(word.text for word in self.words)

    @property
    def name(self) -> str:
        """First word."""
        return self.words[0].text if self.words else ""


class Unreadable(Exception):
    """A part of a line that this reader does not vouch for; the text says which."""


def read_word(source: str) -> Word:
    """Read one word from its source.

    Raises:
        Unreadable: for quoting that is not plain (``$'...'``, ``$"..."``) or not closed.
    """
    out: list[str] = []
    expands = globs = False
    at = 0
    if source.startswith("~"):
        expands = True
    while at < len(source):
        char = source[at]
        if char == "\\":
            if at + 1 >= len(source):
                raise Unreadable("a backslash at the end")
            if source[at + 1] != "\n":
                out.append(source[at + 1])
            at += 2
        elif char == "'":
            end = source.find("'", at + 1)
            if end < 0:
                raise Unreadable("a quote that is not closed")
            out.append(source[at + 1 : end])
            at = end + 1
        elif char == '"':
            text, inner, at = _double(source, at + 1)
            out.append(text)
            expands = expands or inner
        elif char == "$" and source[at + 1 : at + 2] in ("'", '"'):
            raise Unreadable("quoting with $' or $\"")
        else:
            expands = expands or char in "$`" or (char == "{" and _BRACE.search(source, at) is not None)
            expands = expands or (char in "<>(" and source[at + 1 : at + 2] != "")
            # A tilde is expanded after = and : too, in assignments and in some words.
            expands = expands or (char in "=:" and source[at + 1 : at + 2] == "~")
            globs = globs or char in _GLOB or (char == "[" and "]" in source[at:])
            out.append(char)
            at += 1
    return Word("".join(out), expands=expands, globs=globs)


def _double(source: str, at: int) -> tuple[str, bool, int]:
    """Read what is in double quotes from ``at`` on; gives text, whether it expands, and where it goes on."""
    out: list[str] = []
    expands = False
    depth = 0
    while at < len(source):
        char = source[at]
        if char == "\\" and at + 1 < len(source):
            following = source[at + 1]
            if following == "\n":
                pass
            elif following in '$`"\\':
                out.append(following)
            else:
                out.append(char + following)
            at += 2
            continue
        if source.startswith("$(", at):
            depth += 1
        elif char == ")" and depth:
            depth -= 1
        elif char == '"':
            if depth:
                # Quotes inside a substitution inside quotes: its parts are judged as commands of their own.
                out.append(char)
                at += 1
                continue
            return "".join(out), expands, at + 1
        expands = expands or char in "$`"
        out.append(char)
        at += 1
    raise Unreadable("a quote that is not closed")


def same_letters(source: str, parsed: str) -> bool:
    """True if two readings of one word agree but for quoting: a check that positions are right."""
    table = str.maketrans("", "", "'\"\\\n")
    return source.translate(table) == parsed.translate(table)
