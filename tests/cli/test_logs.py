"""``logs``, ``show``, ``replay``, ``diagram --log``: on real logs, whole, torn, damaged and foreign."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fsm_agent.server.app import LoopbackServer

from .conftest import Cli, demo_log

NAMES = ["next-turn", "salvage", "interrupt-tools", "reactive-compact"]


@pytest.fixture
def log(cli: Cli, home: Path) -> Path:
    """Give the log of a run with one round of tools."""
    return demo_log(cli, "next-turn", home / "kept")


def flip(path: Path, line: int, column: int = 120) -> None:
    """Change one byte inside a line (the header is line 0, its record number)."""
    lines = path.read_bytes().splitlines(keepends=True)
    changed = bytearray(lines[line])
    changed[column] ^= 1
    lines[line] = bytes(changed)
    path.write_bytes(b"".join(lines))


@pytest.mark.parametrize("name", NAMES)
def test_replay_agrees(cli: Cli, home: Path, name: str) -> None:
    """The log of a run replays record by record, and ends as the run did."""
    path = demo_log(cli, name, home / "kept")
    said = cli("replay", path)
    assert (said.code, said.err) == (0, "")
    records = path.read_bytes().count(b"\n") - 2
    assert said.out.startswith(f"{records} records agree (")
    assert "\nended     " in said.out


@pytest.mark.parametrize("line", [0, 1, 4])
def test_flipped_byte_is_named(cli: Cli, log: Path, line: int) -> None:
    """One changed byte is exit code 3, with the number of its record."""
    flip(log, line)
    where = "the header" if line == 0 else f"record {line}"
    for command in ("replay", "show"):
        said = cli(command, log)
        assert said.code == 3
        assert f"{log}: {where} " in said.err
        assert said.err.count("\n") == 1


def test_torn_tail_is_a_warning(cli: Cli, log: Path) -> None:
    """A last line that was cut off while it was written is told, and the rest replays."""
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:5]) + lines[5][:40])
    said = cli("replay", log)
    assert said.code == 0
    assert said.out.startswith("4 records agree")
    assert "no end" in said.out
    assert said.error.startswith("warning: the last record is torn")
    assert "torn" in cli("show", log).err


@pytest.mark.parametrize(("content", "words"), [(b"", "is empty"), (b"hello\n", "not a log"), (b"\0" * 5000, "not a log")])
def test_foreign_files(cli: Cli, home: Path, content: bytes, words: str) -> None:
    """A file that is no log is one line and exit code 3."""
    path = home / "x.jsonl"
    path.write_bytes(content)
    for command in ("replay", "show"):
        said = cli(command, path)
        assert said.code == 3
        assert words in said.error


def test_replay_until(cli: Cli, log: Path) -> None:
    """``--until`` gives the state behind a record; one that is not there is named."""
    assert "state     ready" in cli("replay", log, "--until", 0).out
    assert "state     calling_model" in cli("replay", log, "--until", 2).out
    said = cli("replay", log, "--until", 999)
    assert said.code == 2
    assert "there is no record 999" in said.error


def test_replay_under_another_config(cli: Cli, log: Path) -> None:
    """``--config`` shows where the run would have gone differently."""
    said = cli("replay", log, "--config", "max_turns=1")
    assert said.code == 3
    assert "expected" in said.error
    assert "max_turns" in said.error
    assert cli("replay", log, "--config", "keep_rounds=3").code == 0


def test_show(cli: Cli, log: Path) -> None:
    """Every step has a line with its number, event, rows and effects; the end is told."""
    said = cli("show", log)
    lines = said.out.splitlines()
    assert (said.code, said.err) == (0, "")
    assert [int(line.split()[0]) for line in lines] == list(range(1, len(lines) + 1))
    assert lines[0].split()[1:4] == ["run_started", "run_started", "call_model"]
    assert "=> emit.request_start, call_model" in lines[0]
    assert "end: completed/end_turn, 2 turns" in lines[-1]


def test_show_as_json_holds_everything(cli: Cli, log: Path) -> None:
    """``--json`` gives events and effects whole, the request of a call among them."""
    said = cli("show", log, "--json")
    first = said.lines[0]
    assert (first["seq"], first["kind"], first["taken"]) == (1, "run_started", ["run_started", "call_model"])
    assert first["event"]["messages"]
    assert len(first["effects"]) == len(first["effect_kinds"])
    assert said.err == ""


def test_show_one_step(cli: Cli, log: Path) -> None:
    """``--step`` shows one step whole; one that is not there is named."""
    said = cli("show", log, "--step", 1)
    assert said.out.startswith("step 1: run_started\n")
    assert '"run_id"' in said.out
    missing = cli("show", log, "--step", 999)
    assert missing.code == 2
    assert "there is no record 999" in missing.error


def test_secrets_are_masked(cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets are shown masked unless ``--raw`` asks for them: known shapes, and values of our own secret variables."""
    monkeypatch.setenv("MY_API_KEY", "hunter2hunter2")
    monkeypatch.setenv("ANTHROPIC_MODEL", "scenario-model")  # no secret, although tools do not get it
    key = "sk-ant-" + "a1" * 12
    path = home / "secret.yaml"
    path.write_text(
        "title: Secret.\nexpect: {reason: completed, cause: end_turn}\n"
        f"prompt: Use {key}.\nreplies: [It is hunter2hunter2.]\n"
    )
    log = demo_log(cli, str(path), home / "kept")
    for form in ((), ("--json",)):
        said = cli("show", log, *form)
        assert key not in said.out
        assert "hunter2" not in said.out
        assert "[masked]" in said.out
        assert not form or "scenario-model" in said.out
        assert key in cli("show", log, *form, "--raw").out
    assert "[masked]" in cli("logs", home / "kept").out
    assert key in cli("logs", home / "kept", "--raw").out


def test_logs_lists_the_newest_first(cli: Cli, home: Path) -> None:
    """Each log is one line with its session, prompt, turns and ending; what is no log says so."""
    for name in ("hello", "next-turn"):
        assert cli("demo", "--scenario", name).code == 0
    folder = home / "state" / "fsm-agent" / "logs"
    (folder / "x.jsonl").write_text("no log")
    said = cli("logs")
    lines = said.out.splitlines()
    assert (said.code, said.err) == (0, "")
    assert [("Which files" in line, "unreadable" in line) for line in lines] == [
        (False, False),
        (True, False),
        (False, False),
        (False, True),
    ]
    assert "completed/end_turn" in lines[1]
    values = cli("logs", folder, "--json", "--limit", 1).lines
    assert [value["num_turns"] for value in values] == [2]
    assert json.loads(json.dumps(values[0]))["terminal"] == {"reason": "completed", "cause": "end_turn"}
    assert cli("replay", values[0]["log"]).code == 0


def test_logs_before_the_first_run(cli: Cli) -> None:
    """Where there are no logs yet, the line names the place and the demo."""
    said = cli("logs")
    assert said.code == 0
    assert "there are no logs yet" in said.error
    assert "fsm-agent demo" in said.error


def test_log_without_an_end(cli: Cli, log: Path) -> None:
    """The log of a run whose process died is listed, shown and replayed as far as it goes."""
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:4]))
    assert "no end" in cli("logs", log.parent).out
    assert "has no end" in cli("show", log).error
    said = cli("replay", log)
    assert said.code == 0
    assert "no end    the run rests in calling_model" in said.out


@pytest.mark.parametrize("command", ["show", "replay", "context", "export"])
def test_a_session_stands_for_its_newest_log(cli: Cli, log: Path, home: Path, command: str) -> None:
    """Commands that read a log take the session's id, as ``logs`` shows it first."""
    session = "0123456789ab"
    folder = home / "state" / "fsm-agent" / "logs" / session
    folder.mkdir(parents=True, exist_ok=True)
    (folder / log.name).write_bytes(log.read_bytes())
    by_path = cli(command, folder / log.name)
    by_name = cli(command, session)
    assert by_path.code == by_name.code == 0
    assert by_name.out.splitlines()[-1] == by_path.out.splitlines()[-1]


def test_what_is_no_session_is_a_path(cli: Cli, home: Path) -> None:
    """A name that is neither is a file that is not there, in one line."""
    said = cli("show", "nosuchsession")
    assert said.code == 2
    assert said.err.count("\n") == 1
    assert "nosuchsession" in said.err


def test_two_runs_are_compared_by_what_happened(cli: Cli, home: Path) -> None:
    """Two runs of one task agree, whatever their ids; of two that differ, the first thing that does is named."""
    monday, tuesday, bad = (demo_log(cli, name, home / str(n)) for n, name in enumerate(("hello", "hello", "retry")))
    assert cli("diff", monday, tuesday).out == "no difference\n"
    said = cli("diff", monday, bad)
    assert said.code == 1
    assert said.out.startswith("first difference in record 2 (behind 1 that agree): event.is\n")
    assert said.out.endswith(f'{monday}: "stream_started"\n  {bad}: "stream_failed"\n')


def test_later_runs_of_two_sessions_are_compared(cli: Cli, serve: Callable[[str], LoopbackServer]) -> None:
    """The ids of earlier runs are in the history with which a run begins: they are no difference, its words are."""
    source = "title: T.\nexpect: {reason: completed, cause: end_turn}\nprompt: Go.\nreplies: [One., Two.]\n"
    logs = []
    for words in ("Go.", "Go.", "Come."):
        options = ("--base-url", serve(source).base_url, "--model", "scenario-model", "--output-format", "json")
        first = cli("run", words, *options).lines[0]
        logs.append(cli("resume", first["log"], "More.", *options).lines[0]["log"])
    assert cli("diff", logs[0], logs[1]).out == "no difference\n"
    assert cli("diff", logs[0], logs[2]).out.startswith("first difference in what the run begins with: begin.messages[0]")
