"""Does a turn cost more the longer a run is? Engine CPU per turn from turn 50 to turn 800, over real HTTP.

Run: ``python tests/bench/bench_turns.py [TURNS]``. The server is a process of its own, so that its work is not counted.
Counted is the CPU time of this process (model call, reducer, log, tool), socket writes aside: the bytes on the wire do
grow, since each request carries the whole history. Nothing compacts: the window is ten million tokens.
"""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import statistics
import sys
import tempfile
import time
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import anyio

from fsm_agent.core.models import ModelInfo
from fsm_agent.core.outputs import RequestStart
from fsm_agent.runtime.tools.decorator import tool
from fsm_agent.session.agent import Agent

TURNS = 830
SPREAD = 25
WAIT = 0.01
"""Seconds before each answer; a model takes far longer."""
MODEL = ModelInfo(name="bench", context_window=10_000_000, max_output=64_000)


@tool(read_only=True, concurrency_safe=True)
async def look(place: str) -> str:
    """Look at a place."""
    return f"seen {place}: " + "all is as it should be here; " * 20


def serve(pipe: Connection, turns: int) -> None:
    """Answer each request by one call, the last by a text. The body is read and not looked at, and each answer takes alike.

    A server that parses the body takes longer with each turn, and a client that waited longer finds its caches colder.
    """
    from aiohttp import web

    from fsm_agent.server import frames
    from fsm_agent.server.replies import Blocks, text

    ids = frames.Ids()
    calls = 0

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal calls
        number, calls = calls, calls + 1
        async for _ in request.content.iter_any():
            pass
        await asyncio.sleep(WAIT)
        use = {"type": "tool_use", "id": f"toolu_{number:06}", "name": "look", "input": {"place": f"room {number}"}}
        words = f"I will look at room {number} now, since it may hold what we are after."
        reply = Blocks((text("done"),)) if number >= turns else Blocks((text(words), use))
        made = frames.make(reply, frames.Asked("bench"), ids)
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for frame in made.frames:
            await response.write(frame.data)
        return response

    async def main() -> None:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_post("/v1/messages", answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        pipe.send(f"http://127.0.0.1:{runner.addresses[0][1]}")
        await asyncio.to_thread(pipe.recv)
        await runner.cleanup()

    asyncio.run(main())


class Writes:
    """Time spent in socket writes, which is left out of the count."""

    def __init__(self) -> None:
        self.spent = 0.0

    def watch(self) -> None:
        """Count the CPU time of the transport's writes."""
        import asyncio.selector_events as events

        original = events._SelectorSocketTransport.write  # type: ignore[attr-defined]
        ready = events._SelectorSocketTransport._write_ready  # type: ignore[attr-defined]

        def write(transport: Any, data: Any) -> Any:
            begun = time.process_time()
            try:
                return original(transport, data)
            finally:
                self.spent += time.process_time() - begun

        def write_ready(transport: Any) -> Any:
            begun = time.process_time()
            try:
                return ready(transport)
            finally:
                self.spent += time.process_time() - begun

        events._SelectorSocketTransport.write = write  # type: ignore[attr-defined]
        events._SelectorSocketTransport._write_ready = write_ready  # type: ignore[attr-defined]


async def run(base_url: str, folder: Path, writes: Writes) -> tuple[list[float], list[float], Path]:
    """Play the run; gives CPU seconds of each turn, without writes and the writes alone, and the log's path."""
    marks: list[tuple[float, float]] = []
    settings = {"base_url": base_url, "api_key": "k", "tools": (look,), "models": (MODEL,), "max_model_calls": 10_000}
    async with Agent("bench", logs=folder, **settings) as agent:
        async with agent.run("go") as made:
            async for output in made:
                if isinstance(output, RequestStart):
                    marks.append((time.process_time(), writes.spent))
        assert made.terminal is not None
        assert made.terminal.cause == "end_turn", made.terminal
    turns = [(b[0] - a[0] - (b[1] - a[1]), b[1] - a[1]) for a, b in pairwise(marks)]
    return [turn[0] for turn in turns], [turn[1] for turn in turns], next(folder.rglob("*.jsonl"))


def main() -> None:
    """Measure and print."""
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else TURNS
    near, far = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(far, turns), daemon=True)
    server.start()
    base_url = near.recv()
    writes = Writes()
    writes.watch()
    gc.freeze()
    with tempfile.TemporaryDirectory() as folder:
        own, sent, log = anyio.run(run, base_url, Path(folder), writes)
        size = log.stat().st_size
    near.send("end")
    server.join(10)

    def around(values: list[float], turn: int) -> float:
        return statistics.median(values[turn - SPREAD : turn + SPREAD]) * 1e3

    for turn in [number for number in (50, 200, 400, 600, 800) if number + SPREAD <= len(own)]:
        print(f"turn {turn:4}: engine CPU {around(own, turn):6.2f} ms, socket writes {around(sent, turn):5.2f} ms")
    last = min(800, len(own) - SPREAD)
    print(f"growth from turn 50 to {last}: {100 * (around(own, last) / around(own, 50) - 1):+.1f} % (target: at most 10 %)")
    print(f"log: {size / len(own):.0f} bytes a turn")


if __name__ == "__main__":
    main()
