"""``--allowed-tools "Bash(git:*)" Read``: options that take several rules, as people know them."""

from __future__ import annotations

import re
from collections.abc import Iterable

import click

from .problems import Problem

TOOLS = ("Bash", "Read", "Edit", "Write", "Glob", "Grep")
"""Names of the built-in tools; a test compares them with the tools themselves, which are slow to import."""
RULE_OPTIONS = ("--allowed-tools", "--allowedTools", "--disallowed-tools", "--disallowedTools")
_RULE = re.compile(r"([A-Za-z0-9_*?\-]+)(\(.*\))?", re.DOTALL)


class RuleCommand(click.Command):
    """A command whose rule options take every rule that follows them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat the option before each rule."""
        return super().parse_args(ctx, spread(args))


def spread(args: list[str]) -> list[str]:
    """Write ``--allowed-tools A B`` as ``--allowed-tools A --allowed-tools B``.

    What follows is a rule if it speaks of a tool that exists or of an MCP server; anything else is the prompt.
    """
    spread_out: list[str] = []
    option = ""
    for place, word in enumerate(args):
        if word == "--":
            return spread_out + args[place:]
        before = args[place - 1] if place else ""
        if word.partition("=")[0] in RULE_OPTIONS:
            option = word.partition("=")[0]
        elif option and before not in RULE_OPTIONS:
            if _is_rule_list(word):
                spread_out.append(option)
            else:
                option = ""
        spread_out.append(word)
    return spread_out


def _is_rule_list(word: str) -> bool:
    rules = split_rules(word)
    return bool(rules) and all(_names_tool(rule) for rule in rules)


def _names_tool(rule: str) -> bool:
    found = _RULE.fullmatch(rule)
    return found is not None and (found[1] in TOOLS or found[1].startswith("mcp__"))


def split_rules(text: str) -> list[str]:
    """Split at commas and blanks that stand in no parentheses."""
    rules: list[str] = []
    depth, start = 0, 0
    for place, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if depth <= 0 and sign in ", \n\t":
            rules.append(text[start:place])
            start = place + 1
    rules.append(text[start:])
    return [rule for rule in rules if rule]


def read_rules(words: Iterable[str], option: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Read the rules of one option.

    Args:
        words: as they were given.
        option: how complaints name it.

    Returns:
        The rules, and warnings about tools that do not exist here.

    Raises:
        Problem: for what is no rule, or a tool's name in other letters: it would never match.
    """
    rules = [rule for word in words for rule in split_rules(word)]
    warnings: list[str] = []
    small = {name.lower(): name for name in TOOLS}
    for rule in rules:
        found = _RULE.fullmatch(rule)
        if found is None:
            raise Problem(f"{option}: {rule!r} is no rule; write Tool or Tool(specifier), such as 'Bash(git diff:*)'")
        name = found[1]
        if name in TOOLS or name.startswith("mcp__") or "*" in name or "?" in name:
            continue
        if name.lower() in small:
            raise Problem(f"{option}: there is no tool {name!r}; did you mean {small[name.lower()]!r}?")
        warnings.append(f"{option}: there is no tool {name!r} here")
    return tuple(rules), tuple(warnings)
