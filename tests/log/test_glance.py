"""A glance at the end of a log sees what a reading of it would, as far as it looks."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsm_agent.core.state import initial
from fsm_agent.log import glance as glance_module
from fsm_agent.log.errors import LogDamaged
from fsm_agent.log.files import SyncPolicy
from fsm_agent.log.glance import Glance, ends_run, glance, last_terminal
from fsm_agent.log.journal import Journal
from fsm_agent.log.reader import read_log
from fsm_agent.log.repair import repair
from fsm_agent.scenario.drive import drive
from fsm_agent.scenario.loading import catalog, load

from . import toy
from .test_durable import BREAKS, other_lines


def seen(path: Path) -> tuple[int, bool]:
    """Give the number of the first damaged record and whether the tail is torn, as a whole reading finds them."""
    log = read_log(path)
    try:
        return 0, log.tail.torn
    except LogDamaged as error:
        return error.seq, False


def looked(found: Glance) -> tuple[int, bool]:
    """Give the same of a glance."""
    return (found.damage.seq, False) if found.damage is not None else (0, found.torn)


@pytest.mark.parametrize("at", range(1, 12))
@pytest.mark.parametrize("how", BREAKS)
def test_a_glance_at_a_short_log_sees_every_break(tmp_path: Path, how: str, at: int) -> None:
    """Of a log that is shorter than its window a glance sees what a reading does, before a repair and after it."""
    path = tmp_path / "run.log"
    toy.write(path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(BREAKS[how](lines, at, other_lines(tmp_path))))
    assert looked(glance(read_log(path))) == seen(path)
    lost = repair(path).lost
    found = glance(read_log(path))
    assert (looked(found), found.gap) == ((0, False), bool(lost))


@pytest.mark.slow
def test_a_glance_at_a_short_log_sees_every_changed_byte(tmp_path: Path) -> None:
    """Each byte behind the header is changed in turn: what the reader refuses, a glance refuses at the same record."""
    path = tmp_path / "run.log"
    toy.write(path)
    whole = path.read_bytes()
    for place in range(whole.index(b"\n") + 1, len(whole), 13):
        path.write_bytes(whole[:place] + bytes((whole[place] ^ 1,)) + whole[place + 1 :])
        assert looked(glance(read_log(path))) == seen(path), place
        path.write_bytes(whole[:place])
        assert looked(glance(read_log(path))) == seen(path), place


def test_a_glance_at_a_long_log_looks_at_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies before the window is not looked at; in it records are named by their own numbers."""
    path = tmp_path / "run.log"
    toy.write(path, (toy.EVENTS[0], *toy.EVENTS[3:4] * 60, *toy.EVENTS[-1:]))
    monkeypatch.setattr(glance_module, "WINDOW", 4_000)
    lines = path.read_bytes().splitlines(keepends=True)
    end = read_log(path).tail.end
    assert end is not None
    assert glance(read_log(path)) == Glance(end.terminal)
    for gone, number in ((5, 0), (len(lines) - 3, len(lines) - 3)):
        path.write_bytes(b"".join([*lines[:gone], *lines[gone + 1 :]]))
        found = glance(read_log(path))
        assert (0 if found.damage is None else found.damage.seq) == number


@pytest.mark.parametrize("name", list(catalog()))
def test_the_last_step_says_how_the_run_ended(tmp_path: Path, name: str) -> None:
    """Without its closing line a log says the same of the end; no step before the last one says that the run ended."""
    scenario = load(name)
    driven = drive(scenario)
    path = tmp_path / "run.log"
    state = initial(scenario.config)
    journal = Journal.create(path, scenario.config, state, "s", "run", policy=SyncPolicy.NEVER)
    for event, made in driven.steps:
        journal.append(event, made, sync=False)
    journal.release()
    told = [ends_run(record) for record in read_log(path).records()]
    ended = driven.state.terminal is not None
    assert any(told) is ended
    assert glance(read_log(path)).terminal == driven.state.terminal
    assert last_terminal(path) == driven.state.terminal
    assert sum(told) <= 1
