"""The decision on a shell line: every command and every redirection is judged, the strictest answer counts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from attrs import frozen

from ..tools.base import Access, AccessKind, Call
from ..tools.paths import PathProblem
from .modes import Mode
from .readonly import NULL_DEVICES, line_why_not, why_not
from .rules import Behavior, Rule, matches_command
from .shell import Line, parse_line
from .shellpaths import directories, places
from .words import Command
from .wrappers import FED_SHELL, base_name, harmless_variable

if TYPE_CHECKING:
    from .decide import Decision, Policy

_EDITING = frozenset({"mkdir", "touch", "cp", "mv"})
"""Commands that acceptEdits allows inside the workspace."""
_PIECES = re.compile(r"[;&|\n()`{}<>]+|\$\(")


@frozen
class _Case:
    """One line under judgement."""

    policy: Policy
    tool: str
    text: str
    line: Line

    @property
    def commands(self) -> tuple[Command, ...]:
        return self.line.commands


def judge_shell(policy: Policy, tool: str, call: Call, hook: Behavior | None) -> Decision:
    """Decide on a call that runs a shell line."""
    text = next(access.real for access in call.access if access.kind is AccessKind.SHELL)
    case = _Case(policy, tool, text, parse_line(text))
    denied = _by_rules(case, Behavior.DENY)
    if denied is not None:
        return denied
    if hook is Behavior.ASK:
        return _decision(Behavior.ASK, "a hook wants it asked", "hook: ask")
    asked = _by_rules(case, Behavior.ASK) or _critical(case) or _may_match(case)
    if asked is not None:
        return asked
    if policy.mode is Mode.PLAN:
        why = line_why_not(case.line)
        if why:
            return _decision(Behavior.DENY, f"in plan mode nothing may be changed: {why}", "mode: plan")
    if hook is Behavior.ALLOW:
        return _decision(Behavior.ALLOW, "a hook allows it", "hook: allow")
    if policy.mode is Mode.BYPASS:
        return _decision(Behavior.ALLOW, "the mode allows it", "mode: bypassPermissions")
    bare = next((rule for rule in policy.rules.allow if rule.spec is None and rule.names(tool)), None)
    if bare is not None and policy.mode is not Mode.PLAN:
        return _decision(Behavior.ALLOW, f"the rule {bare.text} allows it", str(bare))
    return _part_by_part(case)


def _decision(behavior: Behavior, reason: str, rule: str) -> Decision:
    from .decide import Decision

    return Decision(behavior, reason, rule)


def _spellings(command: Command) -> Iterator[str]:
    """The texts under which deny and ask rules look for a command: as written, and by the program's bare name."""
    if not command.words:
        return
    yield command.text
    short = base_name(command.name)
    if short != command.name:
        yield " ".join([short, *(word.text for word in command.words[1:])])


def _by_rules(case: _Case, behavior: Behavior) -> Decision | None:
    policy = case.policy
    for rule in policy.rules.of(behavior):
        if not rule.names(case.tool):
            continue
        if rule.spec is None:
            return _decision(behavior, f"the rule {rule.text} says {behavior.value}", str(rule))
        part = _part_that_matches(rule.spec, case)
        if part is not None:
            return _decision(behavior, f"the rule {rule.text} says {behavior.value} to: {part}", str(rule))
    found = policy.path_rule(behavior, _accesses(case))
    if found is not None:
        return _decision(behavior, f"the rule {found.text} says {behavior.value} to a file of this line", str(found))
    return None


def _part_that_matches(spec: str, case: _Case) -> str | None:
    if matches_command(spec, case.text.strip()):
        return case.text.strip()
    for command in case.commands:
        for text in _spellings(command):
            if matches_command(spec, text):
                return text
    if case.line.unreadable or any(command.carries == FED_SHELL for command in case.commands):
        # Not to be trusted to allow anything, but good enough to refuse: also what is fed to a shell as text.
        for piece in _PIECES.split(case.text):
            words = piece.translate(str.maketrans("", "", "'\"\\")).split()
            for start in range(len(words)):
                if matches_command(spec, " ".join(words[start:])):
                    return piece.strip()
    return None


def _accesses(case: _Case) -> Iterator[Access]:
    """Every file that the line may touch, as far as it can be told."""
    workspace = case.policy.workspace
    bases = directories(case.commands, workspace) or (workspace.cwd,)
    for targets, kind in ((case.line.writes, AccessKind.WRITE), (case.line.reads, AccessKind.READ)):
        for word in targets:
            for base in bases:
                try:
                    place = workspace.resolve(word.text, base)
                except PathProblem:
                    continue
                yield Access(kind, place.real, place.given)
    for command in case.commands:
        kinds = [AccessKind.READ] if not why_not(command) else [AccessKind.READ, AccessKind.WRITE]
        try:
            for _, place in places(command, workspace, bases):
                for kind in kinds:
                    yield Access(kind, place.real, place.given)
        except PathProblem:
            continue


def _critical(case: _Case) -> Decision | None:
    """Removing a root, a home, or what is not named is asked in every mode."""
    workspace = case.policy.workspace
    roots = {os.path.realpath(os.path.expanduser("~")), *workspace.roots}
    bases = directories(case.commands, workspace) or (workspace.cwd,)
    for command in case.commands:
        if base_name(command.name) not in ("rm", "rmdir", "shred"):
            continue
        if command.fed:
            return _decision(Behavior.ASK, "it removes files that are not named", "critical removal")
        for word in command.words[1:]:
            text = word.text
            if text.startswith("-") and word.literal:
                continue
            # What an expansion gives may be empty: `$X/*` is then all there is.
            risky = word.expands or text.rstrip("*").rstrip("/") in ("", ".", "..")
            for base in bases:
                real = os.path.realpath(os.path.join(base, os.path.expanduser(text.rstrip("*") or "."))) if not risky else "/"
                risky = risky or os.path.dirname(real) == "/" or any(_covers(real, root) for root in roots)
            if risky:
                return _decision(Behavior.ASK, f"it would remove {text}", "critical removal")
    return None


def _covers(real: str, root: str) -> bool:
    return root == real or root.startswith(real.rstrip("/") + "/")


def _may_match(case: _Case) -> Decision | None:
    """A deny or ask rule that cannot be ruled out is asked: the line is unreadable, or an argument is not known."""
    rules = [rule for rule in (*case.policy.rules.deny, *case.policy.rules.ask) if rule.names(case.tool) and rule.spec]
    if not rules:
        return None
    if case.line.unreadable:
        return _decision(Behavior.ASK, f"the line cannot be read: {case.line.unreadable}", str(rules[0]))
    for command in case.commands:
        if not (command.fed or any(word.expands for word in command.words)):
            continue
        for rule in rules:
            if _first_word(rule) in (command.name, base_name(command.name)):
                return _decision(Behavior.ASK, f"{command.text} may be what the rule {rule.text} speaks of", str(rule))
    return None


def _first_word(rule: Rule) -> str:
    return (rule.spec or "").removesuffix(":*").split(" ")[0]


def _part_by_part(case: _Case) -> Decision:
    policy = case.policy
    if case.line.unreadable:
        return policy.unanswered(f"the line cannot be read: {case.line.unreadable}")
    bases = directories(case.commands, policy.workspace)
    used = ["read-only"]
    for command in case.commands:
        if command.wrapper and all(harmless_variable(word.text) for word in command.assignments):
            continue
        allowed, why = _command(case, command, bases)
        if not allowed:
            return policy.unanswered(f"{command.text or 'an assignment'}: {why}")
        used.append(allowed)
    for targets, kind in ((case.line.writes, AccessKind.WRITE), (case.line.reads, AccessKind.READ)):
        for word in targets:
            allowed, why = _redirection(case, word.text, word.literal, kind, bases)
            if not allowed:
                return policy.unanswered(why)
            used.append(allowed)
    return _decision(Behavior.ALLOW, "each part of it is allowed", used[-1])


def _command(case: _Case, command: Command, bases: tuple[str, ...] | None) -> tuple[str, str]:
    """Judge one command: what allows it, or nothing and why not."""
    for rule in case.policy.rules.allow:
        if rule.names(case.tool) and rule.spec is not None and _rule_allows(rule.spec, command):
            return str(rule), ""
    why = why_not(command) or line_why_not(Line(commands=case.commands)) * (base_name(command.name) == "git")
    if not why:
        why = _outside(case, command, bases, write=False)
        return ("", why) if why else ("read-only", "")
    if case.policy.mode is Mode.ACCEPT_EDITS and command.name in _EDITING and not command.fed and not command.assignments:
        why = _outside(case, command, bases, write=True)
        return ("", why) if why else ("mode: acceptEdits", "")
    return "", why


def _rule_allows(spec: str, command: Command) -> bool:
    if not all(harmless_variable(word.text) for word in command.assignments) or not command.words:
        return False
    exact = "*" not in spec
    if (command.carries or command.fed) and exact and command.fed:
        return False
    if command.carries and not exact:
        return False
    return matches_command(spec, command.text)


def _outside(case: _Case, command: Command, bases: tuple[str, ...] | None, *, write: bool) -> str:
    """Say which argument leads out of the workspace; an empty text if none does."""
    policy = case.policy
    if bases is None:
        return "the directory that it works in is not known"
    if command.name in ("echo", "printf", "sleep", "seq", "expr", "true", "false", ":"):
        return ""
    if any(rule.tool == "Read" for rule in (*policy.rules.deny, *policy.rules.ask)) and any(
        word.globs for word in command.words
    ):
        return "its patterns may name files that a rule speaks of"
    try:
        for word, place in places(command, policy.workspace, bases):
            if word.expands:
                return f"{word.text} is not known"
            if place.real in NULL_DEVICES:
                continue
            barred = policy.barrier((Access(AccessKind.WRITE if write else AccessKind.READ, place.real),))
            if barred:
                return barred
    except PathProblem as problem:
        return str(problem)
    return ""


def _redirection(case: _Case, text: str, literal: bool, kind: AccessKind, bases: tuple[str, ...] | None) -> tuple[str, str]:
    policy = case.policy
    if not literal or bases is None:
        return "", f"the file {text} is not known"
    if text in NULL_DEVICES:
        return "read-only", ""
    allowed = ""
    for base in bases:
        try:
            place = policy.workspace.resolve(text, base)
        except PathProblem as problem:
            return "", str(problem)
        access = Access(kind, place.real, place.given)
        rule = policy.path_rule(Behavior.ALLOW, iter((access,)))
        barred = policy.barrier((access,))
        if rule is not None:
            allowed = str(rule)
        elif barred:
            return "", barred
        elif kind is AccessKind.READ:
            allowed = "read-only"
        elif policy.mode is Mode.ACCEPT_EDITS or any(
            item.spec is None and item.tool in ("Edit", "Write") for item in policy.rules.allow
        ):
            allowed = "mode: acceptEdits" if policy.mode is Mode.ACCEPT_EDITS else "allow: Edit"
        else:
            return "", f"it writes to {text}"
    return allowed, ""
