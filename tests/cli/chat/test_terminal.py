"""The chat in a real terminal: tmux shows what a person sees, and types what a person types."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fsm_agent.server.app import LoopbackServer
from fsm_agent.server.replies import Blocks, Part, calls, says
from fsm_agent.server.replies import tool as use

pytestmark = pytest.mark.skipif(
    shutil.which("tmux") is None or "CI" in os.environ, reason="tmux is not installed, or this is CI, where no terminal is"
)
SLOW = "First paragraph.\n\n" + "word " * 60 + "\n\nLast paragraph."


class Terminal:
    """One tmux session with one program in it."""

    def __init__(self, command: str) -> None:
        self._folder = tempfile.mkdtemp(prefix="chat-")  # pytest's own folders are too long for a socket
        self._socket = f"{self._folder}/socket"
        self._tmux("new-session", "-d", "-s", "t", "-x", "90", "-y", "45", command)

    def type(self, *keys: str) -> None:
        self._tmux("send-keys", "-t", "t", *keys)

    def line(self, text: str) -> None:
        self._tmux("send-keys", "-t", "t", "-l", text)
        self.type("Enter")

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p", "-J", "-t", "t", "-S", "-200")

    def until(self, *texts: str, gone: str = "") -> str:
        """Wait until the screen shows these texts, and no longer that one."""
        for _ in range(300):
            shown = self.screen()
            if all(text in shown for text in texts) and not (gone and gone in shown):
                return shown
            time.sleep(0.05)
        raise AssertionError(f"{texts!r} never came (or {gone!r} never went):\n{self.screen()}")

    def close(self) -> None:
        subprocess.run(["tmux", "-S", self._socket, "kill-server"], capture_output=True)
        shutil.rmtree(self._folder)

    def _tmux(self, *arguments: str) -> str:
        done = subprocess.run(["tmux", "-S", self._socket, *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout


def script(number: int, body: dict[str, Any]) -> Any:
    last = json.dumps(body["messages"][-1])
    if "one more thing" in last:
        return says("Both are **done**.")
    if "tool_result" in last:
        return says("The tool has answered.")
    if "touch" in last:
        return calls(use("Bash", {"command": "touch made && sleep 1"}))
    if "slow" in last:
        return Blocks([Part({"type": "text", "text": SLOW}, chunks=60)], pace=0.1)
    return says("Hello, *you*.")


@pytest.fixture
def chat(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    """Start chats in a folder of their own, against a server on loopback."""
    made: list[Terminal] = []
    (tmp_path / "project").mkdir(exist_ok=True)
    with LoopbackServer(script, models=None) as server:

        def start(*options: str) -> Terminal:
            given = {"HOME": str(tmp_path / "home"), "ANTHROPIC_API_KEY": "k", "PYTHONPATH": os.getcwd()}
            variables = " ".join(f"{name}={value}" for name, value in given.items())
            program = f"{sys.executable} -m fsm_agent chat --base-url {server.base_url} {' '.join(options)}"
            command = f"cd {tmp_path}/project && env -u CI -u XDG_STATE_HOME {variables} {program}; echo left with $?; sleep 60"
            made.append(Terminal(command))
            return made[-1]

        yield start
        for terminal in made:
            terminal.close()


def test_talks_streams_and_leaves(chat: Callable[..., Terminal]) -> None:
    """A prompt is answered in Markdown as it streams, commands answer, Ctrl-D leaves with 0, and the history is kept."""
    terminal = chat()
    terminal.until("/help lists the commands")
    terminal.line("hi there")
    terminal.until("Hello, you.")
    terminal.line("slow please")
    terminal.until("First paragraph.", "working; Esc Enter")
    terminal.until("Last paragraph.", gone="working;")
    for command, words in (("/cost", "in this session"), ("/context", "system prompt"), ("/diagram", "running_stop_hooks")):
        terminal.line(command)
        terminal.until(words)
    terminal.line("/nonsense")
    terminal.until("there is no command /nonsense")
    terminal.type("C-d")
    terminal.until("left with 0")
    again = chat("--continue")
    again.until("/help lists the commands")
    again.type("Up")
    again.until("> /nonsense")
    again.type("C-c")
    again.line("/context")
    again.until("what you said")


def test_asks_for_permission(chat: Callable[..., Terminal], tmp_path: Path) -> None:
    """A call is asked about and not run before the answer; another text denies; always holds for the next time."""
    terminal = chat()
    terminal.until("/help lists the commands")
    terminal.line("touch it")
    terminal.until("allow?", "touch made && sleep 1")
    assert not (tmp_path / "project" / "made").exists()
    terminal.line("rather not")
    terminal.until("denied", "The tool has answered.")
    assert not (tmp_path / "project" / "made").exists()
    terminal.line("touch it now")
    terminal.until("allow?")
    terminal.line("a")
    terminal.until("allowed in this session")
    while not (tmp_path / "project" / "made").exists():
        time.sleep(0.05)
    terminal.until(gone="working;")
    terminal.line("touch it again")
    shown = terminal.until("touch it again", gone="working;")
    assert "allow?" not in shown


def test_queue_submit_interrupt(chat: Callable[..., Terminal]) -> None:
    """Enter queues for the next round, Esc Enter sends at once, Ctrl-C interrupts and twice leaves."""
    terminal = chat("--allowed-tools 'Bash(touch:*)' 'Bash(sleep:*)' --")
    terminal.until("/help lists the commands")
    terminal.line("touch it")
    terminal.until("Bash(command=")
    terminal.line("one more thing")
    terminal.until("Both are done.", gone="working;")
    terminal.line("slow one")
    terminal.until("First paragraph.")
    terminal.type("n", "o", "w", "Escape", "Enter")
    terminal.until("> now", "Hello, you.", gone="working;")
    terminal.line("slow two")
    terminal.until("slow two", "working;")
    terminal.type("C-c")
    terminal.until("interrupted", gone="working;")
    terminal.line("hi again")
    terminal.until("hi again", gone="working;")
    terminal.type("C-c")
    terminal.until("Ctrl-C again leaves")
    terminal.type("C-c")
    terminal.until("left with 0")


def test_asks_for_trust_once(chat: Callable[..., Terminal], tmp_path: Path) -> None:
    """A folder that would grant something is asked about once; with a yes its rules hold, then and later."""
    (tmp_path / "project" / ".claude").mkdir(parents=True)
    rules = {"permissions": {"allow": ["Bash(touch:*)", "Bash(sleep:*)"]}}
    (tmp_path / "project" / ".claude" / "settings.json").write_text(json.dumps(rules))
    terminal = chat()
    terminal.until("Do you trust the files in this folder?", "allow rules in")
    terminal.line("y")
    terminal.until("/help lists the commands")
    terminal.line("touch it")
    terminal.until("The tool has answered.")
    assert (tmp_path / "project" / "made").exists()
    terminal.type("C-d")
    terminal.until("left with 0")
    again = chat()
    assert "Do you trust" not in again.until("/help lists the commands")
