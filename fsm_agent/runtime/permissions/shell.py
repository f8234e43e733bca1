"""A shell line taken apart: every command in it, and every file that it redirects to (field report 89).

The parser is ``bashlex``. It is not trusted: what it cannot read, what it is known to read otherwise than bash, and any
text that no node of its tree covers makes the line *unreadable*, which is asked and never allowed by a rule for a part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from attrs import evolve, frozen

from .words import Command, Unreadable, Word, read_word, same_letters
from .wrappers import unwrap

MAX_LINE = 10_000
"""Longer lines are always asked, in characters."""
_MAX_DEPTH = 6
_MAX_INNER = 24
_STRANGE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x85\xa0\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u2064\u3000\ufeff]")
"""Control characters, and what looks like a space or is not seen at all."""
_PLAIN_PARAMETER = re.compile(r"([A-Za-z_][A-Za-z0-9_]*|[0-9?#$!@*\-]|#[A-Za-z_][A-Za-z0-9_]*)\Z")
_TRAPS = re.compile(r"\$\{(?![A-Za-z0-9_#?@*!$\-]+\})|\$['\"]")
"""What the parser reads wrongly, or never ends to read: an expansion that is not plain, quoting with a dollar."""
_GAP = re.compile(r"(?:[ \t\n;&]|\\\n|#[^\n]*)*\Z")
_LOOP_VARIABLE = re.compile(r"(?![a-z0-9_]*_proxy\Z)[a-z_][a-z0-9_]*\Z")
_WRITES = frozenset({">", ">>", ">|", "&>", "&>>", "<>"})


@frozen
class Line:
    """A whole line.

    Attributes:
        commands: every command in it, in order, inner ones too.
        writes: targets of redirections that write.
        reads: files that redirections read.
        unreadable: why it cannot be read; empty if it can.
    """

    commands: tuple[Command, ...] = ()
    writes: tuple[Word, ...] = ()
    reads: tuple[Word, ...] = ()
    unreadable: str = ""


class _Reader:
    """Walks one tree and collects what it does."""

    def __init__(self, source: str, depth: int) -> None:
        self.source = source
        self.depth = depth
        self.commands: list[Command] = []
        self.writes: list[Word] = []
        self.reads: list[Word] = []

    def word(self, node: Any) -> Word:
        source = self.source[node.pos[0] : node.pos[1]]
        if not same_letters(source, node.word):
            raise Unreadable(f"the word {node.word[:40]!r}")
        self.parts(node)
        return read_word(source)

    def parts(self, node: Any) -> None:
        """Look into the expansions of a word."""
        for part in node.parts:
            match part.kind:
                case "commandsubstitution" | "processsubstitution":
                    self.node(part.command)
                case "parameter":
                    if not _PLAIN_PARAMETER.match(part.value):
                        raise Unreadable(f"the expansion ${{{part.value[:40]}}}")
                case "tilde":
                    pass
                case _:
                    raise Unreadable(f"a {part.kind}")

    def node(self, node: Any) -> None:
        match node.kind:
            case "list" | "pipeline" | "if" | "while" | "until":
                for part in node.parts:
                    self.node(part)
            case "compound":
                if self.source.startswith("((", node.pos[0]):
                    raise Unreadable("arithmetic")
                for part in [*node.list, *node.redirects]:
                    self.node(part)
            case "for":
                self.loop(node)
            case "command":
                self.command(node)
            case "redirect":
                self.redirect(node)
            case "operator" | "pipe" | "reservedword":
                pass
            case _:
                raise Unreadable(f"a {node.kind}")

    def loop(self, node: Any) -> None:
        words = [self.word(part) for part in node.parts if part.kind == "word"]
        # The loop sets its variable: one that means something to a program must not be set unseen.
        if not words or not _LOOP_VARIABLE.match(words[0].text):
            raise Unreadable("a loop over a variable that programs may read")
        for part in node.parts:
            if part.kind == "word":
                continue
            self.node(part)

    def command(self, node: Any) -> None:
        words: list[Word] = []
        assignments: list[Word] = []
        for part in node.parts:
            if part.kind == "word":
                words.append(self.word(part))
            elif part.kind == "assignment":
                assignments.append(self.word(part))
            elif part.kind == "redirect":
                self.redirect(part)
            else:
                raise Unreadable(f"a {part.kind}")
        if words and not words[0].literal:
            raise Unreadable(f"the command name {words[0].text[:40]!r} is not literal")
        if words and (not words[0].text.isascii() or words[0].text == "[["):
            raise Unreadable(f"the command name {words[0].text[:40]!r} is not plain")
        if words or assignments:
            for command, script in unwrap(Command(tuple(words), tuple(assignments))):
                self.commands.append(command)
                if script is not None:
                    self.script(script)

    def script(self, text: str) -> None:
        """Read the text that a shell is given as an argument."""
        inner = parse_line(text, self.depth + 1)
        if inner.unreadable:
            raise Unreadable(f"in an inner command: {inner.unreadable}")
        self.commands += inner.commands
        self.writes += inner.writes
        self.reads += inner.reads

    def redirect(self, node: Any) -> None:
        kind = node.type
        if isinstance(node.output, int):
            return
        target = self.word(node.output)
        if kind in ("<<", "<<-"):
            body = node.heredoc.value if node.heredoc is not None else ""
            if "$" in body or "`" in body or self.depth_in_word(node):
                raise Unreadable("a here-document with expansions")
        elif kind == "<<<":
            pass
        elif kind == "<":
            self.reads.append(target)
        elif kind in _WRITES or kind == ">&":
            if kind == ">&" and (target.text.isdigit() or target.text == "-"):
                return
            self.writes.append(target)
        elif kind == "<&" and (target.text.isdigit() or target.text == "-"):
            return
        else:
            raise Unreadable(f"the redirection {kind}")

    def depth_in_word(self, node: Any) -> bool:
        """True if the here-document's text is not where its node says: then its position is not to be trusted."""
        start, end = node.heredoc.pos if node.heredoc is not None else (0, 0)
        return self.source[start:end].replace("\t", "") != str(node.heredoc.value).replace("\t", "")


def _covered(source: str, trees: list[Any]) -> bool:
    """True if the trees cover all of the text but for space, separators and comments."""
    spans = sorted(_spans(trees))
    at = 0
    for start, end in spans:
        if start > at and not _GAP.match(source[at:start]):
            return False
        at = max(at, end)
    return _GAP.match(source[at:]) is not None


def _spans(trees: list[Any]) -> Iterator[tuple[int, int]]:
    stack = list(trees)
    while stack:
        node = stack.pop()
        if node.kind in ("word", "assignment", "reservedword", "operator", "pipe"):
            yield node.pos
            continue
        if node.kind == "redirect":
            yield node.pos
            if node.heredoc is not None:
                yield node.heredoc.pos
            continue
        stack += getattr(node, "parts", [])
        stack += getattr(node, "list", [])
        stack += getattr(node, "redirects", [])


@lru_cache(maxsize=256)
def parse_line(source: str, depth: int = 0) -> Line:
    """Take a line apart. Never raises: what cannot be read is said in ``unreadable``."""
    if len(source) > MAX_LINE:
        return Line(unreadable=f"it is longer than {MAX_LINE} characters")
    if depth > _MAX_DEPTH:
        return Line(unreadable="it is nested too deeply")
    if _STRANGE.search(source):
        return Line(unreadable="it holds control characters or characters that look like spaces")
    if not source.strip():
        return Line(unreadable="it is empty")
    if _TRAPS.search(source):
        return Line(unreadable="it holds an expansion that is not plain")
    if source.count("$(") + source.count("`") + source.count("<(") + source.count(">(") > _MAX_INNER:
        return Line(unreadable="it holds too many inner commands")
    import bashlex

    reader = _Reader(source, depth)
    try:
        trees = bashlex.parse(source)
        if not _covered(source, trees):
            return Line(unreadable="a part of it is not understood")
        for tree in trees:
            reader.node(tree)
    except Unreadable as problem:
        return evolve(_line(reader), unreadable=str(problem))
    except Exception as problem:  # the parser raises whatever it likes
        return evolve(_line(reader), unreadable=f"not understood ({type(problem).__name__}: {str(problem)[:80]})")
    return _line(reader)


def _line(reader: _Reader) -> Line:
    return Line(tuple(reader.commands), tuple(reader.writes), tuple(reader.reads))
