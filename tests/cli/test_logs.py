"""``logs``, ``show``, ``replay``, ``diagram --log``: on real logs, whole, torn, damaged and foreign."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import struct
import termios
from collections.abc import Callable
from pathlib import Path

import pytest

from fsm_agent.server.app import LoopbackServer

from .conftest import Cli, demo_log, process

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


@pytest.mark.parametrize(
    "pair", ["effort=zzz", "thinking=zzz", "thinking_display=zzz", "cancel_siblings_on=zzz", "early_start=zzz", "betas=\x07"]
)
def test_replay_takes_no_word_that_means_nothing(cli: Cli, log: Path, pair: str) -> None:
    """A setting that no run can have is refused as ``run`` refuses it; one that a run can have is taken."""
    said = cli("replay", log, "--config", pair)
    assert (said.code, said.out) == (2, "")
    assert pair.partition("=")[0] in said.error
    assert cli("replay", log, "--config", "effort=low").code in (0, 3)


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


def test_digests_are_named_only_where_nothing_else_differs(cli: Cli, home: Path) -> None:
    """The same demo in another folder: what a tool got and gave is what differs, in words, not a digest of it."""
    first, second = (demo_log(cli, "repair", home / name) for name in ("one", "another"))
    said = cli("diff", first, second)
    assert said.out.splitlines()[0].endswith(": event.result.json"), "its words name the folder"
    flip(first, 9)
    cli("replay", first, "--repair")
    assert "what is recorded\n" in cli("diff", first, second).out


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


def on_terminal(*arguments: object, columns: int = 80) -> str:
    """Run the command line on a terminal of so many columns, and give what it shows there."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    child = process(*arguments, stdout=slave, stderr=slave)
    os.close(slave)
    shown = b""
    with contextlib.suppress(OSError):  # the terminal is gone with the process
        while part := os.read(master, 65_536):
            shown += part
    os.close(master)
    assert child.wait(30) == 0, shown
    return shown.decode().replace("\r\n", "\n")


def test_logs_on_a_narrow_terminal_show_each_path_whole(cli: Cli, home: Path) -> None:
    """However narrow the terminal: each path is on one line, alone, so that it can be copied."""
    deep = home / ("a-long-name-of-a-folder-" * 4) / "logs"
    deep.mkdir(parents=True)
    log = demo_log(cli, "hello", home / "kept").rename(deep / "run.jsonl")
    for columns in (40, 80, 200):
        lines = [re.sub("\x1b\\[[0-9;]*m", "", line) for line in on_terminal("logs", deep, columns=columns).splitlines()]
        assert [line.strip() for line in lines if "run.jsonl" in line] == [str(log)]
        assert any("completed/end_turn" in line for line in lines)
        assert any(line.strip() == "Say hello." for line in lines)


def cut_line(log: Path, line: int, keep: int = 40) -> None:
    """Leave a log as if its process had died while it wrote a line."""
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:line]) + lines[line][:keep])


def listed(cli: Cli, log: Path) -> tuple[str, str]:
    """Give how ``logs`` says that a log ended, on paper and as JSON."""
    (line,) = (line for line in cli("logs", log.parent).out.splitlines() if log.name in line)
    (value,) = (value for value in cli("logs", log.parent, "--json").lines if value["log"] == str(log))
    return line, value["problem"] or ""


@pytest.mark.parametrize("keep", [0, 1, 40, 300])
@pytest.mark.parametrize("name", NAMES)
def test_a_torn_closing_line_is_still_the_end(cli: Cli, home: Path, name: str, keep: int) -> None:
    """The last step says how the run ended: every command says so, whether its closing line is whole, torn or missing."""
    log = demo_log(cli, name, home / "kept")
    before = [cli("replay", log).out.splitlines()[-1], cli("show", log).out.splitlines()[-1]]
    word = listed(cli, log)[0].split(", torn")[0]
    cut_line(log, -1, keep)
    said = cli("replay", log), cli("show", log)
    assert [one.code for one in said] == [0, 0]
    assert [one.out.splitlines()[-1] for one in said] == before
    assert listed(cli, log)[0].replace(", torn", "").split() == word.split()
    for one in said:
        assert "effects were never performed" not in one.err
        assert ("closing line is torn" in one.err) is (keep > 0)


@pytest.mark.parametrize("how", ["flipped", "removed", "moved", "behind the end"])
def test_damage_is_said_by_every_command_with_what_helps(cli: Cli, log: Path, how: str) -> None:
    """Each command that stops at damage names the record and the commands that help; a listing shows it."""
    lines = log.read_bytes().splitlines(keepends=True)
    if how == "flipped":
        flip(log, 5)
    elif how == "removed":
        log.write_bytes(b"".join([*lines[:5], *lines[6:]]))
    elif how == "moved":
        log.write_bytes(b"".join([*lines[:5], lines[6], lines[5], *lines[7:]]))
    else:
        log.write_bytes(b"".join([*lines, lines[3]]))
    seq = len(lines) if how == "behind the end" else 5
    mend = f"fsm-agent replay {log} --repair"
    for command in (
        ["replay"],
        ["show"],
        ["context"],
        ["export"],
        ["view"],
        ["fork"],
        ["resume"],
        ["export", "--format", "otel"],
    ):
        more = ("--base-url", "http://127.0.0.1:9") if command[0] == "resume" else ()
        said = cli(command[0], log, *command[1:], *more)
        assert said.code == 3, command
        assert f"record {seq} " in said.err, command
        assert mend in said.err, command
        assert said.err.count("\n") == 1, command
    assert mend in cli("diff", log, log).error
    line, problem = listed(cli, log)
    assert f"damaged: record {seq}" in line
    assert problem.startswith(f"record {seq} ")
    assert mend in cli("logs", log.parent).error
    advice = re.search(r"fsm-agent fork (\S+) --at (\d+)", said.err)
    assert (advice is None) is (how == "behind the end"), "behind its end there is nothing to go on from"
    assert advice is None or cli("fork", advice[1], "--at", advice[2]).code == 0


def test_a_gap_in_the_way_is_no_success(cli: Cli, log: Path) -> None:
    """Where a replay does not reach the end because of a known gap, it says so and fails; each command says what helps."""
    flip(log, 5)
    last = log.read_bytes().count(b"\n") - 2
    said = cli("replay", log, "--repair")
    assert said.code == 3
    assert f"cut       the replay stops in calling_model, before record 5 of {last}" in said.out
    fork = f"fsm-agent fork {log} --at 4"
    assert fork in said.err
    for command in (["replay", "--until", "7"], ["export"], ["fork", "--at", "7"], ["resume"]):
        more = ("--base-url", "http://127.0.0.1:9") if command[0] == "resume" else ()
        said = cli(command[0], log, *command[1:], *more)
        assert (said.code, fork in said.error, "record 5 is missing" in said.error) == (3, True, True), command
    shown = cli("show", log)
    assert "record 5 is missing" in shown.error
    assert [line.split()[0] for line in shown.out.splitlines()] == [str(n) for n in range(1, last + 2) if n != 5]
    assert "a gap" in listed(cli, log)[0]


def test_effects_behind_a_gap_are_not_guessed(cli: Cli, log: Path) -> None:
    """Without the state behind a gap nothing is folded: effects are named there, not shown."""
    whole = cli("show", log, "--json").lines
    flip(log, 3)
    cli("replay", log, "--repair")
    values = cli("show", log, "--json").lines
    assert [value["seq"] for value in values] == [value["seq"] for value in whole if value["seq"] != 3]
    assert [value["effects"] is None for value in values] == [value["seq"] > 3 for value in values]
    assert [value["effect_kinds"] for value in values] == [value["effect_kinds"] for value in whole if value["seq"] != 3]


def test_the_end_has_a_number_that_step_takes(cli: Cli, log: Path) -> None:
    """The number before the end can be asked for, and the one behind it is refused with what there is."""
    number = cli("show", log).out.splitlines()[-1].split()[0]
    said = cli("show", log, "--step", number)
    assert said.code == 0
    assert said.out.startswith(f"step {number}: end\n")
    assert '"reason": "completed"' in said.out
    assert cli("show", log, "--step", number, "--json").lines[0]["terminal"]["cause"] == "end_turn"
    missing = cli("show", log, "--step", int(number) + 1)
    assert missing.code == 2
    assert f"the last one is {int(number) - 1}, {number} is the end of the run" in missing.error


@pytest.mark.parametrize("at", [0, 3, None])
def test_a_fork_says_what_it_continues(cli: Cli, log: Path, home: Path, at: int | None) -> None:
    """A fork that holds nothing yet is not told as empty: where it comes from, its prompt, and what one can do with it."""
    fork = home / "fork.jsonl"
    made = cli("fork", log, *(() if at is None else ("--at", at)), "-o", fork)
    last = log.read_bytes().count(b"\n") - 2
    where = f"{log} behind record {last if at is None else at}" if at != 0 else f"{log} from its beginning"
    assert made.out == f"{fork}\n"
    assert f"continues {where}" in made.error
    assert f"fsm-agent resume {fork}" in made.error
    assert made.error.endswith("PROMPT") is (at != 3)
    shown = cli("show", fork)
    assert f"continues {where}" in shown.out
    assert ("Which files are here?" in shown.out) is True
    assert f"fsm-agent resume {fork}" in shown.error
    replayed = cli("replay", fork)
    assert (replayed.code, f"continues {where}" in replayed.out) == (0, True)
    assert "its process died" not in replayed.out + shown.err
    line, _ = listed(cli, fork)
    assert f"(from record {last if at is None else at} of {log.name}) Which f" in line
    assert "not gone on with" in line
    assert f"fsm-agent context {log}" in cli("context", fork).error
