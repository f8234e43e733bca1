"""What a project brings to ``run``: settings, trust, commands, memory, skills, servers, structured output."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from fsm_agent.server.app import LoopbackServer
from fsm_agent.server.replies import calls, says
from fsm_agent.server.replies import tool as use

from .conftest import Cli, Said

TOUCH = calls(use("Bash", {"command": "touch made"}))


@pytest.fixture
def served(cli: Cli) -> Iterator[Any]:
    """Give ``run`` against a server that answers in turn; the server is given back too."""
    with ExitStack() as stack:

        def call(replies: Sequence[Any], *arguments: object) -> tuple[Said, LoopbackServer]:
            server = stack.enter_context(LoopbackServer(list(replies), models=None))
            return cli("run", *arguments, "--base-url", server.base_url, "--model", "claude-sonnet-5-5"), server

        yield call


def write(path: str, value: Any) -> None:
    place = Path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(value if isinstance(value, str) else json.dumps(value))


ALLOW = {"permissions": {"allow": ["Bash(touch:*)"]}}


@pytest.mark.parametrize(
    ("options", "made", "warned"),
    [((), False, 1), (("--trust",), True, 0), (("--bare",), False, 0), (("--setting-sources", "user"), False, 0)],
)
def test_rules_of_a_project(served: Any, options: tuple[str, ...], made: bool, warned: int) -> None:
    """Allow rules of a project's file hold where it is trusted; where not, one warning names what was left out."""
    write(".claude/settings.json", ALLOW)
    said, _ = served([TOUCH, says("ok")], "go", *options)
    assert said.code == 0
    assert Path("made").exists() is made
    assert said.err.count("is not trusted: left out were allow rules in") == warned


@pytest.mark.parametrize("prompt", ["/nope", "/compact"])
def test_a_prompt_that_needs_no_run_ends_in_one_line(served: Any, prompt: str) -> None:
    """What was refused, or had nothing to do, says why, once; there is no talk of a run that failed."""
    said, server = served([], prompt)
    assert (said.code, said.out, server.requests) == (1, "", [])
    (line,) = said.err.splitlines()
    assert {"/nope": "there is no command /nope", "/compact": "nothing to compact"}[prompt] in line
    asked, _ = served([], prompt, "--output-format", "json")
    assert asked.code == 1
    assert len(asked.lines[0]["errors"]) == 1


def test_rules_of_the_user_hold_everywhere(served: Any, home: Path) -> None:
    """The user's own file grants in every folder, and a deny rule of an untrusted project still wins over it."""
    write(str(home / "home" / ".claude" / "settings.json"), ALLOW)
    served([TOUCH, says("ok")], "go")
    assert Path("made").exists()
    Path("made").unlink()
    write(".fsm-agent/settings.json", {"permissions": {"deny": ["Bash(touch:*)"]}})
    served([TOUCH, says("ok")], "go")
    assert not Path("made").exists()


def test_hooks_of_a_project_need_trust(served: Any) -> None:
    """Hooks of a project run where it is trusted, and nowhere else."""
    hook = {"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "touch hooked; echo it is Tuesday"}]}]}}
    write(".fsm-agent/settings.json", hook)
    served([says("ok")], "go")
    assert not Path("hooked").exists()
    _, server = served([says("ok")], "go", "--trust")
    assert Path("hooked").exists()
    assert "it is Tuesday" in json.dumps(server.requests[0].body)


def test_commands_skills_and_memory(served: Any) -> None:
    """Commands and skills are called by name, memory files go with the prompt, and the init line names them all."""
    write(".claude/commands/fix.md", "Fix issue $0.")
    write(".claude/skills/brew/SKILL.md", "---\nname: brew\ndescription: Brews tea\n---\nBoil water for $ARGUMENTS.")
    write("AGENTS.md", "Always whisper.")
    said, server = served([says("ok")], "/fix 7", "--output-format", "stream-json")
    body = json.dumps(server.requests[0].body)
    assert "Fix issue 7." in body
    assert "Always whisper." in body
    init = said.lines[0]
    assert {"fix", "brew", "compact"} <= set(init["slash_commands"])
    assert (init["skills"], "general" in init["agents"]) == (["brew"], True)
    _, server = served([says("ok")], "/brew two")
    assert "Boil water for two." in json.dumps(server.requests[0].body)
    _, server = served([says("ok")], "hi", "--bare")
    assert "Always whisper." not in json.dumps(server.requests[0].body)


def test_a_command_that_does_not_exist_sends_nothing(served: Any) -> None:
    """A typo makes no request, is told on standard error, and fails."""
    said, server = served([], "/nonsense")
    assert server.requests == []
    assert said.code == 1
    assert "there is no command /nonsense" in said.err


def test_a_local_command_answers(served: Any) -> None:
    """A command of the session itself prints its answer and is a success, without a request."""
    said, server = served([], "/permissions")
    assert (said.code, server.requests) == (0, [])
    assert said.out.startswith("**Mode** default")


def test_structured_output(served: Any, home: Path) -> None:
    """``--json-schema`` sends wrong answers back, gives the value in the result, and refuses what is no schema."""
    schema = '{"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}'
    write("schema.json", schema)
    script = [says("no"), says('{"n": 3}')]
    said, _ = served(script, "go", "--json-schema", "schema.json", "--output-format", "json")
    assert json.loads(said.out)["structured_output"] == {"n": 3}
    said, _ = served([says("no")] * 6, "go", "--json-schema", schema, "--output-format", "json")
    assert json.loads(said.out)["subtype"] == "error_max_structured_output_retries"
    assert said.code == 1
    for wrong in ("{", '{"type": 3}', "missing.json"):
        said, _ = served([], "go", "--json-schema", wrong)
        assert said.code == 2
        assert said.error.startswith("--json-schema")


def test_mcp_servers_need_trust_or_the_command_line(served: Any) -> None:
    """Servers of ``.mcp.json`` start where the folder is trusted, those of the command line always; a broken one warns."""
    broken = {"mcpServers": {"gone": {"command": "/no/such/program"}}}
    write(".mcp.json", broken)
    said, _ = served([says("ok")], "go")
    assert "MCP servers in" in said.err
    for options in (("--trust",), ("--mcp-config", json.dumps(broken))):
        said, _ = served([says("ok")], "go", *options, "--output-format", "stream-json")
        assert said.code == 0
        assert said.lines[0]["mcp_servers"] == [{"name": "gone", "status": "failed"}]
    said, _ = served([], "go", "--mcp-config", "{")
    assert said.code == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "is no JSON"), ('{"permissions": {"allow": "x"}}', "permissions.allow"), ('{"hooks": {"Stop": 1}}', "hooks.Stop")],
)
def test_a_broken_settings_file_is_named(served: Any, text: str, words: str) -> None:
    """A settings file that cannot be read is one line that names it, exit code 2, and nothing is sent."""
    write(".claude/settings.json", text)
    said, server = served([], "go")
    assert said.code == 2
    assert "settings.json" in said.error
    assert words in said.error
    assert server.requests == []
    assert served([], "go", "--setting-sources", "team")[0].error.startswith("--setting-sources: 'team'")
