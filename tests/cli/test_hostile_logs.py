"""Logs that somebody made up, and names that somebody chose: one line each, and no other log is hidden by them."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from fsm_agent.log.reader import read_log
from tests.log.forging import WRONG_HEADERS, WRONG_RECORDS, WRONG_TIMES, Edit, forge, put

from .conftest import Cli, demo_log


@pytest.fixture
def log(cli: Cli, home: Path) -> Path:
    """Give the log of a run with one round of tools."""
    return demo_log(cli, "next-turn", home / "kept")


def forged(log: Path, folder: Path) -> list[Path]:
    """Make a folder with one log of each kind of nonsense."""
    folder.mkdir(parents=True)
    made = [
        forge(log, folder / f"t{line}-{n}.jsonl", times={line: text}) for line in (0, 3) for n, text in enumerate(WRONG_TIMES)
    ]
    made += [forge(log, folder / f"h{n}.jsonl", {0: edit}) for n, edit in enumerate(WRONG_HEADERS.values())]
    made += [forge(log, folder / f"r{n}.jsonl", {3: edit}) for n, edit in enumerate(WRONG_RECORDS.values())]
    os.mkfifo(folder / "pipe.jsonl")
    return made


def test_one_log_hides_no_other(cli: Cli, log: Path, home: Path) -> None:
    """A list of logs holds each, the whole one among them; what cannot be read says so in one line."""
    folder = home / "many"
    made = forged(log, folder)
    shutil.copy(log, folder / "good.jsonl")
    said = cli("logs", folder)
    assert said.code == 0
    rows = said.out.splitlines()[1:]
    assert len(rows) == len(made) + 2
    assert sum("completed/end_turn" in row for row in rows if "good.jsonl" in row) == 1
    bad = [row for row in rows if "/h" in row or "/t0" in row or "pipe" in row]
    assert all("unreadable: " in row for row in bad)
    assert "Error" not in said.out
    assert len(cli("logs", folder, "--json").lines) == len(rows)


def test_one_log_does_not_keep_from_going_on(cli: Cli, log: Path, home: Path) -> None:
    """``run --continue`` looks at the logs of the usual place; nonsense in it is passed over."""
    session = read_log(log).header.session
    forged(log, home / "state" / "fsm-agent" / "logs" / session)
    said = cli("run", "Go.", "--continue", "--base-url", "http://127.0.0.1:9", "--model", "scenario-model")
    assert said.code == 2
    assert "no session" in said.error or "no log" in said.error, said.error


def test_what_reads_a_log_says_one_line(cli: Cli, log: Path, home: Path) -> None:
    """Exit code 3 and the line that is wrong."""
    for path in forged(log, home / "many"):
        line = "the header" if path.name.startswith(("h", "t0")) else "record 3"
        for command in ("replay", "show"):
            said = cli(command, path)
            assert (said.code, said.err.count("\n")) == (3, 1), (path, said)
            assert f"{line} " in said.err


def block(text: str) -> Edit:
    """Give the change that puts a block of this JSON text into a record."""
    return put(
        event={"is": "block_completed", "id": "x", "index": 0, "block": {"type": "text", "json": text, "tokens": 1, "chars": 1}}
    )


@pytest.mark.parametrize("edit", [block("{"), block("[]"), block("7"), block("\ud800"), put(taken=["\ud800"])])
def test_what_no_reply_holds_is_shown_all_the_same(cli: Cli, log: Path, home: Path, edit: Edit) -> None:
    """A block that is no JSON object, and half a character: whoever shows a log goes on."""
    path = forge(log, home / "odd.jsonl", {3: edit})
    for command in (("show", path), ("show", path, "--step", 3), ("show", path, "--json"), ("view", path), ("context", path)):
        said = cli(*command)
        assert "unexpected" not in said.err, (command, said.err)
    assert cli("export", path, "--format", "otel", "--content", "--output", home / "out.json").code == 0
    json.loads((home / "out.json").read_bytes())


def test_a_time_that_no_calendar_knows(cli: Cli, log: Path, home: Path) -> None:
    """It is shown in milliseconds."""
    path = forge(log, home / "far.jsonl", times={0: str(2**53 - 1), 3: str(2**53 - 1)})
    (row,) = [row for row in cli("logs", home).out.splitlines() if "far.jsonl" in row]
    assert f"{2**53 - 1} ms" in row
    assert f"at       {2**53 - 1} ms" in cli("show", path, "--step", 3).out
    assert cli("view", path, "--output", home / "far.html").code == 0


def test_a_name_cannot_fake_a_row(cli: Cli, log: Path, home: Path) -> None:
    """A session, a run, rows and a folder with line breaks in their names are shown on one line each."""
    folder = home / "logs\nfaked  row"
    folder.mkdir()
    path = forge(
        log,
        folder / "a\nfaked\t.jsonl",
        {0: put(session="s\nfaked", run="r\nfaked\x1b[31m"), 3: put(taken=["x\n    9  faked"])},
    )
    said = cli("logs", folder)
    assert len(said.out.splitlines()) == 2
    shown = cli("show", path, "--raw").out.splitlines()
    assert len(shown) == len(cli("show", log, "--raw").out.splitlines())
    assert not any(line.lstrip().startswith(("faked", "9  faked")) for line in (*said.out.splitlines(), *shown))
    assert "\x1b" not in said.out
