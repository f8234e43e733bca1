"""Shell commands that are known to change nothing; whatever is not known here is not read-only."""

from __future__ import annotations

import re
from collections.abc import Callable

from .shell import Line, parse_line
from .words import Command, Word
from .wrappers import abbreviates, base_name, harmless_variable


def _words(text: str) -> list[str]:
    return text.split()


_ANY = frozenset(
    _words(
        "cat head tail ls pwd wc stat df true false : basename dirname realpath readlink whoami id uname "
        "nproc arch cut tr nl tac rev column comm cmp diff md5sum sha1sum sha256sum sha512sum cksum b2sum seq "
        "sleep expr od hexdump strings fold expand unexpand paste join which type groups locale uptime free "
        "tty cd jq"
    )
)
"""Commands no argument of which writes, sets or runs anything (paths are judged elsewhere)."""

_VERSIONS = frozenset(
    _words("python python3 node npm npx ruby go cargo rustc gcc g++ clang make cmake java git docker uv pip ruff mypy")
)
NULL_DEVICES = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})

_GIT_PLAIN = frozenset(
    _words(
        "status log diff show rev-parse ls-files ls-tree blame annotate describe shortlog cat-file merge-base "
        "rev-list name-rev diff-tree diff-index diff-files for-each-ref show-ref whatchanged count-objects "
        "check-ignore grep"
    )
)


def _letters(texts: list[str], letters: str) -> bool:
    """True if a bundle of short options holds one of ``letters``."""
    return any(re.match(r"-[A-Za-z0-9]*[" + letters + "]", text) for text in texts if not text.startswith("--"))


def _sort(texts: list[str]) -> bool:
    return not (
        _letters(texts, "oT")
        or any(abbreviates(text, "--output") or abbreviates(text, "--temporary-directory") for text in texts)
    )


def _uniq(texts: list[str]) -> bool:
    return sum(not text.startswith("-") for text in texts) <= 1


def _date(texts: list[str]) -> bool:
    return all(text.startswith("+") or text in ("-u", "--utc", "-R", "-I", "--iso-8601") for text in texts)


def _test(texts: list[str]) -> bool:
    return not any(text in ("-v", "-R", "-N") for text in texts)


def _find(texts: list[str]) -> bool:
    return not any(re.match(r"-(delete|exec|ok|fprint|fls|files0|follow|L\Z)", text) for text in texts)


def _rg(texts: list[str]) -> bool:
    return not (
        _letters(texts, "L")
        or any(abbreviates(text, option) for text in texts for option in ("--pre", "--hostname-bin", "--follow"))
    )


def _grep(texts: list[str]) -> bool:
    """Not where it follows links that it finds: they may lead anywhere."""
    return not (_letters(texts, "R") or any(abbreviates(text, "--dereference-recursive") for text in texts))


def _du(texts: list[str]) -> bool:
    return not (_letters(texts, "L") or any(abbreviates(text, "--dereference") for text in texts))


def _file(texts: list[str]) -> bool:
    return not (_letters(texts, "C") or any(abbreviates(text, "--compile") for text in texts))


def _tree(texts: list[str]) -> bool:
    return not (_letters(texts, "oRl") or any(abbreviates(text, "--output") for text in texts))


def _printf(texts: list[str]) -> bool:
    return not texts or not texts[0].startswith("-") or texts[0] == "--"


def _sed(texts: list[str]) -> bool:
    """Only the printing of lines by number: other scripts can write and run."""
    return (
        len(texts) >= 2
        and texts[0] == "-n"
        and re.match(r"[0-9,$]+p\Z", texts[1]) is not None
        and not any(text.startswith("-") for text in texts[2:])
    )


def _none(texts: list[str]) -> bool:
    return not texts


def _git(texts: list[str]) -> bool:
    while texts and texts[0] in ("--no-pager", "--no-optional-locks"):
        texts = texts[1:]
    if not texts or texts[0].startswith("-"):
        return texts == ["--version"]
    verb, rest = texts[0], texts[1:]
    if any(
        abbreviates(text, option) for text in rest for option in ("--output", "--ext-diff", "--exec", "--open-files-in-pager")
    ):
        return False
    if verb in _GIT_PLAIN:
        return not (verb == "grep" and any(text.startswith("-O") for text in rest))
    if verb == "branch":
        return all(text in ("-a", "-r", "-v", "-vv", "--list", "--all", "--show-current", "--no-color") for text in rest)
    if verb == "tag":
        return rest == [] or (rest[0] in ("-l", "--list", "-n") and not any(text.startswith("-") for text in rest[1:]))
    if verb == "remote":
        return rest in ([], ["-v"], ["--verbose"]) or rest[:1] == ["get-url"]
    if verb == "stash":
        return rest[:1] in (["list"], ["show"])
    if verb == "worktree":
        return rest[:1] == ["list"]
    if verb == "reflog":
        return rest == [] or rest[0] == "show"
    if verb == "config":
        return rest[:1] in (["--get"], ["--get-all"], ["--list"], ["-l"]) and not any(text.startswith("-") for text in rest[1:])
    return False


_CHECKED: dict[str, Callable[[list[str]], bool]] = {
    "sort": _sort,
    "uniq": _uniq,
    "date": _date,
    "test": _test,
    "[": _test,
    "find": _find,
    "grep": _grep,
    "egrep": _grep,
    "fgrep": _grep,
    "du": _du,
    "file": _file,
    "rg": _rg,
    "tree": _tree,
    "printf": _printf,
    "echo": lambda texts: True,
    "sed": _sed,
    "hostname": _none,
    "git": _git,
}
_UNKNOWN_ARGUMENTS_OK = frozenset(
    {"echo", "printf", "true", "false", ":", "test", "[", "sleep", "expr", "seq", "basename", "dirname"}
)
"""Commands that open no file: it does not matter what an expansion in their arguments gives."""
_GLOBS_OK = _ANY | {"echo", "grep", "egrep", "fgrep", "du"}


def why_not(command: Command) -> str:
    """Say why a command is not known to be read-only; an empty text if it is."""
    if not all(harmless_variable(word.text) and word.literal for word in command.assignments):
        return "it sets a variable"
    if not command.words:
        return ""
    # Only a bare name is looked up where everybody expects it; a path may be any program.
    name = command.name
    if name not in _ANY and name not in _CHECKED and name not in _VERSIONS:
        return f"{name} is not known to change nothing"
    if command.carries:
        return command.carries
    if command.fed and name not in ("echo", "printf"):
        return f"{name} gets arguments that are not known"
    return _arguments(name, command.words[1:])


def _arguments(name: str, words: tuple[Word, ...]) -> str:
    for word in words:
        if word.expands and (name not in _UNKNOWN_ARGUMENTS_OK or (name == "printf" and word is words[0])):
            return f"{name} gets arguments that are not known"
        # A file can be called like an option.
        if word.globs and name not in _GLOBS_OK and word.text[:1] in "*?[" and name != "find":
            return f"{name} gets file names that may look like options"
    texts = [word.text for word in words]
    if name in _CHECKED and _CHECKED[name](texts):
        return ""
    if name in _ANY:
        return "" if name != "cd" or (len(texts) == 1 and not texts[0].startswith("-")) else "cd to a place that is not named"
    if name in _VERSIONS and texts in (["--version"], ["-V"], ["version"]):
        return ""
    return f"this use of {name} is not known to change nothing"


def line_why_not(line: Line) -> str:
    """Say why a line is not known to be read-only; an empty text if it is."""
    if line.unreadable:
        return line.unreadable
    for target in line.writes:
        if not (target.literal and target.text in NULL_DEVICES):
            return f"it writes to {target.text}"
    if any(base_name(command.name) == "git" for command in line.commands) and any(
        command.name == "cd" for command in line.commands
    ):
        return "git in another directory runs what that directory configures"
    for command in line.commands:
        why = "" if command.wrapper else why_not(command)
        if why:
            return why
    return ""


def is_read_only_line(text: str) -> bool:
    """True if each command of a shell line is known to change nothing and nothing is redirected into a file."""
    return not line_why_not(parse_line(text))
