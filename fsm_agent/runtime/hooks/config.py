"""Hooks as they are configured: the known JSON shape, or Python callables (api-facts C3)."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Any

from attrs import field, frozen

DEFAULT_TIMEOUT = 60.0
"""Seconds that a hook may take, of whatever kind it is."""

HookCallable = Callable[[Mapping[str, Any]], "Mapping[str, Any] | Awaitable[Mapping[str, Any] | None] | None"]


class HookConfigError(ValueError):
    """Hooks that cannot be read; the text says where."""


class HookEvent(StrEnum):
    """When hooks run. The names are those that people know."""

    PRE_TOOL_USE = "PreToolUse"
    POST_TOOL_USE = "PostToolUse"
    POST_TOOL_USE_FAILURE = "PostToolUseFailure"
    STOP = "Stop"
    SUBAGENT_STOP = "SubagentStop"
    POST_SAMPLING = "PostSampling"
    USER_PROMPT_SUBMIT = "UserPromptSubmit"
    SESSION_START = "SessionStart"
    SESSION_END = "SessionEnd"
    PRE_COMPACT = "PreCompact"
    NOTIFICATION = "Notification"
    TURN_END = "TurnEnd"


@frozen
class Hook:
    """One hook.

    Attributes:
        event: when it runs.
        command: shell command; empty for a callable.
        call: a callable that takes the input object and gives the output object or None; None for a command.
        matcher: which tools it is for; empty for all.
        timeout: seconds.
        fail_open: a failure of a gating hook is a warning instead of a denial.
        name: how it is named in reasons and warnings.
    """

    event: HookEvent
    command: str = ""
    call: HookCallable | None = field(default=None, eq=False)
    matcher: str = ""
    timeout: float = DEFAULT_TIMEOUT
    fail_open: bool = False
    name: str = ""

    def __attrs_post_init__(self) -> None:
        if bool(self.command) == (self.call is not None):
            raise HookConfigError(f"a {self.event} hook needs either a command or a callable")
        if not self.timeout > 0:
            raise HookConfigError(f"{self.label}: the timeout must be above 0 seconds")
        check_matcher(self.matcher)

    @property
    def label(self) -> str:
        """Name for people: the given one, the command, or the callable's own."""
        own = self.name or self.command or getattr(self.call, "__qualname__", type(self.call).__name__)
        return f"{self.event.value} hook {own[:80]!r}"

    def matches(self, subject: str) -> bool:
        """True if it is for this tool."""
        matcher = self.matcher
        if matcher in ("", "*"):
            return True
        if _NAMES.match(matcher):
            return subject in matcher.split("|")
        return re.search(matcher, subject) is not None


_EVENTS = {event.value: event for event in HookEvent}
_NAMES = re.compile(r"[A-Za-z0-9_|]+\Z")


def check_matcher(matcher: str) -> None:
    """Check a matcher.

    Raises:
        HookConfigError: if it is neither names nor a regular expression.
    """
    if matcher in ("", "*") or _NAMES.match(matcher):
        return
    try:
        re.compile(matcher)
    except re.error as problem:
        raise HookConfigError(f"matcher {matcher!r} is no regular expression: {problem}") from None


@frozen
class HookConfig:
    """What a settings object said about hooks.

    Attributes:
        hooks: in order.
        warnings: entries that were left out because nothing here knows them.
    """

    hooks: tuple[Hook, ...] = ()
    warnings: tuple[str, ...] = ()


def hooks_from_settings(settings: Mapping[str, Any]) -> HookConfig:
    """Read ``hooks.<Event>[] = {matcher, hooks[]}`` of a settings object.

    An event or a kind of handler that is not known is left out with a warning, but for a gate before tools: what cannot
    be run there would let everything through.

    Raises:
        HookConfigError: if it is not of that shape.
    """
    events = settings.get("hooks", {})
    if not isinstance(events, Mapping):
        raise HookConfigError("'hooks' must be an object whose keys are events")
    hooks: list[Hook] = []
    warnings: list[str] = []
    for word, groups in events.items():
        event = _EVENTS.get(word)
        if event is None:
            warnings.append(f"hooks.{word}: no such event here; left out")
            continue
        if not isinstance(groups, list):
            raise HookConfigError(f"hooks.{word} must be a list")
        for index, group in enumerate(groups):
            _read_group(event, group, f"hooks.{word}[{index}]", hooks, warnings)
    return HookConfig(tuple(hooks), tuple(warnings))


def _read_group(event: HookEvent, group: Any, where: str, hooks: list[Hook], warnings: list[str]) -> None:
    if not isinstance(group, Mapping) or not isinstance(group.get("hooks"), list):
        raise HookConfigError(f"{where} must be an object with a list 'hooks'")
    matcher = group.get("matcher", "")
    if not isinstance(matcher, str):
        raise HookConfigError(f"{where}.matcher must be a text")
    for number, item in enumerate(group["hooks"]):
        place = f"{where}.hooks[{number}]"
        if not isinstance(item, Mapping):
            raise HookConfigError(f"{place} must be an object")
        kind = item.get("type", "command")
        if kind != "command":
            if event is HookEvent.PRE_TOOL_USE:
                raise HookConfigError(f"{place}: hooks of type {kind!r} cannot be run here, and a gate must not be left out")
            warnings.append(f"{place}: hooks of type {kind!r} cannot be run here; left out")
            continue
        hooks.append(_read_command(event, item, matcher, place))


def _read_command(event: HookEvent, item: Mapping[str, Any], matcher: str, place: str) -> Hook:
    command = item.get("command")
    if not isinstance(command, str) or not command.strip():
        raise HookConfigError(f"{place}.command must be a text")
    timeout = item.get("timeout", DEFAULT_TIMEOUT)
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
        raise HookConfigError(f"{place}.timeout must be a number of seconds above 0")
    fail_open = item.get("failOpen", False)
    if not isinstance(fail_open, bool):
        raise HookConfigError(f"{place}.failOpen must be true or false")
    return Hook(event=event, command=command, matcher=matcher, timeout=float(timeout), fail_open=fail_open)
