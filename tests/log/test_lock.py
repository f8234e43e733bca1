"""One process writes a log (field report 115): refusal with the holder's pid, takeover, places that cannot be written."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fsm_agent.core.events import TimerFired
from fsm_agent.core.state import Step, initial
from fsm_agent.log import lock
from fsm_agent.log.errors import LogError, LogLocked
from fsm_agent.log.journal import Journal
from fsm_agent.log.lock import Owner, note_of
from fsm_agent.log.reader import read_log
from fsm_agent.log.resume import Standing, check_free, reopen, stand

from . import toy

HOLD = """
import sys
from tests.log.test_lock import standing_of
from fsm_agent.log.resume import reopen
journal = reopen(standing_of(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def standing_of(path: str | Path) -> Standing:
    return stand(path, reducer=toy.step, check_table=False)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    toy.write(tmp_path / "run.log", toy.EVENTS[:4], close=False)
    return tmp_path / "run.log"


@pytest.fixture
def holder(log: Path) -> Iterator[subprocess.Popen[str]]:
    """A real process that has the log open for writing."""
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", HOLD, str(log)]
    process = subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()
    assert process.stdin is not None
    process.stdin.close()


def grow(log: Path) -> None:
    """Resume the log and append one record."""
    journal = reopen(standing_of(log))
    state = standing_of(log).state
    journal.append(toy.EVENTS[4], toy.step(state, toy.EVENTS[4], toy.CONFIG), sync=True)
    journal.release()


def test_second_process_is_refused_by_pid(log: Path, holder: subprocess.Popen[str]) -> None:
    """Who comes second is told which process writes; the log is not touched, and can still be read."""
    before = log.read_bytes()
    with pytest.raises(LogLocked, match=f"process {holder.pid} is writing this log") as caught:
        reopen(standing_of(log))
    assert caught.value.pid == holder.pid
    with pytest.raises(LogLocked):
        check_free(log)
    assert log.read_bytes() == before
    assert read_log(log).tail.records == 4


def test_lock_of_a_killed_process_is_taken_over(log: Path, holder: subprocess.Popen[str]) -> None:
    """When the holder is killed its note stays behind, and the next one takes over."""
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert note_of(log).exists()
    grow(log)
    assert read_log(log).tail.records == 5
    assert not note_of(log).exists()


def test_two_in_one_process_are_refused_too(log: Path) -> None:
    """Two runs of one process cannot write one log either."""
    journal = reopen(standing_of(log))
    with pytest.raises(LogLocked, match=f"process {os.getpid()}"):
        reopen(standing_of(log))
    journal.release()
    grow(log)


def test_what_the_first_wrote_is_not_overwritten(log: Path) -> None:
    """Two processes fold a log, one goes on, and the other, which knows the old state only, is refused."""
    old = standing_of(log)
    grow(log)
    with pytest.raises(LogError, match="another process wrote to this log since it was read"):
        reopen(old)
    assert read_log(log).tail.records == 5


def test_reused_pid_holds_nothing(log: Path) -> None:
    """A note with the id of a process that lives, but started at another time, is that of a dead holder."""
    here = Owner.here()
    assert here.alive
    for owner in (Owner(here.pid, "1", here.boot), Owner(here.pid, here.started, "another boot"), Owner(2**22 + 1)):
        assert not owner.alive
        note_of(log).write_text(json.dumps({"pid": owner.pid, "started": owner.started, "boot": owner.boot}))
        grow_and_cut_back(log)


def grow_and_cut_back(log: Path) -> None:
    before = log.read_bytes()
    grow(log)
    log.write_bytes(before)


@pytest.mark.parametrize("note", ["", "{", "[]", '{"pid": "x"}', '{"started": 1}', "\x00"])
def test_a_spoiled_note_locks_nothing(log: Path, note: str) -> None:
    """The note is for people: whatever is in it, a free log can be written."""
    note_of(log).write_text(note)
    grow(log)


@pytest.mark.parametrize("what", ["a pipe", "a folder", "no end", "nested"])
def test_what_stands_in_the_place_of_a_note_is_not_waited_for(log: Path, what: str) -> None:
    """A pipe that nobody reads, a device that never ends: the lock is taken, and refused, without it."""
    note = note_of(log)
    if what == "a pipe":
        os.mkfifo(note)
    elif what == "a folder":
        note.mkdir()
    elif what == "no end":
        note.symlink_to("/dev/zero")
    else:
        note.write_text("[" * 100_000)
    grow(log)
    journal = reopen(standing_of(log))
    with pytest.raises(LogLocked):
        reopen(standing_of(log))
    journal.release()


@contextlib.contextmanager
def full_disk() -> Iterator[None]:
    """Let no file of this process grow."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("kernel", [True, False])
def test_a_full_disk_leaves_no_empty_note(log: Path, tmp_path: Path, request: pytest.FixtureRequest, *, kernel: bool) -> None:
    """A note that could not be written is not left behind, and neither is a log that could not be begun."""
    standing = standing_of(log)
    if not kernel:
        request.getfixturevalue("no_kernel_locks")
    with full_disk():
        if kernel:
            reopen(standing).release()
        else:
            with pytest.raises(OSError, match="large"):
                reopen(standing)
        with pytest.raises(OSError, match="large"):
            Journal.create(tmp_path / "new.log", toy.CONFIG, initial(toy.CONFIG), "session", "r")
    assert [path.name for path in tmp_path.iterdir()] == [log.name]


@pytest.fixture
def no_kernel_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that knows no locks."""

    def flock(descriptor: int, operation: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(lock.fcntl, "flock", flock)


@pytest.mark.usefixtures("no_kernel_locks")
def test_without_kernel_locks_the_note_is_the_lock(log: Path) -> None:
    """Where the file system has no locks, a live owner refuses the second one, and a dead or reused one is taken over."""
    journal = reopen(standing_of(log))
    with pytest.raises(LogLocked, match=f"process {os.getpid()}"):
        reopen(standing_of(log))
    journal.release()
    assert not note_of(log).exists()
    for owner in (Owner(2**22 + 1), Owner(os.getpid(), "1")):
        note_of(log).write_text(json.dumps({"pid": owner.pid, "started": owner.started}))
        grow_and_cut_back(log)


def test_read_only_folder(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no note can be made the lock holds all the same, and the kernel knows the holder."""
    monkeypatch.setattr(lock, "_write_note", lambda note: False)
    journal = reopen(standing_of(log))
    with pytest.raises(LogLocked) as caught:
        reopen(standing_of(log))
    assert caught.value.pid in (os.getpid(), 0)
    journal.release()


def test_a_log_that_may_not_be_written_is_loud(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without permission the resume fails at once, with the file's name; nothing runs in memory only."""
    real = os.open

    def refuse(path: Any, flags: int, mode: int = 0o777) -> int:
        if Path(path) == log and flags & (os.O_RDWR | os.O_WRONLY):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path, flags, mode)

    standing = standing_of(log)
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(PermissionError, match=r"run\.log"):
        reopen(standing)
    with pytest.raises(PermissionError, match=r"run\.log"):
        check_free(log)


def test_the_lock_is_on_the_file_itself(log: Path) -> None:
    """Any other program that respects locks is kept out while the log is open, and let in when it is closed."""
    journal = reopen(standing_of(log))
    with log.open("a") as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    journal.append(TimerFired("r/timer-9"), Step(initial(toy.CONFIG), (), ("ignored",)), sync=False)
    journal.release()
    check_free(log)
