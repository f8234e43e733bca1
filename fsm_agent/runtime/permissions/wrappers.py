"""Commands that run other commands: looked into, or marked as hiding something (field report 89)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from attrs import evolve

from .words import Command, Unreadable, Word

Unwrapped = tuple[Command, str | None]
"""A command of the line, and the text of a script that it runs, if it is a shell with one."""

FED_SHELL = "a shell that reads its commands from elsewhere"
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash"})
_DURATION = re.compile(r"[0-9.]+[smhd]?\Z")


def base_name(text: str) -> str:
    """Last component of a command's name."""
    return text.rsplit("/", 1)[-1]


def unwrap(command: Command) -> Iterator[Unwrapped]:
    """Give the command and all that it runs, outermost first.

    Raises:
        Unreadable: if it runs something that cannot be told.
    """
    if not command.words:
        yield command, None
        return
    name = base_name(command.name)
    if name in _SHELLS:
        yield from _shell(command)
    elif name in ("eval",):
        yield evolve(command, wrapper=True), " ".join(_literal(word) for word in command.words[1:])
    elif name in _PREFIXES:
        yield from _prefix(command, _PREFIXES[name](command.words[1:]), wrapper=name != "sudo" and name != "doas")
    elif name == "xargs":
        inner = _after_options(
            command.words[1:], "aEIiLlnPsd", ("--arg-file", "--delimiter", "--max-args", "--max-procs", "--replace")
        )
        yield from _prefix(command, inner, wrapper=True, fed=True)
    elif name == "find":
        yield from _find(command)
    else:
        yield evolve(command, carries=carries(command)), None


def _literal(word: Word) -> str:
    if not word.literal:
        raise Unreadable(f"{word.text[:40]!r} is run as a command but is not literal")
    return word.text


def _prefix(command: Command, inner: tuple[Word, ...], *, wrapper: bool, fed: bool = False) -> Iterator[Unwrapped]:
    if not inner:
        # A wrapper without a command runs none: xargs echoes, env prints.
        yield command, None
        return
    _literal(inner[0])
    yield evolve(command, wrapper=wrapper), None
    for found, script in unwrap(Command(inner, fed=fed)):
        yield evolve(found, fed=found.fed or fed), script


def _after_options(words: tuple[Word, ...], valued: str, long_valued: tuple[str, ...] = ()) -> tuple[Word, ...]:
    """Skip options; ``valued`` are the letters whose value is the next word, ``long_valued`` the long ones."""
    at = 0
    while at < len(words):
        text = _literal(words[at])
        if text == "--":
            return words[at + 1 :]
        if not text.startswith("-") or text == "-":
            return words[at:]
        if text.startswith("--"):
            if "=" not in text and any(option.startswith(text) for option in long_valued):
                at += 1
        else:
            for index, letter in enumerate(text[1:], 1):
                if letter in valued:
                    at += index == len(text) - 1
                    break
        at += 1
    return ()


def _env(words: tuple[Word, ...]) -> tuple[Word, ...]:
    for word in words:
        text = word.text
        if text.startswith(("-S", "--split-string", "--s")) or re.match(r"-[a-zA-Z]*S", text):
            raise Unreadable("env with a split string")
        if text.startswith("--c") or re.match(r"-[a-zA-Z]*C", text):
            # The same command means something else in another folder: git reads its settings from there.
            raise Unreadable("env that works in another folder")
        if not text.startswith("-"):
            break
    rest = _after_options(words, "uC", ("--unset", "--chdir"))
    while rest and re.match(r"[A-Za-z_][A-Za-z0-9_]*=", rest[0].text):
        # A variable can change which program runs and what it loads: judged like an assignment in front.
        if not harmless_variable(rest[0].text):
            raise Unreadable(f"env sets {rest[0].text.partition('=')[0]}")
        rest = rest[1:]
    return rest


def _timeout(words: tuple[Word, ...]) -> tuple[Word, ...]:
    rest = _after_options(words, "ks", ("--kill-after", "--signal"))
    if rest and not _DURATION.match(_literal(rest[0])):
        raise Unreadable("timeout without a duration")
    return rest[1:]


_PREFIXES: dict[str, Callable[[tuple[Word, ...]], tuple[Word, ...]]] = {
    "env": _env,
    "timeout": _timeout,
    "nice": lambda words: _after_options(words, "n", ("--adjustment",)),
    "nohup": lambda words: _after_options(words, ""),
    "stdbuf": lambda words: _after_options(words, "ioe", ("--input", "--output", "--error")),
    "setsid": lambda words: _after_options(words, ""),
    "ionice": lambda words: _after_options(words, "cnp", ("--class", "--classdata")),
    "command": lambda words: _after_options(words, ""),
    "builtin": lambda words: _after_options(words, ""),
    "exec": lambda words: _after_options(words, "a"),
    "time": lambda words: _after_options(words, "fo", ("--format", "--output")),
    "sudo": lambda words: _after_options(words, "ugCDhpRrTtU", ("--user", "--group", "--chdir", "--host", "--prompt")),
    "doas": lambda words: _after_options(words, "uC"),
}


def _shell(command: Command) -> Iterator[Unwrapped]:
    """A shell with ``-c`` and a literal text is looked into; any other use is a command like another."""
    words = command.words[1:]
    for at, word in enumerate(words):
        text = word.text
        if not word.literal:
            raise Unreadable("a shell whose arguments are not literal")
        if text.startswith("--") or text.startswith("+"):
            raise Unreadable("a shell with long options")
        if not text.startswith("-") or text == "-":
            break
        if "c" in text[1:]:
            if set(text[1:]) - set("ceux") or at + 1 >= len(words):
                raise Unreadable("a shell with options that are not known")
            yield evolve(command, wrapper=True), _literal(words[at + 1])
            return
    yield evolve(command, carries=FED_SHELL), None


_FIND_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})


def _find(command: Command) -> Iterator[Unwrapped]:
    words = command.words
    yield command, None
    at = 1
    while at < len(words):
        if words[at].text in _FIND_RUNS:
            end = at + 1
            while end < len(words) and words[end].text not in (";", "+"):
                end += 1
            inner = words[at + 1 : end]
            if inner:
                _literal(inner[0])
                for found, script in unwrap(Command(inner)):
                    # The names that find puts in are not known here.
                    yield evolve(found, fed=True), script
            at = end
        at += 1


_HARMLESS = re.compile(
    r"(LANG|LC_[A-Z]+|TZ|NO_COLOR|FORCE_COLOR|CLICOLOR|COLUMNS|LINES|CI|NODE_ENV|RUST_BACKTRACE|RUST_LOG|"
    r"PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|PYTHONHASHSEED|DEBUG|VERBOSE|LOG_LEVEL)=[A-Za-z0-9_.,:/@+\-]*\Z"
)


def harmless_variable(text: str) -> bool:
    """True if ``NAME=value`` changes neither which program runs nor what it loads."""
    return _HARMLESS.match(text) is not None


_GIT_HIDING = ("-c", "--config-env", "--exec-path", "-p", "--paginate", "--git-dir", "--work-tree", "-C", "--namespace")
_HIDING_OPTIONS = {
    "git": (
        "--exec",
        "--upload-pack",
        "--receive-pack",
        "--open-files-in-pager",
        "--extcmd",
        "--ext-diff",
        "--tool",
        "--config",
    ),
    "tar": (
        "--to-command",
        "--checkpoint-action",
        "--use-compress-program",
        "--rsh-command",
        "--info-script",
        "--new-volume-script",
    ),
    "rsync": ("--rsh", "--rsync-path"),
    "rg": ("--pre", "--hostname-bin"),
    "sort": ("--compress-program",),
    "man": ("--pager",),
    "less": ("--lesskey",),
}
_GIT_COMMANDS = frozenset(
    {"bisect", "submodule", "filter-branch", "difftool", "mergetool", "config", "hook", "for-each-repo", "send-email"}
    | {"instaweb", "daemon", "credential", "web--browse", "remote-ext", "remote-fd", "shell", "http-backend"}
)
_GIT_WRITERS = frozenset({"archive", "format-patch"})
"""Commands whose ``-o`` names what they write."""


def abbreviates(text: str, option: str) -> bool:
    """True if ``text`` is the long option, or a beginning of it that programs take for it, with or without a value."""
    name = text.partition("=")[0]
    return len(name) > 3 and name.startswith("--") and option.startswith(name)


def carries(command: Command) -> str:
    """Say why a command's arguments may run another program; an empty text if nothing points to it."""
    name = base_name(command.name)
    texts = [word.text for word in command.words[1:]]
    if name in _HIDING_OPTIONS and any(word.expands and word.text[:1] in ("$", "`", "{") for word in command.words[1:]):
        return f"{name} gets arguments that are not known"
    for text in texts:
        for option in _HIDING_OPTIONS.get(name, ()):
            if abbreviates(text, option):
                return f"{name} {option} runs another program"
    if name == "git":
        return _git_carries(texts)
    if name == "tar" and any(re.match(r"-[a-zA-Z]*[IF]", text) for text in texts):
        return "tar -I and -F run another program"
    if name == "rsync" and any(re.match(r"-[a-zA-Z]*e", text) and not text.startswith("--") for text in texts):
        return "rsync -e runs another program"
    return ""


def _git_carries(texts: list[str]) -> str:
    at = 0
    while at < len(texts) and texts[at].startswith("-"):
        text = texts[at]
        if any(text == option or text.startswith((option + "=",)) for option in _GIT_HIDING) or re.match(r"-[cC].", text):
            return f"git {text.partition('=')[0]} changes where or how git works"
        at += 1
    if at == len(texts):
        return ""
    verb, rest = texts[at], texts[at + 1 :]
    if verb in _GIT_COMMANDS and not (verb == "submodule" and rest[:1] == ["status"]):
        if verb == "config" and rest and rest[0] in ("--get", "--list", "-l", "--get-all", "get", "list"):
            return ""
        return f"git {verb} can run another program"
    if any(abbreviates(text, "--output") or abbreviates(text, "--output-directory") for text in rest):
        return f"git {verb} --output writes a file of any name"
    if verb in _GIT_WRITERS and any(re.match(r"-[a-zA-Z0-9]*o", text) for text in rest if not text.startswith("--")):
        return f"git {verb} -o writes a file of any name"
    if verb == "bundle" and rest[:1] == ["create"]:
        return "git bundle create writes a file of any name"
    if verb == "rebase" and any(text.startswith("-x") for text in rest):
        return "git rebase -x runs another program"
    if verb == "grep" and any(text.startswith("-O") for text in rest):
        return "git grep -O runs another program"
    if verb in ("clone", "fetch", "pull", "ls-remote", "push", "remote") and any(
        text.startswith("ext::") or text.startswith("-u") for text in rest
    ):
        return "git can be told to run another program for the transport"
    return ""
