"""Tools overlap the stream: real HTTP on loopback, the official SDK, real tool calls.

Run: ``python tests/bench/bench_overlap.py``. The reply streams for 3.0 s; four read-only tools of 1 s each are complete
at 0.6, 0.9, 1.2 and 1.5 s, each followed at once by the next block, the last by text that streams until the end. The
follow-up comes at once. Ideal: 3.0 s. With early start off the tools run after the stream: 4.0 s.
"""

from __future__ import annotations

import time

import anyio

from fsm_agent.core.config import EarlyStart
from fsm_agent.runtime.tools.decorator import tool
from fsm_agent.server.app import LoopbackServer
from fsm_agent.server.replies import Blocks, Part, text
from fsm_agent.session.agent import Agent

ENDS = (0.6, 0.9, 1.2, 1.5)
RUNS = 3


@tool(read_only=True, concurrency_safe=True)
async def look(place: str) -> str:
    """Look at a place for a second."""
    await anyio.sleep(1.0)
    return f"seen {place}"


def script() -> list[Blocks]:
    """The paced reply and its follow-up."""
    parts = []
    begun = 0.0
    for number, end in enumerate(ENDS):
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": "look", "input": {"place": f"room {number}"}}
        parts.append(Part(call, chunks=8, at=begun, until=end))
        begun = end
    parts.append(Part({"type": "text", "text": "and so on " * 60}, chunks=60, at=begun, until=3.0))
    return [Blocks(tuple(parts)), Blocks((text("done"),))]


async def one(base_url: str, early: EarlyStart) -> float:
    """Play one run; gives seconds from the first pull to the end."""
    async with Agent("bench", base_url=base_url, api_key="k", tools=(look,), early_start=early) as agent:
        begun = time.perf_counter()
        async with agent.run("go") as run:
            async for _ in run:
                pass
        assert run.terminal is not None
        assert run.terminal.cause == "end_turn", run.terminal
        return time.perf_counter() - begun


def main() -> None:
    """Measure and print."""
    import anthropic  # noqa: F401  # its import is no part of a run

    for early, ideal in ((EarlyStart.READ_ONLY, 3.0), (EarlyStart.NEVER, 4.0)):
        times = []
        for _ in range(RUNS):
            with LoopbackServer(script()) as server:
                times.append(anyio.run(one, server.base_url, early))
        shown = ", ".join(f"{value:.3f}" for value in times)
        print(f"early_start={early.value:<10} {shown} s (ideal {ideal:.1f} s)")
    print("target for read_only: at most 3.45 s")


if __name__ == "__main__":
    main()
