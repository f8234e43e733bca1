"""The driver alone, over a tiny machine: order, backpressure, failures, closing."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from fsm_agent.core.blocks import text_block
from fsm_agent.core.config import ConfigError, LoopConfig
from fsm_agent.core.effects import Cancel, Effect, Emit, NotifyCommand, RunPostSamplingHooks, StartTimer
from fsm_agent.core.events import (
    AbortRequested,
    CommandQueued,
    EffectFailed,
    Event,
    RunStarted,
    StreamCompleted,
    TimerFired,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
)
from fsm_agent.core.messages import MessageKind, message
from fsm_agent.core.outputs import BlockOutput, Notice, Output, RejectedOutput, Terminal, TerminalOutput, TextDelta
from fsm_agent.core.phases import Cause
from fsm_agent.core.state import LoopState
from fsm_agent.runtime.commands import CommandStatus
from fsm_agent.runtime.faults import EngineFault, LogWriteError, RunBusy, RunEnded, RunError
from fsm_agent.runtime.ports import Deps
from fsm_agent.runtime.run import Run

from .machine import (
    CONFIG,
    END,
    Book,
    Hooks,
    Reaction,
    Tools,
    Words,
    call,
    machine,
    one_call,
    parts,
    ready,
    started,
    tool,
    tools_at_once,
)

pytestmark = pytest.mark.anyio


def make(react: Reaction, deps: Deps, **options: Any) -> Run:
    return Run(deps, CONFIG, ready(), started(), step=machine(react), **options)


async def read(run: Run) -> list[Output]:
    async with run:
        return [output async for output in run]


async def test_outputs_come_in_order_and_the_terminal_comes_last() -> None:
    """Each delta is delivered before the block of its index, and the terminal is the last output."""
    run = make(one_call, parts(model=Words(5)))
    outputs = await read(run)
    shape = [(type(item), getattr(item, "index", None)) for item in outputs]
    wanted: list[Any] = [(kind, n) for n in range(5) for kind in (TextDelta, BlockOutput)]
    assert shape == [*wanted, (TerminalOutput, None)]
    assert run.terminal == END


async def test_nothing_happens_before_the_first_pull() -> None:
    """Entering a run neither records nor calls anything; leaving it then leaves no trace."""
    book, model = Book(), Words()
    async with make(one_call, parts(model=model, recorder=book)):
        await anyio.wait_all_tasks_blocked()
    assert (book.log, model.sent) == ([], 0)


async def test_each_event_is_recorded_before_its_effects_are_performed() -> None:
    """A tool's body runs after its ToolStarted was recorded; the log ends with its close."""
    tools = Tools()
    await read(make(tools_at_once(1), parts(tools=tools, recorder=Book(tools.log))))
    order = [entry for entry in tools.log if entry != "record tool_progressed"]
    assert order == [
        "record run_started",
        "record tool_started",
        "run r/tool-1",
        "end r/tool-1",
        "record tool_finished",
        "close",
    ]


@pytest.mark.parametrize("read_only", [True, False])
async def test_the_start_of_a_tool_and_the_end_are_forced_to_disk(read_only: bool) -> None:
    """ToolStarted, since the body runs next, and the terminal are synced; nothing else is."""
    book = Book()
    await read(make(tools_at_once(1, read_only=read_only), parts(recorder=book)))
    synced = [type(event) for event, _, sync in book.entries if sync]
    assert synced == [ToolStarted, ToolFinished]


async def test_slow_consumer_slows_the_stream() -> None:
    """The model is never more than the two small buffers ahead, and nothing is dropped."""
    model = Words(300)
    ahead = 0
    seen = 0
    async with make(one_call, parts(model=model)) as run:
        async for output in run:
            if isinstance(output, TextDelta):
                seen += 1
                if seen % 50 == 0:
                    await anyio.wait_all_tasks_blocked()
                    ahead = max(ahead, model.sent - seen)
    assert seen == 300
    assert ahead <= 40


async def test_abort_is_heard_although_nobody_reads() -> None:
    """With every buffer full, an interrupt still cancels what is in flight; the outputs wait for the reader."""
    model = Words(300)
    async with make(one_call, parts(model=model)) as run:
        await run.__anext__()
        await anyio.wait_all_tasks_blocked()
        run.interrupt()
        await anyio.wait_all_tasks_blocked()
        assert model.closed == 1
        rest = [output async for output in run]
    assert isinstance(rest[-1], TerminalOutput)
    assert rest[-1].terminal.cause is Cause.INTERRUPT
    indexes = [item.index for item in rest if isinstance(item, BlockOutput)]
    assert indexes == list(range(len(indexes)))


async def test_results_that_arrived_before_an_abort_are_stepped_before_it() -> None:
    """A tool that ended before the interrupt keeps its result, however slow the consumer is."""

    def react(state: LoopState, event: Event) -> Sequence[Effect | Terminal]:
        if isinstance(event, RunStarted):
            return (*(Emit(Notice(str(n))) for n in range(20)), tool(1), tool(2))
        return ()

    class OneHangs(Tools):
        async def run(self, effect: Any, ports: Any) -> ToolFinished:
            if effect.id == "r/tool-2":
                await anyio.sleep_forever()
            return await Tools.run(self, effect, ports)

    book = Book()
    async with make(react, parts(tools=OneHangs(), recorder=book)) as run:
        for _ in range(10):
            await run.__anext__()
        await anyio.wait_all_tasks_blocked()
        run.interrupt()
        async for _ in run:
            pass
    assert [type(event) for event, _, _ in book.entries][-2:] == [ToolFinished, AbortRequested]


@pytest.mark.parametrize("how", ["break", "aclose", "error", "cancel"])
async def test_leaving_early_closes_the_run(how: str) -> None:
    """Whatever way the consumer leaves, everything in flight is cancelled, and the log gets its end."""
    tools, book = Tools(100), Book()

    class Left(Exception):
        pass

    def react(state: LoopState, event: Event) -> Sequence[Effect | Terminal]:
        return (Emit(Notice("go")), call(), tool(1), tool(2)) if isinstance(event, RunStarted) else ()

    model = Words(1000, gap=1)
    run = make(react, parts(tools=tools, model=model, recorder=book))
    with anyio.CancelScope() as scope:
        try:
            async with run:
                async for _ in run:
                    await anyio.wait_all_tasks_blocked()
                    if how == "break":
                        break
                    if how == "aclose":
                        await run.aclose()
                    if how == "error":
                        raise Left
                    if how == "cancel":
                        scope.cancel()
        except Left:
            assert how == "error"
    assert scope.cancelled_caught == (how == "cancel")
    assert sorted(tools.log) == ["cancelled r/tool-1", "cancelled r/tool-2", "run r/tool-1", "run r/tool-2"]
    assert model.closed == 1
    assert run.terminal is not None
    assert run.terminal.cause is Cause.CONSUMER_CLOSED
    assert book.closed == [run.state]
    assert run.state.control.flight == ()


async def test_consumer_cancelled_while_it_waits() -> None:
    """A consumer that is cancelled in the middle of a pull closes the run."""
    tools = Tools(1000)
    run = make(tools_at_once(1), parts(tools=tools))
    with anyio.move_on_after(0.02):
        await read(run)
    assert tools.log == ["run r/tool-1", "cancelled r/tool-1"]
    assert run.terminal is not None
    assert run.terminal.cause is Cause.CONSUMER_CLOSED


async def test_error_of_the_consumer_comes_out_unchanged() -> None:
    """An exception of the consumer is not wrapped in a group."""

    async def leave() -> None:
        async with make(one_call, parts()) as run:
            async for _ in run:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await leave()


@pytest.mark.parametrize("error", [ValueError("bad"), ValueError(), SystemExit(3), BaseException("odd"), GeneratorExit()])
async def test_what_a_part_raises_becomes_an_answer(error: BaseException) -> None:
    """Whatever a part raises is fed back as EffectFailed, and names its type."""
    tools, book = Tools(), Book()
    tools.fail = error
    run = make(tools_at_once(1), parts(tools=tools, recorder=book))
    await read(run)
    answers = [event for event, _, _ in book.entries if isinstance(event, EffectFailed)]
    assert len(answers) == 1
    assert answers[0].failure.message.startswith(type(error).__name__)
    assert run.terminal == END


async def test_a_part_that_raises_a_cancellation_of_its_own_has_failed() -> None:
    """A cancellation that nobody asked for does not park the run (asyncio only: trio has no such thing)."""
    cancelled = anyio.get_cancelled_exc_class()
    try:
        error = cancelled()
    except TypeError:
        return
    tools, book = Tools(), Book()

    async def run_tool(effect: Any, ports: Any) -> ToolFinished:
        raise error

    tools.run = run_tool  # type: ignore[method-assign]
    run = make(tools_at_once(1), parts(tools=tools, recorder=book))
    await read(run)
    assert [type(event) for event, _, _ in book.entries] == [RunStarted, EffectFailed]


async def test_keyboard_interrupt_in_a_part_interrupts_the_run() -> None:
    """Ctrl-C that lands inside a tool means what it says."""
    tools = Tools()
    tools.fail = KeyboardInterrupt()
    run = make(tools_at_once(1), parts(tools=tools))
    await read(run)
    assert run.terminal is not None
    assert run.terminal.cause is Cause.INTERRUPT


@pytest.mark.parametrize("wrong", ["kind", "id", "none", "short"])
async def test_wrong_answers_become_failures(wrong: str) -> None:
    """An answer of another kind or id, or none at all, is a failure of that effect, never a wait without end."""

    class Odd(Words):
        async def stream(self, effect: Any) -> Any:
            if wrong == "kind":
                yield TimerFired(effect.id)
            elif wrong == "id":
                yield StreamCompleted("r/call-9", "end_turn")
            elif wrong == "none":
                yield None

    book = Book()
    run = make(one_call, parts(model=Odd(), recorder=book))
    await read(run)
    last = book.entries[-1][0]
    assert isinstance(last, EffectFailed)
    assert last.failure.message.startswith("EngineFault: ")


async def test_cancelled_effects_have_no_answer() -> None:
    """After its Cancel nothing of an effect is stepped, its pending items included."""

    def react(state: LoopState, event: Event) -> Sequence[Effect | Terminal]:
        match event:
            case RunStarted():
                return (tool(1), tool(2))
            case ToolProgressed():
                return (Cancel("r/tool-2" if event.id == "r/tool-1" else "r/tool-1"), Cancel("r/unknown"))
            case ToolFinished():
                return (END,)
        return ()

    book = Book()
    run = make(react, parts(recorder=book))
    await read(run)
    first = next(n for n, (event, _, _) in enumerate(book.entries) if isinstance(event, ToolProgressed))
    kept = book.entries[first][0]
    assert isinstance(kept, ToolProgressed)
    assert [getattr(event, "id", "") for event, _, _ in book.entries[first + 1 :]] == [kept.id]
    assert not any("stale" in step.taken for _, step, _ in book.entries)


async def test_tool_cancelled_before_its_start_does_not_run() -> None:
    """A start that is no longer wanted is refused or cancelled; the body never runs."""

    def react(state: LoopState, event: Event) -> Sequence[Effect | Terminal]:
        match event:
            case RunStarted():
                return (tool(1), tool(2))
            case ToolStarted():
                return (Cancel("r/tool-2" if event.id == "r/tool-1" else "r/tool-1"),)
            case ToolFinished():
                return (END,)
        return ()

    tools = Tools()
    await read(make(react, parts(tools=tools)))
    assert len([entry for entry in tools.log if entry.startswith("run")]) == 1


async def test_next_tool_waits_for_the_end_of_a_cancelled_one() -> None:
    """What a cancelled tool does while it ends never overlaps the next tool."""
    log: list[str] = []

    class SlowEnd(Tools):
        async def run(self, effect: Any, ports: Any) -> ToolFinished:
            try:
                return await Tools.run(self, effect, ports)
            except anyio.get_cancelled_exc_class():
                with anyio.CancelScope(shield=True):
                    await anyio.sleep(0.01)
                log.append(f"gone {effect.id}")
                raise

    def react(state: LoopState, event: Event) -> Sequence[Effect | Terminal]:
        match event:
            case RunStarted():
                return (tool(1), StartTimer("r/timer-1", 5))
            case TimerFired():
                return (Cancel("r/tool-1"), tool(2))
            case ToolStarted(id="r/tool-2"):
                log.append("second")
                return (END,)
        return ()

    await read(make(react, parts(tools=SlowEnd(1000))))
    assert log[:2] == ["gone r/tool-1", "second"]


async def test_log_that_cannot_be_written_stops_the_run() -> None:
    """The effects of what could not be recorded are not performed, and the consumer is told."""
    tools, book = Tools(1000), Book(breaks_at=2)
    run = make(tools_at_once(2), parts(tools=tools, recorder=book))
    with pytest.raises(LogWriteError, match="No space left"):
        await read(run)
    assert len([entry for entry in tools.log if entry.startswith("run")]) == 1
    assert book.log[-1] == "close"
    assert run.terminal is None


async def test_log_that_cannot_be_closed_stops_the_run() -> None:
    """A log without its end is told to the consumer in place of the terminal, whatever kind of error it was."""

    class NoEnd(Book):
        def close(self, state: LoopState) -> None:
            super().close(state)
            raise ValueError("a value that has no text")

    book = NoEnd()
    run = make(one_call, parts(recorder=book))
    with pytest.raises(LogWriteError, match="has no text"):
        await read(run)
    assert len(book.closed) == 1
    assert run.terminal is None


async def test_log_that_breaks_while_closing_is_told() -> None:
    """A consumer that leaves without an error of its own hears that the log has no end."""
    book = Book(breaks_at=2)

    async def leave() -> None:
        async with make(tools_at_once(1), parts(recorder=book, tools=Tools(100))) as run:
            with anyio.move_on_after(0.01):
                await run.__anext__()

    with pytest.raises(LogWriteError):
        await leave()


async def test_error_of_the_reducer_comes_out() -> None:
    """A fault of the engine ends the run loudly, and nothing is left in flight."""

    def react(state: LoopState, event: Event) -> Sequence[Effect | Terminal]:
        if isinstance(event, ToolProgressed):
            raise ZeroDivisionError
        return (tool(1),)

    tools, book = Tools(1000), Book()
    with pytest.raises(ZeroDivisionError):
        await read(make(react, parts(tools=tools, recorder=book)))
    assert tools.log[-1] == "cancelled r/tool-1"
    assert len(book.closed) == 1


async def test_waiting_for_nothing_is_a_fault() -> None:
    """A machine that waits with nothing in flight is reported, not waited for."""
    with pytest.raises(EngineFault, match="nothing in flight"):
        await read(make(lambda state, event: (), parts()))


async def test_five_hundred_commands_are_all_stepped() -> None:
    """Inputs that arrive in one burst are stepped in their order, each once."""

    def react(state: LoopState, event: Event) -> Sequence[Effect | Terminal]:
        match event:
            case RunStarted():
                return (tool(1), Emit(Notice("go")))
            case CommandQueued():
                return (NotifyCommand(event.command_id),)
            case ToolFinished():
                return (END,)
        return ()

    book = Book()
    async with make(react, parts(recorder=book, tools=Tools(0.02))) as run:
        await run.__anext__()
        ids = [run.queue(f"word {n}") for n in range(500)]
        async for _ in run:
            pass
    assert [event.command_id for event, _, _ in book.entries if isinstance(event, CommandQueued)] == ids
    assert set(run.commands.values()) == {CommandStatus.STARTED}


async def test_commands_that_come_too_late_come_back() -> None:
    """A command that arrives while the run ends is refused by the table and told; later ones raise."""

    class Late(Book):
        def append(self, event: Event, step: Any, *, sync: bool) -> None:
            super().append(event, step, sync=sync)
            if isinstance(event, StreamCompleted):
                run.queue("too late")

    run = make(one_call, parts(recorder=Late()))
    outputs = await read(run)
    assert [type(output) for output in outputs[-2:]] == [RejectedOutput, TerminalOutput]
    assert [event.message.blocks for event in run.undelivered] == [(text_block("too late"),)]
    with pytest.raises(RunEnded):
        run.queue("much too late")


async def test_events_before_the_first_pull_keep_their_place() -> None:
    """What the user does before the first pull comes before RunStarted."""
    book = Book()
    run = make(one_call, parts(recorder=book))
    run.queue("early")
    run.interrupt()
    await read(run)
    assert [type(event) for event, _, _ in book.entries] == [CommandQueued, AbortRequested, RunStarted]
    assert run.terminal is not None
    assert run.terminal.cause is Cause.INTERRUPT


async def test_steering_from_another_thread() -> None:
    """An interrupt from another thread reaches the run."""
    async with make(tools_at_once(1), parts(tools=Tools(1000))) as run:
        thread = threading.Timer(0.01, run.interrupt)
        thread.start()
        if type(anyio.lowlevel.current_token().native_token).__module__.startswith("trio"):
            thread.join()  # virtual time would run away from the thread
            run.interrupt()
        outputs = [output async for output in run]
        thread.join()
    assert isinstance(outputs[-1], TerminalOutput)
    assert outputs[-1].terminal.cause is Cause.INTERRUPT


async def test_two_readers_are_refused() -> None:
    """A second task that reads is told so, and the first one goes on."""
    async with make(tools_at_once(1), parts(tools=Tools(0.01))) as run, anyio.create_task_group() as group:

        async def second() -> None:
            with pytest.raises(RunBusy):
                await run.__anext__()

        group.start_soon(second)
        outputs = [output async for output in run]
    assert isinstance(outputs[-1], TerminalOutput)


async def test_wrong_use_is_named() -> None:
    """Reading without entering and entering twice are refused."""
    run = make(one_call, parts())
    with pytest.raises(RunError, match="context manager"):
        await run.__anext__()
    await read(run)
    with pytest.raises(RunError, match="once"):
        await run.__aenter__()
    with pytest.raises(ConfigError, match="stop_hooks"):
        Run(parts(), LoopConfig(model="m", stop_hooks=True), ready(), started(), step=machine(one_call))
    with pytest.raises(ValueError, match="has ended"):
        Run(parts(), CONFIG, run.state, started(), step=machine(one_call))
    with pytest.raises(ValueError, match="empty"):
        run.queue("  ")


@pytest.mark.parametrize("close", [False, True])
async def test_post_sampling_hooks_are_waited_for_before_the_end(close: bool) -> None:
    """The terminal comes after the hooks that look at a reply; a consumer that leaves waits for nothing."""

    def react(state: LoopState, event: Event) -> Sequence[Effect | Terminal]:
        reply = message("m1", "assistant", MessageKind.ASSISTANT, (text_block("x"),))
        match event:
            case RunStarted():
                return (RunPostSamplingHooks(reply), StartTimer("r/timer-1", 1), Emit(Notice("go")))
            case TimerFired():
                return (END,)
        return ()

    hooks = Hooks(0.03)
    async with make(react, parts(hooks=hooks)) as run:
        async for output in run:
            if close:
                await anyio.wait_all_tasks_blocked()
                break
            if isinstance(output, TerminalOutput):
                assert hooks.log == ["begin", "end"]
    assert hooks.log == (["begin"] if close else ["begin", "end"])


async def test_post_sampling_hook_that_fails_is_a_warning() -> None:
    """A hook that crashes changes nothing but brings a warning."""

    def react(state: LoopState, event: Event) -> Sequence[Effect | Terminal]:
        reply = message("m1", "assistant", MessageKind.ASSISTANT, (text_block("x"),))
        match event:
            case RunStarted():
                return (RunPostSamplingHooks(reply), StartTimer("r/timer-1", 1))
            case TimerFired():
                return (END,)
        return ()

    outputs = await read(make(react, parts(hooks=Hooks(fail=ValueError("no")))))
    assert [type(output) for output in outputs] == [Notice, TerminalOutput]


async def test_listener_that_raises_is_a_warning() -> None:
    """A faulty listener for commands does not stop the run."""

    def react(state: LoopState, event: Event) -> Sequence[Effect | Terminal]:
        return (NotifyCommand("c1"), END)

    def listen(command_id: str, status: CommandStatus) -> None:
        raise ValueError(command_id)

    outputs = await read(make(react, parts(), on_command=listen))
    assert [type(output) for output in outputs] == [Notice, TerminalOutput]
