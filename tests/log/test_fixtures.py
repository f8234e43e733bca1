"""Logs of every format version ever released stay readable.

If one of these tests fails, a change of the contract would make users' logs unreadable, or change what they say: give
the new field a default, keep the old default, keep the old field. Only while a version is not released may its
fixtures be written anew, by ``make_fixtures``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fsm_agent.core.state import LoopState
from fsm_agent.log import codec
from fsm_agent.log.behaviour import foreign
from fsm_agent.log.codec import EVENTS, FULL, SPARSE, decode_event, decode_state
from fsm_agent.log.format import MAJOR, Header
from fsm_agent.log.reader import read_log
from fsm_agent.log.replay import replay

HERE = Path(__file__).parent
LOGS = sorted(HERE.glob("v*/*.log"))


def within(old: Any, new: Any) -> bool:
    """Say whether everything that ``old`` says is said by ``new``, which may say more."""
    if isinstance(old, dict) and isinstance(new, dict):
        return all(key in new and within(value, new[key]) for key, value in old.items())
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(within(*pair) for pair in zip(old, new, strict=True))
    return bool(old == new and type(old) is type(new))


@pytest.mark.parametrize("path", LOGS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_an_old_log_reads_back_as_it_was_written(path: Path) -> None:
    """Everything that the header and the events of an old log say is still there after they were read."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    log = read_log(path)
    header = json.loads(codec.SNAPSHOT.record(Header)(log.header))
    assert within({key: part for key, part in lines[0].items() if key not in ("crc", "at", "chain")}, header)
    encoders = SPARSE.choice(EVENTS)
    count = 0
    for record, line in zip(log.records(), lines[1:], strict=False):
        assert within(line["event"], json.loads(encoders[type(record.event)](record.event)))
        assert list(record.taken) == line.get("taken", [])
        assert record.effects == line.get("effects", "")
        count += 1
    assert count == len(lines) - 1 - ("end" in lines[-1])
    assert (log.tail.end is None) is ("end" not in lines[-1])
    assert not log.tail.torn


def agree(old: Any, new: Any) -> bool:
    """Say whether two texts of a state agree in the fields that both have: its inner records may lose and gain some."""
    if isinstance(old, dict) and isinstance(new, dict):
        return all(agree(old[key], new[key]) for key in old.keys() & new.keys())
    return bool(old == new)


@pytest.mark.parametrize("path", sorted(HERE.glob("v*/defaults.json")), ids=lambda path: path.parent.name)
def test_what_an_old_log_leaves_out_means_what_it_meant(path: Path) -> None:
    """A field that an old text leaves out has the default that it had when the text was written."""
    for text, meant in json.loads(path.read_text(encoding="utf-8")).items():
        if "is" in meant:
            event = decode_event(text)
            assert within(meant, json.loads(FULL.tagged(type(event))(event))), text
        else:
            assert agree(meant, json.loads(FULL.record(LoopState)(decode_state(text)))), text


def test_the_fixtures_hold_every_kind_of_event() -> None:
    """The fixture of the present version holds every event; a new kind needs a new fixture beside the old ones."""
    names = [path for path in LOGS if path.parent.name == f"v{MAJOR}" and path.stem.startswith("every-kind")]
    seen = {type(record.event) for path in names for record in read_log(path).records()}
    assert seen == set(codec.EVENTS)


def test_recorded_runs_replay_under_their_reducer() -> None:
    """Each fixture of a real run that was written by the present reducer replays without a difference."""
    for path in LOGS:
        if path.stem.startswith("run-") and not foreign(read_log(path).header):
            assert replay(path).divergence is None, path.name
