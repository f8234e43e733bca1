"""One run as its user sees it: an async context manager that is iterated over (spec 03)."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup
from attrs import frozen

from ..core.config import LoopConfig
from ..core.effects import RunTool
from ..core.events import (
    AbortRequested,
    CommandQueued,
    CompactRequested,
    EffectLost,
    Event,
    ModelSwitched,
    RunStarted,
    UserEvent,
)
from ..core.outputs import Output, Terminal, TerminalOutput
from ..core.phases import AbortReason
from ..core.state import LoopState, Step
from .commands import Commands, CommandStatus
from .faults import NoSuchAddress, RunBusy, RunEnded, RunError
from .interpreter import Interpreter
from .ports import Deps
from .prompt import Prompt


@frozen
class Resumption:
    """How a run goes on whose process ended (spec 01, section 6).

    Attributes:
        run_id: the run.
        lost: what is fed first: the effects that were never answered, each once.
        going_on: those that are not lost: calls whose work has a log of its own, and goes on from there.
        rows: rows taken before.
        commands: how many commands the user had queued.
        waiting: those of them that no model has seen.
    """

    run_id: str
    lost: tuple[EffectLost, ...] = ()
    going_on: tuple[RunTool, ...] = ()
    rows: tuple[str, ...] = ()
    commands: int = 0
    waiting: tuple[CommandQueued, ...] = ()


class Run:
    """One run. Nothing happens before the first pull.

    Use it as ``async with run: async for output in run``. Leaving early, in whatever way, closes the run: everything
    in flight is cancelled and gone when the block has been left. The methods that steer it may be called from any
    task, and from other threads once it has started.

    Args:
        deps: the parts that perform effects.
        config: the run's configuration.
        state: where it begins, from ``initial`` or ``next_run``.
        start: the first event, or how a run goes on that was interrupted.
        on_command: told of (command id, status) when a queued command moves on.
        on_step: told of every step, after it was recorded.
        on_end: awaited once nothing of the run is left, to release what was made for it.
        options: further arguments of :class:`Interpreter`.

    Attributes:
        id: the run's id.
        config: the run's configuration.
        begin_state: where it began.
        recorder: what keeps its log, None if nothing does.
    """

    def __init__(
        self,
        deps: Deps,
        config: LoopConfig,
        state: LoopState,
        start: RunStarted | Resumption,
        *,
        on_command: Callable[[str, CommandStatus], None] | None = None,
        on_step: Callable[[Event, Step], None] | None = None,
        on_end: Callable[[], Awaitable[None]] | None = None,
        **options: Any,
    ) -> None:
        self.id = start.run_id
        self.config = config
        self.begin_state = state
        self._start = start
        self.recorder = deps.recorder
        self._before: list[UserEvent] = []
        self._on_step = on_step
        self._on_end = on_end
        resumed = start if isinstance(start, Resumption) else Resumption(start.run_id)
        self._rows: list[str] = list(resumed.rows)
        self._commands = Commands(start.run_id, on_command, resumed.commands, resumed.waiting)
        self._interpreter = Interpreter(
            deps,
            config,
            state,
            notify=self._commands.moved,
            observe=self._stepped,
            going_on=resumed.going_on,
            **options,
        )
        self._group: TaskGroup | None = None
        self._entered = False
        self._begun = False
        self._left = False
        self._reading = False
        self._raised = False
        self._terminal: Terminal | None = None
        self._thread = 0
        self._token: anyio.lowlevel.EventLoopToken | None = None
        self._begin_time = 0.0
        self._end_time: float | None = None

    # -- reading ------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Run:
        if self._entered:
            raise RunError("a run can be entered once; make another one")
        self._entered = True
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        group = self._group
        assert group is not None
        self._left = True
        self._interpreter.close()
        # The group is never told of the error: it would wrap it, and cancel instead of letting the run close.
        try:
            await self._closed()
        except BaseException as second:
            # Cancelled natively once more while closing: the driver still closes, and the group waits for it.
            await group.__aexit__(type(second), second, second.__traceback__)
            raise
        else:
            await group.__aexit__(None, None, None)
        finally:
            self._settle()
        failure = self._interpreter.failure
        if failure is not None and not self._raised:
            self._raised = True
            if error is None:
                raise failure
            error.add_note(f"the run failed while it was being closed: {failure}")

    def __aiter__(self) -> Run:
        return self

    async def __anext__(self) -> Output:
        """Give the next output.

        Raises:
            RunBusy: another task is reading.
            RunError: the run was not entered, or could not go on.
        """
        if self._group is None:
            raise RunError("use the run as a context manager: async with agent.run(...) as run")
        if self._reading:
            raise RunBusy("another task is reading this run; a run has one reader")
        if self._left:
            raise StopAsyncIteration
        self._reading = True
        try:
            self._begin()
            output = await self._interpreter.get()
        except BaseException as error:
            self._raised = self._raised or error is self._interpreter.failure
            raise
        finally:
            self._reading = False
        if output is None:
            self._settle()
            raise StopAsyncIteration
        if isinstance(output, TerminalOutput):
            self._settle()
        return output

    async def aclose(self) -> None:
        """Close the run and wait until nothing of it is left. Does no harm to one that has ended."""
        self._interpreter.close()
        self._left = True
        if self._interpreter.entered or self._begun:
            await self._interpreter.ended.wait()
        self._settle()

    # -- steering -----------------------------------------------------------------------------------------------

    def abort(self, reason: AbortReason) -> None:
        """End the run from outside. A run that has ended takes no notice."""
        with suppress(RunEnded):
            self._post(AbortRequested(reason))

    def interrupt(self) -> None:
        """End the run as Ctrl-C does: the model is told next time."""
        self.abort(AbortReason.INTERRUPT)

    def submit(self, prompt: Prompt | None = None) -> str:
        """End the run because a message must not wait; the message comes back in ``undelivered``.

        Returns:
            The id of the message, empty without one.
        """
        command_id = "" if prompt is None else self.queue(prompt)
        self.abort(AbortReason.SUBMIT)
        return command_id

    def queue(self, prompt: Prompt, address: str | None = None) -> str:
        """Queue a message; it goes in after the next round of tools.

        Args:
            prompt: what the user says.
            address: whom it is for; None for this run. A running sub-agent is addressed by ``agent:<name>``.

        Returns:
            Its id, under which ``commands`` and ``on_command`` speak of it.

        Raises:
            RunEnded: the run has ended; the message stays with the caller.
            NoSuchAddress: no agent of this address runs; the message stays with the caller.
            ValueError: for a blank message.
        """
        address = self.config.address if address is None else address
        target = None if address == self.config.address else self._agent(address)
        event = self._commands.make(prompt, address)
        try:
            self._post(event, target)
        except RunEnded:
            self._commands.forget(event.command_id)
            raise
        return event.command_id

    def compact(self, instructions: str = "") -> None:
        """Ask for a compaction at the next pass.

        Raises:
            RunEnded: the run has ended.
        """
        self._post(CompactRequested(instructions))

    def switch_model(self, model: str) -> None:
        """Use another model from the next pass on.

        Raises:
            RunEnded: the run has ended.
        """
        self._post(ModelSwitched(model))

    def complete(self, command_id: str) -> None:
        """Mark a command as completed and tell the listener: the one who wraps the run says when that is."""
        self._commands.moved(command_id, CommandStatus.COMPLETED)

    # -- looking ------------------------------------------------------------------------------------------------

    @property
    def state(self) -> LoopState:
        """The state after the last recorded step."""
        return self._interpreter.state

    @property
    def terminal(self) -> Terminal | None:
        """How the run ended, None before that. Not set while outputs before it are still unread."""
        return self._terminal

    @property
    def commands(self) -> Mapping[str, CommandStatus]:
        """What became of each queued command, by id, in the order of queueing."""
        return self._commands.statuses

    @property
    def undelivered(self) -> tuple[CommandQueued, ...]:
        """Commands that no model has seen: still queued at the end, or refused."""
        return self._commands.undelivered

    @property
    def rows(self) -> tuple[str, ...]:
        """Names of the rows taken, in order."""
        return tuple(self._rows)

    @property
    def begun(self) -> bool:
        """The first output was asked for."""
        return self._begun

    @property
    def failure(self) -> BaseException | None:
        """What stopped the run from outside its table, None if nothing did."""
        return self._interpreter.failure

    @property
    def seconds(self) -> float:
        """Seconds from the first pull to the end, or to now."""
        if not self._begun:
            return 0.0
        return (anyio.current_time() if self._end_time is None else self._end_time) - self._begin_time

    @property
    def api_seconds(self) -> float:
        """Seconds spent in model calls."""
        return self._interpreter.api_seconds

    # -- inside -------------------------------------------------------------------------------------------------

    async def _closed(self) -> None:
        """Wait for the driver, whatever cancels this task. One that never came to run has nothing to end."""
        if self._interpreter.entered:
            with anyio.CancelScope(shield=True):
                await self._interpreter.ended.wait()
                if self._on_end is not None:
                    await self._on_end()

    def _begin(self) -> None:
        if self._begun:
            return
        assert self._group is not None
        self._begun = True
        self._begin_time = anyio.current_time()
        self._thread = threading.get_ident()
        self._token = anyio.lowlevel.current_token()
        start = self._start
        first = (*start.lost, *self._before) if isinstance(start, Resumption) else (*self._before, start)
        for event in first:
            self._interpreter.post(event)
        self._before.clear()
        self._group.start_soon(self._interpreter.drive, name=f"run {self.id}")

    def _agent(self, address: str) -> Callable[[UserEvent], None]:
        """Find where a sub-agent takes its commands."""
        scope = self._interpreter.scope
        found = None if scope is None else scope.find(address)
        if found is None:
            raise NoSuchAddress(f"no agent with the address {address!r} runs")
        return found.post

    def _post(self, event: UserEvent, target: Callable[[UserEvent], None] | None = None) -> None:
        """Put an event in, in the order of the calls: what comes before the first pull comes before ``RunStarted``."""
        if self._left or self._interpreter.ended.is_set():
            raise RunEnded("the run has ended")
        post = target or self._interpreter.post
        if not self._begun:
            self._before.append(event)
        elif threading.get_ident() == self._thread:
            post(event)
        else:
            self._post_from_thread(event, post)

    def _post_from_thread(self, event: UserEvent, post: Callable[[UserEvent], None]) -> None:
        assert self._token is not None

        def deliver() -> None:
            try:
                post(event)
            except RunEnded:
                if isinstance(event, CommandQueued):
                    self._commands.moved(event.command_id, CommandStatus.REJECTED)

        native: Any = self._token.native_token
        into_loop = getattr(native, "call_soon_threadsafe", None) or native.run_sync_soon
        try:
            into_loop(deliver)
        except RuntimeError as error:
            raise RunEnded("the event loop of the run is closed") from error

    def _stepped(self, event: Event, step: Step) -> None:
        self._rows.extend(step.taken)
        if isinstance(event, CommandQueued) and step.rejected is not None:
            self._commands.moved(event.command_id, CommandStatus.REJECTED)
        if self._on_step is not None:
            self._on_step(event, step)

    def _settle(self) -> None:
        """Take over how the run ended, once."""
        if self._end_time is not None:
            return
        self._end_time = anyio.current_time()
        self._terminal = self._interpreter.state.terminal if self._interpreter.failure is None else None
        self._commands.run_ended()
