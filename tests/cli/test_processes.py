"""The process as its parent sees it: signals, pipes that close or block, terminals."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fsm_agent.log.reader import read_log
from fsm_agent.server.app import LoopbackServer

from .conftest import Cli, process

STALL = """
title: A reply that never ends.
ways: [%s]
expect: {reason: aborted_streaming, cause: interrupt}
prompt: x
replies:
  - blocks: [{text: Once upon a time}]
    hangs: true
"""
LONG = f"""
title: More text than a pipe holds.
ways: [reducer, interpreter]
expect: {{reason: completed, cause: end_turn}}
prompt: x
replies: [{"word " * 60_000}]
"""


def log_of(folder: Path, lines: int = 1) -> Path:
    """Wait for the log of a run in a folder to have so many lines."""
    end = time.monotonic() + 60
    while True:
        logs = list(folder.glob("*.jsonl"))
        if logs and logs[0].read_bytes().count(b"\n") >= lines:
            return logs[0]
        assert time.monotonic() < end, "the run did not get so far"
        time.sleep(0.02)


def demo(home: Path, scenario: str) -> subprocess.Popen[str]:
    """Play a scenario as a process of its own; it needs no HTTP, so it starts quickly."""
    (home / "test.yaml").write_text(scenario)
    return process("demo", "--scenario", home / "test.yaml", "--keep", home / "kept", "--output-format", "stream-json")


def test_interrupt(serve: Callable[[str], LoopbackServer], home: Path) -> None:
    """Ctrl-C ends the run properly: a result that says so, a whole log, exit code 130."""
    server = serve(STALL % "http")
    options = ("--base-url", server.base_url, "--model", "scenario-model", "--log", home / "run.jsonl")
    child = process("run", "Go.", *options, "--output-format", "json")
    log = log_of(home, 3)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert '"terminal_reason": "aborted_streaming"' in out
    assert err.count("\n") == 1
    end = read_log(log).tail.end
    assert end is not None
    assert end.terminal.cause.value == "interrupt"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_terminate(home: Path, number: signal.Signals, code: int) -> None:
    """SIGTERM closes the run at once: no result, but a whole log, and nothing said."""
    child = demo(home, STALL % "interpreter")
    log = log_of(home / "kept", 3)
    child.send_signal(number)
    out, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (code, "")
    assert '"type": "result"' not in out
    assert read_log(log).tail.end is not None


def test_terminate_while_the_reader_blocks(home: Path) -> None:
    """A reader that reads nothing does not keep the run from being ended by a signal."""
    child = demo(home, LONG)
    log_of(home / "kept", 4)
    child.send_signal(signal.SIGTERM)
    assert child.wait(timeout=60) == 143
    child.communicate()


def test_slow_reader_gets_everything(home: Path) -> None:
    """Nothing is lost, and nothing is torn, when the reader is slower than the run."""
    child = demo(home, LONG)
    log_of(home / "kept", 4)
    out, _ = child.communicate(timeout=60)
    lines = [json.loads(line) for line in out.splitlines()]
    assert child.returncode == 0
    assert lines[-1]["result"] == ("word " * 60_000).strip()


def test_reader_that_leaves(home: Path) -> None:
    """A closed pipe closes the run quietly: no traceback, exit code 1, a whole log."""
    child = demo(home, LONG)
    assert child.stdout is not None
    assert '"init"' in child.stdout.readline()
    child.stdout.close()
    assert child.wait(timeout=60) == 1
    assert child.stderr is not None
    assert child.stderr.read() == ""
    assert read_log(log_of(home / "kept")).tail.end is not None
    child.stderr.close()


def test_long_list_into_head(home: Path) -> None:
    """``| head -1`` ends a listing quietly too."""
    command = f"'{sys.executable}' -m fsm_agent demo --list | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert done.stdout == "The 7 ways in which the loop goes on\n"
    assert done.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_disk_that_is_full() -> None:
    """Output that cannot be written is one line and a failure, not a success."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "fsm_agent", "--help"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "No space left on device" in done.stderr


def test_closed_standard_output() -> None:
    """A process without standard output and error runs all the same."""
    done = subprocess.run(f"'{sys.executable}' -m fsm_agent --help >&- 2>&-", shell=True, check=False)
    assert done.returncode == 0


def on_terminal(arguments: list[str], **environment: str) -> str:
    """Run on a pseudo-terminal, and give what a person would see."""
    parent, child = pty.openpty()
    try:
        done = subprocess.Popen(
            [sys.executable, "-m", "fsm_agent", *arguments],
            stdin=child,
            stdout=child,
            stderr=child,
            env={**os.environ, "TERM": "xterm", **environment},
        )
        os.close(child)
        seen = b""
        while True:
            try:
                piece = os.read(parent, 65_536)
            except OSError:  # the other side is closed
                break
            if not piece:
                break
            seen += piece
        assert done.wait(timeout=30) == 0
        return seen.decode()
    finally:
        os.close(parent)


def test_colour_is_for_terminals_that_want_it() -> None:
    """Colour on a terminal; none with ``NO_COLOR``, none on a dumb one, none with ``--plain``."""
    arguments = ["demo", "--scenario", "sub-agent-budget"]
    assert "\x1b[" in on_terminal(arguments)
    assert "\x1b[" not in on_terminal(arguments, NO_COLOR="1")
    assert "\x1b[" not in on_terminal([*arguments, "--plain"])


def test_terminal_is_not_steered_by_words(home: Path) -> None:
    """Control characters in what a model or a tool says are shown, not sent."""
    path = home / "rude.yaml"
    path.write_text(
        'title: "Rude."\nways: [interpreter]\nexpect: {reason: completed, cause: end_turn}\nprompt: x\n'
        'replies: ["\\e]0;owned\\a\\e[2J hello \\u202e"]\n',
        encoding="utf-8",
    )
    seen = on_terminal(["demo", "--scenario", str(path), "--plain"])
    assert "\\x1b]0;owned\\x07\\x1b[2J hello \\u202e" in seen
    assert "\x1b" not in seen


def test_serve(cli: Cli) -> None:
    """``serve`` prints its URL, answers a client again and again, names the requests, and ends with Ctrl-C."""
    child = process("serve", "hello")
    assert child.stdout is not None
    lines = [child.stdout.readline() for _ in range(5)]
    url = lines[1].split()[-1]
    assert f"ANTHROPIC_BASE_URL={url} ANTHROPIC_API_KEY=" in lines[3]
    for _ in range(2):
        said = cli("run", "Hi.", "--base-url", url, "--model", "scenario-model")
        assert (said.code, said.out) == (0, "Hello.\n")
    assert cli("serve", "hello", "--port", url.rsplit(":", 1)[1]).error.endswith("cannot be used: Address already in use")
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=30)
    assert child.returncode == 130
    assert err.splitlines() == ["POST /v1/messages?beta=true 200"] * 2
