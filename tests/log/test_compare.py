"""``compare``: ids that mean nothing by themselves are no difference; everything else that two runs do differently is."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from fsm_agent.core.blocks import text_block
from fsm_agent.core.config import LoopConfig
from fsm_agent.core.events import RunStarted
from fsm_agent.core.messages import MessageKind, message
from fsm_agent.core.state import LoopState, initial
from fsm_agent.log.compare import compare
from fsm_agent.log.files import SyncPolicy
from fsm_agent.log.journal import Journal
from fsm_agent.log.names import Names
from fsm_agent.scenario.drive import drive
from fsm_agent.scenario.loading import catalog, load

RUN = "0123456789ab"


def write(path: Path, name: str, *, renames: dict[str, str] | None = None, run_id: str = RUN) -> Path:
    """Write the log of a scenario as it comes with another run id and other ids of the API.

    The reducer is asked anew, as it was when such a run was recorded, so that all that derives from an id derives from it.
    """
    from fsm_agent.core.step import step
    from fsm_agent.log.codec import decode_event, encode_event

    scenario = load(name)
    driven = drive(scenario)
    old = next((event.run_id for event, _ in driven.steps if isinstance(event, RunStarted)), "r")
    changes = {f'"{old}"': f'"{run_id}"', f'"{old}/': f'"{run_id}/', **(renames or {})}
    state = initial(scenario.config)
    journal = Journal.create(path, scenario.config, state, path.stem, run_id, policy=SyncPolicy.NEVER)
    for event, _ in driven.steps:
        text = encode_event(event)
        for before, after in changes.items():
            text = text.replace(before, after)
        made = step(state, decode_event(text), scenario.config)
        journal.append(decode_event(text), made, sync=False)
        state = made.state
    journal.close(state)
    return path


@pytest.mark.parametrize("name", list(catalog()))
def test_two_runs_of_one_scenario_agree(tmp_path: Path, name: str) -> None:
    """Whatever the run is called, and whatever the API calls its replies and calls, it is the same run."""
    first = write(tmp_path / "first.jsonl", name)
    ids = {"msg_": "msg_other_", "toolu_": "toolu_01Xy", "req_": "req_99"}
    second = write(tmp_path / "second.jsonl", name, renames=ids, run_id="ba9876543210")
    assert compare(first, second) is None
    assert compare(second, first) is None


def test_what_really_differs_is_named(tmp_path: Path) -> None:
    """Of two scenarios with different ids the first thing that differs is named, without the ids before it."""
    hello = write(tmp_path / "hello.jsonl", "hello")
    retry = write(tmp_path / "retry.jsonl", "retry", run_id="ba9876543210")
    found = compare(hello, retry)
    assert found is not None
    assert (found.seq, found.field, found.agreed) == (2, "event.is", 1)
    assert (found.first, found.second) == ('"stream_started"', '"stream_failed"')


def test_words_differ_though_ids_do_not_count(tmp_path: Path) -> None:
    """A changed word of a result is found behind ids that differ, and is what is shown."""
    first = write(tmp_path / "first.jsonl", "next-turn")
    ids = {"toolu_": "toolu_9", "two files": "ten files"}
    second = write(tmp_path / "second.jsonl", "next-turn", renames=ids, run_id="ba9876543210")
    found = compare(first, second)
    assert found is not None
    assert (found.seq, found.field) == (8, "event.result.json")
    assert ("two files" in found.first, "ten files" in found.second) == (True, True)
    assert "toolu" not in found.first + found.second, "the id is no difference, so its name is shown"


def test_one_id_for_two_things_is_a_difference(tmp_path: Path) -> None:
    """Ids count by what else has the same one: two calls with two ids are not two calls with one."""
    names = Names(), Names()
    names[0].learn([{"id": "toolu_1"}, {"id": "toolu_2"}])
    names[1].learn([{"id": "toolu_7"}, {"id": "toolu_7"}])
    assert names[0].plain("toolu_1", "id") == names[1].plain("toolu_7", "id")
    assert names[0].plain("toolu_2", "id") != names[1].plain("toolu_7", "id")
    assert names[0].plain("see toolu_1.") == names[1].plain("see toolu_7.")
    assert names[0].plain(r"see\ntoolu_1") == names[1].plain(r"see\ntoolu_7"), "in the text of a JSON string"


def test_what_a_run_begins_with_counts(tmp_path: Path) -> None:
    """Two logs that begin with different histories differ, also where their events are the same."""
    scenario = load("hello")

    def begun(path: Path, words: str, config: LoopConfig = scenario.config) -> Path:
        state: LoopState = initial(config, (message("import/1", "user", MessageKind.PROMPT, (text_block(words),)),))
        Journal.create(path, config, state, "s", path.stem, policy=SyncPolicy.NEVER).release()
        return path

    one, same, other = (begun(tmp_path / f"{n}.jsonl", w) for n, w in enumerate(("Hello.", "Hello.", "Bye.")))
    assert compare(one, same) is None
    found = compare(one, other)
    assert found is not None
    assert (found.seq, found.field) == (0, "begin.messages[0].blocks[0].json")
    monday, tuesday = (
        begun(tmp_path / f"{day}.jsonl", "Hello.", evolve(scenario.config, system_context=(("date", day), ("platform", "x"))))
        for day in ("2026-01-05", "2026-01-06")
    )
    assert compare(monday, tuesday) is None, "the day is a time"
