"""Real bash as the judge of our reading: a line that is allowed runs nothing and writes nothing that was not judged."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from fsm_agent.runtime.permissions.decide import Policy
from fsm_agent.runtime.permissions.modes import Mode
from fsm_agent.runtime.permissions.rules import Behavior, parse_rules
from fsm_agent.runtime.permissions.shell import parse_line
from fsm_agent.runtime.permissions.wrappers import base_name
from fsm_agent.runtime.tools.base import Access, AccessKind, Call
from fsm_agent.runtime.tools.paths import Workspace

from .test_shell_rules import CHAINED, READ_ONLY

BASH = shutil.which("bash")
pytestmark = pytest.mark.skipif(BASH is None, reason="bash is not installed")

STUBS = ("rm", "git", "curl", "sudo", "make", "evil", "x", "a")
REAL = ("env", "timeout", "nice", "nohup", "xargs", "find", "sh", "bash", "setsid", "stdbuf", "cat", "head", "wc", "sort", "ls")
# fmt: off
PIECES = (
    "git log", "git log ", "rm x", " rm x", "cat", "ls ", "a", " ", "\n", ";", "&&", "||", "|", "&", "(", ")", "{ ",
    "; }", "'", '"', "\\", "$(", "`", "<(", ")", "#", " #", "<<E\n", "\nE\n", "<<'E'\n", ">", "> y", "2>&1", "<<<",
    "$X", "${", "}", "=", "A=", "LANG=C ", "env ", "sh -c '", "eval ", "xargs ", "for f in a; do ", "; done", "if ",
    "; then ", "; fi", "! ", "\\\n", "$'", '$"', "{a,b}", "*", "[", "]", "~", "time ", "exec ", "find . -exec ",
    " \\;", "case a in a) ", ";; esac",
)
# fmt: on


class Lab:
    """A folder with stub programs that note that they ran, and bash with nothing else on its path."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.work = folder / "work"
        self.work.mkdir()
        (self.work / "a.py").write_text("x\n")
        (self.work / "src").mkdir()
        self.logs = folder / "logs"
        self.logs.mkdir()
        self.runs = 0
        for name in STUBS:
            stub = self.bin / name
            stub.write_text(f'#!/bin/sh\necho {name} >> "$LAB_LOG"\n')
            stub.chmod(0o755)
        for name in REAL:
            found = shutil.which(name)
            if found:
                (self.bin / name).symlink_to(found)
        self.policy = Policy(
            Workspace.at(self.work),
            Mode.DEFAULT,
            parse_rules(allow=("Bash(git *)", "Bash(git log:*)"), deny=("Bash(rm *)", "Bash(rm)")),
        )

    def allowed(self, line: str) -> bool:
        call = Call(input={}, access=(Access(AccessKind.SHELL, line),))
        return self.policy.judge("Bash", call, read_only=False).behavior is Behavior.ALLOW

    def run(self, line: str) -> set[str]:
        """Run the line in bash; gives the stubs that ran."""
        # A log of its own for each run: what an earlier line left in the background may still be writing.
        self.runs += 1
        log = self.logs / str(self.runs)
        log.write_text("")
        subprocess.run(
            [BASH or "bash", "--noprofile", "--norc", "-c", line],
            cwd=self.work,
            env={"PATH": str(self.bin), "HOME": str(self.work), "LAB_LOG": str(log)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=20,
            check=False,
        )
        return set(log.read_text().split())

    def check(self, line: str) -> None:
        before = sorted(os.listdir(self.work))
        ran = self.run(line)
        judged = {base_name(command.name) for command in parse_line(line).commands}
        assert ran <= judged, f"{line!r} ran {ran - judged}, judged were {judged}"
        assert "rm" not in ran, line
        assert sorted(os.listdir(self.work)) == before, line


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return Lab(tmp_path_factory.mktemp("lab"))


def test_allowed_lines_of_the_tables_do_what_was_judged(lab: Lab) -> None:
    """Each line of the tables that is allowed runs, in real bash, only commands that were judged, and changes no file."""
    lines = [line for line, _ in (*CHAINED, *READ_ONLY) if lab.allowed(line)]
    assert len(lines) > 30
    for line in lines:
        lab.check(line)


@pytest.mark.parametrize("seed", range(4))
def test_allowed_random_lines_do_what_was_judged(lab: Lab, seed: int) -> None:
    """Lines put together at random: whatever is allowed runs nothing that was not judged."""
    dice = random.Random(seed)
    checked = 0
    for _ in range(1_500):
        line = "".join(dice.choice(PIECES) for _ in range(dice.randint(1, 7)))
        if lab.allowed(line):
            checked += 1
            if checked <= 25:
                lab.check(line)
    assert checked > 5
