"""Logs of real runs: every scenario of the catalog, driven through the real reducer, replays to the very same run."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsm_agent.core.config import LoopConfig
from fsm_agent.core.state import LoopState, initial
from fsm_agent.core.step import next_run, step
from fsm_agent.log.codec import decode_event, decode_state, encode_event, encode_state
from fsm_agent.log.digest import effects_digest, sketch, state_digest
from fsm_agent.log.journal import Journal
from fsm_agent.log.reader import read_log
from fsm_agent.log.replay import replay
from fsm_agent.scenario.drive import Driven, drive
from fsm_agent.scenario.loading import catalog, load

NAMES = list(catalog())


def write(path: Path, driven: Driven, config: LoopConfig, state: LoopState) -> None:
    journal = Journal.create(path, config, state, "session", "run")
    for event, made in driven.steps:
        journal.append(event, made, sync=False)
    journal.close(driven.state)


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_scenario_replays_to_its_end(name: str, tmp_path: Path) -> None:
    """The log of each scenario, and of a second run that goes on from its end, folds back into the same run (I15)."""
    scenario = load(name)
    state = initial(scenario.config)
    for number in (1, 2):
        driven = drive(scenario, f"run{number}", state)
        path = tmp_path / f"{number}.log"
        write(path, driven, scenario.config, state)
        replayed = replay(path)
        assert replayed.divergence is None
        assert replayed.state == driven.state
        assert replayed.steps == len(driven.steps)
        assert replayed.tail is not None
        assert replayed.tail.end is None or replayed.tail.end.terminal == driven.state.terminal
        assert tuple(record.event for record in read_log(path).records()) == driven.events
        state = next_run(driven.state, scenario.config)


@pytest.mark.parametrize("name", NAMES)
def test_a_state_read_back_goes_on_like_the_one_written(name: str) -> None:
    """At every point of a run, state and event come back equal, and the step taken from them is the same (I14)."""
    scenario = load(name)
    state = initial(scenario.config)
    for event, made in drive(scenario).steps:
        again = decode_state(encode_state(state))
        assert again == state
        assert state_digest(again) == state_digest(state)
        happened = decode_event(encode_event(event))
        assert happened == event
        result = step(again, happened, scenario.config)
        assert result == made
        assert effects_digest(result.effects) == effects_digest(made.effects)
        assert sketch(result.effects) == sketch(made.effects)
        state = made.state


def test_a_changed_configuration_is_named(tmp_path: Path) -> None:
    """A log replayed under a smaller output limit differs first in the request of its first call."""
    scenario = load(NAMES[0])
    state = initial(scenario.config)
    path = tmp_path / "run.log"
    write(path, drive(scenario), scenario.config, state)
    config = LoopConfig(model=scenario.config.model, models=scenario.config.models, max_output_tokens=77)
    divergence = replay(path, config=config).divergence
    assert divergence is not None
    assert "call_model.request" in divergence.field
