"""The Bash tool on real processes: nothing holds its result back, nothing is left running (field reports 75, 76, 79, 80)."""

from __future__ import annotations

import os
import pty
import resource
import shutil
import signal
import sys
from pathlib import Path

import anyio
import pytest

from fsm_agent.core.events import Outcome
from fsm_agent.runtime.tools.bash import Bash

from .kit import bench, is_alive, text_of

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system shows no /proc to look for processes in"),
]


def pids(folder: Path) -> list[int]:
    return [int(word) for file in folder.glob("pid*") for word in file.read_text().split()]


async def until(folder: Path, count: int = 1) -> list[int]:
    """Wait until the command has written its ids."""
    with anyio.fail_after(10):
        while len(pids(folder)) < count:
            await anyio.sleep(0.01)
    return pids(folder)


async def test_output_and_exit_code(tmp_path: Path) -> None:
    """Standard output and error come together; a non-zero exit is an error of its own, not a failure."""
    own = bench(tmp_path)
    good = await own.call("Bash", command="echo out; echo err >&2; pwd")
    assert (good.outcome, text_of(good)) == (Outcome.OK, f"out\nerr\n{tmp_path}")
    bad = await own.call("Bash", command="echo x; exit 3")
    assert (bad.outcome, text_of(bad)) == (Outcome.ERROR, "Exit code 3\nx")
    assert bad.result.is_error
    silent = await own.call("Bash", command="true")
    assert text_of(silent) == "(no output)"


BACKGROUND = {
    "quiet": "sleep 300 & echo $! > pid; echo done",
    "writing": "nohup sh -c 'while :; do echo x; sleep .05; done' & echo $! > pid; echo done",
    "own session": "setsid sleep 300 & sleep .05; pgrep -f 'sleep 300' > /dev/null; echo $! > pid; echo done",
    "own session, no environment": "env -i PATH=$PATH setsid sh -c 'echo $$ > pid; exec sleep 300' & sleep .2; echo done",
    "closed pipes": "sh -c 'echo $$ > pid; exec sleep 300' > /dev/null 2>&1 & sleep .1; echo done",
    "deaf to TERM": "(trap '' TERM; echo $BASHPID > pid; while :; do sleep 1; done) & sleep .1; echo done",
    "server": f"{sys.executable} -m http.server 0 > /dev/null 2>&1 & echo $! > pid; echo done",
    "grandchildren": "sh -c 'sleep 300 & echo $! > pid1; sleep 301 & echo $! > pid2; wait' & sleep .1; echo done",
}


@pytest.mark.parametrize("command", BACKGROUND.values(), ids=BACKGROUND.keys())
async def test_a_background_child_neither_holds_the_result_nor_stays(tmp_path: Path, command: str) -> None:
    """The result is keyed on the end of the command; what it left is ended and named."""
    own = bench(tmp_path, [Bash(grace=0.2)])
    finished = await own.call("Bash", command=command, timeout=20_000)
    assert finished.outcome is Outcome.OK
    text = text_of(finished)
    assert "done" in text
    assert "Timed out" not in text
    left = pids(tmp_path)
    assert left
    assert not [pid for pid in left if is_alive(pid)]
    assert "Background processes were ended" in text


ENDLESS = {
    "sleeping": "echo before; echo $$ > pid; sleep 300",
    "deaf": "echo before; (trap '' TERM; echo $BASHPID > pid; while :; do sleep 1; done)",
    "yes": "echo before; echo $$ > pid; yes",
    "zeros": "echo before; echo $$ > pid; cat /dev/zero",
    "errors": "echo before; echo $$ > pid; yes >&2",
    "escaped": "echo before; setsid sh -c 'echo $$ > pid; exec sleep 300' & sleep 300",
}


@pytest.mark.parametrize("command", ENDLESS.values(), ids=ENDLESS.keys())
async def test_a_timeout_ends_the_whole_tree_and_keeps_the_output(tmp_path: Path, command: str) -> None:
    """At the timeout all is ended, TERM and then KILL; what was printed until then is in the result."""
    own = bench(tmp_path, [Bash(grace=0.1)])
    finished = await own.call("Bash", command=command, timeout=400)
    assert finished.outcome is Outcome.FAILED
    text = text_of(finished)
    assert text.startswith("Timed out after 0.4 s")
    assert "before" in text
    assert pids(tmp_path)
    assert not [pid for pid in pids(tmp_path) if is_alive(pid)]


async def test_cancelling_ends_the_command(tmp_path: Path) -> None:
    """After an abort the command and its children are gone (field report 76)."""
    own = bench(tmp_path, [Bash(grace=0.1)])
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: own.call("Bash", command="sh -c 'echo $$ > pid; exec sleep 600' & sleep 600"))
        found = await until(tmp_path)
        assert is_alive(found[0])
        group.cancel_scope.cancel()
    assert not is_alive(found[0])


async def test_an_exception_elsewhere_ends_the_command(tmp_path: Path) -> None:
    """When something beside the call breaks, its process goes with it (field report 76)."""
    own = bench(tmp_path, [Bash(grace=0.1)])

    async def breaks() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: own.call("Bash", command="echo $$ > pid; sleep 600"))
            await until(tmp_path)
            raise RuntimeError("engine")

    with pytest.raises(BaseExceptionGroup):
        await breaks()
    assert not [pid for pid in pids(tmp_path) if is_alive(pid)]


FLOODS = {
    "many lines": ("seq 1 1000000", "1\n2\n", "1000000"),
    "one long line": ("head -c 50000000 /dev/zero | tr '\\0' x; echo end", "xxx", "end"),
    "standard error": ("seq 1 300000 >&2", "1\n2\n", "300000"),
}


@pytest.mark.parametrize(("command", "head", "tail"), FLOODS.values(), ids=FLOODS.keys())
async def test_a_flood_is_bounded_while_it_is_read(tmp_path: Path, command: str, head: str, tail: str) -> None:
    """Head, tail and the number of dropped bytes are kept; memory does not grow with the output (field report 80)."""
    own = bench(tmp_path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    text = await own.text("Bash", command=command)
    assert text.startswith(head)
    assert text.endswith(tail)
    assert " bytes dropped] " in text
    assert len(text) < 41_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000  # kilobytes
    assert sum(map(len, own.progress)) < 100_000


async def test_strange_bytes_are_decoded_safely(tmp_path: Path) -> None:
    """Invalid UTF-8, NULs and encoded surrogates become U+FFFD; good characters stay (field report 82)."""
    own = bench(tmp_path)
    finished = await own.call("Bash", command=r"printf 'a\377b\0c\355\240\275d \360\237\230\200'")
    text = text_of(finished)
    assert text == "a\ufffdb\ufffdc\ufffd\ufffd\ufffdd \U0001f600"
    finished.result.json.encode("utf-8")


async def test_there_is_no_terminal_to_ask_on(tmp_path: Path) -> None:
    """Run below a terminal, commands that want to ask fail at once instead of waiting (field report 79)."""
    own = bench(tmp_path)
    script = (
        "cat; read x || echo no input; (echo > /dev/tty) 2>/dev/null && echo terminal || echo none; test -t 0 || echo closed"
    )
    parent, child = pty.openpty()
    try:
        assert await own.text("Bash", command=script, timeout=5_000) == "no input\nnone\nclosed"
        assert await own.text("Bash", command="ps -o tty= -p $$ 2>/dev/null | tr -d ' ' || true", timeout=5_000) in (
            "?",
            "(no output)",
        )
    finally:
        os.close(parent)
        os.close(child)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
async def test_git_opens_no_editor(tmp_path: Path) -> None:
    """A commit without a message ends at once: the editor does nothing (field report 79)."""
    own = bench(tmp_path)
    setup = "git init -q . && git config user.email a@b.c && git config user.name n && touch f && git add f"
    finished = await own.call("Bash", command=f"{setup} && git commit", timeout=10_000)
    assert finished.outcome is Outcome.ERROR
    assert "empty commit message" in text_of(finished)


async def test_secrets_stay_out_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of the engine are not handed to commands; other variables are (field report 99)."""
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD"):
        monkeypatch.setenv(name, "sk-ant-hidden")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "plain")
    text = await bench(tmp_path).text("Bash", command="env")
    assert "sk-ant-hidden" not in text
    assert "TOKENIZERS_PARALLELISM=plain" in text


async def test_exported_shell_code_does_not_replace_what_was_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function or start file in the environment does not change what a command name means."""
    (tmp_path / "start").write_text("echo started")
    monkeypatch.setenv("BASH_ENV", str(tmp_path / "start"))
    monkeypatch.setenv("BASH_FUNC_ls%%", "() { echo replaced; }")
    assert await bench(tmp_path).text("Bash", command="ls") == "start"


async def test_a_signal_is_named(tmp_path: Path) -> None:
    """A command that ends itself by a signal says so."""
    finished = await bench(tmp_path).call("Bash", command=f"kill -{signal.SIGKILL.value} $$")
    assert finished.outcome is Outcome.ERROR
    assert "Ended by signal SIGKILL" in text_of(finished)


async def test_calls_beside_each_other_keep_apart(tmp_path: Path) -> None:
    """Commands that run at once neither see nor end each other's processes."""
    own = bench(tmp_path, [Bash(grace=0.1)])
    texts: dict[int, str] = {}

    async def one(number: int) -> None:
        texts[number] = await own.text("Bash", command=f"sleep 300 & sleep 0.{number}; echo {number}")

    async with anyio.create_task_group() as group:
        for number in range(1, 5):
            group.start_soon(one, number)
    for number, text in texts.items():
        assert text.startswith(f"{number}\n")
        assert text.count("(sleep 300)") == 1


async def test_progress_comes_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command prints is handed on before it ends, bounded."""
    monkeypatch.setattr("fsm_agent.runtime.tools.bash._PROGRESS_EVERY", 0.05)
    own = bench(tmp_path)
    await own.call("Bash", command="for i in 1 2 3 4; do echo line $i; sleep .06; done")
    assert own.progress
    assert "line" in own.progress[0]


def test_read_only_lines_are_known_as_such() -> None:
    """The traits of a line come from its parts."""
    tool = Bash()
    for line, expected in (
        ("ls | wc -l", True),
        ("ls > x", False),
        ("make", False),
        ("cat /etc/passwd", True),
        ("ls 'x", False),
    ):
        assert tool.is_read_only({"command": line}) is expected, line
