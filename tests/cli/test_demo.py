"""``demo``: the main job through real HTTP and real tools, and the other scenarios."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from fsm_agent.core.phases import ContinueReason, TerminalReason
from fsm_agent.scenario import catalog, load

from .conftest import Cli, process
from .test_logs import on_terminal


def test_demo_repairs_the_project(home: Path) -> None:
    """As a process of its own: the stream is shown, the project repaired, the path printed, exit code 0, log written."""
    out, err = process("demo", "--keep", home / "kept").communicate(timeout=60)
    assert err == ""
    assert "● Edit(" in out
    assert "All three tests pass." in out
    assert "ended       completed / end_turn" in out
    assert "preparing → calling_model → deciding → running_stop_hooks → completed" in out
    assert "discount_percent // 100" in (home / "kept" / "project" / "basket.py").read_text()
    log = next((home / "kept").glob("*.jsonl"))
    assert f"fsm-agent replay {log}" in out
    assert f"fsm-agent show {log}" in out


def test_demo_leaves_only_its_log(cli: Cli, home: Path) -> None:
    """Without ``--keep`` the project is gone afterwards, and the log is where logs are kept."""
    said = cli("demo", "--output-format", "json")
    result = json.loads(said.out)
    assert (said.code, said.err) == (0, "")
    assert result["terminal"] == {"reason": "completed", "cause": "end_turn", "detail": "", "error": None}
    assert result["transitions"] == ["next_turn"] * 4
    log = Path(result["log"])
    assert log.is_file()
    assert log.parent.parent == home / "state" / "fsm-agent" / "logs"
    assert not Path(cli("show", log, "--step", 1, "--json").lines[0]["event"].get("cwd", "/nowhere")).exists()


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("hello", 0),
        ("empty-reply", 1),
        ("max-turns", 4),
        ("refusal", 5),
        ("auth", 6),
        ("interrupt-streaming", 130),
        ("invalid-history", 1),
        ("engine-error", 1),
    ],
)
def test_other_scenarios_end_as_expected(cli: Cli, name: str, code: int) -> None:
    """The exit code is that of the ending; what was expected is shown beside what came."""
    said = cli("demo", "--scenario", name, "--plain")
    expect = load(name).expect
    ending = f"{expect.reason.value} / {expect.cause.value}"
    assert said.code == code, said.err
    assert said.err == ""
    assert f"ended       {ending}" in said.out
    assert f"expected    {ending}" in said.out
    assert said.out.isascii()


def test_unmet_expectation_is_told(cli: Cli, home: Path) -> None:
    """A scenario that goes otherwise than it says exits with 1, and says where."""
    path = home / "wrong.yaml"
    path.write_text("title: Wrong.\nexpect: {reason: completed, cause: refusal}\nprompt: Hi.\nreplies: [Hello.]\n")
    said = cli("demo", "--scenario", path)
    assert said.code == 1
    assert said.error == "scenario wrong: ending: expected completed/refusal, got completed/end_turn ()"


def test_list_names_every_scenario_once(cli: Cli) -> None:
    """Every scenario is listed once, each of the 7 continue and 10 terminal reasons has one."""
    said = cli("demo", "--list")
    assert said.code == 0
    names = [line.split()[0] for line in said.out.splitlines() if line and line.split()[0] in catalog()]
    assert sorted(names) == list(catalog())
    assert all(reason.value in said.out for reason in (*ContinueReason, *TerminalReason))


def test_the_list_fits_a_terminal_and_is_whole_in_a_pipe(cli: Cli, home: Path) -> None:
    """On a terminal no line is longer than it is wide, and no name is broken; in a pipe each scenario is one line."""
    scenarios = [load(name) for name in catalog()]
    for columns in (60, 80, 120):
        shown = re.sub("\x1b\\[[0-9;]*m", "", on_terminal("demo", "--list", columns=columns)).splitlines()
        assert max(map(len, shown)) <= columns
        assert {one.name for one in scenarios} <= {line.split()[0] for line in shown if line.strip()}
    piped = cli("demo", "--list").out.splitlines()
    for one in scenarios:
        assert next(line for line in piped if line.split()[:1] == [one.name]).endswith(one.title)


def test_unknown_scenario(cli: Cli) -> None:
    """An unknown name is one line that tells where the names are."""
    said = cli("demo", "--scenario", "nope")
    assert said.code == 2
    assert said.error == "no scenario 'nope' in the catalog; list them with: fsm-agent demo --list"


def test_keep_needs_an_empty_folder(cli: Cli, home: Path) -> None:
    """Nothing that is there already is overwritten."""
    (home / "full").mkdir()
    (home / "full" / "mine.txt").write_text("mine")
    said = cli("demo", "--keep", home / "full")
    assert said.code == 2
    assert "is not empty" in said.error
    assert [path.name for path in (home / "full").iterdir()] == ["mine.txt"]


def test_demo_runs_where_no_log_can_be_kept(cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log folder that cannot be made is a warning; the log goes to a temporary place."""
    (home / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "file"))
    said = cli("demo", "--scenario", "hello", "--output-format", "json")
    assert said.code == 0
    assert "warning" in said.error
    assert Path(json.loads(said.out)["log"]).is_file()


@pytest.mark.parametrize(
    ("scenario", "words"), [("fallback", "fallback"), ("retry", "retry, retry"), ("hello", ""), ("next-turn", "")]
)
def test_a_demo_says_how_the_run_recovered(cli: Cli, scenario: str, words: str) -> None:
    """Another attempt and another model are no reasons to go on, and are named beside them; most runs need neither."""
    said = cli("demo", "--scenario", scenario)
    facts = dict(line.split(maxsplit=1) for line in said.out.splitlines() if line.startswith("recovered"))
    assert facts.get("recovered", "") == words


def test_a_demo_names_its_log_at_once(cli: Cli) -> None:
    """The log is named before the first call, so that a demo that is killed can be found, and is the one at the end."""
    lines = cli("demo", "--scenario", "hello").out.splitlines()
    (first,) = (line.removeprefix("log: ") for line in lines if line.startswith("log: "))
    assert lines.index(f"log: {first}") < lines.index("> Say hello.")
    assert f"log         {first}" in lines
