"""Replay: a log folds back into the run that wrote it, and the first difference is named (laws I14, I15)."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import evolve

from fsm_agent.core.config import LoopConfig
from fsm_agent.core.effects import CallModel, Cancel, Effect, Emit, RunTool, StartTimer
from fsm_agent.core.events import Event, RunStarted
from fsm_agent.core.outputs import Notice
from fsm_agent.core.phases import Cause
from fsm_agent.core.state import LoopState, Rejection, Step, initial
from fsm_agent.log import digest
from fsm_agent.log.errors import LogDamaged, LogError, TableChanged
from fsm_agent.log.journal import Journal
from fsm_agent.log.reader import read_log
from fsm_agent.log.replay import Divergence, Reducer, Replayed, replay

from . import toy


@pytest.fixture
def path(tmp_path: Path) -> Path:
    toy.write(tmp_path / "run.log")
    return tmp_path / "run.log"


def again(path: Path, reducer: Reducer = toy.step, until: int | None = None) -> Replayed:
    return replay(path, until, check_table=False, reducer=reducer)


def found(path: Path, reducer: Reducer) -> Divergence:
    divergence = again(path, reducer).divergence
    assert divergence is not None
    return divergence


def test_a_replay_reaches_the_state_of_the_run(tmp_path: Path) -> None:
    """Folding a log gives the very state that the run ended in, and no difference."""
    path = tmp_path / "run.log"
    state = toy.write(path)
    replayed = again(path)
    assert replayed.state == state
    assert (replayed.steps, replayed.divergence) == (len(toy.EVENTS), None)
    assert replayed.tail is not None
    assert replayed.tail.end is not None


def test_until_stops_behind_a_record(path: Path) -> None:
    """``until`` gives the state behind that record, 0 the one before the first; others are one clear error."""
    state = initial(toy.CONFIG)
    for count in range(len(toy.EVENTS) + 1):
        assert again(path, until=count).state == state
        if count < len(toy.EVENTS):
            state = toy.step(state, toy.EVENTS[count], toy.CONFIG).state
    for wrong in (-1, len(toy.EVENTS) + 1):
        with pytest.raises(LogError, match=f"no record {wrong}"):
            again(path, until=wrong)


def test_each_sees_every_step(path: Path) -> None:
    """A viewer gets each record with the step that it was compared with."""
    seen: list[tuple[int, tuple[str, ...]]] = []
    replay(path, check_table=False, reducer=toy.step, each=lambda record, step: seen.append((record.seq, step.taken)))
    assert [seq for seq, _ in seen] == list(range(1, len(toy.EVENTS) + 1))
    assert seen[7][1] == ("no_model",)


def test_a_torn_tail_replays_up_to_it(path: Path) -> None:
    """What was whole replays; the torn line is reported, with its place."""
    whole = path.read_bytes()
    path.write_bytes(whole[:-400])
    replayed = again(path)
    assert replayed.divergence is None
    assert replayed.tail is not None
    assert (replayed.tail.torn, replayed.tail.end) == (True, None)
    assert replayed.steps == replayed.tail.records < len(toy.EVENTS)


def test_damage_behind_until_is_not_met(path: Path) -> None:
    """Damage stops a whole replay by its number, but not one that ends before it."""
    lines = path.read_bytes().splitlines(keepends=True)
    lines[6] = lines[6].replace(b"tool_started", b"tool_stArted")
    path.write_bytes(b"".join(lines))
    assert again(path, until=5).steps == 5
    with pytest.raises(LogDamaged) as caught:
        again(path)
    assert caught.value.seq == 6


def test_a_difference_is_told_before_damage_behind_it(path: Path) -> None:
    """Lines are read ahead, and yet what is wrong first is told first."""
    lines = path.read_bytes().splitlines(keepends=True)
    lines[6] = lines[6].replace(b"tool_started", b"tool_stArted")
    path.write_bytes(b"".join(lines))

    def silent(state: LoopState, event: Event, config: LoopConfig) -> Step:
        return evolve(toy.step(state, event, config), effects=())

    first = found(path, silent)
    assert (first.seq, first.field) == (1, "effects[0]")


def test_another_table_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of another table is refused by one sentence with both digests, unless the check is off."""
    monkeypatch.setattr("fsm_agent.log.behaviour.table_digest", lambda: "u" * 64)
    with pytest.raises(TableChanged, match=r"log tttttttttttt, here uuuuuuuuuuuu"):
        replay(path, reducer=toy.step)
    assert again(path).divergence is None


def changed(event: str, change: Callable[[Step], Step]) -> Reducer:
    """The toy reducer with another answer to one kind of event."""

    def reducer(state: LoopState, happened: Event, config: LoopConfig) -> Step:
        result = toy.step(state, happened, config)
        return change(result) if type(happened).__name__ == event else result

    return reducer


def effects(change: Callable[[tuple[Effect, ...]], tuple[Effect, ...]]) -> Callable[[Step], Step]:
    return lambda step: evolve(step, effects=change(step.effects))


def _slower(given: tuple[Effect, ...]) -> tuple[Effect, ...]:
    return tuple(evolve(effect, delay_ms=2_000) if isinstance(effect, StartTimer) else effect for effect in given)


def _request(**fields: object) -> Callable[[tuple[Effect, ...]], tuple[Effect, ...]]:
    def change(given: tuple[Effect, ...]) -> tuple[Effect, ...]:
        assert isinstance(given[0], CallModel)
        return (evolve(given[0], request=evolve(given[0].request, **fields)),)

    return change


def _tool(**fields: object) -> Callable[[tuple[Effect, ...]], tuple[Effect, ...]]:
    def change(given: tuple[Effect, ...]) -> tuple[Effect, ...]:
        return tuple(evolve(effect, **fields) if isinstance(effect, RunTool) else effect for effect in given)

    return change


def _other_end(step: Step) -> Step:
    assert step.state.terminal is not None
    terminal = evolve(step.state.terminal, cause=Cause.SUBMIT)
    return evolve(step, state=evolve(step.state, data=evolve(step.state.data, terminal=terminal)))


@pytest.mark.parametrize(
    ("event", "change", "seq", "field"),
    [
        ("BlockCompleted", effects(_tool(input_json='{"p":2}')), 4, "effects[1].run_tool.input_json"),
        ("BlockCompleted", effects(_tool(id="r/tool-9")), 4, "effects[1].run_tool.id"),
        ("BlockCompleted", effects(_tool(traits=evolve(toy.READ, idempotent=True))), 4, "effects[1].run_tool.traits"),
        ("RunStarted", effects(_request(model="model-b")), 1, "effects[0].call_model.request.model"),
        ("RunStarted", effects(_request(head=b'{"system":"t"')), 1, "effects[0].call_model.request.head"),
        ("RunStarted", effects(_request(messages=())), 1, "effects[0].call_model.request.messages"),
        ("ToolFinished", effects(_slower), 7, "effects[1].start_timer.delay_ms"),
        ("ToolFinished", effects(lambda given: given[::-1]), 7, "effects[0]"),
        ("ToolFinished", effects(lambda given: given[:1]), 7, "effects[1]"),
        ("ToolFinished", effects(lambda given: (*given, Cancel("r/tool-2"))), 7, "effects[2]"),
        ("ToolFinished", effects(lambda given: (Cancel("r/tool-2"), given[1])), 7, "effects[0]"),
        ("ToolFinished", effects(lambda given: (Emit(Notice("other")), given[1])), 7, "effects[0].emit.notice.text"),
        ("ToolFinished", effects(lambda given: (Emit(Notice("done", "warning")), given[1])), 7, "effects[0].emit.notice.level"),
        ("StreamStarted", effects(lambda given: (Cancel("r/tool-2"),)), 2, "effects[0]"),
        ("TimerFired", lambda step: evolve(step, taken=("other",)), 9, "taken"),
        ("TimerFired", lambda step: evolve(step, taken=("ignored", "auto")), 9, "taken"),
        ("ModelSwitched", lambda step: evolve(step, rejected=None), 8, "rejected"),
        ("AbortRequested", _other_end, 11, "terminal"),
        (
            "AbortRequested",
            lambda step: evolve(step, state=evolve(step.state, data=evolve(step.state.data, messages=()))),
            11,
            "state",
        ),
    ],
)
def test_the_first_difference_is_named(path: Path, event: str, change: Callable[[Step], Step], seq: int, field: str) -> None:
    """Each kind of difference is caught at its record, and the first field that differs is named."""
    divergence = found(path, changed(event, change))
    assert (divergence.seq, divergence.field) == (seq, field)
    assert divergence.expected != divergence.got
    assert f"record {seq} (" in str(divergence)
    assert "\n" not in str(divergence)


def test_a_replay_stops_at_the_difference(path: Path) -> None:
    """The state given is the last one that agreed, so both can be looked at."""
    replayed = again(path, changed("TimerFired", lambda step: evolve(step, taken=("other",))))
    assert (replayed.steps, replayed.tail) == (8, None)
    assert replayed.state == again(path, until=8).state


def test_a_difference_is_told_before_an_error_behind_it(path: Path) -> None:
    """Steps are compared some at a time: what the reducer raises at a later one waits until its turn comes."""

    def broken(state: LoopState, event: Event, config: LoopConfig) -> Step:
        if type(event).__name__ == "TimerFired":
            raise ArithmeticError("no such step")
        return toy.step(state, event, config)

    def broken_and_changed(state: LoopState, event: Event, config: LoopConfig) -> Step:
        made = broken(state, event, config)
        return evolve(made, taken=("other",)) if type(event).__name__ == "ToolFinished" else made

    assert found(path, broken_and_changed).seq == 7
    assert again(path, broken, until=8) == again(path, until=8)
    with pytest.raises(ArithmeticError, match="no such step"):
        again(path, broken)


def test_each_record_is_a_place_to_stop_at(path: Path) -> None:
    """Wherever a replay stops, the state is the one that folding so many records one by one gives."""
    seen: list[Step] = []
    replay(path, check_table=False, reducer=toy.step, each=lambda _, step: seen.append(step))
    for seq in range(1, len(seen) + 1):
        stopped = again(path, until=seq)
        assert (stopped.seq, stopped.steps, stopped.state) == (seq, seq, seen[seq - 1].state)


def test_the_collector_is_as_it_was(path: Path) -> None:
    """A replay lets it rest, and leaves it on, or off, with nothing put out of its reach."""
    for runs in (True, False):
        gc.enable() if runs else gc.disable()
        try:
            again(path)
            assert gc.isenabled() is runs
            assert gc.get_freeze_count() == 0
        finally:
            gc.enable()


def test_another_configuration_shows_where_it_matters(path: Path) -> None:
    """Under another configuration the first step that goes differently is named."""
    config = evolve(toy.CONFIG, model="model-c")
    divergence = replay(path, check_table=False, reducer=toy.step, config=config).divergence
    assert divergence is not None
    assert (divergence.seq, divergence.field) == (1, "effects[0].call_model.request.model")
    assert divergence.got == "'model-c'"


def test_state_digests_catch_what_no_effect_shows(tmp_path: Path) -> None:
    """A state that drifts apart silently is caught at the next state digest, before the end of the log."""
    path = tmp_path / "long.log"
    middle = toy.EVENTS[8:9] * (digest.STATE_EVERY + 5)
    toy.write(path, (toy.EVENTS[0], *middle))
    assert [record.seq for record in read_log(path).records() if record.state] == [digest.STATE_EVERY]

    def forgetful(step: Step) -> Step:
        return evolve(step, state=evolve(step.state, data=evolve(step.state.data, messages=())))

    assert again(path).divergence is None
    divergence = found(path, changed("RunStarted", forgetful))
    assert (divergence.seq, divergence.field) == (digest.STATE_EVERY, "state")


def test_an_empty_log_replays_to_its_initial_state(tmp_path: Path) -> None:
    """A run that died before its first event replays to the state that its header holds."""
    path = tmp_path / "run.log"
    state = initial(toy.CONFIG, toy.EVENTS[0].messages if isinstance(toy.EVENTS[0], RunStarted) else ())
    Journal.create(path, toy.CONFIG, state, "s", "r", table=toy.TABLE).release()
    replayed = again(path)
    assert (replayed.state, replayed.steps, replayed.divergence) == (state, 0, None)


def test_refusals_are_compared_word_by_word(path: Path) -> None:
    """A refusal with other words is a difference, since the words are part of the step."""

    def reword(step: Step) -> Step:
        assert isinstance(step.rejected, Rejection)
        return evolve(step, rejected=evolve(step.rejected, because="other words"))

    divergence = found(path, changed("ModelSwitched", reword))
    assert divergence.field == "rejected"
    assert "no model was named" in divergence.expected
    assert "other words" in divergence.got
