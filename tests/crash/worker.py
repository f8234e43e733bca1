"""The process that is killed: a nursery that forks one real run after another, each of which may be told where to die.

It speaks JSON lines: an order on standard input, a report on standard output. A run is a process of its own with its own
event loop, tools, connections and log; only the start of the interpreter and the imports are shared.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import anyio

from fsm_agent import Agent, Session
from fsm_agent.core.events import Event, ToolStarted
from fsm_agent.core.state import Step
from fsm_agent.log.journal import Journal
from fsm_agent.runtime.tools.decorator import tool
from fsm_agent.session.subagents import AgentTool

PROMPT = "PROMPT-ONE: do all the steps"
COMMAND = "COMMAND-ONE: and mind the gap"
MODEL, FALLBACK = "crash-main", "crash-spare"


def tools_of(counter: Path) -> list[Any]:
    @tool(read_only=True, concurrency_safe=True)
    def look(step: int, size: int = 10) -> str:
        """Look at something.

        Args:
            step: which step.
            size: how many words come back.
        """
        return f"seen at step {step}: " + "word " * size

    @tool
    def bump(step: int, key: str) -> str:
        """Count.

        Args:
            step: which step.
            key: the decision.
        """
        descriptor = os.open(counter, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(descriptor, f"{key}\n".encode())
        os.close(descriptor)
        return f"bumped at step {step}"

    return [look, bump, AgentTool()]


def agent_of(order: dict[str, Any], folder: Path) -> Agent:
    return Agent(
        MODEL,
        tools=tools_of(folder / "counter"),
        cwd=folder,
        base_url=order["base_url"],
        api_key="k",
        permission_mode="bypassPermissions",
        fallback_models=(FALLBACK,),
        backoff_ms=1,
        backoff_cap_ms=2,
        max_attempts=40,
        context={"context_window": order["window"]},
    )


def die_at(order: dict[str, Any]) -> None:
    """Arrange the death: before or behind a record is written, or half-way through it."""
    place, how = order.get("at"), order.get("how")
    if place is None:
        return
    append, count = Journal.append, 0

    def append_or_die(self: Journal, event: Event, step: Step, *, sync: bool) -> None:
        nonlocal count
        count += 1
        if count != place:
            append(self, event, step, sync=sync)
            return
        if how != "before":
            append(self, event, step, sync=sync)
        if how == "torn":
            os.truncate(self.path, self.path.stat().st_size - order["bytes"])
        os.kill(os.getpid(), signal.SIGKILL)

    Journal.append = append_or_die  # type: ignore[method-assign]


def die_after(seconds: float) -> None:
    def kill() -> None:
        time.sleep(seconds)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=kill, daemon=True).start()


async def play(order: dict[str, Any]) -> dict[str, Any]:
    folder, log = Path(order["folder"]), Path(order["folder"]) / "run.jsonl"
    agent = agent_of(order, folder)
    if order["do"] == "start":
        session = Session(agent, session_id="crash")
        submission = session.submit(PROMPT, log=log, run_id="r")
    else:
        session = Session.resume(agent, log)
        if session.interrupted is None:
            return {"finished": session.state.terminal is not None}
        submission = session.go_on()
    async with submission:
        run = submission.run
        queued = order["do"] != "start"

        def watch(event: Event, step: Step) -> None:
            nonlocal queued
            if isinstance(event, ToolStarted) and not queued:
                queued = True
                run.queue(COMMAND)

        run._on_step = watch
        async for _ in submission:
            pass
    value = submission.value
    assert value is not None
    return {"finished": True, "terminal": value["terminal"], "undelivered": len(session.undelivered), "log": value["log"]}


def child(order: dict[str, Any], out: int) -> None:
    die_at(order)
    if order.get("after") is not None:
        die_after(order["after"])
    random.seed(order.get("seed", 0))
    try:
        report = anyio.run(play, order, backend=order.get("backend", "asyncio"))
    except BaseException as error:
        report = {"error": f"{type(error).__name__}: {error}"}
    os.write(out, json.dumps(report).encode())


def warm_up(order: dict[str, Any]) -> dict[str, Any]:
    """Make one run in the nursery itself, so that each later one finds everything imported and made."""
    from fsm_agent.log import resume  # noqa: F401

    return anyio.run(play, order)


def main() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        if order["do"] == "warm":
            print(json.dumps(warm_up({**order, "do": "start"})), flush=True)
            continue
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read)
            child(order, write)
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            said = pipe.read()
        _, status = os.waitpid(pid, 0)
        report = json.loads(said) if said else {}
        report["killed"] = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
