"""The small buffer between the driver and the consumer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import anyio
import anyio.lowlevel

from ..core.outputs import Output


class Outbox:
    """Outputs in order. ``capacity`` bounds how far the run is ahead; one step's outputs may go over it.

    Putting never waits: the driver asks for room before it takes the next item, so that it can always hear the user.
    """

    def __init__(self, capacity: int, on_room: Callable[[], None]) -> None:
        self._capacity = capacity
        self._on_room = on_room
        self._outputs: deque[Output] = deque()
        self._consumer: anyio.Event | None = None
        self._left = False
        self._over = False
        self._failure: BaseException | None = None

    def __len__(self) -> int:
        return len(self._outputs)

    def has_room(self) -> bool:
        """True if another item may be worked on; always so once nobody reads any more."""
        return self._left or len(self._outputs) < self._capacity

    def put(self, output: Output) -> None:
        """Append an output; dropped if the consumer has left."""
        if not self._left:
            self._outputs.append(output)
            self._wake()

    def leave(self) -> None:
        """The consumer reads no more."""
        self._left = True
        self._outputs.clear()
        self._on_room()
        self._wake()

    def finish(self, failure: BaseException | None = None) -> None:
        """Nothing follows; ``failure`` is raised to the consumer after the outputs that came before it."""
        self._over = True
        self._failure = failure
        self._wake()

    async def get(self) -> Output | None:
        """Wait for the next output; None at the end.

        Raises:
            RunError: what stopped the run, once.
        """
        await anyio.lowlevel.checkpoint()
        while not self._outputs:
            if self._over or self._left:
                failure, self._failure = self._failure, None
                if failure is not None:
                    raise failure
                return None
            self._consumer = anyio.Event()
            await self._consumer.wait()
        output = self._outputs.popleft()
        self._on_room()
        return output

    def _wake(self) -> None:
        if self._consumer is not None:
            self._consumer.set()
