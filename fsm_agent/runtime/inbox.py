"""The one queue through which everything reaches the driver: answers of effects, deltas, and what the user does."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import anyio
import anyio.lowlevel
from attrs import define

from ..core.events import Event
from ..core.outputs import RawStreamEvent, TextDelta, ThinkingDelta
from .flights import Flight

Delta = TextDelta | ThinkingDelta | RawStreamEvent


class Receipt:
    """Tells a sender what became of its event, once the driver has stepped and recorded it."""

    __slots__ = ("_done", "accepted")

    def __init__(self) -> None:
        self.accepted = False
        self._done = anyio.Event()

    def settle(self, accepted: bool) -> None:
        """Say whether the step accepted the event."""
        self.accepted = accepted
        self._done.set()

    async def wait(self) -> bool:
        """Wait for the driver; True if the event was accepted."""
        await self._done.wait()
        return self.accepted


@define(eq=False)
class Item:
    """One thing in the queue; ``flight`` is None for what the user does."""

    value: Event | Delta
    flight: Flight | None = None
    receipt: Receipt | None = None


class Inbox:
    """First in, first out. Flights wait while it is full; the user never waits.

    Items are handed out only while the consumer has room for outputs, so a slow consumer slows every flight down.
    As soon as something from the user is waiting, room no longer matters: an abort must not wait for a
    consumer that has stopped reading, and what arrived before it is still taken before it, so that no
    finished result is lost to the abort.
    """

    def __init__(self, capacity: int, has_room: Callable[[], bool]) -> None:
        self._capacity = capacity
        self._has_room = has_room
        self._items: deque[Item] = deque()
        self._answers = 0
        self._urgent = 0
        self._senders: deque[anyio.Event] = deque()
        self._driver: anyio.Event | None = None

    def __len__(self) -> int:
        return len(self._items)

    def wake(self) -> None:
        """Let the driver look again."""
        if self._driver is not None:
            self._driver.set()

    def post(self, event: Event) -> None:
        """Put in what the user does; never waits."""
        self._items.append(Item(event))
        self._urgent += 1
        self.wake()

    async def put(self, value: Event | Delta, flight: Flight, receipt: Receipt | None = None) -> None:
        """Put in what a flight brings; waits while the queue is full."""
        while self._answers >= self._capacity:
            turn = anyio.Event()
            self._senders.append(turn)
            try:
                await turn.wait()
            finally:
                if not turn.is_set():
                    self._senders.remove(turn)
                elif self._answers < self._capacity:
                    # This sender may be leaving (cancelled) with the wake-up in hand: pass it on.
                    self._next_sender()
        self._answers += 1
        self._items.append(Item(value, flight, receipt))
        self.wake()

    async def take(self) -> Item:
        """Wait for the next item."""
        await anyio.lowlevel.checkpoint()
        while not self._items or not (self._urgent or self._has_room()):
            self._driver = anyio.Event()
            await self._driver.wait()
        return self._pop()

    def drain(self) -> tuple[Item, ...]:
        """Take everything that is left, without waiting."""
        return tuple(self._pop() for _ in range(len(self._items)))

    def _pop(self) -> Item:
        item = self._items.popleft()
        if item.flight is None:
            self._urgent -= 1
        else:
            self._answers -= 1
            self._next_sender()
        return item

    def _next_sender(self) -> None:
        if self._senders:
            self._senders.popleft().set()
