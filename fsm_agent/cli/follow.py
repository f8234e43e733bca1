"""Follow one submitted prompt: show what comes, obey signals, and give the process its exit code (spec 05)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from types import TracebackType
from typing import Any, Protocol, Self

import anyio
from attrs import frozen

from ..core.outputs import Output, Terminal
from ..runtime.run import Run
from .pipe import Writer
from .problems import FAILED, Problem, Stopped
from .watch import Watch


class Followable(Protocol):
    """A submitted prompt: :class:`~fsm_agent.session.session.Submission`, or what looks like one."""

    @property
    def run(self) -> Run:
        """The run behind it."""
        ...

    @property
    def terminal(self) -> Terminal | None:
        """How the run ended, None before that."""
        ...

    @property
    def value(self) -> Mapping[str, Any] | None:
        """The result object, None before the end."""
        ...

    def interrupt(self) -> None:
        """End it as Ctrl-C does."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def __aiter__(self) -> AsyncIterator[Output]: ...


class View(Protocol):
    """Turns outputs into the text that goes to standard output."""

    def show(self, output: Output) -> str:
        """Give what is written for this output, empty for nothing."""
        ...

    def end(self, result: Mapping[str, Any]) -> str:
        """Give what is written last."""
        ...


@frozen
class Followed:
    """How it went.

    Attributes:
        terminal: how the run ended.
        result: the result object.
    """

    terminal: Terminal
    result: Mapping[str, Any]


async def follow(
    submission: Followable, view: View, writer: Writer | None = None, *, attach: Callable[[Run], None] | None = None
) -> Followed:
    """Run a submission to its end.

    Args:
        submission: not entered yet.
        view: what is written.
        writer: where to, by default standard output.
        attach: told of the run before it starts.

    Returns:
        How it went.

    Raises:
        Stopped: a signal closed the run; nothing of it is left.
        BrokenPipeError: the reader of standard output has gone; the run is closed.
        Problem: the run could not go on (its log could not be written, say).
    """
    writer = Writer() if writer is None else writer
    watch = Watch(submission.interrupt)
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        try:
            with watch.scope:
                async with submission:
                    await group.start(watch.watch)
                    if attach is not None:
                        attach(submission.run)
                    async for output in submission:
                        text = view.show(output)
                        if text:
                            await writer.write(text)
        except Exception as error:  # raised below, where the task group cannot wrap it
            failure = error
        group.cancel_scope.cancel()
    if watch.code:
        raise Stopped(watch.code)
    if failure is not None:
        raise _plain(failure)
    terminal, result = submission.terminal, submission.value
    if terminal is None or result is None:
        raise Problem("the run ended without a result", FAILED)
    await writer.write(view.end(result))
    return Followed(terminal, result)


def _plain(error: Exception) -> Exception:
    """Errors of a run whose text is already for people become one line."""
    from ..runtime.faults import LogWriteError

    return Problem(str(error), FAILED) if isinstance(error, LogWriteError) else error
