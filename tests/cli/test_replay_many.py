"""``replay`` of several logs and of folders: a line for each, and what is wrong with one stops none of the others."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from fsm_agent.core.state import initial
from fsm_agent.log import replay_many
from fsm_agent.log.journal import Journal
from fsm_agent.log.replay_many import Verdict
from fsm_agent.scenario.drive import drive
from fsm_agent.scenario.loading import load

from .conftest import Cli, process


@pytest.fixture
def folder(home: Path) -> Path:
    """Two good logs, each in a folder of its own. No server runs, whose thread would keep processes from parting."""
    made = home / "kept"
    for number, name in enumerate(("hello", "retry")):
        scenario = load(name)
        driven = drive(scenario)
        (made / str(number)).mkdir(parents=True)
        path = made / str(number) / f"{name}.jsonl"
        journal = Journal.create(path, scenario.config, initial(scenario.config), "session", "run")
        for event, step in driven.steps:
            journal.append(event, step, sync=False)
        journal.close(driven.state)
    return made


def test_all_logs_of_a_folder_agree(cli: Cli, folder: Path) -> None:
    """Each log has its line; with one process or two the lines are the same."""
    alone, together = cli("replay", folder, "--jobs", 1), cli("replay", folder, "--jobs", 2)
    assert (alone.code, together.code) == (0, 0)
    lines = alone.out.splitlines()
    assert lines[:2] == together.out.splitlines()[:2]
    assert lines[0].startswith(f"{folder}/0/hello.jsonl: ")
    assert all(line.endswith("records agree") for line in lines[:2])
    assert lines[-1].startswith("2 of 2 logs agree, ")


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_is_wrong_is_told_and_stops_nothing(cli: Cli, folder: Path, jobs: int) -> None:
    """Damage is exit code 3; a file that is no log is passed over by name; a torn log agrees as far as it goes."""
    good = folder / "0" / "hello.jsonl"
    raw = good.read_bytes()
    (folder / "a-damaged.jsonl").write_bytes(raw.replace(b'"seq":3', b'"seq":4'))
    (folder / "b-foreign.jsonl").write_text('{"type":"user"}\n')
    shutil.copy(good, folder / "c-torn.jsonl")
    (folder / "c-torn.jsonl").write_bytes(raw[: raw.rindex(b"\n", 0, -1) + 20])
    said = cli("replay", folder, "--jobs", jobs)
    assert said.code == 3
    lines = said.out.splitlines()
    by_name = {line.partition(": ")[0].rpartition("/")[2]: line.partition(": ")[2] for line in lines[:-2]}
    assert by_name["a-damaged.jsonl"] == "record 3 is damaged: its checksum does not match"
    assert by_name["b-foreign.jsonl"] == "not replayed: this is not a log of fsm_agent"
    assert by_name["c-torn.jsonl"].endswith("; the last line is torn")
    assert by_name["hello.jsonl"].endswith("records agree")
    assert lines[-1].startswith("3 of 5 logs agree, ")
    assert lines[-1].endswith("; 1 does not; 1 was not replayed")


def test_what_is_for_one_log_is_refused_for_several(cli: Cli, folder: Path, tmp_path: Path) -> None:
    """Options about one log, a folder without logs, a log that is not there."""
    assert cli("replay", folder, "--until", 2).error == "--until, --config and --repair are for one log"
    (tmp_path / "empty").mkdir()
    said = cli("replay", tmp_path / "empty")
    assert (said.code, said.error) == (2, f"{tmp_path / 'empty'}: there is no log in this folder")
    said = cli("replay", folder / "0" / "hello.jsonl", folder / "nothing.jsonl")
    assert said.code == 3
    assert f"{folder / 'nothing.jsonl'}: cannot be read: No such file or directory" in said.out


def test_as_a_process(folder: Path, home: Path) -> None:
    """The processes part and end; nothing but the lines is on standard output."""
    child = process("replay", folder, "--jobs", "2", cwd=home)
    out, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (0, "")
    assert out.count("records agree") == 2


def test_a_process_that_dies_is_told(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log whose process is gone has a line that says so; the other ones have theirs."""
    original, program = replay_many._judge, os.getpid()

    def judge(path: Path, check_table: bool) -> Verdict:
        if path.name == "hello.jsonl" and os.getpid() != program:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(path, check_table)

    monkeypatch.setattr(replay_many, "_judge", judge)
    monkeypatch.setattr(replay_many, "can_fork", lambda: True)  # whatever threads other tests have left
    said = cli("replay", folder, "--jobs", 2)
    assert said.code == 3
    dead, well = said.out.splitlines()[:2]
    assert dead.endswith("hello.jsonl: the process that replayed it ended before it was done; was there memory enough?")
    assert well.endswith("records agree")
