"""Bad input: one clear line, the right exit code, nothing on standard output, nothing sent."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from .conftest import Cli

NOWHERE = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--frobnicate",), "No such option '--frobnicate'"),
        (("rum",), "there is no command 'rum'; did you mean 'run'?"),
        (("demo", "extra"), "unexpected extra argument (extra); a scenario is named by --scenario"),
        (("run", "Fix", "it"), "a prompt of several words needs quotes"),
        (("demo", "--output-format", "xml"), "'xml' is not one of"),
        (("demo", "--include-partial-messages"), "needs --output-format stream-json"),
        (("run", "Hi."), "there is no API key: set ANTHROPIC_API_KEY"),
        (("run", "Hi.", "--base-url", "nowhere"), "is no URL"),
        (("run", "Hi.", "--base-url", "http://[::1"), "is no URL"),
        (("run", "Hi.", "--base-url", "http://127.0.0.1:99999"), "is no URL"),
        (("run", "Hi.", "--base-url", "http://:80"), "is no URL"),
        (("run", "Hi.", "--base-url", NOWHERE, "--model", "m\udcff"), "model holds characters that no request can carry"),
        (("run", " ", "--base-url", NOWHERE), "the prompt is empty"),
        (("run", "Hi.", "--base-url", NOWHERE, "--model", " "), "--model: the name is empty"),
        (("run", "Hi.", "--base-url", NOWHERE, "--set", "max_turn=3"), "did you mean 'max_turns'?"),
        (("run", "Hi.", "--base-url", NOWHERE, "--set", "max_turns=many"), "write a whole number, not 'many'"),
        (("run", "Hi.", "--base-url", NOWHERE, "--set", "max_turns"), "write key=value"),
        (("run", "Hi.", "--base-url", NOWHERE, "--set", "max_turns=0"), "max_turns must be a whole number of at least 1"),
        (("run", "Hi.", "--base-url", NOWHERE, "--set", "early_start=soon"), "'soon' is none of read_only"),
        (("run", "Hi.", "--base-url", NOWHERE, "--set", "collapse=maybe"), "write true or false"),
        (("run", "Hi.", "--base-url", NOWHERE, "--set", "effort=zzz"), "effort must be one of low, medium, high"),
        (("run", "Hi.", "--base-url", NOWHERE, "--effort", "zzz"), "effort must be one of low, medium, high"),
        (("run", "Hi.", "--base-url", NOWHERE, "--set", "thinking=zzz"), "thinking must be one of adaptive, enabled"),
        (("run", "Hi.", "--base-url", NOWHERE, "--set", "thinking_display=x"), "thinking_display must be one of summarized"),
        (("run", "Hi.", "--base-url", NOWHERE, "--set", "cancel_siblings_on=x"), "must be 'failed' or 'error', not 'x'"),
        (("run", "Hi.", "--base-url", NOWHERE, "--set", "tools=Bash"), "this comes from the tools themselves"),
        (("run", "Hi.", "--base-url", NOWHERE, "--set", "context_window=5"), "thresholds of"),
        (("run", "Hi.", "--base-url", NOWHERE, "--max-turns", "3", "--set", "max_turns=4"), "given by another option"),
        (("run", "Hi.", "--base-url", NOWHERE, "--token-budget", "lots"), "write a number of tokens such as 500k"),
        (("run", "Hi.", "--base-url", NOWHERE, "--max-budget-usd", "-1"), "write an amount of dollars above 0"),
        (("run", "Hi.", "--base-url", NOWHERE, "--max-budget-usd", "NaN"), "write an amount of dollars above 0"),
        (("run", "Hi.", "--base-url", NOWHERE, "--permission-mode", "yolo"), "'yolo' is not one of"),
        (("run", "Hi.", "--base-url", NOWHERE, "--disallowed-tools", "bash"), "did you mean 'Bash'?"),
        (("run", "Hi.", "--base-url", NOWHERE, "--allowed-tools", "Bash(git"), "is no rule"),
        (("run", "Hi.", "--base-url", NOWHERE, "--settings", "none.json"), "--settings none.json: No such file"),
        (("run", "Hi.", "--base-url", NOWHERE, "--settings", "{"), "--settings: is no JSON"),
        (("run", "Hi.", "--base-url", NOWHERE, "--settings", '{"permissions": []}'), "'permissions' must be an object"),
        (("run", "Hi.", "--base-url", NOWHERE, "--settings", '{"hooks": {"Stop": 1}}'), "hooks.Stop must be a list"),
        (
            ("run", "Hi.", "--base-url", NOWHERE, "--settings", '{"permissions": {"defaultMode": "x"}}'),
            "unknown permission mode",
        ),
        (("run", "Hi.", "--base-url", NOWHERE, "--cwd", "nowhere"), "does not exist"),
        (("run", "Hi.", "--base-url", NOWHERE, "--add-dir", "nowhere"), "does not exist"),
        (("run", "Hi.", "--base-url", NOWHERE, "--log", "."), "is a directory"),
        (("run", "Hi.", "--base-url", NOWHERE, "--log", "/dev/null/x.jsonl"), "/dev/null is no directory"),
        (("run", "Hi.", "--base-url", NOWHERE, "--model", "m", "--fallback-model", "m"), "must not name the main model"),
        (("serve",), "which scenario?"),
        (("serve", "nope"), "no scenario 'nope' in the catalog"),
        (("serve", "./none.yaml"), "no scenario file"),
        (("replay",), "Missing argument 'LOG...'"),
        (("replay", "none.jsonl"), "none.jsonl: No such file or directory"),
        (("replay", "."), ".: there is no log in this folder"),
        (("show", "none.jsonl"), "none.jsonl: No such file or directory"),
        (("logs", "none"), "none: No such file or directory"),
        (("diagram", "--focus", "nothing"), "there is no part 'nothing'"),
        (("diagram", "--format", "gif"), "'gif' is not one of"),
        (("diagram", "--coverage"), "--coverage needs --log"),
        (("diagram", "--log", "none.jsonl"), "none.jsonl: No such file or directory"),
        (("diagram", "--format", "dot", "--output", "/dev/null/x"), "/dev/null is no folder"),
    ],
)
def test_wrong_use_is_one_line(cli: Cli, arguments: tuple[str, ...], words: str) -> None:
    """Wrong use is one line on standard error, exit code 2, and nothing else."""
    said = cli(*arguments)
    assert (said.code, said.out) == (2, "")
    assert words in said.error


def test_no_prompt_on_a_terminal(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal without a prompt nothing waits for ever: the line says what to do."""
    terminal = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdin", terminal)
    said = cli("run", "--base-url", NOWHERE)
    assert said.code == 2
    assert "there is no prompt" in said.error


@pytest.mark.parametrize(
    ("raw", "words"), [(b"", "is empty"), (b"\xff\xfe\xff", "is no UTF-8 text"), (b"x" * 10_000_001, "10 MB")]
)
def test_bad_standard_input(cli: Cli, monkeypatch: pytest.MonkeyPatch, raw: bytes, words: str) -> None:
    """Standard input that is empty, too large or no text is refused."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(raw)))
    said = cli("run", "--base-url", NOWHERE)
    assert said.code == 2
    assert words in said.error


def test_existing_log_is_never_overwritten(cli: Cli, home: Path) -> None:
    """A log's file that exists is refused before anything is sent, and stays as it is."""
    (home / "run.jsonl").write_text("mine")
    said = cli("run", "Hi.", "--base-url", NOWHERE, "--log", home / "run.jsonl")
    assert said.code == 2
    assert "never overwritten" in said.error
    assert (home / "run.jsonl").read_text() == "mine"


def test_log_that_is_a_dangling_link_is_refused(cli: Cli, home: Path) -> None:
    """A link that leads nowhere is in the way as a file is: it is refused before anything is sent."""
    (home / "run.jsonl").symlink_to(home / "nowhere.jsonl")
    said = cli("run", "Hi.", "--base-url", NOWHERE, "--log", home / "run.jsonl")
    assert said.code == 2
    assert "never overwritten" in said.error


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write and read everything")
def test_places_without_permission(cli: Cli, home: Path) -> None:
    """A folder that cannot be written and a file that cannot be read are named."""
    (home / "closed").mkdir(mode=0o500)
    said = cli("run", "Hi.", "--base-url", NOWHERE, "--log", home / "closed" / "run.jsonl")
    assert said.code == 2
    assert "not writable" in said.error
    (home / "secret.jsonl").write_text("x")
    (home / "secret.jsonl").chmod(0)
    assert "Permission denied" in cli("replay", home / "secret.jsonl").error


def test_broken_scenario(cli: Cli, home: Path) -> None:
    """A scenario file that is wrong names its place, for both commands."""
    path = home / "bad.yaml"
    path.write_text("title: x\nexpect: {reason: completed, cause: nonsense}\nprompt: x\n")
    for command in (("demo", "--scenario", path), ("serve", path)):
        said = cli(*command)
        assert said.code == 2
        assert said.error.startswith("scenario bad.yaml")


def test_server_that_is_not_there(cli: Cli, home: Path) -> None:
    """No server behind the URL: the API failed, told in one line, without a traceback."""
    options = ("--set", "max_attempts=1", "--output-format", "json")
    said = cli("run", "Hi.", "--base-url", NOWHERE, *options)
    assert said.code == 6
    assert said.error.startswith("the run ended with model_error/attempts_exhausted")


def test_unexpected_error(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody foresaw is one line and exit code 1; the traceback comes with ``--verbose``."""

    def broken(raw: bool) -> object:
        raise RuntimeError("something odd")

    monkeypatch.setattr("fsm_agent.cli.masking.redactor", broken)
    said = cli("logs", ".")
    assert said.code == 1
    assert said.error == "unexpected RuntimeError: something odd; for the traceback, add --verbose"
    loud = cli("logs", ".", "--verbose")
    assert loud.code == 1
    assert "Traceback" in loud.err
