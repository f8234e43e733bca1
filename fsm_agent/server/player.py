"""Carries a plan out on a connection: paced frames, silences, cuts."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable

from aiohttp import web
from attrs import frozen

from .frames import encode
from .plan import Drop, Hold, Plan, Send

PING = encode({"type": "ping"})


class ConnectionDropped(ConnectionError):
    """The plan cut the connection; nothing more can be written."""


@frozen
class Player:
    """Plays one plan.

    Attributes:
        request: the request to answer.
        wrote: told after each piece: its name and its size in bytes.
        began: told when the headers are out: the status.
        closing: set when the server stops; ends every silence.
    """

    request: web.Request
    wrote: Callable[[str, int], None]
    began: Callable[[int], None]
    closing: asyncio.Event

    async def play(self, plan: Plan, headers: dict[str, str]) -> web.StreamResponse:
        """Play the plan.

        Args:
            plan: what is done.
            headers: further response headers.

        Returns:
            The response that was sent.

        Raises:
            ConnectionDropped: if the plan cuts the connection.
        """
        await self._silence(plan.delay)
        if not plan.answer:
            await self._drop(reset=any(isinstance(action, Drop) and action.reset for action in plan.actions))
        response = web.StreamResponse(status=plan.status, headers={**headers, **dict(plan.headers)})
        if plan.length is not None:
            response.content_length = plan.length
        loop = asyncio.get_running_loop()
        await response.prepare(self.request)
        self.began(plan.status)
        # Times are absolute: a late frame does not make the later ones late.
        start = loop.time()
        for action in plan.actions:
            match action:
                case Send():
                    await self._silence(start + action.due - loop.time())
                    await response.write(action.data)
                    self.wrote(action.name, len(action.data))
                case Hold():
                    before = loop.time()
                    await self._hold(response, action)
                    start += loop.time() - before
                case Drop():
                    await self._drop(reset=action.reset)
        await response.write_eof()
        return response

    async def _silence(self, seconds: float | None) -> None:
        if seconds is not None and seconds <= 0:
            return
        try:
            await asyncio.wait_for(self.closing.wait(), seconds)
        except TimeoutError:
            return
        raise ConnectionDropped("the server stops")

    async def _hold(self, response: web.StreamResponse, hold: Hold) -> None:
        if hold.ping_every is None:
            await self._silence(hold.seconds)
            return
        loop = asyncio.get_running_loop()
        end = None if hold.seconds is None else loop.time() + hold.seconds
        while end is None or loop.time() < end:
            await self._silence(hold.ping_every if end is None else min(hold.ping_every, end - loop.time()))
            await response.write(PING)
            self.wrote("ping", len(PING))

    async def _drop(self, *, reset: bool) -> None:
        transport = self.request.transport
        if transport is None:
            raise ConnectionDropped("the client left")
        if reset:
            # What was written must have left the process first: a reset throws away what is still queued here.
            while transport.get_write_buffer_size() and not transport.is_closing():
                await asyncio.sleep(0.001)
            sock = transport.get_extra_info("socket")
            if sock is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            transport.abort()
        else:
            transport.close()
        raise ConnectionDropped("cut by the script")
