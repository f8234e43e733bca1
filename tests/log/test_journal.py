"""The writer: private files, write-ahead records, loud failures that leave a whole log behind."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fsm_agent.core.events import ModelSwitched, TimerFired
from fsm_agent.core.state import Step, initial
from fsm_agent.log.errors import CodecError
from fsm_agent.log.format import End
from fsm_agent.log.journal import Journal
from fsm_agent.log.reader import read_log

from . import toy


def make(path: Path) -> Journal:
    return Journal.create(path, toy.CONFIG, initial(toy.CONFIG), "session-1", "r", table=toy.TABLE)


def test_file_and_new_directories_are_private(tmp_path: Path) -> None:
    """A log and the directories made for it are open to their owner only, whatever the umask lets through."""
    old = os.umask(0)
    try:
        journal = make(tmp_path / "a" / "b" / "run.log")
    finally:
        os.umask(old)
    journal.release()
    assert [oct(path.stat().st_mode & 0o777) for path in (tmp_path / "a", tmp_path / "a" / "b", journal.path)] == [
        "0o700",
        "0o700",
        "0o600",
    ]


def test_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
    """Creating a log over any existing file, even through a dangling link, fails and leaves it as it is."""
    path = tmp_path / "run.log"
    path.write_text("mine")
    (tmp_path / "link.log").symlink_to(tmp_path / "elsewhere.log")
    for place in (path, tmp_path / "link.log"):
        with pytest.raises(FileExistsError):
            make(place)
    assert path.read_text() == "mine"
    assert not (tmp_path / "elsewhere.log").exists()


def test_a_directory_that_is_a_file_is_told(tmp_path: Path) -> None:
    """A file where a directory should be is an ``OSError`` that names it."""
    (tmp_path / "a").write_text("")
    with pytest.raises(OSError, match="a"):
        make(tmp_path / "a" / "run.log")


def test_each_record_is_in_the_file_when_append_returns(tmp_path: Path) -> None:
    """A record, synced or not, can be read by others before its effects are performed."""
    journal = make(tmp_path / "run.log")
    state = initial(toy.CONFIG)
    for seq, sync in enumerate((False, True, False), start=1):
        event = TimerFired(f"r/timer-{seq}")
        journal.append(event, Step(state, (), ("row",)), sync=sync)
        assert [record.event for record in read_log(journal.path).records()][-1] == event
        assert journal.seq == seq
    journal.release()


def test_close_writes_the_terminal_once(tmp_path: Path) -> None:
    """Closing a finished run writes its terminal; closing again changes nothing; nothing can follow."""
    path = tmp_path / "run.log"
    state = toy.write(path)
    end = read_log(path).tail.end
    assert isinstance(end, End)
    assert end.terminal == state.terminal

    journal = make(tmp_path / "second.log")
    journal.close(state)
    size = journal.path.stat().st_size
    journal.close(state)
    assert journal.path.stat().st_size == size
    with pytest.raises(OSError, match="closed"):
        journal.append(TimerFired("r/timer-1"), Step(state), sync=False)


def test_closing_an_unfinished_run_writes_no_end(tmp_path: Path) -> None:
    """A run that did not reach its terminal has no closing record, so it can go on later."""
    journal = make(tmp_path / "run.log")
    journal.close(initial(toy.CONFIG))
    tail = read_log(journal.path).tail
    assert (tail.end, tail.torn, tail.records) == (None, False, 0)


def test_what_cannot_be_written_stops_the_journal(tmp_path: Path) -> None:
    """An event without a text is refused, and so is everything after it: the log never goes on behind a gap."""
    journal = make(tmp_path / "run.log")
    state = initial(toy.CONFIG)
    journal.append(TimerFired("r/timer-1"), Step(state), sync=False)
    with pytest.raises(CodecError):
        journal.append(ModelSwitched("\ud83d\ude00"), Step(state), sync=False)
    with pytest.raises(OSError, match="record 2 could not be written"):
        journal.append(TimerFired("r/timer-3"), Step(state), sync=False)
    journal.close(toy.write(tmp_path / "other.log"))
    tail = read_log(journal.path).tail
    assert (tail.records, tail.torn, tail.end) == (1, False, None)


def test_a_full_disk_is_loud_and_leaves_a_whole_log(tmp_path: Path) -> None:
    """When the file may not grow, append raises ``OSError``, the half-written record is taken back, nothing follows."""
    journal = make(tmp_path / "run.log")
    state = initial(toy.CONFIG)
    journal.append(TimerFired("r/timer-1"), Step(state), sync=False)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (journal.path.stat().st_size + 50, before[1]))
        with pytest.raises(OSError, match="large"):
            journal.append(TimerFired("r/timer-2"), Step(state), sync=False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    with pytest.raises(OSError, match="record 2"):
        journal.append(TimerFired("r/timer-3"), Step(state), sync=False)
    journal.close(state)
    tail = read_log(journal.path).tail
    assert (tail.records, tail.torn) == (1, False)


def test_two_recordings_of_one_run_differ_in_time_and_salt_only(tmp_path: Path) -> None:
    """What a log says of a run is the same in another process under another hash seed."""
    script = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[2]); from log import toy\n"
        "from fsm_agent.log.reader import read_log\n"
        "toy.write(Path(sys.argv[1]))\n"
        "log = read_log(sys.argv[1])\n"
        "print([(r.seq, r.event, r.taken, r.rejected, r.effects, r.sketch, r.state) for r in log.records()], log.tail.end)"
    )
    tests = str(Path(__file__).resolve().parents[1])
    said = set()
    for seed in ("1", "2"):
        command = [sys.executable, "-c", script, str(tmp_path / f"{seed}.log"), tests]
        run = subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True)
        said.add(run.stdout)
    assert len(said) == 1
