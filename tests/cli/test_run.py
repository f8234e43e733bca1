"""``run`` against real HTTP on loopback: exit codes, formats, options."""

from __future__ import annotations

import io
import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fsm_agent.server.app import LoopbackServer

from .conftest import Cli

TOOL_CALL = """
title: A call, then an answer.
expect: {reason: completed, cause: end_turn}
prompt: x
replies:
  - blocks: [{text: I look.}, {tool: %s, input: %s}]
  - Done.
"""


@pytest.mark.parametrize(
    ("scenario", "options", "code", "ending"),
    [
        ("hello", (), 0, None),
        ("empty-reply", (), 1, "completed/empty_reply"),
        ("next-turn", ("--max-turns", 1), 4, "max_turns/max_turns"),
        ("hello", ("--set", "blocking_limit=41", "--set", "auto_compact_at=40"), 4, "blocking_limit/context_irreducible"),
        ("refusal", (), 5, "completed/refusal"),
        ("auth", (), 6, "model_error/auth"),
        ("attempts-exhausted", ("--set", "backoff_ms=1", "--set", "max_attempts=2"), 6, "model_error/attempts_exhausted"),
    ],
)
def test_exit_codes(against: Cli, scenario: str, options: tuple[object, ...], code: int, ending: str | None) -> None:
    """Each kind of ending has its exit code; one that is no success is told in one line, and never on standard output."""
    said = against(scenario, *options, "--output-format", "json")
    assert said.code == code, said.err
    result = json.loads(said.out)
    assert result["is_error"] is (code != 0)
    if ending is None:
        assert said.err == ""
    else:
        assert said.error.startswith(f"the run ended with {ending}")


def test_text_is_the_answer(against: Cli) -> None:
    """Without a terminal, text is the final answer and nothing else."""
    said = against("hello")
    assert (said.code, said.out, said.err) == (0, "Hello.\n", "")


def test_failed_run_prints_no_answer(against: Cli) -> None:
    """An error is no answer: standard output stays empty (field report 111)."""
    said = against("auth")
    assert said.out == ""
    assert said.code == 6


def test_unknown_model(cli: Cli, serve: Callable[[str], LoopbackServer]) -> None:
    """A model that the API does not know is an API failure, named; before that, that nobody here knows it either."""
    server = serve("hello")
    said = cli("run", "Go.", "--base-url", server.base_url, "--model", "no-such-model")
    assert said.code == 6
    warning, error = said.err.splitlines()
    assert warning.startswith("fsm-agent: warning: nothing is known of the model 'no-such-model'")
    assert "no-such-model" in error


def shape(value: Any) -> Any:
    """Give the keys of an object, and of the objects in it."""
    return {key: shape(item) for key, item in value.items()} if isinstance(value, dict) else type(value).__name__


def test_stream_json_ends_with_the_object_of_json(cli: Cli, serve: Callable[[str], LoopbackServer]) -> None:
    """Every line is an object; the first is ``init``, the last has the shape of the one that ``json`` prints."""
    scenario = TOOL_CALL % ("Glob", "{pattern: '*'}")
    results = []
    for form in ("json", "stream-json"):
        server = serve(scenario)
        results.append(cli("run", "Go.", "--base-url", server.base_url, "--model", "scenario-model", "--output-format", form))
    one, many = results
    assert (one.code, many.code, one.err, many.err) == (0, 0, "", "")
    assert len(one.lines) == 1
    assert shape(one.lines[0]) == shape(many.lines[-1])
    assert [(line["type"], line.get("subtype")) for line in many.lines] == [
        ("system", "init"),
        ("assistant", None),
        ("assistant", None),
        ("user", None),
        ("assistant", None),
        ("result", "success"),
    ]
    assert {line["session_id"] for line in many.lines} == {many.lines[-1]["session_id"]}
    assert len({line["uuid"] for line in many.lines}) == len(many.lines)
    result = many.lines[-1]
    assert result["result"] == "Done."
    assert result["num_turns"] == 2
    assert result["transitions"] == ["next_turn"]
    assert Path(result["log"]).is_file()


def test_partial_messages(against: Cli) -> None:
    """With partial messages each raw event of the API has a line, and each call an end."""
    said = against("hello", "--output-format", "stream-json", "--include-partial-messages")
    events = [line["event"]["type"] for line in said.lines if line["type"] == "stream_event"]
    assert events[0] == "message_start"
    assert events[-1] == "message_stop"
    assert [line["ending"] for line in said.lines if line.get("subtype") == "call_end"] == ["kept"]


def test_tombstones_name_lines(cli: Cli) -> None:
    """What a discarded attempt had shown is named by a tombstone: every id and uuid is that of an earlier line."""
    said = cli("demo", "--scenario", "discarded-attempt", "--output-format", "stream-json")
    graves = [line for line in said.lines if line["type"] == "tombstone"]
    assert graves
    for grave in graves:
        before = said.lines[: said.lines.index(grave)]
        assert set(grave["ids"]) <= {line.get("output_id") for line in before}
        assert set(grave["uuids"]) <= {line["uuid"] for line in before}
        assert len(grave["uuids"]) == len(grave["ids"])


def test_each_call_has_one_result_line(cli: Cli) -> None:
    """Results that the engine makes up (not run) have lines too, and no call has two."""
    said = cli("demo", "--scenario", "interrupt-tools", "--output-format", "stream-json")
    blocks = [block for line in said.lines if line["type"] == "user" for block in line["message"]["content"]]
    results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    calls = [
        block["id"]
        for line in said.lines
        if line["type"] == "assistant"
        for block in line["message"]["content"]
        if block["type"] == "tool_use"
    ]
    assert sorted(results) == sorted(calls)
    assert len(calls) == 2


def test_denied_calls_are_told(against: Cli) -> None:
    """Nobody is asked: what needs the user is denied, the run goes on, and the user is told (field report 94)."""
    said = against(TOOL_CALL % ("Bash", "{command: touch made}"))
    assert said.code == 0
    assert said.out == "Done.\n"
    assert said.error == "1 call was denied (Bash); allow more with --allowed-tools or --permission-mode"
    assert not Path("made").exists()


@pytest.mark.parametrize(
    "options",
    [
        ("--allowed-tools", "Bash(touch:*)", "Read"),
        ("--allowedTools", "Read,Bash(touch:*)"),
        ("--permission-mode", "bypassPermissions"),
        ("--settings", '{"permissions": {"allow": ["Bash(touch:*)"]}}'),
        ("--settings", '{"permissions": {"defaultMode": "bypassPermissions"}}'),
    ],
)
def test_permissions(against: Cli, options: tuple[object, ...]) -> None:
    """Rules and modes allow a call, in each way of giving them."""
    said = against(TOOL_CALL % ("Bash", "{command: touch made}"), *options)
    assert (said.code, said.err) == (0, "")
    assert Path("made").exists()


def test_deny_wins(against: Cli) -> None:
    """A rule that denies holds against a mode that allows."""
    scenario = TOOL_CALL % ("Bash", "{command: touch made}")
    said = against(scenario, "--permission-mode", "bypassPermissions", "--disallowed-tools", "Bash(touch:*)")
    assert said.code == 0
    assert not Path("made").exists()


def test_settings_file_with_hooks(against: Cli, home: Path) -> None:
    """Hooks of a settings file run: one that denies a tool keeps it from running."""
    hook = {"type": "command", "command": "echo no >&2; exit 2"}
    settings = {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]}, "oddKey": 1}
    (home / "settings.json").write_text(json.dumps(settings))
    scenario = TOOL_CALL % ("Bash", "{command: touch made}")
    said = against(scenario, "--permission-mode", "bypassPermissions", "--settings", home / "settings.json")
    assert said.code == 0
    assert "oddKey is not known here" in said.err
    assert not Path("made").exists()


def test_prompt_from_standard_input(cli: Cli, serve: Callable[[str], LoopbackServer], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a prompt, or with ``-``, standard input is the prompt; the system prompt is ours, extended or replaced."""
    for given in ((), ("-",)):
        server = serve("hello")
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("Grüße".encode())))
        options = ("--base-url", server.base_url, "--model", "scenario-model", "--append-system-prompt", "Be brief.")
        assert cli("run", *given, *options).code == 0
        body = json.dumps(server.messages[0].body, ensure_ascii=False)
        assert "Grüße" in body
        assert "Be brief." in body
        assert "working directory" in body


def test_log_is_private_and_replays(against: Cli, cli: Cli, home: Path) -> None:
    """``--log`` names the file; only its owner can read it, it replays, and the key is not in it (field report 99)."""
    log = home / "my logs" / "run.jsonl"
    assert against("hello", "--log", log).code == 0
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert cli("replay", log).code == 0


def test_key_never_enters_the_log(
    cli: Cli, serve: Callable[[str], LoopbackServer], monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    """The API key goes to the API, and nowhere else: not to tools, not to the log (field report 99)."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key-0123456789-secret")
    server = serve(TOOL_CALL % ("Bash", "{command: env}"))
    options = ("--permission-mode", "bypassPermissions", "--log", home / "run.jsonl", "--verbose")
    said = cli("run", "Go.", "--base-url", server.base_url, "--model", "scenario-model", *options)
    assert said.code == 0
    assert "key-0123456789-secret" in server.messages[0].headers.values() or (
        server.messages[0].headers["authorization"] == "Bearer key-0123456789-secret"
    )
    assert "0123456789" not in said.out + said.err + (home / "run.jsonl").read_text()


def test_retries_are_told(against: Cli) -> None:
    """An attempt that failed is one line on standard error; the answer is clean."""
    said = against("retry", "--set", "backoff_ms=1")
    assert said.code == 0
    assert said.out == "Hello.\n"
    assert [line.split(" failed")[0] for line in said.err.splitlines()] == [
        "fsm-agent: attempt 1 of 8",
        "fsm-agent: attempt 2 of 8",
    ]


def test_token_budget(against: Cli) -> None:
    """A token budget keeps the model working."""
    said = against("token-budget", "--token-budget", "2k", "--output-format", "json")
    assert "token_budget_continuation" in json.loads(said.out)["transitions"]
