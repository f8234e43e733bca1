"""Runs of the real core that are ended from outside in each phase, in each way, and the conversation after it."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from fsm_agent.core.blocks import text_block
from fsm_agent.core.config import ContextConfig
from fsm_agent.core.failures import ErrorKind
from fsm_agent.core.outputs import Output
from fsm_agent.core.phases import Cause, Phase, TerminalReason
from fsm_agent.session.agent import Agent
from fsm_agent.session.session import Session

from .script import Compactor, Fail, Hang, Hooks, Model, Providers, Reply, Say, Tools, Use, deps, history, reply, until

pytestmark = pytest.mark.anyio

LONG = 1000.0
WAITS: dict[Phase, tuple[Reply, ...]] = {
    Phase.COMPACTING: (),
    Phase.CALLING_MODEL: (reply(Say("half"), Hang()),),
    Phase.BACKING_OFF: (reply(Fail(ErrorKind.OVERLOADED)),),
    Phase.REACTIVE_COMPACTING: (reply(Fail(ErrorKind.PROMPT_TOO_LONG)),),
    Phase.RUNNING_TOOLS: (reply(Say("so"), Use("slow")),),
    Phase.GATHERING_ATTACHMENTS: (reply(Use("quick")),),
    Phase.RUNNING_STOP_HOOKS: (reply(Say("done")),),
}


def session_that_waits_in(phase: Phase) -> tuple[Session, Model, Tools]:
    """Make a session whose first run waits in ``phase`` for a long time; its second run completes."""
    model = Model(*WAITS[phase], reply(Say("fine")))
    tools = Tools(slow=LONG, quick=0.0)
    hooks = Hooks(LONG if phase is Phase.RUNNING_STOP_HOOKS else 0.0)
    providers = Providers(LONG if phase is Phase.GATHERING_ATTACHMENTS else 0.0)
    agent = Agent(
        "m",
        deps=deps(model, tools, hooks=hooks, providers=providers, compactor=Compactor(LONG)),
        stop_hooks=True,
        attachments=True,
        backoff_ms=int(LONG * 1000),
        backoff_cap_ms=int(LONG * 1000),
        context=ContextConfig(context_window=20_000),
    )
    return Session(agent, state=history(agent, 1000 if phase is Phase.COMPACTING else 300)), model, tools


async def finish_with_another_prompt(session: Session, model: Model) -> None:
    """The conversation goes on after whatever happened: the engine is not stuck, and its history can be sent."""
    for part in (session.agent.deps.hooks, session.agent.deps.providers, session.agent.deps.compactor):
        part.seconds = 0.0  # type: ignore[union-attr]
    if not model.requests:
        model.replies = model.replies[-1:]
    async with session.submit("go on") as submission:
        async for _ in submission:
            pass
    assert submission.terminal is not None
    assert (submission.terminal.reason, submission.terminal.cause) == (TerminalReason.COMPLETED, Cause.END_TURN)
    assert session.state.control.flight == ()


def assert_ended(session: Session, model: Model, tools: Tools, cause: Cause) -> None:
    terminal = session.state.terminal
    assert terminal is not None
    assert terminal.cause is cause
    assert terminal.reason in (TerminalReason.ABORTED_STREAMING, TerminalReason.ABORTED_TOOLS)
    assert session.state.control.flight == ()
    assert (model.open, tools.running) == (0, 0)


@pytest.mark.parametrize("cause", [Cause.INTERRUPT, Cause.SUBMIT])
@pytest.mark.parametrize("phase", WAITS)
async def test_abort_in_each_phase(phase: Phase, cause: Cause) -> None:
    """An interrupt or a submitted message ends the run in every phase; the next prompt completes."""
    session, model, tools = session_that_waits_in(phase)
    outputs: list[Output] = []
    async with session.submit("first") as submission, anyio.create_task_group() as group:

        async def stop() -> None:
            await until(lambda: submission.run.begun and submission.run.state.phase is phase)
            if cause is Cause.INTERRUPT:
                submission.run.interrupt()
            else:
                submission.run.submit("at once")

        group.start_soon(stop)
        outputs += [output async for output in submission]
    assert_ended(session, model, tools, cause)
    texts = [command.message.blocks[0] for command in session.undelivered]
    assert texts == ([text_block("at once")] if cause is Cause.SUBMIT else [])
    await finish_with_another_prompt(session, model)


@pytest.mark.parametrize("how", ["break", "aclose", "error", "scope", "twice"])
@pytest.mark.parametrize("phase", WAITS)
async def test_close_in_each_phase(phase: Phase, how: str) -> None:
    """A consumer that leaves in any way, in every phase, leaves nothing in flight and a conversation that goes on."""
    session, model, tools = session_that_waits_in(phase)
    threads = threading.active_count()
    caught = False
    with anyio.CancelScope() as outer, anyio.CancelScope() as scope:
        try:
            async with session.submit("first") as submission, anyio.create_task_group() as group:

                async def read() -> None:
                    async for _ in submission:
                        pass

                group.start_soon(read)
                await until(lambda: submission.run.begun and submission.run.state.phase is phase)
                if how == "aclose":
                    await submission.run.aclose()
                if how == "error":
                    raise LookupError
                if how in ("scope", "twice"):
                    scope.cancel()
                    if how == "twice":
                        outer.cancel()
                group.cancel_scope.cancel()
                await anyio.lowlevel.checkpoint()
        except* LookupError:
            caught = True
    assert caught == (how == "error")
    assert_ended(session, model, tools, Cause.CONSUMER_CLOSED)
    assert threading.active_count() <= threads  # an idle thread of an earlier test may end meanwhile
    await finish_with_another_prompt(session, model)


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("phase", WAITS)
def test_native_cancellation_in_each_phase(phase: Phase, times: int) -> None:
    """``task.cancel()`` of asyncio, also while the run is closing already, leaves a consistent state and no task."""
    import asyncio

    session, model, tools = session_that_waits_in(phase)

    async def consume() -> None:
        async with session.submit("first") as submission:
            async for _ in submission:
                pass

    async def main() -> None:
        task = asyncio.create_task(consume())
        await until(lambda: session._active is not None and session._active.run.state.phase is phase)
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert_ended(session, model, tools, Cause.CONSUMER_CLOSED)
        await finish_with_another_prompt(session, model)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


@pytest.mark.parametrize("phase", WAITS)
def test_event_loop_that_shuts_down_closes_the_run(phase: Phase) -> None:
    """When the main task ends while another one reads a run, the loop's shutdown closes it like any consumer."""
    import asyncio

    session, model, tools = session_that_waits_in(phase)
    keep: list[Any] = []

    async def consume() -> None:
        async with session.submit("first") as submission:
            async for _ in submission:
                pass

    async def main() -> None:
        keep.append(asyncio.create_task(consume()))
        await until(lambda: session._active is not None and session._active.run.state.phase is phase)

    asyncio.run(main())
    assert_ended(session, model, tools, Cause.CONSUMER_CLOSED)


async def test_never_read_leaves_nothing() -> None:
    """A submission that is entered and left without a pull changes nothing."""
    session, model, _ = session_that_waits_in(Phase.CALLING_MODEL)
    before = session.state
    async with session.submit("first"):
        pass
    assert session.state is before
    assert model.requests == []
