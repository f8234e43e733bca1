"""``diagram`` and ``doctor``: what they print, and what they do without Graphviz."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from fsm_agent.server.app import LoopbackServer

from .conftest import Cli, demo_log


@pytest.mark.parametrize(("fmt", "start"), [("dot", "//"), ("mermaid", ""), ("scxml", "<?xml")])
def test_text_formats_need_no_program(cli: Cli, monkeypatch: pytest.MonkeyPatch, fmt: str, start: str) -> None:
    """Text formats go to standard output, Graphviz or not."""
    monkeypatch.setenv("PATH", "/nowhere")
    said = cli("diagram", "--format", fmt)
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(start)
    assert "calling_model" in said.out


def test_svg_without_graphviz(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Graphviz a drawn format is one line that says what to install and what works without."""
    monkeypatch.setenv("PATH", "/nowhere")
    said = cli("diagram")
    assert (said.code, said.out) == (2, "")
    assert "Graphviz is not installed" in said.error


@pytest.mark.parametrize(("name", "magic"), [("m.svg", b"<?xml"), ("m.png", b"\x89PNG"), ("m.mmd", b""), ("m.gv", b"")])
def test_format_follows_the_file(cli: Cli, home: Path, name: str, magic: bytes) -> None:
    """The name of the output file chooses the format."""
    if name.endswith(("svg", "png")) and shutil.which("dot") is None:
        pytest.skip("Graphviz is not installed")
    said = cli("diagram", "--focus", "recovery", "--output", home / name)
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(f"{home / name}  (recovery, ")
    assert (home / name).read_bytes().startswith(magic)


def test_a_file_of_an_unknown_kind_is_refused(cli: Cli, home: Path) -> None:
    """A name that tells of no format writes no file that is something else; with ``--format`` any name will do."""
    said = cli("diagram", "--output", home / "m.gif")
    assert (said.code, said.out) == (2, "")
    assert "'gif'" in said.error
    assert ".svg, .png, .dot, .gv, .mmd, .mermaid, .scxml" in said.error
    assert not (home / "m.gif").exists()
    assert cli("diagram", "--format", "dot", "--output", home / "m.gif").code == 0


def test_a_place_that_cannot_be_written_is_said_before_any_work(cli: Cli, home: Path) -> None:
    """Nothing is read or drawn for a folder that is not there, or for a format that shows no path."""
    log = demo_log(cli, "next-turn", home / "one")
    for words in (
        ("diagram", "--output", home / "missing" / "m.svg"),
        ("diagram", "--log", "no.jsonl", "--output", home / "missing" / "m.svg"),
        ("view", "no.jsonl", "--output", home / "missing" / "m.html"),
        ("export", "no.jsonl", "--output", home / "missing" / "m.json"),
    ):
        said = cli(*words)
        assert (said.code, said.out) == (2, "")
        assert f"there is no folder {home / 'missing'}" in said.error
    said = cli("diagram", "--log", log, "--format", "scxml")
    assert (said.code, said.out) == (2, "")
    assert "scxml shows no path of a run" in said.error


def test_a_dash_is_standard_output(cli: Cli, home: Path) -> None:
    """``-`` is no file of that name: it is standard output, and where that cannot be it is refused."""
    log = demo_log(cli, "next-turn", home / "one")
    assert cli("diagram", "--format", "dot", "--output", "-").out == cli("diagram", "--format", "dot").out
    assert cli("export", log, "--output", "-").out == cli("export", log).out
    said = cli("explore", "limits", "--coverage", "-")
    assert (said.code, said.out) == (2, "")
    assert "does not go to standard output; name a file" in said.error
    assert not Path("-").exists()


def test_path_of_a_run(cli: Cli, home: Path) -> None:
    """The rows of a log are painted; the coverage of several too."""
    one = demo_log(cli, "next-turn", home / "one")
    two = demo_log(cli, "retry", home / "two")
    plain, painted = cli("diagram", "--format", "dot"), cli("diagram", "--format", "dot", "--log", one)
    assert painted.code == 0
    assert painted.out != plain.out
    assert cli("diagram", "--format", "dot", "--log", one, "--log", two, "--coverage").code == 0
    assert cli("diagram", "--format", "dot", "--log", one, "--log", two).code == 2


def test_doctor_with_a_server(cli: Cli, serve: Callable[[str], LoopbackServer], monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is necessary is here; a server that answers is reachable; the key's value is never shown."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "very-secret-key")
    server = serve("hello")
    said = cli("doctor", "--json", "--base-url", server.base_url)
    checks = {check["name"]: check for check in said.lines[0]["checks"]}
    assert (said.code, said.err) == (0, "")
    assert said.lines[0]["ok"] is True
    assert all(checks[name]["ok"] for name in ("Python", "anthropic", "click", "log folder", "API key", "API server"))
    assert "very-secret-key" not in said.out
    assert server.requests[0].headers.get("x-api-key") is None


def test_doctor_says_what_each_lack_costs(cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is only useful and lacks has its cost beside it, and exit code 0; nothing is made."""
    monkeypatch.setenv("PATH", "/nowhere")
    before = sorted(os.listdir(home))
    said = cli("doctor", "--json", "--base-url", "http://127.0.0.1:9")
    lacking = {check["name"]: check["cost"] for check in said.lines[0]["checks"] if not check["ok"]}
    assert said.code == 0
    assert set(lacking) == {"bash", "Graphviz", "ripgrep", "API key", "API server"}
    assert all(lacking.values())
    assert sorted(os.listdir(home)) == before
    table = cli("doctor", "--offline")
    assert "Graphviz" in table.out
    assert "diagram draws no SVG and PNG" in table.out


def test_doctor_knows_the_extras(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """An extra that is not installed is no failure; it is said what it would add, and how to get it."""
    monkeypatch.setattr("fsm_agent.cli.checks.requires", lambda name: ['no-such-package>=1; extra == "chat"'])
    said = cli("doctor", "--offline", "--json")
    (chat,) = [check for check in json.loads(said.out)["checks"] if check["name"] == "[chat]"]
    assert said.code == 0
    assert (chat["ok"], chat["found"]) == (False, "no-such-package not installed")
    assert chat["cost"].endswith("pip install 'fsm_agent[chat]'")


def test_doctor_finds_a_necessary_lack(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that is not there, or too old, is exit code 1."""
    monkeypatch.setattr("fsm_agent.cli.checks.requires", lambda name: ["no-such-package>=1", "click>=999", "rich>=1,<2"])
    said = cli("doctor", "--offline", "--json")
    broken = [check["name"] for check in json.loads(said.out)["checks"] if check["necessary"] and not check["ok"]]
    assert said.code == 1
    assert broken == ["no-such-package", "click", "rich"]
