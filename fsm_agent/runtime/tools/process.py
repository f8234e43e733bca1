"""Run a child process: own session, no terminal, ended as a whole, output bounded (field reports 75, 76, 79, 80).

The result is keyed on the exit of the process, never on the end of its pipes, which a background child can hold open
for hours. The pipes are our own descriptors, so that no event loop waits for them either. What the process leaves
behind is found by its session, by a mark in its environment, and by the pipes that it holds.
"""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import signal
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import IO

import anyio
import anyio.abc
import anyio.lowlevel
from anyio import to_thread
from attrs import frozen

from ..scope import SCOPE
from .bounded import Bounded
from .orphans import run_mark
from .survivors import MARK, Leftover, find_leftovers

_CHUNK = 65_536
_LINGER = 0.15
"""Seconds that output is still read after the process has ended and its pipe stays open."""


@frozen
class ProcessResult:
    """How a process ended.

    Attributes:
        exit_code: its exit code; negative for the signal that ended it.
        output: standard output, and standard error too unless it was kept apart.
        errors: standard error, if it was kept apart.
        timed_out: it was ended at its timeout.
        ended: what it had left running and was ended with it.
        survivors: what could not be ended.
    """

    exit_code: int
    output: Bounded
    errors: Bounded
    timed_out: bool = False
    ended: tuple[Leftover, ...] = ()
    survivors: tuple[Leftover, ...] = ()


@frozen
class Spawn:
    """What to run and within which limits.

    Attributes:
        argv: program and arguments.
        cwd: working directory.
        env: environment.
        stdin: bytes for standard input; None for an empty one.
        timeout: seconds, None for no limit.
        grace: seconds between TERM and KILL.
        head: bytes of output kept from the start.
        tail: bytes of output kept from the end.
        split: keep standard error apart.
    """

    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    stdin: bytes | None = None
    timeout: float | None = None
    grace: float = 1.0
    head: int = 20_000
    tail: int = 10_000
    split: bool = False


@contextlib.contextmanager
def _pipe() -> Iterator[list[int]]:
    ends = list(os.pipe())
    os.set_blocking(ends[0], False)
    try:
        yield ends
    finally:
        for end in ends:
            if end >= 0:
                os.close(end)


def _close(ends: list[int], which: int) -> None:
    os.close(ends[which])
    ends[which] = -1


class _Stream:
    """The reading end of one pipe, where its bytes go, and whether its other end was closed by all."""

    def __init__(self, handle: int, into: Bounded) -> None:
        self.handle = handle
        self.into = into
        self.closed = anyio.Event()


async def _drain(stream: _Stream, listen: Callable[[bytes], Awaitable[None]] | None) -> None:
    while True:
        try:
            data = os.read(stream.handle, _CHUNK)
        except BlockingIOError:
            await anyio.wait_readable(stream.handle)
            continue
        if not data:
            break
        stream.into.feed(data)
        if listen is not None:
            await listen(data)
        # An endless stream must not keep the timeout from being noticed.
        await anyio.lowlevel.checkpoint()
    stream.closed.set()


def _signal(pid: int, number: signal.Signals, *, group: bool) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if group:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)


def _input_file(data: bytes | None, stack: contextlib.ExitStack) -> IO[bytes] | int:
    if data is None:
        return subprocess.DEVNULL
    # A file, not a pipe: a child that never reads its input can then hold nobody up.
    file = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack closes it
    file.write(data)
    file.seek(0)
    return file


async def run_process(
    spawn: Spawn, listen: Callable[[bytes], Awaitable[None]] | None = None, *, mark: str | None = None
) -> ProcessResult:
    """Run a process to its end and take what it leaves behind with it.

    Args:
        spawn: what to run.
        listen: takes the raw output as it comes.
        mark: a text by which its descendants are found; a random one by default.

    Returns:
        Exit code, bounded output, and what was left.

    Raises:
        OSError: if the program cannot be started.
    """
    scope = SCOPE.get()
    # The run's id in the mark lets a later resume find what a killed engine left behind.
    mark = mark or run_mark("" if scope is None else scope.run_id, secrets.token_hex(8))
    output, errors = Bounded(spawn.head, spawn.tail), Bounded(spawn.head, spawn.tail)
    timed_out = False
    with contextlib.ExitStack() as stack:
        out = stack.enter_context(_pipe())
        err = stack.enter_context(_pipe()) if spawn.split else out
        with anyio.CancelScope(shield=True):
            process = await anyio.open_process(
                list(spawn.argv),
                stdin=_input_file(spawn.stdin, stack),
                stdout=out[1],
                stderr=err[1],
                cwd=spawn.cwd,
                env={**spawn.env, MARK: f"{spawn.env.get(MARK, '')}.{mark}"},
                start_new_session=True,
            )
        _close(out, 1)
        if spawn.split:
            _close(err, 1)
        streams = [_Stream(out[0], output)] + ([_Stream(err[0], errors)] if spawn.split else [])
        try:
            timed_out = await _follow(process, streams, listen, spawn.timeout)
        finally:
            with anyio.CancelScope(shield=True):
                ended, survivors = await _end(process, _Tree(process.pid, mark, streams), spawn)
                for stream in streams:
                    _collect(stream)
    code = process.returncode if process.returncode is not None else -signal.SIGKILL
    return ProcessResult(code, output, errors, timed_out, ended, survivors)


def _collect(stream: _Stream) -> None:
    """Take what lies in the pipe, without waiting, bounded."""
    with contextlib.suppress(BlockingIOError):
        for _ in range(64):
            data = os.read(stream.handle, _CHUNK)
            if not data:
                return
            stream.into.feed(data)


async def _follow(
    process: anyio.abc.Process,
    streams: Sequence[_Stream],
    listen: Callable[[bytes], Awaitable[None]] | None,
    timeout: float | None,
) -> bool:
    """Read until the process ends; True if it did not end in time."""
    with anyio.move_on_after(math.inf if timeout is None else timeout) as limit:
        async with anyio.create_task_group() as group:
            for stream in streams:
                group.start_soon(_drain, stream, listen)
            await process.wait()
            with anyio.move_on_after(_LINGER):
                for stream in streams:
                    await stream.closed.wait()
            group.cancel_scope.cancel()
    return limit.cancelled_caught and process.returncode is None


class _Tree:
    """How a process and its descendants are recognised: session, mark, and our pipes while they are open."""

    def __init__(self, pid: int, mark: str, streams: Sequence[_Stream]) -> None:
        self.pid = pid
        self._mark = mark
        self._pipes = frozenset(os.fstat(stream.handle).st_ino for stream in streams if not stream.closed.is_set())

    async def living(self) -> tuple[Leftover, ...]:
        # In a thread: on a machine with thousands of processes looking at all of them takes a while.
        return await to_thread.run_sync(find_leftovers, self.pid, self._mark, self._pipes)


async def _end(process: anyio.abc.Process, own: _Tree, spawn: Spawn) -> tuple[tuple[Leftover, ...], tuple[Leftover, ...]]:
    """End the process and all that it left: TERM, a grace time, KILL. Gives what was ended and what survived."""
    found: dict[int, Leftover] = {item.pid: item for item in await own.living() if item.pid != own.pid}
    running = process.returncode is None
    if not found and not running:
        return (), ()
    for number, patience in ((signal.SIGTERM, spawn.grace), (signal.SIGKILL, 1.0)):
        _signal(own.pid, number, group=True)
        for item in await own.living():
            _signal(item.pid, number, group=False)
        if await _gone(process, own, patience):
            break
        found.update({item.pid: item for item in await own.living() if item.pid != own.pid})
    left = tuple(item for item in await own.living() if item.pid != own.pid)
    stay = {item.pid for item in left}
    return tuple(item for pid, item in found.items() if pid not in stay), left


async def _gone(process: anyio.abc.Process, own: _Tree, patience: float) -> bool:
    """Wait until nothing of the tree is left, at most ``patience`` seconds; True if so."""
    with anyio.move_on_after(patience):
        await process.wait()
        pause = 0.005
        while await own.living():
            await anyio.sleep(pause)
            pause = min(0.05, pause * 2)
        return True
    return False


async def end_family(process: anyio.abc.Process, mark: str, grace: float) -> tuple[Leftover, ...]:
    """End a process and all that it left, with TERM and after ``grace`` seconds with KILL.

    Args:
        process: started in a session of its own.
        mark: the text by which its descendants are found.
        grace: seconds between the two.

    Returns:
        What could not be ended.
    """
    _, left = await _end(process, _Tree(process.pid, mark, ()), Spawn(argv=(), cwd="", env={}, grace=grace))
    return left


def describe(result: ProcessResult, timeout: float | None = None) -> str:
    """Say in one or more lines what went wrong with a process; empty if nothing did."""
    lines = []
    if result.timed_out:
        lines.append(f"Timed out after {timeout:g} s; the command and its children were ended." if timeout else "Timed out.")
    elif result.exit_code < 0:
        try:
            name = signal.Signals(-result.exit_code).name
        except ValueError:
            name = str(-result.exit_code)
        lines.append(f"Ended by signal {name}.")
    if result.ended and not result.timed_out:
        lines.append("Background processes were ended with the command: " + ", ".join(str(item) for item in result.ended) + ".")
    if result.survivors:
        lines.append("Still running, could not be ended: " + ", ".join(str(item) for item in result.survivors) + ".")
    return "\n".join(lines)
