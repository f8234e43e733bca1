"""The environment of child processes: without secrets, without questions, without shell code (field reports 79, 99)."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SECRET = re.compile(
    r"^ANTHROPIC_|(^|_)(API_?KEYS?|TOKENS?|SECRETS?|PASSWORDS?|PASSWD|CREDENTIALS?|PRIVATE_?KEYS?|ACCESS_?KEYS?|ACCESS_KEY_ID)(_|$)",
    re.IGNORECASE,
)
_SHELL_CODE = re.compile(r"^(BASH_ENV|ENV|BASH_FUNC_.*|SHELLOPTS|BASHOPTS|CDPATH|GLOBIGNORE|PROMPT_COMMAND|PS4|IFS)$")
"""Variables that make a shell run or find something else than the line that was judged."""

QUIET: Mapping[str, str] = {
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "EDITOR": "true",
    "VISUAL": "true",
    "GIT_PAGER": "cat",
    "PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "",
    "GIT_TERMINAL_PROMPT": "0",
    "SSH_ASKPASS": "false",
    "SSH_ASKPASS_REQUIRE": "never",
    "SUDO_ASKPASS": "/bin/false",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    "TERM": "dumb",
}
"""Settings under which the usual programs ask nothing and open no editor or pager."""


def is_secret(name: str) -> bool:
    """True if a variable of this name is taken for a secret."""
    return _SECRET.search(name) is not None


def child_environment(base: Mapping[str, str], *, keep: frozenset[str] = frozenset()) -> dict[str, str]:
    """Make the environment of child processes.

    Args:
        base: the engine's own environment, read once.
        keep: names that are passed on although they look like secrets.

    Returns:
        ``base`` without secrets and without variables that hold shell code, with settings that prevent questions.
    """
    kept = {name: value for name, value in base.items() if name in keep or not (is_secret(name) or _SHELL_CODE.match(name))}
    return {**kept, **QUIET}
