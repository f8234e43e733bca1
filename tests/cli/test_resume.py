"""``resume``, ``run --resume`` and ``--continue``, ``fork``, ``diff``, ``replay --repair``: real HTTP, real files."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fsm_agent.log.format import Gap
from fsm_agent.log.reader import read_log
from fsm_agent.server.app import LoopbackServer
from fsm_agent.server.replies import Reply, calls, says
from fsm_agent.server.replies import tool as use

from .conftest import Cli, process


def reply(number: int, body: dict[str, Any]) -> Reply:
    """Look once at each prompt, then answer it."""
    last = body["messages"][-1]["content"]
    if any(block["type"] == "tool_result" for block in last):
        return says(f"Answer to {sum(message['role'] == 'user' for message in body['messages'])} messages.")
    return calls(use("Glob", {"pattern": "*.none"}, id=f"toolu_{number}"))


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer(reply) as made:
        yield made


@pytest.fixture
def log(cli: Cli, server: LoopbackServer, home: Path) -> Path:
    said = cli("run", "Go.", "--base-url", server.base_url, "--model", "m", "--log", home / "run.jsonl")
    assert said.code == 0, said.err
    return home / "run.jsonl"


def cut(log: Path, records: int) -> None:
    """Leave so many records of a log, as if its process had died."""
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[: records + 1]))


def test_interrupted_run_goes_on(cli: Cli, server: LoopbackServer, log: Path) -> None:
    """The run ends in its own log, with the answer that it would have had; nothing answered is asked again."""
    whole = read_log(log).tail.records
    cut(log, 4)
    asked = len(server.requests)
    said = cli("resume", log, "--base-url", server.base_url)
    assert (said.code, said.out) == (0, "Answer to 2 messages.\n"), said.err
    assert len(server.requests) == asked + 1
    assert read_log(log).tail.records >= whole
    assert cli("replay", log).code == 0
    assert server.breaches == []


def test_show_says_what_was_lost(cli: Cli, server: LoopbackServer, log: Path) -> None:
    """The record of what an interruption lost says what that was."""
    cut(log, 4)
    assert cli("resume", log, "--base-url", server.base_url).code == 0
    (line,) = (line for line in cli("show", log).out.splitlines() if " effect_lost " in line)
    assert re.search(r"tool-\d+ was without an answer \(a tool\)$", line)


def test_ended_run_takes_the_next_prompt(cli: Cli, server: LoopbackServer, log: Path, home: Path) -> None:
    """The next prompt has a log of its own beside the first, which names its parent, holds no history, and replays."""
    said = cli("resume", log, "More.", "--base-url", server.base_url, "--output-format", "json")
    assert said.code == 0, said.err
    second = Path(json.loads(said.out)["log"])
    assert second.parent == log.parent
    header = read_log(second).header
    assert header.state is None
    assert header.parent is not None
    assert header.parent.log == "run.jsonl"
    assert header.session == read_log(log).header.session
    assert "Answer to 4 messages." in said.out
    assert cli("replay", second).code == 0
    third = cli("run", "--resume", second, "Still more.", "--base-url", server.base_url)
    assert third.out == "Answer to 6 messages.\n", third.err


def test_interrupted_run_then_the_prompt(cli: Cli, server: LoopbackServer, log: Path) -> None:
    """With a prompt, the interrupted run ends first; one JSON object is printed, that of the prompt."""
    cut(log, 4)
    said = cli("resume", log, "More.", "--base-url", server.base_url, "--output-format", "json")
    assert said.code == 0, said.err
    assert json.loads(said.out)["result"] == "Answer to 4 messages."
    assert read_log(log).tail.end is not None


def test_continue_takes_the_newest_log(cli: Cli, server: LoopbackServer) -> None:
    """``--continue`` goes on from the newest log of the usual place, ``--resume`` from a session by its id."""
    options = ("--base-url", server.base_url, "--model", "m", "--output-format", "json")
    first = json.loads(cli("run", "Go.", *options).out)
    second = json.loads(cli("run", "More.", "--continue", *options).out)
    third = json.loads(cli("run", "Again.", "--resume", first["session_id"], *options).out)
    assert [one["result"] for one in (first, second, third)] == [f"Answer to {n} messages." for n in (2, 4, 6)]
    assert first["session_id"] == second["session_id"] == third["session_id"]


def test_continue_takes_the_newest_log_of_this_folder(
    cli: Cli, server: LoopbackServer, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``--continue`` goes on with what was done in this folder, and names what was done elsewhere where there is nothing."""
    options = ("--base-url", server.base_url, "--model", "m", "--output-format", "json")
    here = json.loads(cli("run", "Here.", *options).out)
    (home / "other").mkdir()
    monkeypatch.chdir(home / "other")
    refused = cli("run", "More.", "--continue", *options)
    assert refused.code == 2
    assert f"no log of a run in {home / 'other'}" in refused.error
    assert f"fsm-agent resume {here['log']}" in refused.error
    assert cli("demo", "--scenario", "hello").code == 0
    refused = cli("run", "More.", "--continue", *options)
    assert refused.code == 2
    assert "does not say where it worked" in refused.error
    there = json.loads(cli("run", "There.", *options).out)
    monkeypatch.chdir(home / "work")
    said = cli("run", "More.", "--continue", *options)
    assert said.err == ""
    assert json.loads(said.out)["session_id"] == here["session_id"] != there["session_id"]


@pytest.mark.parametrize("interrupted", [False, True])
def test_other_surroundings_are_told(
    cli: Cli, server: LoopbackServer, home: Path, monkeypatch: pytest.MonkeyPatch, interrupted: bool
) -> None:
    """Folder and permission mode of a run are not taken from its log: where they were others, the options are named."""
    log = home / "run.jsonl"
    options = ("--base-url", server.base_url)
    assert cli("run", "Go.", *options, "--model", "m", "--log", log, "--permission-mode", "acceptEdits").code == 0
    (home / "other").mkdir()
    monkeypatch.chdir(home / "other")
    whole = log.read_bytes()
    given = ("--cwd", home / "work"), ("--permission-mode", "acceptEdits")
    for more in ((), given[:1], given[1:], given):
        log.write_bytes(whole)
        if interrupted:
            cut(log, 4)
        said = cli("resume", log, *(() if interrupted else ("More.",)), *options, *(word for pair in more for word in pair))
        assert said.code == 0, said.err
        assert (f"give --cwd {home / 'work'} to work there" in said.err) is (given[0] not in more)
        assert ("give --permission-mode acceptEdits" in said.err) is (given[1] not in more)
    (home / "work").rmdir()
    said = cli("resume", log, "More.", *options)
    assert "that folder is not there any more" in said.err


def test_a_run_says_where_its_log_is_before_it_ends(server: LoopbackServer, home: Path) -> None:
    """On a terminal the first line names the log, so that a run that is killed can be found; it is there then."""
    log = home / "run.jsonl"
    out, err = on_terminals("run", "Go.", "--base-url", server.base_url, "--model", "m", "--log", log)
    assert err.splitlines()[0].endswith(f"fsm-agent: the log is {log}\x1b[0m")
    assert err.splitlines()[0].startswith("\x1b[2m"), "dim"
    assert out.index("model call 1") < out.index("Answer to 2 messages.")


def on_terminals(*arguments: object) -> tuple[str, str]:
    """Run the command line with a terminal each for standard output and standard error."""
    pairs = [pty.openpty() for _ in range(2)]
    child = process(*arguments, stdout=pairs[0][1], stderr=pairs[1][1], env={**os.environ, "TERM": "xterm"})
    texts = []
    for _, slave in pairs:
        os.close(slave)
    for master, _ in pairs:
        text = b""
        with contextlib.suppress(OSError):  # the terminal is gone with the process
            while part := os.read(master, 65_536):
                text += part
        os.close(master)
        texts.append(text.decode().replace("\r\n", "\n"))
    assert child.wait(30) == 0, texts
    return texts[0], texts[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("resume", "none.jsonl", "x"), "neither a log nor a session"),
        (("resume", "nothing", "x"), "neither a log nor a session"),
        (("run", "x", "--continue"), "no log to go on with"),
        (("run", "x", "--continue", "--resume", "y"), "twice"),
        (("fork", "none.jsonl"), "No such file"),
        (("diff", "none.jsonl", "none.jsonl"), "No such file"),
    ],
)
def test_bad_input_is_one_line(cli: Cli, arguments: tuple[str, ...], words: str) -> None:
    """What cannot be resumed, forked or compared is one line and exit code 2."""
    said = cli(*arguments, *(("--base-url", "http://127.0.0.1:9") if arguments[0] in ("run", "resume") else ()))
    assert said.code == 2
    assert words in said.error


def test_ended_run_without_a_prompt(cli: Cli, log: Path) -> None:
    """A run that ended has nothing to go on with but a prompt."""
    said = cli("resume", log, "--base-url", "http://127.0.0.1:9")
    assert said.code == 2
    assert "the run has ended; give a prompt" in said.error


def test_second_process_is_refused(cli: Cli, server: LoopbackServer, log: Path) -> None:
    """A log that another process writes is refused, and a fork of it goes on."""
    cut(log, 4)
    with log.open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        said = cli("resume", log, "--base-url", server.base_url)
        assert said.code == 2
        assert "is writing this log" in said.error
        forked = cli("fork", log)
        assert forked.code == 0, forked.err
        before = log.read_bytes()
        assert cli("resume", forked.out.strip(), "--base-url", server.base_url).out == "Answer to 2 messages.\n"
        assert log.read_bytes() == before


def test_fork_and_diff(cli: Cli, server: LoopbackServer, log: Path, home: Path) -> None:
    """A fork in the middle goes on by itself; the comparison passes over what both share, and names what differs."""
    fork = home / "fork.jsonl"
    assert cli("fork", log, "--at", 3, "-o", fork).out == f"{fork}\n"
    assert cli("resume", fork, "--base-url", server.base_url).code == 0
    assert cli("diff", log, log).out == "no difference\n"
    said = cli("diff", log, fork)
    assert said.code == 1
    assert said.out.startswith("first difference in record 4 (behind 3 that agree): event.")
    other = cli("run", "Other.", "--base-url", server.base_url, "--model", "n", "--log", home / "other.jsonl")
    assert other.code == 0
    assert "in the settings: config.model" in cli("diff", log, home / "other.jsonl").out
    assert cli("fork", log, "--at", 99, "-o", home / "x").error.endswith(
        f"no record 99; the last one is {read_log(log).tail.records}"
    )


def test_repair_of_a_removed_record_contradicts_nothing(cli: Cli, log: Path) -> None:
    """A line that is not there any more is damage: a gap says so, the log as it was is kept, and it is told once."""
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:5], *lines[6:]]))
    refused = cli("replay", log)
    assert refused.code == 3
    assert "record 5 " in refused.error
    repaired = cli("replay", log, "--repair")
    assert "nothing to repair" not in repaired.err
    assert "record 5 is lost (it was not there)" in repaired.err
    assert "record 5 is missing" in repaired.err
    assert Path(f"{log}.damaged-1").read_bytes() == b"".join([*lines[:5], *lines[6:]])
    again = cli("replay", log, "--repair")
    assert "nothing to repair" in again.err
    assert "is lost" not in again.err


def test_repair_puts_moved_records_back(cli: Cli, log: Path) -> None:
    """Records whose order was changed are put back into theirs by their chain: nothing is lost."""
    whole = log.read_bytes()
    lines = whole.splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:3], lines[4], lines[3], *lines[5:], lines[2]]))
    assert cli("replay", log).code == 3
    said = cli("replay", log, "--repair")
    assert said.code == 0
    assert "put back" in said.err
    assert "1 line that had no place in the log was taken out" in said.err
    assert log.read_bytes() == whole


def test_repair_leaves_a_gap(cli: Cli, server: LoopbackServer, log: Path, home: Path) -> None:
    """A bad record is refused with its number; repaired, the log says what is missing, and goes on from a fork before it."""
    lines = log.read_bytes().splitlines(keepends=True)
    lines[5] = bytes(500) + b"\n"
    log.write_bytes(b"".join(lines))
    refused = cli("replay", log)
    assert refused.code == 3
    assert "record 5" in refused.error
    repaired = cli("replay", log, "--repair")
    assert "record 5 is lost" in repaired.err
    assert "record 5 is missing" in repaired.err
    assert "no end" not in repaired.out, "the log has its end, behind the gap"
    assert "before record 5" in repaired.out
    assert [item.seq for item in read_log(log).items() if isinstance(item, Gap)] == [5]
    assert (home / "run.jsonl.damaged-1").read_bytes() == b"".join(lines)
    said = cli("resume", log, "--base-url", server.base_url)
    assert said.error.endswith(f"to go on before that: fsm-agent fork {log} --at 4")
    fork = cli("fork", log, "--at", 4).out.strip()
    assert cli("resume", fork, "--base-url", server.base_url).out == "Answer to 2 messages.\n"
