"""Synchronous code of others on threads: it is like a call, and one that never ends keeps nothing."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

import fsm_agent
from fsm_agent.runtime.threads import run_on_thread

COLOUR: ContextVar[str] = ContextVar("colour", default="none")
BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])


@BACKENDS
def test_it_is_like_a_call(backend: str) -> None:
    """What the function gives is given, what it raises is raised, whatever that is; it runs elsewhere, in this context."""

    def stop(kind: Any) -> None:
        raise kind("no more")

    async def main() -> None:
        COLOUR.set("red")
        ident, colour = await run_on_thread(lambda: (threading.get_ident(), COLOUR.get()))
        assert ident != threading.get_ident()
        assert colour == "red"
        assert await run_on_thread(divmod, 7, 2) == (3, 1)
        for kind, raised in ((LookupError, LookupError), (SystemExit, SystemExit), (StopIteration, RuntimeError)):
            with pytest.raises(raised):
                await run_on_thread(stop, kind)

    anyio.run(main, backend=backend)


@BACKENDS
def test_the_thread_may_call_back(backend: str) -> None:
    """``anyio.from_thread`` finds the event loop, and an event loop of its own may be run there."""

    async def double(number: int) -> int:
        await anyio.sleep(0)
        return 2 * number

    def work() -> tuple[int, int]:
        anyio.from_thread.check_cancelled()
        return anyio.from_thread.run(double, 4), anyio.run(double, 5)

    async def main() -> None:
        assert await run_on_thread(work) == (8, 10)

    anyio.run(main, backend=backend)


@BACKENDS
def test_one_that_is_cancelled_is_abandoned(backend: str) -> None:
    """The caller goes on at once, the body to its own end; it may look whether anybody still waits."""
    go_on, cancelled = threading.Event(), threading.Event()

    def work() -> None:
        go_on.wait(20)
        try:
            anyio.from_thread.check_cancelled()
        except BaseException:
            cancelled.set()

    async def main() -> None:
        with anyio.move_on_after(0.05) as limit:
            await run_on_thread(work)
        assert limit.cancelled_caught
        go_on.set()
        assert await anyio.to_thread.run_sync(cancelled.wait, 20)

    anyio.run(main, backend=backend)


@BACKENDS
def test_only_so_many_at_once(backend: str) -> None:
    """Each waits for a place below the limit of threads."""
    running: list[int] = []
    most: list[int] = []

    def work() -> None:
        running.append(1)
        most.append(len(running))
        time.sleep(0.01)
        running.pop()

    async def main() -> None:
        anyio.to_thread.current_default_thread_limiter().total_tokens = 2
        async with anyio.create_task_group() as group:
            for _ in range(6):
                group.start_soon(run_on_thread, work)

    anyio.run(main, backend=backend)
    assert len(most) == 6
    assert max(most) == 2


NEVER = """
    import sys, time
    from fsm_agent import tool
    from fsm_agent.runtime.hooks.config import Hook, HookEvent
    from fsm_agent.server.replies import calls, tool as use
    from fsm_agent.testing import trial

    @tool(read_only=True, timeout=0.1)
    def never():
        "Never end."
        time.sleep(10**6)

    def deaf(payload):
        time.sleep(10**6)

    went = trial([calls(use("never", {})), "Done."], tools=[never], hooks=[Hook(HookEvent.STOP, call=deaf, timeout=0.1)])
    print(*went.problems, sep="\\n")
"""


def test_what_never_ends_does_not_keep_the_process(tmp_path: Path) -> None:
    """A tool and a hook that outlive their time are told, and the interpreter leaves all the same."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(NEVER)], capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "the tool never timed out after 0.1 s" in done.stdout
    assert "the Stop hook 'deaf' failed: timed out after 0.1 s" in done.stdout


def test_nothing_else_abandons_threads() -> None:
    """A thread of anyio's own that was abandoned would be joined at the end of the process; only one module may."""
    package = Path(fsm_agent.__file__).parent
    users = {path.name for path in package.rglob("*.py") if "abandon_on_cancel" in path.read_text(encoding="utf-8")}
    assert users == {"threads.py"}
