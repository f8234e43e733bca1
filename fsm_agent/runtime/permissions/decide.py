"""The decision on one call: deny over ask over allow, then the mode; each says which rule decided (spec 03, Permissions)."""

from __future__ import annotations

import os
from collections.abc import Iterator

from attrs import frozen

from ..tools.base import Access, AccessKind, Call
from ..tools.paths import Workspace, is_inside
from .modes import Mode
from .rules import NO_RULES, Behavior, Rule, RuleSet, matches_input, matches_path

PROTECTED = (".git", ".hg", ".svn", ".fsm-agent", ".claude", ".vscode", ".idea", ".husky")
"""Directories whose files run or configure something later: writing there is asked in every mode."""

_GUARD = {AccessKind.READ: "Read", AccessKind.WRITE: "Edit"}
"""The rules of these tools speak of every tool that reads or writes files."""


@frozen
class Decision:
    """What was decided on a call.

    Attributes:
        behavior: allow, ask or deny.
        reason: why, in words for the user and the model.
        rule: the rule, mode or part that decided.
    """

    behavior: Behavior
    reason: str
    rule: str


@frozen
class Policy:
    """Mode and rules of a session.

    Attributes:
        workspace: where files may be read and written.
        mode: what is allowed without a rule.
        rules: deny, ask and allow.
    """

    workspace: Workspace
    mode: Mode = Mode.DEFAULT
    rules: RuleSet = NO_RULES

    def hidden(self, tool: str) -> bool:
        """True if a bare deny rule removes the tool from the model's view."""
        return any(rule.spec is None and rule.names(tool) for rule in self.rules.deny)

    def readable(self, real: str) -> bool:
        """True if a searching tool may show this file: no deny or ask rule speaks of it."""
        rules = (*self.rules.deny, *self.rules.ask)
        return not any(
            rule.tool == "Read" and (rule.spec is None or matches_path(rule, real, self.workspace.cwd)) for rule in rules
        )

    def judge(self, tool: str, call: Call, *, read_only: bool, hook: Behavior | None = None) -> Decision:
        """Decide on one call.

        Args:
            tool: its name.
            call: the canonical input and what it touches.
            read_only: the tool says that this call changes nothing.
            hook: what the hooks said: ``allow`` skips no deny and no ask rule.

        Returns:
            The decision; ``ask`` is turned into a denial by whoever has nobody to ask.
        """
        if any(access.kind is AccessKind.SHELL for access in call.access):
            from .shelldecide import judge_shell  # loads the parser of shell lines

            return judge_shell(self, tool, call, hook)
        for behavior in (Behavior.DENY, Behavior.ASK):
            rule = self._matching(behavior, tool, call)
            if rule is not None:
                return Decision(behavior, f"the rule {rule.text} says {behavior.value}", str(rule))
            if behavior is Behavior.DENY and hook is Behavior.ASK:
                return Decision(Behavior.ASK, "a hook wants it asked", "hook: ask")
        return self._without_rule(tool, call, read_only, hook)

    def _without_rule(self, tool: str, call: Call, read_only: bool, hook: Behavior | None) -> Decision:
        named = self._allowed_by(tool, call, bare=False)
        barred = self.barrier(call.access)
        if barred and named is None:
            return Decision(Behavior.ASK, barred, "workspace")
        if self.mode is Mode.PLAN and not read_only:
            return Decision(Behavior.DENY, "in plan mode nothing may be changed", "mode: plan")
        if hook is Behavior.ALLOW:
            return Decision(Behavior.ALLOW, "a hook allows it", "hook: allow")
        if self.mode is Mode.BYPASS:
            return Decision(Behavior.ALLOW, "the mode allows it", "mode: bypassPermissions")
        if read_only:
            return Decision(Behavior.ALLOW, "it changes nothing", "read-only")
        writes = bool(call.access) and all(access.kind in _GUARD for access in call.access)
        if self.mode is Mode.ACCEPT_EDITS and writes:
            return Decision(Behavior.ALLOW, "the mode allows edits", "mode: acceptEdits")
        rule = named or self._allowed_by(tool, call, bare=True)
        if rule is not None:
            return Decision(Behavior.ALLOW, f"the rule {rule.text} allows it", str(rule))
        return self.unanswered(f"no rule allows {tool}")

    def unanswered(self, reason: str) -> Decision:
        """The decision where nothing else decided."""
        if self.mode is Mode.DONT_ASK:
            return Decision(Behavior.DENY, f"{reason}, and this mode asks nobody", "mode: dontAsk")
        return Decision(Behavior.ASK, reason, f"mode: {self.mode.value}")

    def barrier(self, accesses: tuple[Access, ...]) -> str:
        """Say why an access is asked whatever the mode: outside the workspace, or a protected place; else empty."""
        for access in accesses:
            if access.kind is AccessKind.SHELL:
                continue
            write = access.kind is AccessKind.WRITE
            inside = self.workspace.may_write(access.real) if write else self.workspace.may_read(access.real)
            if not inside:
                return f"{access.real} is outside the workspace"
            if write and self.is_protected(access.real):
                return f"{access.real} is in a protected directory"
        return ""

    def is_protected(self, real: str) -> bool:
        """True if a file below a root lies in a directory whose content runs or configures something."""
        for root in self.workspace.roots:
            if is_inside(real, root) and any(part in PROTECTED for part in os.path.relpath(real, root).split(os.sep)):
                return True
        return False

    def _matching(self, behavior: Behavior, tool: str, call: Call) -> Rule | None:
        for rule in self.rules.of(behavior):
            if rule.names(tool) and (rule.spec is None or matches_input(rule.spec, call.input)):
                return rule
            if any(True for access in call.access if self.touches(rule, tool, access, strict=False)):
                return rule
        return None

    def touches(self, rule: Rule, tool: str, access: Access, *, strict: bool) -> bool:
        """True if a path rule speaks of this access; ``strict`` looks at the resolved path only, as allowing must."""
        if access.kind not in _GUARD or not (rule.tool == _GUARD[access.kind] or rule.names(tool)):
            return False
        if rule.spec is None:
            return True
        paths = (access.real,) if strict or not access.given else (access.real, access.given)
        return any(matches_path(rule, path, self.workspace.cwd) for path in paths)

    def _allowed_by(self, tool: str, call: Call, *, bare: bool) -> Rule | None:
        """Find an allow rule for the whole call; with ``bare`` rules without a specifier count, without only others."""
        for rule in self.rules.allow:
            if (rule.spec is None) is not bare:
                continue
            if bare and rule.names(tool):
                return rule
            if call.access and all(self.touches(rule, tool, access, strict=True) for access in call.access):
                return rule
        return None

    def path_rule(self, behavior: Behavior, accesses: Iterator[Access]) -> Rule | None:
        """Find a path rule of one list that speaks of an access made by a shell."""
        for access in accesses:
            for rule in self.rules.of(behavior):
                if rule.spec is not None and self.touches(rule, "", access, strict=behavior is Behavior.ALLOW):
                    return rule
        return None
