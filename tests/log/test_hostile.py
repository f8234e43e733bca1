"""Logs that somebody made up: whatever a line says, it is read, or is damage that is named; nothing else is raised."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

import pytest

from fsm_agent.log.blobs import folder_of
from fsm_agent.log.errors import LogDamaged, LogUnreadable
from fsm_agent.log.reader import read_log
from fsm_agent.log.repair import repair
from fsm_agent.log.replay import replay

from . import toy
from .forging import WRONG_HEADERS, WRONG_RECORDS, WRONG_TIMES, Edit, forge, put


@pytest.fixture
def log(tmp_path: Path) -> Path:
    toy.write(tmp_path / "run.jsonl")
    return tmp_path / "run.jsonl"


def read_whole(path: Path) -> None:
    for _ in read_log(path).records():
        pass


def fold(path: Path) -> None:
    replay(path, check_table=False, reducer=toy.step)


def expect_damage(path: Path, line: int) -> None:
    """Who reads the records and who replays them is told of the same damage."""
    for use in (read_whole, fold):
        with pytest.raises(LogDamaged) as caught:
            use(path)
        assert caught.value.seq == line
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 700


@pytest.mark.parametrize("text", WRONG_TIMES, ids=range(len(WRONG_TIMES)))
@pytest.mark.parametrize("line", [0, 3, 11])
def test_a_time_is_a_whole_number_of_milliseconds(log: Path, line: int, text: str) -> None:
    """In the header, a record and the end; a text, nothing, a fraction, a negative and an endless number are none."""
    expect_damage(forge(log, log.with_name("x.jsonl"), times={line: text}), line)


@pytest.mark.parametrize("text", ["0", "1", str(10**15), str(2**53 - 1)])
def test_every_time_below_the_bound_is_one(log: Path, text: str) -> None:
    """The bound is that of the numbers which every reader of JSON has exactly."""
    path = forge(log, log.with_name("x.jsonl"), times=dict.fromkeys(range(12), text))
    assert {record.at for record in read_log(path).records()} == {int(text)}
    assert replay(path, check_table=False, reducer=toy.step).divergence is None


@pytest.mark.parametrize("name", WRONG_HEADERS)
def test_a_header_that_is_none(log: Path, name: str) -> None:
    """It is damage of the header."""
    expect_damage(forge(log, log.with_name("x.jsonl"), {0: WRONG_HEADERS[name]}), 0)


@pytest.mark.parametrize("name", WRONG_RECORDS)
def test_a_record_that_is_none(log: Path, name: str) -> None:
    """It is damage of that record, and a repair takes it out."""
    path = forge(log, log.with_name("x.jsonl"), {3: WRONG_RECORDS[name]})
    expect_damage(path, 3)
    assert [lost.seq for lost in repair(path).lost] == [3]
    read_whole(path)


@pytest.mark.parametrize("edit", [put(end=[]), put(end={}), put(end={"terminal": {}, "state": ""}), put(seq=1e999)])
def test_an_end_that_is_none(log: Path, edit: Edit) -> None:
    """So is the closing line, and one whose number is endless."""
    path = forge(log, log.with_name("x.jsonl"), {11: edit})
    expect_damage(path, 11)
    repair(path)
    read_whole(path)


def test_a_blob_that_is_no_text(log: Path) -> None:
    """A record that refers to bytes where a text belongs is damaged."""
    name = sha256(b"\xff\xfe").hexdigest()
    path = forge(log, log.with_name("x.jsonl"), {3: put(effects={"blob": name}, blobs=[name])})
    folder_of(path).mkdir()
    (folder_of(path) / name).write_bytes(b"\xff\xfe")
    expect_damage(path, 3)


def test_what_is_no_file_is_not_waited_for(log: Path, tmp_path: Path) -> None:
    """A pipe that nobody writes into would be waited for without end, as a log and as the parent of one."""
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero")):
        with pytest.raises(LogUnreadable, match="a pipe or a device"):
            read_log(path)
