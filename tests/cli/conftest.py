"""What tests of the command line share: a clean environment, a served scenario, the process itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from fsm_agent.cli.main import run
from fsm_agent.scenario import load, loads
from fsm_agent.server.app import LoopbackServer
from fsm_agent.server.from_scenario import server_script


@frozen
class Said:
    """What a command said.

    Attributes:
        code: exit code.
        out: standard output.
        err: standard error.
    """

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one line on standard error; nothing may be on standard output beside it."""
        assert self.err.endswith("\n")
        assert self.err.count("\n") == 1, self.err
        assert self.err.startswith("fsm-agent: ")
        return self.err.removeprefix("fsm-agent: ").rstrip("\n")

    @property
    def lines(self) -> list[Any]:
        """Standard output as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


Cli = Callable[..., Said]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a home of its own, in which the model of scenarios is described, and nothing of the user's environment."""
    for name in list(os.environ):
        if name.startswith(("ANTHROPIC_", "FSM_AGENT")) or name in ("NO_COLOR", "FORCE_COLOR", "XDG_CONFIG_HOME"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    models = tmp_path / "home" / ".config" / "fsm-agent" / "models.json"
    models.parent.mkdir(parents=True)
    models.write_text('{"models": [{"name": "scenario-model"}]}')
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Give the command line in this process."""

    def call(*arguments: object) -> Said:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    return call


@pytest.fixture
def serve() -> Iterator[Callable[[str], LoopbackServer]]:
    """Serve scenarios, by name or as YAML text, to the end of the test."""
    with ExitStack() as stack:

        def start(source: str) -> LoopbackServer:
            scenario = loads(source, "scenario test.yaml") if "\n" in source else load(source)
            server = LoopbackServer(server_script(scenario), models=scenario.config.models)
            return stack.enter_context(server)

        yield start


@pytest.fixture
def against(cli: Cli, serve: Callable[[str], LoopbackServer]) -> Cli:
    """Give ``run`` against a served scenario: the scenario, then further arguments."""

    def call(scenario: str, *arguments: object) -> Said:
        server = serve(scenario)
        return cli("run", "Go.", "--base-url", server.base_url, "--model", "scenario-model", *arguments)

    return call


def process(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    """Start the command line as a process of its own."""
    command = [sys.executable, "-m", "fsm_agent", *(str(argument) for argument in arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    return subprocess.Popen(command, **pipes)


def demo_log(cli: Cli, scenario: str, folder: Path) -> Path:
    """Play a demo, and give its log."""
    said = cli("demo", "--scenario", scenario, "--keep", folder, "--output-format", "json")
    return Path(json.loads(said.out)["log"])
