"""Run one hook, of either kind, and read its answer. Every failure is a value; only cancellation goes through."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Mapping
from typing import Any

import anyio
import anyio.lowlevel
from attrs import frozen

from ...core.blocks import clean_text, dumps
from ..threads import run_on_thread
from ..tools.body import failure_text
from ..tools.bounded import decode
from ..tools.process import ProcessResult, Spawn, run_process
from .config import Hook

MAX_OUTPUT = 1_000_000
"""Bytes that a hook may print."""
MAX_TEXT = 10_000
"""Characters of a text from a hook."""


@frozen
class Answer:
    """What a hook said.

    Attributes:
        output: its JSON object; empty if it gave none.
        blocked: words of a block by exit code 2; None without one.
        failure: what went wrong with the hook itself; empty if nothing.
        text: what a command printed that is no JSON; for some events it becomes context.
    """

    output: Mapping[str, Any]
    blocked: str | None = None
    failure: str = ""
    text: str = ""


async def run_hook(hook: Hook, value: Mapping[str, Any], *, cwd: str, env: Mapping[str, str]) -> Answer:
    """Run one hook within its timeout.

    Args:
        hook: the hook.
        value: its input object.
        cwd: working directory of a command.
        env: environment of a command.
    """
    if hook.call is not None:
        return await _run_callable(hook, value)
    return await _run_command(hook, value, cwd, env)


async def _run_callable(hook: Hook, value: Mapping[str, Any]) -> Answer:
    # Each hook gets a copy of its own, so that none can change what another sees or what runs.
    private = json.loads(dumps(value))
    answer: list[Answer] = []
    with anyio.move_on_after(hook.timeout) as limit:
        async with anyio.create_task_group() as group:
            group.start_soon(_call, hook, private, answer)
    if answer:
        return answer[0]
    words = f"timed out after {hook.timeout:g} s" if limit.cancelled_caught else "it cancelled itself"
    return Answer({}, failure=words)


async def _call(hook: Hook, value: Mapping[str, Any], answer: list[Answer]) -> None:
    call = hook.call
    assert call is not None
    try:
        if inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(call, "__call__", None)):  # noqa: B004
            found: Any = call(value)
        else:
            found = await run_on_thread(call, value)
        answer.append(_checked(await found if inspect.isawaitable(found) else found))
    except BaseException as problem:
        if isinstance(problem, GeneratorExit):
            raise
        if isinstance(problem, anyio.get_cancelled_exc_class()) and anyio.current_effective_deadline() == -math.inf:
            raise
        await anyio.lowlevel.checkpoint_if_cancelled()
        answer.append(Answer({}, failure=failure_text(problem)))


def _checked(found: Any) -> Answer:
    if found is None:
        return Answer({})
    if not isinstance(found, Mapping):
        return Answer({}, failure=f"it gave {type(found).__name__}, not an object")
    try:
        return _read_object(json.loads(dumps(dict(found))))
    except (TypeError, ValueError) as problem:
        return Answer({}, failure=f"its answer has no JSON form: {problem}")


async def _run_command(hook: Hook, value: Mapping[str, Any], cwd: str, env: Mapping[str, str]) -> Answer:
    spawn = Spawn(
        argv=["/bin/sh", "-c", hook.command],
        cwd=cwd,
        env=env,
        stdin=dumps(value).encode("utf-8"),
        timeout=hook.timeout,
        grace=0.5,
        head=MAX_OUTPUT,
        tail=0,
        split=True,
    )
    try:
        result = await run_process(spawn)
    except OSError as problem:
        return Answer({}, failure=f"it could not be started: {problem.strerror or problem}")
    return _read_result(result, hook.timeout)


def _read_result(result: ProcessResult, timeout: float) -> Answer:
    errors = decode(result.errors.head).strip()[:MAX_TEXT]
    if result.timed_out:
        return Answer({}, failure=f"timed out after {timeout:g} s")
    if result.exit_code == 2:
        return Answer({}, blocked=errors or decode(result.output.head).strip()[:MAX_TEXT] or "the hook gave no reason")
    if result.exit_code < 0:
        return Answer({}, failure=f"ended by signal {-result.exit_code}")
    if result.exit_code != 0:
        return Answer({}, failure=f"exit code {result.exit_code}" + (f": {errors[:500]}" if errors else ""))
    if result.output.dropped:
        return Answer({}, failure=f"it printed more than {MAX_OUTPUT} bytes")
    try:
        text = result.output.head.decode("utf-8").strip()
    except UnicodeDecodeError:
        return Answer({}, failure="its output is not UTF-8")
    if not text.startswith("{"):
        return Answer({}, text=text[:MAX_TEXT])  # words for people, or for the model
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return Answer({}, failure="its output begins like JSON but is none")
    return _read_object(found)


_TEXTS = ("stopReason", "systemMessage", "reason", "decision")
_INNER_TEXTS = ("permissionDecision", "permissionDecisionReason", "additionalContext", "updatedToolOutput")


def _read_object(found: Any) -> Answer:
    """Check the fields that something depends on; an answer that is not understood is a failure, not a yes."""
    if not isinstance(found, dict):
        return Answer({}, failure="its output is no JSON object")
    inner = found.get("hookSpecificOutput", {})
    if not isinstance(inner, dict):
        return Answer({}, failure="hookSpecificOutput is no object")
    for place, names in ((found, _TEXTS), (inner, _INNER_TEXTS)):
        for name in names:
            if place.get(name) is not None and not isinstance(place[name], str):
                return Answer({}, failure=f"{name} is no text")
    if not isinstance(found.get("continue", True), bool):
        return Answer({}, failure="continue is neither true nor false")
    if inner.get("updatedInput") is not None and not isinstance(inner["updatedInput"], dict):
        return Answer({}, failure="updatedInput is no object")
    if found.get("decision") not in (None, "block", "approve"):
        return Answer({}, failure=f"unknown decision {found['decision'][:40]!r}")
    if inner.get("permissionDecision") not in (None, "allow", "deny", "ask", "defer"):
        return Answer({}, failure=f"unknown permissionDecision {inner['permissionDecision'][:40]!r}")
    return Answer(found)


def bounded(text: Any) -> str:
    """A text from a hook, clean and cut."""
    return clean_text(str(text))[:MAX_TEXT]
