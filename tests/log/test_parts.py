"""A log replayed in parts at once says what a replay of the whole says, whatever is wrong with it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fsm_agent.core.state import initial
from fsm_agent.log import journal as journal_module
from fsm_agent.log import parts as parts_module
from fsm_agent.log.errors import LogError
from fsm_agent.log.framing import seal, stated_chain
from fsm_agent.log.parts import replay_in_parts
from fsm_agent.log.reader import read_log
from fsm_agent.log.replay import Replayed, replay
from fsm_agent.scenario.drive import drive
from fsm_agent.scenario.loading import catalog, load

from .test_real_runs import write

NAMES = list(catalog())


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """States are stored with each record that has a digest of its state, and the smallest log is large."""
    monkeypatch.setattr(journal_module, "SNAPSHOT_BYTES", 1)
    monkeypatch.setattr(journal_module, "SNAPSHOT_SHARE", 0)
    monkeypatch.setattr(journal_module, "STATE_EVERY", 4)
    monkeypatch.setattr(parts_module, "LARGE", 0)


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Count the logs that were parted, and say of each whether its parts agreed."""
    found: list[bool] = []
    original = parts_module._together

    def counted(log: object, cuts: object) -> Replayed | None:
        made = original(log, cuts)  # type: ignore[arg-type]
        found.append(made is not None)
        return made

    monkeypatch.setattr(parts_module, "_together", counted)
    return found


def recorded(name: str, folder: Path) -> Path:
    scenario = load(name)
    path = folder / "run.log"
    write(path, drive(scenario), scenario.config, initial(scenario.config))
    return path


def outcome(path: Path, jobs: int) -> object:
    """Give all that a replay says."""
    try:
        found = replay(path) if jobs == 1 else replay_in_parts(path, jobs)
    except LogError as error:
        return type(error), str(error)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_parts_agree_where_the_whole_does(name: str, tmp_path: Path) -> None:
    """State, number of records, end and chain are those of one fold; so with two and with three parts."""
    path = recorded(name, tmp_path)
    whole = outcome(path, 1)
    assert isinstance(whole, Replayed)
    assert whole.divergence is None
    assert outcome(path, 2) == whole
    assert outcome(path, 3) == whole


def test_logs_are_parted(tmp_path: Path, together: list[bool]) -> None:
    """What the other tests compare are parts: most logs of the catalog have some."""
    for name in NAMES:
        (tmp_path / name).mkdir()
        replay_in_parts(recorded(name, tmp_path / name), 2)
    assert len(together) > len(NAMES) // 2
    assert all(together)


@pytest.fixture
def log(tmp_path: Path, together: list[bool]) -> Path:
    """A log that is parted."""
    for name in sorted(NAMES, key=lambda name: -len(drive(load(name)).steps)):
        path = recorded(name, tmp_path)
        replay_in_parts(path, 2)
        if together:
            together.clear()
            return path
    pytest.fail("no log was parted")


def test_each_damage_is_told_alike(log: Path, together: list[bool]) -> None:
    """A changed byte in each line, each line missing, each line twice, each end cut off: one fold and two say the same."""
    raw = log.read_bytes()
    lines = raw.splitlines(keepends=True)
    damages = []
    for number, line in enumerate(lines):
        place = len(line) // 2
        changed = line[:place] + bytes([line[place] ^ 1]) + line[place + 1 :]
        damages += [
            [*lines[:number], changed, *lines[number + 1 :]],
            [*lines[:number], *lines[number + 1 :]],
            [*lines[:number], line, *lines[number:]],
            [*lines, line],
            [*lines[:number], line[:place]],
        ]
    for damage in damages:
        log.write_bytes(b"".join(damage))
        assert outcome(log, 2) == outcome(log, 1)
    assert together, "damage kept every log from being parted"


def resealed(lines: list[bytes], number: int, change: tuple[bytes, bytes], salt: bytes) -> list[bytes]:
    """Change one line and frame it and all behind it anew, so that only a replay notices."""
    made = lines[:number]
    for place, line in enumerate(lines[number:], number):
        at, _, rest = line[line.find(b'"at":') + 5 :].partition(b",")
        core = rest[: -len(b',"chain":"' + b"0" * 64 + b'"}\n')]
        if place == number:
            core = core.replace(*change)
        made.append(seal(core, int(at), stated_chain(made[-1]), salt)[0])
    return made


def test_each_divergence_is_told_alike(log: Path, together: list[bool]) -> None:
    """A row renamed in each record, all checksums right: the same first difference is named."""
    lines = log.read_bytes().splitlines(keepends=True)
    salt = read_log(log).header.salt.encode()
    diverged = 0
    for number in range(1, len(lines)):
        found = re.search(rb'"taken":\["(\w+)"', lines[number])
        if found is None:
            continue
        log.write_bytes(b"".join(resealed(lines, number, (found[0], b'"taken":["x_%b"' % found[1]), salt)))
        alone = outcome(log, 1)
        assert isinstance(alone, Replayed)
        assert alone.divergence is not None
        assert alone.divergence.seq == number
        assert outcome(log, 2) == alone
        diverged += 1
    assert diverged > 4
    assert together == [False] * diverged


def test_a_stored_state_that_lies_is_noticed(log: Path, together: list[bool]) -> None:
    """A record that points to another state than its own: the parts do not agree, the whole does not need it."""
    lines = log.read_bytes().splitlines(keepends=True)
    stored = [number for number, line in enumerate(lines) if b',"snapshot":"' in line]
    first, *others = [json.loads(lines[number])["snapshot"].encode() for number in stored]
    salt = read_log(log).header.salt.encode()
    for number, name in zip(stored[1:], others, strict=True):
        log.write_bytes(b"".join(resealed(lines, number, (name, first), salt)))
        assert outcome(log, 2) == outcome(log, 1)
    assert False in together


def test_a_program_with_threads_is_not_forked(log: Path, together: list[bool]) -> None:
    """A process with several threads cannot part safely."""
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait)
    thread.start()
    try:
        assert outcome(log, 2) == outcome(log, 1)
    finally:
        ended.set()
        thread.join()
    assert together == []


def test_no_process_is_left(log: Path, together: list[bool]) -> None:
    """Who waits for any child finds none of a replay."""
    replay_in_parts(log, 2)
    assert together == [True]
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_as_a_process(log: Path) -> None:
    """Nothing of a part is left behind: one line, one exit."""
    words = (
        "import sys\nfrom fsm_agent.log import parts\nparts.LARGE = 0\n"
        "import atexit; atexit.register(print, 'end')\n"
        "print(parts.replay_in_parts(sys.argv[1], 2).steps)"
    )
    done = subprocess.run([sys.executable, "-c", words, str(log)], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == [str(replay(log).steps), "end"]
    assert done.stderr == ""
