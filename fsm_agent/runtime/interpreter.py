"""The effect interpreter: one driver takes an event, steps it, records it, and only then performs its effects (spec 03).

It holds no policy. Everything that decides is in the core's table; here is only how things are done, in which order,
and that nothing is left behind.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar, assert_never

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from ..core.config import LoopConfig
from ..core.effects import (
    CallModel,
    Cancel,
    Compact,
    Effect,
    Emit,
    GatherAttachments,
    NotifyCommand,
    RunPostSamplingHooks,
    RunStopHooks,
    RunTool,
    StageCollapse,
    StartPrefetch,
    StartTimer,
    SummarizeToolUse,
)
from ..core.events import (
    EVENT_KINDS,
    USER_KINDS,
    AbortRequested,
    Answer,
    BlockCompleted,
    EffectLost,
    Event,
    StreamStarted,
    ToolProgressed,
    ToolStarted,
    UserEvent,
)
from ..core.outputs import Notice, Output, RejectedOutput, Terminal, TerminalOutput
from ..core.phases import TERMINAL_SET, AbortReason, Phase
from ..core.state import LoopState, Step
from .faults import EngineFault, RunEnded, describe, natively_cancelled
from .flights import GRACE, Detached, Flight, Flights
from .inbox import Delta, Inbox, Item
from .keeping import LogKeeper
from .notices import SINK
from .outbox import Outbox
from .perform import FlightChannel, check_parts, failed, perform
from .ports import Deps, RunWatcher
from .scope import RunScope, enter_scope

T = TypeVar("T")
Stepper = Callable[[LoopState, Event, LoopConfig], Step]
BUFFER = 16
"""Outputs that a run may be ahead of its consumer, and answers that may wait behind them."""
_INTERIM = (StreamStarted, BlockCompleted, ToolStarted, ToolProgressed)


class Interpreter:
    """Runs one loop to its terminal.

    Events go in by :meth:`post`, outputs come out of :meth:`get`; :meth:`drive` is the task between them.

    Args:
        deps: the parts that perform effects.
        config: taken once.
        state: where the run begins; not terminal.
        step: the reducer.
        jitter: gives a number from 0 up to 1, for waits.
        notify: told of (command id, status) when the core takes up a command.
        observe: told of every step, after it was recorded.
        buffer: see ``BUFFER``.
        going_on: calls in flight in ``state`` that had begun when an engine died, and are gone on with.

    Raises:
        ConfigError: if the config asks for a part that ``deps`` lacks.
        ValueError: for a state that is terminal.
    """

    def __init__(
        self,
        deps: Deps,
        config: LoopConfig,
        state: LoopState,
        *,
        step: Stepper | None = None,
        jitter: Callable[[], float] = random.random,
        notify: Callable[[str, str], None] | None = None,
        observe: Callable[[Event, Step], None] | None = None,
        buffer: int = BUFFER,
        going_on: tuple[RunTool, ...] = (),
    ) -> None:
        check_parts(deps, config)
        if state.phase in TERMINAL_SET:
            raise ValueError(f"the state has ended ({state.phase}); make the next one with next_run")
        if step is None:
            from ..core.step import step as core_step

            step = core_step
        self.state = state
        self.entered = False
        self.ended = anyio.Event()
        self.failure: BaseException | None = None
        self.api_seconds = 0.0
        self.scope: RunScope | None = None
        self._deps = deps
        self._config = config
        self._step = step
        self._jitter = jitter
        self._notify = notify
        self._observe = observe
        self._going_on = going_on
        self._watcher: RunWatcher | None = None
        self._log = LogKeeper(deps.recorder)
        self._outbox = Outbox(buffer, self._on_room)
        self._inbox = Inbox(buffer, self._outbox.has_room)
        self._terminal: Terminal | None = None
        self._closing = False
        self._over = False
        self._group: TaskGroup
        self._flights: Flights
        self._detached: Detached

    # -- for the consumer ---------------------------------------------------------------------------------------

    def post(self, event: UserEvent | EffectLost) -> None:
        """Put in what the user does, or what a resume found; it is stepped in its turn.

        Call it from the thread of the event loop.

        Raises:
            RunEnded: the run takes nothing more; the event stays with the caller.
        """
        if self._over:
            raise RunEnded(f"the run has ended; {EVENT_KINDS[type(event)]} was not taken")
        self._inbox.post(event)

    async def get(self) -> Output | None:
        """Wait for the next output; None after the last one.

        Raises:
            RunError: what stopped the run.
        """
        return await self._outbox.get()

    def close(self) -> None:
        """The consumer leaves: everything in flight is cancelled, and the run ends as ``consumer_closed``."""
        self._outbox.leave()
        if not self._closing and not self._over:
            self._closing = True
            self._inbox.post(AbortRequested(AbortReason.CLOSE))

    # -- the driver ---------------------------------------------------------------------------------------------

    async def drive(self) -> None:
        """Run to the end. Never raises: a failure goes to the consumer through :meth:`get`.

        Cancellation from outside does not reach into it, whoever sends it: the consumer that is cancelled closes the
        run, and closing is an event like any other, so every phase is left through the table.
        """
        with anyio.CancelScope(shield=True):
            self.entered = True
            SINK.set(self._warn)
            if self._deps.observer is not None:
                self._watcher = self._deps.observer.watch(self._config)
            self.scope = enter_scope(self._config, self._deps, lambda: self.state, self.post, self._tell)
            try:
                async with anyio.create_task_group() as self._group:
                    self._flights = Flights(self._group, self._fly)
                    self._detached = Detached(self._group, self._warn)
                    await self._guarded_work()
            except BaseException as error:
                if self.failure is None:
                    self.failure = error
            self._over = True
            if self._watcher is not None:
                self._watcher.abandon()
            if self.failure is not None:
                self._log.release(self.state, self.failure)
            self._outbox.finish(self.failure)
            self.ended.set()

    async def _guarded_work(self) -> None:
        """Keep a failure out of the task group, which would wrap it, and end everything that is in flight."""
        try:
            await self._work()
        except anyio.get_cancelled_exc_class():
            raise
        except BaseException as error:
            self.failure = error
            self._group.cancel_scope.cancel()

    async def _work(self) -> None:
        for effect in self._going_on:
            self._flights.start(effect, begun=True)
        while self.state.phase not in TERMINAL_SET:
            self._check_alive()
            item = await self._interruptible(self._inbox.take)
            if item is not None:
                self._handle(item)
        self._flights.cancel_all()
        await self._interruptible(self._flights.gone)
        if self._closing:
            self._detached.cancel()
        await self._interruptible(partial(self._detached.finish, GRACE))
        self._over = True
        for item in self._inbox.drain():
            # What the user sent while the run was ending is refused by the table, recorded and told.
            if item.flight is None and not isinstance(item.value, AbortRequested):
                self._handle(item)
        self._log.close(self.state)
        self._outbox.put(TerminalOutput(self._ending()))

    async def _interruptible(self, wait: Callable[[], Awaitable[T]]) -> T | None:
        """Wait; a cancellation that reaches the driver all the same is native (a loop that shuts down): close."""
        while True:
            try:
                return await wait()
            except anyio.get_cancelled_exc_class():
                if self._group.cancel_scope.cancel_called:
                    raise
                self.close()

    def _check_alive(self) -> None:
        if not len(self._flights) and not len(self._inbox) and self.state.phase is not Phase.READY:
            raise EngineFault(f"the loop waits in {self.state.phase} with nothing in flight")

    def _handle(self, item: Item) -> None:
        flight = item.flight
        if flight is not None and flight.cancelled:
            if item.receipt is not None:
                item.receipt.settle(False)
        elif isinstance(item.value, Delta):
            self._outbox.put(item.value)
        else:
            step = self._advance(self._with_usage(item.value), flight)
            if item.receipt is not None:
                item.receipt.settle(step.rejected is None and self._in_flight(item.value))

    def _with_usage(self, event: Event) -> Event:
        """Runs that tools of this one made end with it unheard; what they used so far is counted here."""
        if not isinstance(event, AbortRequested) or self.scope is None:
            return event
        used = self.scope.used_below
        return AbortRequested(event.reason, used) if used else event

    def _advance(self, event: Event, flight: Flight | None) -> Step:
        """Step, record, perform: in this order, without a pause in which anything could come in between."""
        step = self._step(self.state, event, self._config)
        self._log.append(event, step)
        self.state = step.state
        if self._watcher is not None:
            self._watcher.step(event, step)
        if self._observe is not None:
            self._observe(event, step)
        if flight is not None and not isinstance(event, _INTERIM):
            self._flights.settle(flight.effect.id)
        if step.rejected is not None:
            if EVENT_KINDS[type(event)] not in USER_KINDS:
                raise EngineFault(f"an answer was rejected in {step.rejected.phase}: {step.rejected.because}")
            refused = step.rejected
            self._outbox.put(RejectedOutput(event=refused.event, phase=refused.phase, because=refused.because))
        for effect in step.effects:
            self._perform(effect)
        return step

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Cancel():
                self._flights.cancel(effect.id)
            case Emit():
                if isinstance(effect.output, TerminalOutput):
                    self._terminal = effect.output.terminal
                else:
                    self._outbox.put(effect.output)
            case NotifyCommand():
                self._tell(effect.command_id, effect.status)
            case RunPostSamplingHooks():
                if self._deps.hooks is not None:
                    self._detached.start("a post-sampling hook", partial(self._deps.hooks.post_sampling, effect))
            case (
                CallModel()
                | RunTool()
                | Compact()
                | StageCollapse()
                | GatherAttachments()
                | StartPrefetch()
                | SummarizeToolUse()
                | RunStopHooks()
                | StartTimer()
            ):
                self._flights.start(effect)
            case _:
                assert_never(effect)

    # -- flights ------------------------------------------------------------------------------------------------

    async def _fly(self, flight: Flight) -> None:
        begun = anyio.current_time()
        try:
            with flight.scope:
                try:
                    answer = await self._answer(flight)
                finally:
                    if isinstance(flight.effect, CallModel):
                        self.api_seconds += anyio.current_time() - begun
                if answer is not None:
                    await self._inbox.put(answer, flight)
        except Exception as error:
            # Only what a cancelled part raised while it was ending comes here; nobody waits for its answer.
            self._warn(f"{flight.effect.id} failed while it was being cancelled: {describe(error)}")

    async def _answer(self, flight: Flight) -> Answer | None:
        if isinstance(flight.effect, RunTool):
            await self._flights.after_cancelled(flight)
        try:
            return await perform(
                flight.effect, self._deps, FlightChannel(self._inbox, flight), self._jitter, begun=flight.begun
            )
        except Exception as error:
            if flight.scope.cancel_called:
                raise
            return failed(flight.effect, error)
        except KeyboardInterrupt:
            self._interrupt()
            return None
        except BaseException as error:
            # A real cancellation goes on; a part that raises such an exception by itself has merely failed.
            if flight.scope.cancel_called or self._group.cancel_scope.cancel_called:
                raise
            if natively_cancelled():
                self.close()
                return None
            return failed(flight.effect, error)

    def _interrupt(self) -> None:
        if not self._over:
            self._inbox.post(AbortRequested(AbortReason.INTERRUPT))

    # -- the end ------------------------------------------------------------------------------------------------

    def _in_flight(self, event: Event) -> bool:
        return any(flight.id == getattr(event, "id", None) for flight in self.state.control.flight)

    def _tell(self, command_id: str, status: str) -> None:
        if self._notify is not None:
            try:
                self._notify(command_id, status)
            except Exception as error:
                self._warn(f"the listener for command {command_id} failed: {describe(error)}")

    def _warn(self, text: str) -> None:
        self._outbox.put(Notice(text=text, level="warning"))

    def _ending(self) -> Terminal:
        terminal = self._terminal if self._terminal is not None else self.state.terminal
        if terminal is None:
            raise EngineFault(f"the loop ended in {self.state.phase} without saying why")
        return terminal

    def _on_room(self) -> None:
        self._inbox.wake()
