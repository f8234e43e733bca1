"""Permission rules in the known form: ``Tool`` or ``Tool(specifier)`` (spec 03; api-facts C2)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any

import pathspec
from attrs import frozen

from ..tools.paths import is_inside

_FORM = re.compile(r"\s*([A-Za-z0-9_*?\-]+)\s*(?:\((.*)\)\s*)?\Z", re.DOTALL)


class RuleError(ValueError):
    """A rule that cannot be read."""


class Behavior(StrEnum):
    """What a rule or a decision says."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


@frozen
class Rule:
    """One rule.

    Attributes:
        behavior: the list that it stands in.
        tool: the tool's name; may hold ``*`` in deny and ask rules.
        spec: what is in the parentheses; None for the bare tool.
        text: the rule as it was written.
        base: real directory of the settings file that it came from; ``/`` at the start of a path pattern means it.
    """

    behavior: Behavior
    tool: str
    spec: str | None
    text: str
    base: str = ""

    def names(self, tool: str) -> bool:
        """True if the rule speaks of this tool."""
        if self.tool == tool:
            return True
        if self.tool.startswith("mcp__") and tool.startswith(self.tool + "__") and self.tool.count("__") == 1:
            return True
        wild = "*" in self.tool or "?" in self.tool
        if not wild:
            return False
        # An allow rule may leave open which tool of one server, never which server or which built-in tool.
        if self.behavior is Behavior.ALLOW and not re.match(r"mcp__[A-Za-z0-9\-]+(_[A-Za-z0-9\-]+)*__", self.tool):
            return False
        return wildcard(self.tool).match(tool) is not None

    def __str__(self) -> str:
        return f"{self.behavior.value}: {self.text}"


def parse_rule(text: str, behavior: Behavior, base: str = "") -> Rule:
    """Read one rule.

    Raises:
        RuleError: if it has not the form ``Tool`` or ``Tool(specifier)``.
    """
    found = _FORM.match(text)
    if found is None:
        raise RuleError(f"{text!r} is no permission rule; write Tool or Tool(specifier), e.g. Bash(git diff:*)")
    tool, spec = found.group(1), found.group(2)
    if spec is not None and spec.strip() in ("", "*"):
        spec = None
    return Rule(behavior=behavior, tool=tool, spec=spec, text=text.strip(), base=base)


@frozen
class RuleSet:
    """All rules of a session, each list in order."""

    deny: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    allow: tuple[Rule, ...] = ()

    def of(self, behavior: Behavior) -> tuple[Rule, ...]:
        """Give one list."""
        return {Behavior.DENY: self.deny, Behavior.ASK: self.ask, Behavior.ALLOW: self.allow}[behavior]

    def __add__(self, other: RuleSet) -> RuleSet:
        return RuleSet(self.deny + other.deny, self.ask + other.ask, self.allow + other.allow)

    def restricting(self) -> RuleSet:
        """Give only what restricts: what an untrusted folder may say."""
        return RuleSet(self.deny, self.ask, ())


NO_RULES = RuleSet()


def parse_rules(*, allow: Iterable[str] = (), ask: Iterable[str] = (), deny: Iterable[str] = (), base: str = "") -> RuleSet:
    """Read three lists of rules.

    Raises:
        RuleError: for the first rule that cannot be read.
    """
    return RuleSet(
        deny=tuple(parse_rule(text, Behavior.DENY, base) for text in deny),
        ask=tuple(parse_rule(text, Behavior.ASK, base) for text in ask),
        allow=tuple(parse_rule(text, Behavior.ALLOW, base) for text in allow),
    )


def rules_from_settings(settings: Mapping[str, Any], base: str = "") -> RuleSet:
    """Read ``permissions: {allow, ask, deny}`` of a settings object.

    Raises:
        RuleError: if it is not of that shape or a rule cannot be read.
    """
    value = settings.get("permissions", {})
    if not isinstance(value, Mapping):
        raise RuleError("'permissions' must be an object with the lists allow, ask, deny")
    lists: dict[str, list[str]] = {}
    for name in ("allow", "ask", "deny"):
        items = value.get(name, [])
        if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
            raise RuleError(f"'permissions.{name}' must be a list of texts")
        lists[name] = items
    return parse_rules(**lists, base=base)


@lru_cache(maxsize=512)
def wildcard(pattern: str) -> re.Pattern[str]:
    """Compile a pattern in which ``*`` stands for anything."""
    return re.compile(".*".join(re.escape(part) for part in pattern.split("*")), re.DOTALL)


def matches_command(spec: str, command: str) -> bool:
    """True if a shell rule's specifier matches one command.

    ``git diff:*`` and ``git diff *`` match ``git diff`` and ``git diff <anything>``, not ``git difftool``; elsewhere ``*``
    matches anything; without ``*`` the command must be equal.
    """
    spec = spec.strip()
    if spec.endswith(":*"):
        spec = spec[:-2].rstrip() + " *"
    if spec.endswith(" *") and wildcard(spec[:-2]).fullmatch(command):
        return True
    return wildcard(spec).fullmatch(command) is not None


@lru_cache(maxsize=512)
def _spec(pattern: str) -> pathspec.GitIgnoreSpec:
    return pathspec.GitIgnoreSpec.from_lines([pattern])


def matches_path(rule: Rule, path: str, cwd: str) -> bool:
    """True if a path rule's specifier matches an absolute path.

    Patterns are those of gitignore. ``//x`` is absolute, ``~/x`` below the home directory, ``/x`` below the directory of the
    settings file, ``./x`` and ``x`` below the working directory. The base is tried as spelled and resolved.
    """
    pattern = rule.spec or "**"
    if pattern.startswith("//"):
        base, pattern = "/", pattern[1:]
    elif pattern.startswith("~/"):
        base, pattern = os.path.expanduser("~"), pattern[1:]
    elif pattern.startswith("/"):
        base = rule.base or cwd
    elif pattern.startswith("./"):
        base, pattern = cwd, pattern[1:]
    else:
        base = cwd
    if os.path.normpath(path) == "/":
        return pattern in ("/**", "**", "/*")
    for root in dict.fromkeys((base, os.path.realpath(base))):
        if is_inside(path, root) and path != root and _spec(pattern).match_file(os.path.relpath(path, root)):
            return True
    return _resolved_pattern(base, pattern, path)


def _resolved_pattern(base: str, pattern: str, path: str) -> bool:
    """Try the pattern with its plain leading directories resolved: a rule may name a link, the path never does."""
    if not pattern.startswith("/"):
        return False
    parts = pattern.split("/")[1:]
    plain: list[str] = []
    while len(parts) > 1 and not any(mark in parts[0] for mark in "*?[\\!"):
        plain.append(parts.pop(0))
    if not plain and any(mark in parts[0] for mark in "*?[\\!"):
        return False
    if len(parts) == 1 and not any(mark in parts[0] for mark in "*?[\\!"):
        real = os.path.realpath(os.path.join(base, *plain, parts[0]))
        return is_inside(path, real)
    root = os.path.realpath(os.path.join(base, *plain))
    return is_inside(path, root) and path != root and _spec("/" + "/".join(parts)).match_file(os.path.relpath(path, root))


def matches_input(spec: str, tool_input: Mapping[str, Any]) -> bool:
    """True if ``param:value`` (``*`` allowed in the value) matches a field of the input."""
    name, mark, value = spec.partition(":")
    if not mark or name not in tool_input:
        return False
    return wildcard(value).fullmatch(str(tool_input[name])) is not None
