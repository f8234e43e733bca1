"""Every prefix of a log resumes: that before the first record too, of a fork as well, and nothing is passed over in silence."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from fsm_agent.core.events import EffectLost
from fsm_agent.laws import Edge, edge_law
from fsm_agent.log.fork import fork
from fsm_agent.scenario import load
from fsm_agent.scenario.drive import drive
from fsm_agent.scenario.playing import first_state
from fsm_agent.testing import every_prefix_resumes
from fsm_agent.testing.crash_files import write_log
from fsm_agent.testing.resuming import faults_of_prefixes


def _log(path: Path, count: int | None = None) -> Path:
    """Write the first records of a run."""
    scenario = load("next-turn")
    steps = drive(scenario).steps
    write_log(path, first_state(scenario), steps[:count], scenario.config)
    return path


@edge_law()
def nothing_is_lost(edge: Edge) -> str:
    """A law that every resume with something in flight breaks."""
    return "something was lost" if isinstance(edge.event, EffectLost) else ""


def test_a_whole_run(tmp_path: Path) -> None:
    """The first state has nothing in flight; the one behind the first record has."""
    log = _log(tmp_path / "run.jsonl")
    every_prefix_resumes(log)
    assert faults_of_prefixes(log, (nothing_is_lost,)).startswith("resumed behind record 1: nothing_is_lost: ")


def test_a_fork_begins_where_something_is_in_flight(tmp_path: Path) -> None:
    """Its beginning is judged, although it has no record of its own."""
    forked = fork(_log(tmp_path / "run.jsonl"), 3, tmp_path / "fork.jsonl")
    every_prefix_resumes(forked)
    assert faults_of_prefixes(forked, (nothing_is_lost,)).startswith("resumed behind record 0: nothing_is_lost: ")


def test_nothing_to_judge(tmp_path: Path) -> None:
    """A log that begins at rest and has no record shows nothing, and says so; so does the fork of a run's end."""
    ended = fork(_log(tmp_path / "run.jsonl"), None, tmp_path / "fork.jsonl")
    for empty in (_log(tmp_path / "empty.jsonl", 0), ended):
        with pytest.raises(ValueError, match=r"has no record, and begins at rest .*: there is nothing to resume"):
            every_prefix_resumes(empty)


def test_a_log_that_does_not_fold_back(tmp_path: Path) -> None:
    """What stands behind a difference is not judged, and not passed over either."""
    scenario = load("next-turn")
    steps = list(drive(scenario).steps)
    steps[3] = (steps[3][0], evolve(steps[3][1], taken=("stream_failed",)))
    write_log(tmp_path / "run.jsonl", first_state(scenario), steps, scenario.config)
    with pytest.raises(AssertionError, match=r"the log does not fold back into its run: .*record 4"):
        every_prefix_resumes(tmp_path / "run.jsonl")
