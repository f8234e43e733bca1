"""Synchronous code of others, on threads that nobody waits for: a body that never ends must not keep the process alive.

The threads of ``anyio.to_thread`` are joined when the interpreter leaves, also those that were abandoned; under asyncio
each body gets a daemon thread instead. Those of trio are daemons already.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any, TypeVar, TypeVarTuple, Unpack

import anyio
import anyio.lowlevel
from anyio import to_thread

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")


async def run_on_thread(function: Callable[[Unpack[Arguments]], T], *arguments: *Arguments) -> T:
    """Call a function on a thread; one that is cancelled is abandoned, and goes on with nobody to hear it.

    It sees the context variables of the caller, counts against the default limiter of threads while somebody waits for it,
    and may call back by ``anyio.from_thread``.

    Args:
        function: what is called.
        arguments: with what.

    Returns:
        What it gave; what it raised is raised.
    """
    token = anyio.lowlevel.current_token()
    if not isinstance(token.native_token, asyncio.AbstractEventLoop):
        return await to_thread.run_sync(function, *arguments, abandon_on_cancel=True)
    await anyio.lowlevel.checkpoint()
    loop = token.native_token
    async with to_thread.current_default_thread_limiter():
        with anyio.CancelScope() as scope:
            future: asyncio.Future[T] = loop.create_future()

            def body() -> None:
                _lend(token, scope)
                outcome: tuple[T] | BaseException
                try:
                    outcome = (context.run(function, *arguments),)
                except BaseException as problem:
                    outcome = problem
                try:
                    loop.call_soon_threadsafe(_tell, future, outcome)
                except RuntimeError:  # the loop is closed: nobody waits any more
                    return

            context = _context()
            threading.Thread(target=body, name="fsm-agent body", daemon=True).start()
            return await future
    raise AssertionError("a scope that nobody else cancels was left")


def _context() -> Context:
    """Copy the context; on a thread no event loop runs, whatever was noted down for this one."""
    context = copy_context()
    sniffio: Any = sys.modules.get("sniffio")
    if sniffio is not None:
        context.run(sniffio.current_async_library_cvar.set, None)
    return context


def _lend(token: anyio.lowlevel.EventLoopToken, scope: anyio.CancelScope) -> None:
    """Let ``anyio.from_thread`` find the way back, as on a thread of anyio's own; without it a token has to be given there."""
    try:
        from anyio._core._eventloop import threadlocals
    except ImportError:  # it is no public name
        return
    threadlocals.current_token, threadlocals.current_cancel_scope = token, scope


def _tell(future: asyncio.Future[T], outcome: tuple[T] | BaseException) -> None:
    if future.done():
        return
    if not isinstance(outcome, BaseException):
        future.set_result(outcome[0])
    elif isinstance(outcome, StopIteration):  # no future takes it
        problem = RuntimeError("the function raised StopIteration")
        problem.__cause__ = outcome
        future.set_exception(problem)
    else:
        future.set_exception(outcome)
