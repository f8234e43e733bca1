"""Effects in flight: each has a task, a scope that cancels it, and exactly one final answer or none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskGroup
from attrs import define, field

from ..core.effects import AnsweredEffect, RunTool
from .faults import describe

GRACE = 5.0
"""Seconds that what was cancelled, or is detached, may take to end before others go on without it."""


@define(eq=False)
class Flight:
    """One effect in flight.

    Attributes:
        effect: what is performed.
        scope: cancels its task.
        begun: it had begun when an engine died, and is gone on with.
        cancelled: the core cancelled it, or the run is over: it gets no answer.
        over: set when its task has ended.
    """

    effect: AnsweredEffect
    begun: bool = False
    scope: anyio.CancelScope = field(factory=anyio.CancelScope)
    cancelled: bool = False
    over: anyio.Event = field(factory=anyio.Event)


class Flights:
    """The flights of one run. ``fly`` is the body of a flight's task and must not raise."""

    def __init__(self, group: TaskGroup, fly: Callable[[Flight], Awaitable[None]]) -> None:
        self._group = group
        self._fly = fly
        self._waiting: dict[str, Flight] = {}
        self._running: dict[Flight, None] = {}

    def __len__(self) -> int:
        """How many effects still wait for their final answer."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """How many tasks have not ended, cancelled ones too."""
        return len(self._running)

    def start(self, effect: AnsweredEffect, *, begun: bool = False) -> None:
        """Start performing an effect; go on with it if it had ``begun``."""
        flight = Flight(effect, begun)
        self._waiting[effect.id] = flight
        self._running[flight] = None
        self._group.start_soon(self._task, flight, name=effect.id)

    def settle(self, effect_id: str) -> None:
        """The final answer has been stepped."""
        self._waiting.pop(effect_id, None)

    def cancel(self, effect_id: str) -> None:
        """Cancel one effect; one that has ended already only loses its answer. Unknown ids are nothing to cancel."""
        flight = self._waiting.pop(effect_id, None)
        if flight is not None:
            flight.cancelled = True
            flight.scope.cancel()

    def cancel_all(self) -> None:
        """Cancel whatever is left."""
        for effect_id in tuple(self._waiting):
            self.cancel(effect_id)

    async def gone(self) -> None:
        """Wait until no task is left."""
        while self._running:
            await next(iter(self._running)).over.wait()

    async def after_cancelled(self, flight: Flight) -> None:
        """Let a tool begin only when the cancelled tools before it are gone, so that their ends do not overlap it.

        A cancelled tool that does not end is waited for no longer than ``GRACE``.
        """
        dying = [other for other in self._running if other.cancelled and isinstance(other.effect, RunTool)]
        if dying:
            with anyio.move_on_after(GRACE):
                for other in dying:
                    await other.over.wait()

    async def _task(self, flight: Flight) -> None:
        try:
            await self._fly(flight)
        finally:
            del self._running[flight]
            flight.over.set()


class Detached:
    """Work that nothing waits for but the end of the run. ``warn`` is told of what fails."""

    def __init__(self, group: TaskGroup, warn: Callable[[str], None]) -> None:
        self._group = group
        self._warn = warn
        self._running: dict[anyio.CancelScope, anyio.Event] = {}

    def start(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Start one piece of work; ``name`` is used in the warning if it fails."""
        scope = anyio.CancelScope()
        self._running[scope] = anyio.Event()
        self._group.start_soon(self._task, name, work, scope, name=name)

    def cancel(self) -> None:
        """Cancel whatever is left."""
        for scope in self._running:
            scope.cancel()

    async def finish(self, grace: float) -> None:
        """Wait ``grace`` seconds for what is left, then cancel it."""
        deadline = anyio.current_time() + grace
        for scope in self._running:
            scope.deadline = min(scope.deadline, deadline)
        while self._running:
            await next(iter(self._running.values())).wait()

    async def _task(self, name: str, work: Callable[[], Awaitable[None]], scope: anyio.CancelScope) -> None:
        try:
            with scope:
                await work()
            if scope.cancelled_caught:
                self._warn(f"{name} was cancelled before it had ended")
        except Exception as error:
            self._warn(f"{name} failed: {describe(error)}")
        except BaseException as error:
            if self._group.cancel_scope.cancel_called:
                raise
            self._warn(f"{name} failed: {describe(error)}")
        finally:
            self._running.pop(scope).set()
