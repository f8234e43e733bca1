"""Run a tool's body: every way in which it can end is a result, but for a cancellation from outside (field report 85)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel

from ...core.events import Outcome
from .base import JsonObject, Tool, ToolContext, ToolError, ToolOutput
from .paths import PathProblem
from .results import to_output

Body = Callable[[JsonObject, ToolContext], Awaitable[ToolOutput]]
_MAX_WORDS = 4_000


def failure_text(problem: BaseException) -> str:
    """Say in words what an exception was: its type always, its text where it has one."""
    if isinstance(problem, BaseExceptionGroup) and problem.exceptions:
        return f"{type(problem).__name__}: " + "; ".join(failure_text(inner) for inner in problem.exceptions[:3])
    try:
        words = str(problem).strip()
    except Exception:  # a text method may be broken too
        words = ""
    return f"{type(problem).__name__}: {words[:_MAX_WORDS]}" if words else type(problem).__name__


async def run_body(tool: Tool, tool_input: JsonObject, context: ToolContext, work: Body | None = None) -> ToolOutput:
    """Run the body in a task of its own, within the tool's timeout.

    A task of its own, so that a cancellation that the body makes itself hits nobody else.

    Args:
        tool: the tool.
        tool_input: the canonical input.
        context: what the body may use.
        work: the body, by default ``tool.run``.

    Returns:
        What it gave, or a ``failed`` output that names what happened.
    """
    results: list[ToolOutput] = []
    async with anyio.create_task_group() as group:
        group.start_soon(_guarded, tool, tool_input, context, results, work or tool.run)
    # A body that ended its own task before it could say anything is a failure like another.
    return results[0] if results else ToolOutput(f"{tool.name} failed: it cancelled itself", Outcome.FAILED)


async def _guarded(tool: Tool, tool_input: JsonObject, context: ToolContext, results: list[ToolOutput], work: Body) -> None:
    with anyio.move_on_after(tool.timeout) as limit:
        try:
            results.append(to_output(await work(tool_input, context)))
        except ToolError as reported:
            results.append(ToolOutput(failure_words(reported), Outcome.ERROR))
        except PathProblem as refused:
            results.append(ToolOutput(str(refused), Outcome.FAILED))
        except GeneratorExit as closed:
            # Nothing may be awaited here: if the task itself is being closed, it just ends.
            results.append(ToolOutput(f"{tool.name} failed: {failure_text(closed)}", Outcome.FAILED))
        except BaseException as problem:
            if isinstance(problem, anyio.get_cancelled_exc_class()) and anyio.current_effective_deadline() == float("-inf"):
                raise
            # If a cancellation from outside is what the body turned into something else, it goes on here.
            await anyio.lowlevel.checkpoint_if_cancelled()
            results.append(ToolOutput(f"{tool.name} failed: {failure_text(problem)}", Outcome.FAILED))
    if limit.cancelled_caught and not results:
        words = f"{tool.name} timed out after {tool.timeout:g} s; what it did until then is not known."
        results.append(ToolOutput(words, Outcome.FAILED))


def failure_words(reported: ToolError) -> str:
    """The words of a reported error, or its type if it has none."""
    return str(reported).strip() or type(reported).__name__
