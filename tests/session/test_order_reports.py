"""Who sends what when: late answers, wrong events, many senders at once (field reports, group O)."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import anyio
import pytest

from fsm_agent.core.blocks import block_text
from fsm_agent.core.events import AbortRequested, CommandQueued, EffectFailed, EffectLost, EventKind, RunStarted
from fsm_agent.core.failures import ErrorKind, ModelFailure
from fsm_agent.core.messages import MessageKind
from fsm_agent.core.phases import TERMINAL_SET, AbortReason, Cause
from fsm_agent.core.rows import STALE
from fsm_agent.core.state import initial
from fsm_agent.core.step import step
from fsm_agent.core.translate import ANSWERS
from fsm_agent.log.reader import read_log
from fsm_agent.runtime.faults import RunBusy, RunEnded
from fsm_agent.runtime.prompt import user_message
from fsm_agent.scenario.drive import drive
from fsm_agent.scenario.loading import catalog, load
from fsm_agent.session.agent import Agent
from fsm_agent.session.session import Session

from .script import Model, Say, Tools, Use, deps, reply

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("name", list(catalog()))
def test_141_a_late_answer_changes_nothing(name: str) -> None:
    """At every point of every scenario an answer to an effect that is no longer in flight is stale, and changes nothing."""
    scenario = load(name)
    issued: dict[str, Any] = {}
    for event, made in drive(scenario).steps:
        for effect in made.effects:
            if getattr(effect, "id", "").rpartition("/")[2].rpartition("-")[0] in ANSWERS and type(effect).__name__ != "Cancel":
                issued[effect.id] = effect
        flying = {flight.id for flight in made.state.control.flight}
        for effect_id in list(issued)[-4:]:
            if effect_id in flying or made.state.phase in TERMINAL_SET:
                continue
            failure = ModelFailure(kind=ErrorKind.ENGINE_ERROR, message="late")
            for late in (EffectFailed(effect_id, failure), EffectLost(effect_id)):
                again = step(made.state, late, scenario.config)
                assert (again.taken, again.effects, again.rejected) == ((STALE,), (), None)
                assert again.state is made.state
        if isinstance(event, RunStarted):
            never = step(made.state, EffectLost("run/call-999"), scenario.config)
            assert never.rejected is not None
            assert never.state is made.state


def test_135_a_wrong_event_does_not_hide_the_next_ones() -> None:
    """A stale result, an abort, a message, in a row: the first is ignored, the second ends the run, the third comes back."""
    scenario = load("next-turn")
    config = scenario.config
    state = next(made.state for event, made in drive(scenario).steps if type(event).__name__ == "ToolStarted")
    message = user_message("c1", "and this", MessageKind.COMMAND)
    taken = []
    for event in (EffectLost("run/call-1"), CommandQueued("c1", message), AbortRequested(AbortReason.INTERRUPT)):
        made = step(state, event, config)
        taken.append(made)
        state = made.state
    assert [one.rejected for one in taken] == [None, None, None]
    assert state.terminal is not None
    assert state.terminal.cause is Cause.INTERRUPT
    assert state.terminal.undelivered == ("c1",)
    late = step(state, CommandQueued("c2", message), config)
    assert late.rejected is not None
    assert late.rejected.event is EventKind.COMMAND_QUEUED
    assert late.state is state


async def test_137_many_senders_at_once(tmp_path: Path) -> None:
    """A thousand submits, messages and aborts from many threads and tasks: one run, each message once, one total order."""
    model = Model(reply(Use("t")), reply(Say("fine")), reply(Say("never")))
    session = Session(Agent("m", deps=deps(model, Tools(t=0.05))))
    refused: list[Exception] = []
    sent: list[str] = []

    def send(run: Any, number: int) -> None:
        for place in range(50):
            try:
                sent.append(run.queue(f"word {number}-{place}"))
            except RunEnded as error:
                refused.append(error)

    async with session.submit("go", log=tmp_path / "run.jsonl", run_id="r") as submission:
        first = await submission.__anext__()
        second = await submission.__anext__()
        threads = [threading.Thread(target=send, args=(submission.run, number)) for number in range(20)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            with pytest.raises(RunBusy):
                session.submit("another")
        while any(thread.is_alive() for thread in threads):
            await anyio.sleep(0.001)
        rest = [output async for output in submission]
    assert first is not second
    assert rest
    queued = [record.event for record in read_log(tmp_path / "run.jsonl").records() if isinstance(record.event, CommandQueued)]
    assert len({event.command_id for event in queued}) == len(queued)
    assert {event.command_id for event in queued} <= set(sent)
    assert len(model.requests) == 2
    words = str(model.requests[-1])
    back = {event.command_id for event in submission.run.undelivered}
    assert len(sent) + len(refused) == 1_000
    delivered = [block_text(event.message.blocks[0]) for event in queued if event.command_id not in back]
    assert all(words.count(f"'{text}'") == 1 for text in delivered)
    assert len(delivered) + len(back) == len(sent)


async def test_138_the_sender_of_a_wrong_event_hears_of_it() -> None:
    """A message that comes too late raises for its sender; the one who reads the run goes on undisturbed."""
    session = Session(Agent("m", deps=deps(Model(reply(Say("fine"))))))
    async with session.submit("go") as submission:
        outputs = [output async for output in submission]
        with pytest.raises(RunEnded):
            submission.run.queue("too late")
        with pytest.raises(ValueError, match="empty"):
            submission.run.queue("  ")
    assert submission.value is not None
    assert submission.value["is_error"] is False
    assert outputs


def test_139_a_state_before_the_start_waits_for_the_start() -> None:
    """A run that has not begun has nothing in flight, and nothing to lose."""
    scenario = load("hello")
    state = initial(scenario.config)
    assert state.control.flight == ()
    lost = step(state, EffectLost("r/call-1"), scenario.config)
    assert lost.rejected is not None
