"""Which files a shell command names: every argument is taken for a path, since none can be told to be none."""

from __future__ import annotations

import glob
import itertools
import os
import re
from collections.abc import Iterator

from ..tools.paths import PathProblem, Place, Workspace
from .words import Command, Word

_SEARCHERS = frozenset({"grep", "egrep", "fgrep", "zgrep", "rg"})
_MAX_NAMES = 2_000
_OPTION_VALUE = re.compile(r"--?[A-Za-z][A-Za-z0-9\-]*=(.+)\Z", re.DOTALL)


def directories(commands: tuple[Command, ...], workspace: Workspace) -> tuple[str, ...] | None:
    """Give the directories that a line may work in, the first one and each that it changes to; None if one is not known."""
    found = [workspace.cwd]
    for command in commands:
        if command.name in ("pushd", "popd", "chdir"):
            return None
        if command.name != "cd":
            continue
        if len(command.words) != 2 or not command.words[1].literal or command.words[1].text.startswith("-"):
            return None
        for base in tuple(found):
            try:
                real = workspace.resolve(command.words[1].text, base).real
            except PathProblem:
                return None
            if real not in found:
                found.append(real)
    return tuple(found)


def _texts(command: Command) -> Iterator[Word]:
    words = command.words[1:]
    skip: Word | None = None
    if command.name in _SEARCHERS and not any(re.match(r"--(regexp|file)|-[A-Za-z]*[ef]", word.text) for word in words):
        # The first plain argument of a search is what is searched for.
        skip = next((word for word in words if not word.text.startswith("-")), None)
    for word in words:
        if word is not skip:
            yield word


def places(command: Command, workspace: Workspace, bases: tuple[str, ...]) -> Iterator[tuple[Word, Place]]:
    """Give every place that an argument of a command may name, from each directory.

    Raises:
        PathProblem: if an argument cannot be a path at all and might hide one.
    """
    for word in _texts(command):
        for text in candidates(word.text):
            for base in bases:
                yield word, workspace.resolve(text, base)
                if word.globs:
                    # A pattern may name a link: what it gives now is looked at as well.
                    for path in _expanded(text, base):
                        yield word, workspace.resolve(path, base)


def _expanded(text: str, base: str) -> list[str]:
    found = list(itertools.islice(glob.iglob(os.path.join(base, text), include_hidden=True), _MAX_NAMES + 1))
    if len(found) > _MAX_NAMES:
        raise PathProblem(f"{text} names too many files")
    return found


def candidates(text: str) -> Iterator[str]:
    """Give what of an argument may be a path: all of it, or the value of an option."""
    if not text:
        return
    if not text.startswith("-"):
        yield text
        _, mark, value = text.partition("=")
        if mark and value:
            yield value
        return
    found = _OPTION_VALUE.match(text)
    if found:
        yield found.group(1)
    elif not text.startswith("--") and len(text) > 2 and (os.sep in text or ".." in text or "~" in text):
        yield text[2:]
