"""The version of the reducer: pinned to what it does, written into each log, asked for before one is gone on with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from fsm_agent.cli.main import run as run_command
from fsm_agent.core.behaviour import REDUCER
from fsm_agent.core.state import initial
from fsm_agent.log.errors import BehaviourChanged, ReducerChanged
from fsm_agent.log.fork import fork
from fsm_agent.log.journal import Journal
from fsm_agent.log.reader import read_log
from fsm_agent.log.replay import replay
from fsm_agent.log.resume import stand
from fsm_agent.scenario import load
from fsm_agent.scenario.drive import drive

from .pin_behaviour import ADVICE, Story, changed, pinned, present, story_of


def test_a_change_of_behaviour_raises_the_version() -> None:
    """For the same events the reducer gives what it gave when its version was pinned."""
    version, before = pinned()
    if version != REDUCER:
        pytest.fail("run python -m tests.log.pin_behaviour: the version was raised")
    now = present()
    assert changed(before, now) == {}, ADVICE
    assert {name: story.text for name, story in now.items()} == {name: story.text for name, story in before.items()}, (
        "the scenarios changed, the reducer did not: run python -m tests.log.pin_behaviour"
    )


def test_the_pin_tells_the_reducer_from_its_world() -> None:
    """Another outcome of one event is the reducer's, another event is the scenario's; the advice says what to do."""
    story = story_of("aaaaaa 111111222222 333333444444")
    assert story == Story("aaaaaa", (("111111", "222222"), ("333333", "444444")))
    assert story_of(story.text) == story
    other = {"x": Story("aaaaaa", (("111111", "222222"), ("333333", "555555")))}
    assert changed({"x": story}, other) == {"x": 2}
    assert changed({"x": story}, {"x": Story("aaaaaa", (("111111", "222222"), ("777777", "555555")))}) == {}
    assert changed({"x": story}, {"x": evolve(other["x"], head="bbbbbb")}) == {}
    assert "raise REDUCER" in ADVICE


def written(folder: Path) -> Path:
    """The log of a run that was cut off behind its fifth record."""
    scenario = load("next-turn")
    path = folder / "run.jsonl"
    journal = Journal.create(path, scenario.config, initial(scenario.config), "session", "run")
    for event, made in drive(scenario).steps[:5]:
        journal.append(event, made, sync=False)
    journal.release()
    return path


@pytest.fixture
def upgraded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A log, and a package whose reducer is one version further."""
    path = written(tmp_path)
    monkeypatch.setattr("fsm_agent.log.behaviour.REDUCER", REDUCER + 1)
    monkeypatch.setattr("fsm_agent.log.journal.REDUCER", REDUCER + 1)
    return path


def test_a_log_says_its_reducer(tmp_path: Path) -> None:
    """A log is of the version that wrote it."""
    assert read_log(written(tmp_path)).header.reducer == REDUCER


def test_logs_without_a_version_are_of_the_first() -> None:
    """The logs of format 1.0 did not say it."""
    old = sorted((Path(__file__).parent / "v1").glob("*.log"))
    assert {read_log(path).header.reducer for path in old if read_log(path).header.minor == 0} == {1}


def test_a_log_of_another_reducer_is_refused(upgraded: Path) -> None:
    """It is neither replayed nor gone on with, in words that say what happened; with the check off it is compared."""
    with pytest.raises(ReducerChanged, match=rf"version {REDUCER} of the reducer, here is version {REDUCER + 1}"):
        replay(upgraded)
    with pytest.raises(BehaviourChanged):
        stand(upgraded)
    assert replay(upgraded, check_table=False).divergence is None


def test_a_fork_goes_on_under_the_present_reducer(upgraded: Path) -> None:
    """A log that folds back into its run is forked, and the fork needs the old reducer no more."""
    place = fork(upgraded, None, upgraded.with_name("fork.jsonl"))
    upgraded.unlink()
    assert read_log(place).header.reducer == REDUCER + 1
    assert stand(place).state.control.run.id == "run"


def test_the_commands_say_what_to_do(upgraded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``resume`` tells of the fork, ``replay`` of its switch, ``show`` that effects are only named."""

    def run(*arguments: str) -> tuple[int, str]:
        code = run_command(list(arguments))
        said = capsys.readouterr()
        return code, said.out + said.err

    code, said = run("resume", str(upgraded))
    assert (code, f"fsm-agent fork {upgraded}" in said) == (3, True)
    code, said = run("replay", str(upgraded))
    assert (code, "--any-table" in said) == (3, True)
    assert run("replay", str(upgraded), "--any-table")[0] == 0
    assert "of the reducer" in run("show", str(upgraded), "--step", "1")[1]
