"""``view``, ``export``, ``import``, and the path of a log on the machine."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fsm_agent.server.app import LoopbackServer
from fsm_agent.server.replies import says
from fsm_agent.view import is_view

from .conftest import Cli, demo_log, process

SHARED = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "transcripts"


@pytest.fixture
def log(cli: Cli, tmp_path: Path) -> Path:
    """Give the log of a short real run."""
    return demo_log(cli, "next-turn", tmp_path / "kept")


def test_view_writes_a_private_file_beside_the_log(cli: Cli, log: Path) -> None:
    """Without an output the page stands beside the log, open to its owner only, and its place is printed; again is no error."""
    for _ in range(2):
        said = cli("view", log)
        assert said.code == 0, said.err
        place = log.with_suffix(".html")
        assert said.out.startswith(f"{place}  (")
        assert is_view(place.read_bytes())
        assert stat.S_IMODE(place.stat().st_mode) == 0o600
        assert sorted(path.name for path in log.parent.glob("*.html*")) == [place.name]


def test_view_overwrites_nothing_that_is_no_view(cli: Cli, log: Path, tmp_path: Path) -> None:
    """A file that is no view stays as it is; one line says so, exit code 2. The log itself is such a file."""
    other = tmp_path / "notes.html"
    other.write_text("mine")
    said = cli("view", log, "--output", other)
    assert (said.code, other.read_text()) == (2, "mine")
    assert "not overwritten" in said.error
    before = log.read_bytes()
    assert cli("view", log, "--output", log).code == 2
    assert log.read_bytes() == before


def test_view_goes_to_standard_output(log: Path) -> None:
    """With a dash the page, and nothing else, goes to standard output; a reader that leaves is no error."""
    with process("view", log, "--output", "-") as started:
        assert is_view(started.communicate()[0].encode())
        assert started.returncode == 0
    left = subprocess.run(
        f"{shlex.quote(sys.executable)} -m fsm_agent view {shlex.quote(str(log))} --output - | head -c 100",
        shell=True,
        capture_output=True,
        check=False,
    )
    assert left.stderr == b""


def test_view_of_a_damaged_log_shows_what_is_whole(cli: Cli, log: Path) -> None:
    """Damage is one line and exit code 3; the page of what stands before it is written all the same."""
    data = bytearray(log.read_bytes())
    data[-600] ^= 1
    log.chmod(0o600)
    log.write_bytes(data)
    said = cli("view", log)
    assert said.code == 3
    assert "damaged" in said.err
    assert is_view(log.with_suffix(".html").read_bytes())


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("view", "nowhere.jsonl"), 2, "nowhere.jsonl: No such file"),
        (("view", "empty"), 3, "the file is empty"),
        (("view", "LOG", "--output", "missing/x.html"), 2, "missing/x.html"),
        (("view", "LOG", "--output", "-", "--open"), 2, "--open needs a file"),
        (("export", "nowhere.jsonl"), 2, "nowhere.jsonl: No such file"),
        (("export", "empty"), 3, "the file is empty"),
        (("export", "LOG", "--at", "999"), 2, "there is no record 999"),
        (("export", "LOG", "--format", "otel", "--at", "3"), 2, "--at goes with --format messages only"),
        (("export", "LOG", "--content"), 2, "--content goes with --format otel only"),
        (("export", "LOG", "--format", "xml"), 2, "xml"),
        (("export", "LOG", "--output", "missing/x.json"), 2, "missing/x.json"),
        (("import", "nowhere.jsonl"), 2, "nowhere.jsonl: No such file"),
        (("import", "empty"), 1, "no conversation"),
        (("import", "LOG"), 1, "no conversation"),
        (("import", "talk", "-o", "LOG"), 2, "a log is never overwritten"),
    ],
)
def test_bad_input_is_one_line(cli: Cli, log: Path, arguments: tuple[str, ...], code: int, words: str) -> None:
    """Wrong use, missing and foreign files: one line that says what is wrong, and the exit code for it."""
    Path("empty").touch()
    _talk(Path("talk"), "m")
    said = cli(*(str(log) if word == "LOG" else word for word in arguments))
    assert said.code == code
    assert words in said.error


def _talk(path: Path, model: str) -> None:
    entries = [
        {"type": "user", "message": {"role": "user", "content": "My number is 7."}, "sessionId": "old"},
        {"type": "assistant", "message": {"role": "assistant", "content": "I shall remember.", "model": model}},
    ]
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))


def test_export_messages_and_spans(cli: Cli, log: Path, tmp_path: Path) -> None:
    """Messages are a list as the API takes it, spans are OTLP JSON; both are the only thing on standard output."""
    messages = json.loads(cli("export", log).out)
    assert [message["role"] for message in messages] == ["user", "assistant", "user", "assistant"]
    spans = json.loads(cli("export", log, "--format", "otel").out)
    names = [span["name"] for span in spans["resourceSpans"][0]["scopeSpans"][0]["spans"]]
    assert names[0] == "invoke_agent fsm_agent"
    assert sum(name.startswith("chat ") for name in names) == 2
    assert any(name.startswith("execute_tool ") for name in names)
    said = cli("export", log, "--output", tmp_path / "m.json")
    assert said.out.startswith(f"{tmp_path / 'm.json'}  (messages, ")
    assert said.code == 0
    assert json.loads((tmp_path / "m.json").read_text()) == messages


def test_exports_and_views_mask_secrets_unless_told(cli: Cli, serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The value of a secret variable of this process is masked in what leaves the machine; --raw shows it."""
    monkeypatch.setenv("MY_API_TOKEN", "correct-horse-battery")
    server = serve("hello")
    said = cli(
        *("run", "Say correct-horse-battery.", "--base-url", server.base_url, "--model", "scenario-model", "--log", "a.jsonl")
    )
    assert said.code == 0, said.err
    assert b"correct-horse" in Path("a.jsonl").read_bytes()
    for command in (
        ("export", "a.jsonl"),
        ("export", "a.jsonl", "--format", "otel", "--content"),
        ("view", "a.jsonl", "--output", "-"),
    ):
        assert "correct-horse" not in cli(*command).out
    assert "correct-horse" in cli("export", "a.jsonl", "--raw").out


def test_an_imported_conversation_goes_on(cli: Cli) -> None:
    """A transcript becomes a log; the next run sends its messages in front of the new prompt, and the API takes them."""
    _talk(Path("talk.jsonl"), "scenario-model")
    said = cli("import", "talk.jsonl", "-o", "mine.jsonl")
    assert said.code == 0, said.err
    assert said.out.splitlines()[0] == "mine.jsonl"
    assert cli("replay", "mine.jsonl").code == 0
    with LoopbackServer([says("It is 7.")]) as server:
        gone = cli("run", "Which number?", "--resume", "mine.jsonl", "--base-url", server.base_url, "--log", "next.jsonl")
        assert gone.code == 0, gone.err
        (request,) = server.requests
        assert request.breaches == ()
    words = [block["text"] for message in request.body["messages"] for block in message["content"]]
    assert words == ["My number is 7.", "I shall remember.", "Which number?"]
    assert "It is 7." in gone.out


def test_notes_of_an_import_go_to_standard_error(cli: Cli) -> None:
    """What was left out or mended is told on standard error; by default the log is in the usual place."""
    entries = [
        {"type": "user", "message": {"role": "user", "content": "hi"}},
        {
            "type": "assistant",
            "message": {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}], "model": "m"},
        },
        {"type": "assistant", "message": {"role": "assistant", "content": "ho", "model": "m"}},
    ]
    Path("t.jsonl").write_text("\n".join(json.dumps(entry) for entry in entries))
    said = cli("import", "t.jsonl")
    assert said.code == 0
    assert "thinking block left out" in said.err
    assert Path(said.out.splitlines()[0]).is_relative_to(os.environ["XDG_STATE_HOME"])
    assert said.out.splitlines()[0] in cli("logs").out


@pytest.mark.skipif(not SHARED.is_dir(), reason="the transcripts in ../shared are not here")
def test_every_transcript_imports_or_says_why(cli: Cli) -> None:
    """Each recorded transcript becomes a log that replays, or is refused in one line with exit code 1."""
    codes = []
    for number, path in enumerate(sorted(SHARED.rglob("*.jsonl"))):
        said = cli("import", path, "-o", f"{number}.jsonl")
        codes.append(said.code)
        if said.code:
            assert (said.code, said.out) == (1, "")
            assert "no conversation" in said.error
    assert codes.count(0) >= 20


@pytest.mark.parametrize("form", ["dot", "mermaid", "svg"])
def test_the_path_of_a_log_is_painted_with_counts(cli: Cli, log: Path, form: str) -> None:
    """``diagram --log`` names the rows taken with their counts, in text and in pictures."""
    said = cli("diagram", "--log", log, "--format", form)
    assert said.code == 0, said.err
    assert "call_model ×2" in said.out
    assert "next_turn ×1" in said.out
    assert "stays ×0" not in said.out
