"""The prompt of a run and the system prompt around it."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from .console import is_terminal
from .problems import Problem

_FOLDER = "working directory"
MAX_PROMPT = 10_000_000
"""Bytes read from standard input."""
SYSTEM = (
    "You are an agent that works on the user's files and answers the user's questions, through the tools that you are "
    "given. Look before you change anything, change only what the task needs, and check what you did. When a call is "
    "denied or fails, read why and find another way, or say what you could not do. When the work is done, say briefly "
    "what you did and what you found."
)


def read_prompt(given: str | None) -> str:
    """Give the prompt: the argument, or standard input for ``-`` or none.

    Raises:
        Problem: if there is none, or it cannot be read.
    """
    if given is not None and given != "-":
        text, where = given, "the prompt"
    else:
        if given is None and is_terminal(sys.stdin):
            raise Problem("there is no prompt; give one, or pipe it in: echo 'Say hello.' | fsm-agent run")
        text, where = _standard_input(), "standard input"
    if not text.strip():
        raise Problem(f"{where} is empty; a prompt is needed")
    return text


def _standard_input() -> str:
    if sys.stdin is None:
        raise Problem("standard input is closed, and there is no prompt")
    buffer = getattr(sys.stdin, "buffer", None)
    try:
        raw: bytes = buffer.read(MAX_PROMPT + 1) if buffer is not None else sys.stdin.read().encode()
    except OSError as error:
        raise Problem(f"standard input cannot be read: {error.strerror}") from None
    if len(raw) > MAX_PROMPT:
        raise Problem(f"standard input is larger than {MAX_PROMPT // 1_000_000} MB")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Problem("standard input is no UTF-8 text") from None


def system_parts(replaced: str | None, appended: str | None) -> tuple[str, ...]:
    """Give the parts of the system prompt."""
    first = SYSTEM if replaced is None else replaced
    return tuple(part for part in (first, appended) if part)


def worked_in(facts: Iterable[tuple[str, str]]) -> str:
    """Give the folder in which a run worked, of what its model was told; empty if it was not told one."""
    return next((value for name, value in facts if name == _FOLDER), "")


def system_context(cwd: Path) -> tuple[tuple[str, str], ...]:
    """Give what the model is told of its surroundings, read once."""
    return (
        (_FOLDER, str(cwd)),
        ("platform", f"{platform.system()} {platform.machine()}".strip()),
        ("date", time.strftime("%Y-%m-%d")),
    )
