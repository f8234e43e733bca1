"""The wire to a server that is a child process: bounded lines, bounded standard error, ended as a whole.

The ``mcp`` package has a transport of its own. This one differs in what a bad server can do: a line without an end does
not fill the memory, what is no JSON is counted and passed over, lone surrogates become U+FFFD, standard error is kept
for the message that says why a server ended, and children that left the server's process group are found and ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc
import anyio.lowlevel
from attrs import define, field

from ...core.blocks import clean_text
from ..tools.bounded import Bounded
from ..tools.process import end_family
from ..tools.survivors import MARK

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams
    from mcp.shared.message import SessionMessage

MAX_LINE = 16_000_000
"""Bytes of one message."""
MAX_NONSENSE = 1_000
"""Lines in a row that are no messages, after which the connection is closed."""
_CHUNK = 65_536
_LEAVE = 1.0
"""Seconds that a server has to end by itself once its standard input is closed."""
_LINGER = 0.1
"""Seconds in which what a server printed last is still read, and its exit is noticed."""
_GRACE = 0.5
"""Seconds between TERM and KILL after that."""


@define(eq=False)
class Stdio:
    """One process and the wire to it.

    Attributes:
        argv: program and arguments.
        cwd: working directory.
        env: environment.
        closed: set when the wire is of no use any more.
        problem: what the server did to it, in words; empty while it works, and when we closed it.
        errors: what the server printed on standard error.
    """

    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    closed: anyio.Event = field(factory=anyio.Event)
    problem: str = ""
    errors: Bounded = field(factory=lambda: Bounded(2_000, 2_000))
    _nonsense: int = 0

    def break_off(self, problem: str) -> None:
        """Say that the wire is of no use any more, and why; the first reason counts."""
        if not self.closed.is_set():
            self.problem = problem
            self.closed.set()

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[TransportStreams, None]:
        """Start the process; it and all that it started are gone when the block is left.

        Raises:
            OSError: if it cannot be started.
        """
        mark = secrets.token_hex(8)
        with contextlib.ExitStack() as pipes:
            stdin = pipes.enter_context(_pipe(inbound=False))
            stdout, stderr = (pipes.enter_context(_pipe(inbound=True)) for _ in range(2))
            with anyio.CancelScope(shield=True):
                process = await anyio.open_process(
                    list(self.argv),
                    stdin=stdin.reading,
                    stdout=stdout.writing,
                    stderr=stderr.writing,
                    cwd=self.cwd,
                    env={**self.env, MARK: f"{self.env.get(MARK, '')}.{mark}"},
                    start_new_session=True,
                )
            try:
                stdin.close_reading()
                stdout.close_writing()
                stderr.close_writing()
                async with self._streams(process, stdin, stdout.reading, stderr.reading) as streams:
                    yield streams
            finally:
                with anyio.CancelScope(shield=True):
                    stdin.close_writing()
                    with anyio.move_on_after(_LEAVE):
                        await process.wait()
                    await end_family(process, mark, _GRACE)

    @asynccontextmanager
    async def _streams(
        self, process: anyio.abc.Process, stdin: _Pipe, stdout: int, stderr: int
    ) -> AsyncGenerator[TransportStreams, None]:
        to_session, from_server = anyio.create_memory_object_stream[Any](0)
        to_server, from_session = anyio.create_memory_object_stream[Any](64)
        async with anyio.create_task_group() as group:
            group.start_soon(self._read, stdout, to_session)
            group.start_soon(self._write, stdin, from_session)
            group.start_soon(self._read_errors, stderr)
            group.start_soon(self._watch, process)
            try:
                yield from_server, to_server
            finally:
                self.closed.set()
                group.cancel_scope.cancel()
                for stream in (to_session, from_server, to_server, from_session):
                    stream.close()

    async def _watch(self, process: anyio.abc.Process) -> None:
        code = await process.wait()
        # What it printed last is still in the pipes.
        await anyio.sleep(_LINGER / 2)
        self.break_off(f"it ended with exit code {code}" if code >= 0 else f"it was ended by signal {-code}")

    async def _read(self, handle: int, into: Any) -> None:
        with into:
            async with aclosing(_lines(handle)) as lines:
                async for line in lines:
                    if line is None:
                        return self.break_off(f"it printed a line of more than {MAX_LINE} bytes")
                    message = self._message(line)
                    if message is not None:
                        try:
                            await into.send(message)
                        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                            return None
                    elif self._nonsense > MAX_NONSENSE:
                        return self.break_off(f"it printed {self._nonsense} lines that are no messages")
            # If it has ended, its exit code says more.
            await anyio.sleep(_LINGER)
            return self.break_off("it closed its standard output")

    def _message(self, line: bytes) -> SessionMessage | None:
        """Read one line; None if it is no message."""
        from mcp.shared.message import SessionMessage
        from mcp_types import jsonrpc_message_adapter

        if not line.strip():
            return None
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            try:
                # Lone surrogates are no JSON for a strict reader, but they are no reason to lose an answer either.
                value = _clean(json.loads(line.decode("utf-8", "replace")))
                message = jsonrpc_message_adapter.validate_python(value, by_name=False)
            except (ValueError, RecursionError):
                self._nonsense += 1
                return None
        self._nonsense = 0
        return SessionMessage(message)

    async def _write(self, stdin: _Pipe, messages: Any) -> None:
        with messages:
            async for item in messages:
                data = memoryview((item.message.model_dump_json(by_alias=True, exclude_unset=True) + "\n").encode())
                while data:
                    try:
                        data = data[os.write(stdin.writing, data) :]
                    except BlockingIOError:
                        await anyio.wait_writable(stdin.writing)
                    except OSError as problem:
                        await anyio.sleep(_LINGER)
                        return self.break_off(f"it takes no input: {problem.strerror}")
        return None

    async def _read_errors(self, handle: int) -> None:
        async with aclosing(_chunks(handle)) as chunks:
            async for data in chunks:
                self.errors.feed(data)


async def _chunks(handle: int) -> AsyncGenerator[bytes, None]:
    while True:
        try:
            data = os.read(handle, _CHUNK)
        except BlockingIOError:
            await anyio.wait_readable(handle)
            continue
        except OSError:
            return
        if not data:
            return
        yield data
        # A flood must not keep timeouts from being noticed.
        await anyio.lowlevel.checkpoint()


async def _lines(handle: int) -> AsyncGenerator[bytes | None, None]:
    """Give whole lines; None, as the last one, for a line that is too long."""
    line = bytearray()
    async with aclosing(_chunks(handle)) as chunks:
        async for data in chunks:
            *whole, rest = data.split(b"\n")
            for piece in whole:
                line += piece
                yield bytes(line) if len(line) <= MAX_LINE else None
                line.clear()
            line += rest
            if len(line) > MAX_LINE:
                yield None
                return


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {clean_text(key): _clean(item) for key, item in value.items()}
    return value


@define(eq=False)
class _Pipe:
    """Two descriptors, -1 once closed."""

    reading: int
    writing: int

    def close_reading(self) -> None:
        if self.reading >= 0:
            os.close(self.reading)
            self.reading = -1

    def close_writing(self) -> None:
        if self.writing >= 0:
            os.close(self.writing)
            self.writing = -1


@contextlib.contextmanager
def _pipe(*, inbound: bool) -> Iterator[_Pipe]:
    """Make a pipe whose end on the engine's side does not block."""
    pipe = _Pipe(*os.pipe())
    os.set_blocking(pipe.reading if inbound else pipe.writing, False)
    try:
        yield pipe
    finally:
        pipe.close_reading()
        pipe.close_writing()
