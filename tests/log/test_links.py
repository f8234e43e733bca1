"""A log that is opened through a link: what belongs to it is beside the log itself, and the link stays one."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsm_agent.core.state import initial
from fsm_agent.log.blobs import folder_of
from fsm_agent.log.errors import LogLocked
from fsm_agent.log.fork import fork
from fsm_agent.log.glance import continued
from fsm_agent.log.journal import Journal
from fsm_agent.log.lock import note_of
from fsm_agent.log.reader import read_log
from fsm_agent.log.repair import repair
from fsm_agent.log.replay import replay
from fsm_agent.log.resume import check_free, reopen, stand
from fsm_agent.scenario.drive import drive
from fsm_agent.scenario.loading import load

from . import toy
from .test_durable import big


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").mkdir()
    return tmp_path / "real" / "run.jsonl"


@pytest.fixture
def link(log: Path, tmp_path: Path) -> Path:
    """Give a link to a link to the log, in a folder of its own."""
    between = tmp_path / "link" / "between.jsonl"
    between.symlink_to("../real/run.jsonl")
    link = tmp_path / "link" / "run.jsonl"
    link.symlink_to("between.jsonl")
    return link


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_blobs_and_lock_are_beside_the_log(log: Path, link: Path) -> None:
    """A log is gone on with through a link, then read by both names; nothing new lies beside the link."""
    events = big(2)
    toy.write(log, events[:6], close=False)
    before = names(link.parent)
    standing = stand(link, reducer=toy.step, check_table=False)
    assert standing.path == log
    journal = reopen(standing)
    assert note_of(log).exists()
    with pytest.raises(LogLocked):
        check_free(link)
    made = toy.step(standing.state, events[6], toy.CONFIG)
    journal.append(events[6], made, sync=True)
    journal.release()
    assert names(link.parent) == before
    assert len(list(folder_of(log).iterdir())) == 1
    for path in (log, link):
        assert tuple(record.event for record in read_log(path).records()) == events[:7]


def test_blobs_are_found_through_a_link(log: Path, link: Path) -> None:
    """What a log holds beside it is there by both names."""
    toy.write(log, big(2))
    assert replay(link, check_table=False, reducer=toy.step).divergence is None


def test_a_torn_end_is_kept_beside_the_log(log: Path, link: Path) -> None:
    """It is cut off the log itself."""
    toy.write(log, toy.EVENTS[:4], close=False)
    log.write_bytes(log.read_bytes()[:-5])
    reopen(stand(link, reducer=toy.step, check_table=False)).release()
    assert names(log.parent) == ["run.jsonl", "run.jsonl.torn-1"]


def test_a_repair_mends_the_log_itself(log: Path, link: Path) -> None:
    """The link stays a link."""
    toy.write(log)
    log.write_bytes(log.read_bytes().replace(b"stream_started", b"stream_stArted", 1))
    kept = repair(link).kept
    assert kept is not None
    assert kept.parent == log.parent
    assert link.is_symlink()
    assert read_log(log).tail.records == len(toy.EVENTS)


def test_a_fork_continues_the_log_itself(log: Path, link: Path) -> None:
    """The link may go, and the fork still finds what it continues."""
    scenario = load("next-turn")
    journal = Journal.create(log, scenario.config, initial(scenario.config), "session", "run")
    for event, made in drive(scenario).steps:
        journal.append(event, made, sync=False)
    journal.release()
    place = fork(link, 2, link.with_name("fork.jsonl"))
    link.unlink()
    found = continued(read_log(place))
    assert found is not None
    assert found.log == log
    assert replay(place).divergence is None
