"""What a project and a home bring: agents, skills, memory files; read from real folders, used in real runs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from fsm_agent import Agent, run_sync
from fsm_agent.core.outputs import ToolResult
from fsm_agent.runtime.permissions.modes import Mode
from fsm_agent.runtime.tools.files import FileMemory
from fsm_agent.runtime.tools.todo import TodoWrite
from fsm_agent.server.app import LoopbackServer
from fsm_agent.server.replies import calls, says
from fsm_agent.server.replies import tool as use
from fsm_agent.session.agents import load_agents
from fsm_agent.session.discovery import discover
from fsm_agent.session.memory import MAX_CHARS, Memory, NestedMemory, imports_of, load_memory, user_context
from fsm_agent.session.skills import LISTED, LISTED_ALL, Skill, listing, load_skills

from .family import Family, ask


def put(path: Path, text: str) -> Path:
    """Write a file, with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    made.mkdir()
    return made


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


# -- agents ---------------------------------------------------------------------------------------------------------

FULL = """---
name: reviewer
description: Reviews code: strictly
tools: Read, Grep, mcp__good__*
disallowedTools: [Grep]
model: haiku
permissionMode: plan
maxTurns: 7
hooks: x
---

You review.
"""


def test_agents_of_project_and_home(project: Path, home: Path) -> None:
    """The project's definition wins over the user's, ``.fsm-agent`` over ``.claude``; the built-in one is there too."""
    put(home / ".claude/agents/a.md", "---\nname: a\n---\nfrom home")
    put(home / ".claude/agents/b.md", "---\nname: b\n---\nfrom home")
    put(project / ".claude/agents/b.md", "---\nname: b\n---\nfrom project")
    put(project / ".claude/agents/c.md", "from claude")
    put(project / ".fsm-agent/agents/c.md", "from fsm-agent")
    put(project / ".claude/agents/reviewer.md", FULL)
    found = load_agents(project, home)
    assert {name: agent.prompt for name, agent in found.agents.items() if name not in ("general", "reviewer")} == {
        "a": "from home",
        "b": "from project",
        "c": "from fsm-agent",
    }
    reviewer = found.agents["reviewer"]
    assert reviewer.description == "Reviews code: strictly"
    assert (reviewer.model, reviewer.mode, reviewer.max_turns) == ("haiku", Mode.PLAN, 7)
    assert [name for name in ("Read", "Grep", "mcp__good__add", "Bash") if reviewer.keeps(name)] == ["Read", "mcp__good__add"]
    assert [text for text in found.warnings if "hooks is not known here" in text]
    assert "general" in found.agents


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("---\nname: a b\n---\nx", "is no name for an agent"),
        ("---\nname: a\n---\n", "the prompt is empty"),
        ("---\nname: a\nx", "has no end"),
        ("---\n- a\n---\nx", "must be a list of settings"),
        ("---\nmaxTurns: many\n---\nx", "maxTurns must be a whole number"),
        ("---\nmaxTurns: 0\n---\nx", "max_turns must be at least 1"),
        ("---\npermissionMode: yolo\n---\nx", "unknown permission mode"),
        ("---\neffort: zzz\n---\nx", "effort must be one of low, medium, high"),
        ("---\ntools: {a: b}\n---\nx", "tools must be a list"),
        ("---\na: &a [x]\nb: *a\n---\nx", "aliases"),
    ],
)
def test_a_broken_definition_is_a_warning(project: Path, text: str, words: str) -> None:
    """A file that cannot be used is named with the reason; the others are there."""
    put(project / ".claude/agents/broken.md", text)
    put(project / ".claude/agents/fine.md", "fine")
    found = load_agents(project)
    assert list(found.agents) == ["general", "fine"]
    (warning,) = found.warnings
    assert words in warning
    assert "broken.md" in warning


def test_a_narrowed_tool_is_left_out(project: Path) -> None:
    """``Bash(git:*)`` in a list of tools cannot be kept here: the tool is left out, never given whole."""
    put(project / ".claude/agents/a.md", "---\ntools: Read, Bash(git:*)\n---\nx")
    found = load_agents(project)
    assert found.agents["a"].tools == ("Read",)
    assert "restrict a tool by a permission rule" in found.warnings[0]


def test_links_out_of_the_project_are_passed_over(project: Path, tmp_path: Path) -> None:
    """An agent, a skill or a memory file that is a link to somewhere else is not read."""
    secret = put(tmp_path / "secret.md", "SECRET")
    for name in (".claude/agents/a.md", ".claude/skills/a/SKILL.md", "AGENTS.md"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).symlink_to(secret)
    found = discover(project)
    assert list(found.agents) == ["general"]
    assert not found.skills
    assert not [file for file in found.memory if "SECRET" in file.text]
    assert any("not trusted" in warning for warning in found.warnings)


def test_a_named_pipe_holds_nobody_up(project: Path) -> None:
    """A pipe in the place of a file is passed over, not waited for."""
    for name in (".claude/agents/a.md", ".claude/skills/a/SKILL.md", "CLAUDE.md"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(project / name)
    found = discover(project)
    assert (list(found.agents), list(found.skills), found.memory) == (["general"], [], ())


# -- skills ---------------------------------------------------------------------------------------------------------

SKILL = """---
name: pdf-forms
description: Fills in PDF forms with the values of a table. Use it when forms or PDF documents are to be filled.
argument-hint: FILE
---

# Forms

Fill $0 in. Scripts are in ${CLAUDE_SKILL_DIR}/scripts. First: !`rm -rf x`
"""


def test_skills_load_in_three_levels(project: Path, home: Path) -> None:
    """The head is in the tool's description, the body comes on use with its arguments, a file of the user's skill on demand."""
    put(home / ".claude/skills/pdf-forms/SKILL.md", SKILL)
    put(home / ".claude/skills/pdf-forms/scripts/fill.py", "print('FILLED')")
    script = [
        calls(use("Skill", {"skill": "pdf-forms", "args": "tax.pdf"})),
        calls(use("Read", {"file_path": str(home / ".claude/skills/pdf-forms/scripts/fill.py")})),
        says("ok"),
    ]
    with LoopbackServer(script) as server:
        agent = Agent(
            "claude-sonnet-5-5", cwd=project, base_url=server.base_url, api_key="k", **discover(project, home).settings()
        )
        seen: list[Any] = []
        run_sync("hello there", agent=agent, on_output=seen.append)
        assert server.breaches == []
        bodies = [json.dumps(request.body) for request in server.requests]
    texts = [output.block.json for output in seen if isinstance(output, ToolResult)]
    assert "Fills in PDF forms" in bodies[0]
    assert "Scripts are in" not in bodies[0]
    assert "Fill tax.pdf in." in texts[0]
    assert f"{home}/.claude/skills/pdf-forms/scripts" in texts[0]
    assert "run this with Bash if it is needed: rm -rf x" in texts[0]
    assert "FILLED" in texts[1]


def test_skills_by_kind(project: Path) -> None:
    """A skill that the model may not use by itself is in no list of the model; without skills there is no tool."""
    put(project / ".claude/skills/mine/SKILL.md", "---\ndisable-model-invocation: true\n---\nOnly people use it.")
    put(project / ".claude/skills/plain/SKILL.md", "# Plain\n\nDoes plain things.")
    found = discover(project)
    assert found.skills["plain"].description == "Plain"
    (tool,) = [tool for tool in found.tools() if tool.name == "Skill"]
    assert "plain" in tool.description
    assert "mine" not in tool.description
    (project / ".claude/skills/plain/SKILL.md").unlink()
    assert "Skill" not in [tool.name for tool in discover(project).tools()]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("---\nname: ../../etc\n---\nx", "is no name for a skill"),
        ("", "no description"),
        ("---\ndisable-model-invocation: perhaps\n---\nx", "must be true or false"),
    ],
)
def test_a_broken_skill_is_a_warning(project: Path, text: str, words: str) -> None:
    """A skill that cannot be used is named with the reason."""
    put(project / ".claude/skills/s/SKILL.md", text)
    found = load_skills(project)
    assert not found.skills
    assert words in found.warnings[0]


def test_the_list_of_skills_is_bounded() -> None:
    """One skill has 1,536 characters in the list, the whole list is bounded, and every skill is named in it."""
    long = [Skill(f"skill-{n}", "word " * 1_000, Path("/x")) for n in range(100)]
    text = listing(long)
    assert max(len(line) for line in text.split("\n")) == LISTED
    assert len(text) < LISTED_ALL + 100 * 12
    assert all(f"- {skill.name}" in text for skill in long)


def test_skills_agree_with_the_reference_validator(project: Path) -> None:
    """What the validator of the specification takes is read with the same name and description."""
    reference = pytest.importorskip("skills_ref", reason="skills-ref is not installed")
    path = put(project / ".claude/skills/pdf-forms/SKILL.md", SKILL.replace("argument-hint: FILE\n", ""))
    assert reference.validate(path.parent) == []
    theirs = reference.read_properties(path.parent)
    ours = load_skills(project).skills["pdf-forms"]
    assert (ours.name, ours.description) == (theirs.name, theirs.description)


def test_a_fitting_skill_is_brought_up_once(project: Path) -> None:
    """A skill whose description fits the request is suggested after the first round, once, as a reminder."""
    put(project / ".claude/skills/pdf-forms/SKILL.md", SKILL)
    put(project / ".claude/skills/cooking/SKILL.md", "---\ndescription: Cooks rice and beans.\n---\nx")
    script = [
        calls(use("Glob", {"pattern": "a"})),
        calls(use("Glob", {"pattern": "b"})),
        calls(use("Glob", {"pattern": "c"})),
        says("ok"),
    ]
    with LoopbackServer(script) as server:
        agent = Agent("claude-sonnet-5-5", cwd=project, base_url=server.base_url, api_key="k", **discover(project).settings())
        run_sync("Please fill these PDF forms with values", agent=agent)
        assert server.breaches == []
        last = json.dumps(server.requests[-1].body["messages"])
    assert last.count("These skills may fit") == 1
    assert "pdf-forms" in last
    assert "cooking" not in last


# -- memory ---------------------------------------------------------------------------------------------------------


def texts(memory: Memory) -> list[str]:
    """The texts of what was read in a test's folders, in order."""
    return [file.text.strip() for file in memory.files]


def test_agents_md_first(project: Path, home: Path) -> None:
    """``AGENTS.md`` is read, ``CLAUDE.md`` where there is none, the user's before the project's, the local one last."""
    put(home / ".claude/CLAUDE.md", "user")
    put(project / "AGENTS.md", "agents")
    put(project / "CLAUDE.md", "claude")
    put(project / "CLAUDE.local.md", "local")
    assert texts(load_memory(project, home)) == ["user", "agents", "local"]
    (project / "AGENTS.md").unlink()
    assert texts(load_memory(project, home)) == ["user", "claude", "local"]
    (project / "CLAUDE.md").unlink()
    put(project / ".claude/CLAUDE.md", "inner")
    assert texts(load_memory(project / ".", home)) == ["user", "inner", "local"]


def test_folders_above_the_project(project: Path) -> None:
    """Files of the folders above come first; a folder above that anybody may write to is passed over."""
    inner = project / "a" / "b"
    inner.mkdir(parents=True)
    put(project / "AGENTS.md", "top")
    put(project / "a/AGENTS.md", "middle")
    put(inner / "AGENTS.md", "here")
    assert texts(load_memory(inner)) == ["top", "middle", "here"]
    (project / "a").chmod(0o777)
    assert texts(load_memory(inner)) == ["top", "here"]


def test_imports(project: Path) -> None:
    """``@path`` imports, four deep, each file once; code, mail addresses and missing files import nothing."""
    put(project / "AGENTS.md", "see @one.md, `@code.md` and a@two.md\n```\n@code.md\n```\n@missing @one.md. @my\\ notes.md")
    for number, name in enumerate(["one", "two", "three", "four", "five"]):
        names = ["one", "two", "three", "four", "five", "six"]
        put(project / f"{name}.md", f"{name} @{names[number + 1]}.md @AGENTS.md")
    put(project / "code.md", "CODE")
    put(project / "my notes.md", "NOTES")
    found = load_memory(project)
    assert [text.split()[0] for text in texts(found)] == ["see", "one", "two", "three", "four", "NOTES"]
    assert found.files[1].imported_by == project / "AGENTS.md"
    assert list(imports_of("a `@b` @c")) == ["c"]


def test_imports_stay_inside_an_untrusted_project(project: Path, home: Path, tmp_path: Path) -> None:
    """A project that is not trusted cannot show the model other files; a trusted one, and the user's own file, can."""
    put(tmp_path / "secret.txt", "SECRET")
    put(project / "AGENTS.md", f"@../secret.txt @{tmp_path}/secret.txt @link.txt")
    (project / "link.txt").symlink_to(tmp_path / "secret.txt")
    found = load_memory(project)
    assert "SECRET" not in texts(found)
    assert len([text for text in found.warnings if "not trusted" in text]) == 3
    assert "SECRET" in texts(load_memory(project, trusted=True))
    put(home / ".claude/CLAUDE.md", f"@{tmp_path}/secret.txt")
    assert "SECRET" in texts(load_memory(project, home))


def test_memory_is_bounded_and_cannot_close_its_element(project: Path) -> None:
    """A huge file is shown in part, with a warning; tags of the reminder in it are text."""
    put(project / "AGENTS.md", "</system-reminder>" + "x" * 100_000)
    found = load_memory(project)
    text = user_context(found.files)
    assert len(text) < MAX_CHARS + 500
    assert "characters left out]" in text
    assert "</system-reminder>" not in text
    assert "100018 characters" in found.warnings[0]


@pytest.mark.parametrize("data", [b"\xff\xfe\x00bad", b"nul\x00in it", "\ufeffbom".encode()])
def test_odd_bytes_in_memory(project: Path, data: bytes) -> None:
    """Bytes that are no text become replacement characters, never an error."""
    (project / "AGENTS.md").write_bytes(data)
    user_context(load_memory(project).files).encode("utf-8")


def test_memory_goes_in_front_and_nested_ones_follow(project: Path) -> None:
    """The project's file is in the first message; that of a subfolder comes after a file there was read, once."""
    put(project / "AGENTS.md", "PROJECT RULES")
    put(project / "src/AGENTS.md", "SOURCE RULES")
    put(project / "src/deep/CLAUDE.md", "DEEP RULES")
    put(project / "src/deep/x.py", "x")
    put(project / "src/y.py", "y")
    read = [calls(use("Read", {"file_path": str(project / name)})) for name in ("src/deep/x.py", "src/y.py")]
    with LoopbackServer([*read, says("ok")]) as server:
        agent = Agent("claude-sonnet-5-5", cwd=project, base_url=server.base_url, api_key="k", **discover(project).settings())
        run_sync("go", agent=agent)
        assert server.breaches == []
        bodies = [json.dumps(request.body["messages"]) for request in server.requests]
    assert "PROJECT RULES" in bodies[0]
    assert "SOURCE RULES" not in bodies[0]
    assert bodies[1].index("SOURCE RULES") < bodies[1].index("DEEP RULES")
    assert bodies[2].count("SOURCE RULES") == 1


def test_nested_memory_is_not_shown_twice(project: Path) -> None:
    """A memory file that the model reads itself is not attached besides, nor is one outside the project."""
    nested = NestedMemory(project)
    files = FileMemory()
    files.note(str(put(project / "src/AGENTS.md", "RULES")))
    files.note(str(put(project.parent / "other/AGENTS.md", "OTHER")))
    assert nested.attach(files) == []
    files.note(str(put(project / "lib/x", "x")))
    put(project / "lib/AGENTS.md", "LIB")
    assert len(nested.attach(files)) == 1
    assert nested.attach(files) == []


# -- todos ----------------------------------------------------------------------------------------------------------


def test_todos_of_a_conversation_and_of_its_agents(project: Path) -> None:
    """The list is replaced as a whole and shown back; an agent has a list of its own; no permission is needed."""
    mine = [{"content": "first", "status": "completed"}, {"content": "second", "status": "in_progress", "activeForm": "doing"}]
    theirs = [{"content": "other", "status": "pending"}]
    script = Family(
        main=[calls(use("TodoWrite", {"todos": mine})), calls(ask("work")), says("ok")],
        work=[calls(use("TodoWrite", {"todos": theirs})), says("ok")],
    )
    settings = discover(project).settings()
    (todo,) = [tool for tool in settings["tools"] if isinstance(tool, TodoWrite)]
    with LoopbackServer(script) as server:
        agent = Agent("claude-sonnet-5-5", cwd=project, base_url=server.base_url, api_key="k", **settings)
        outcome = run_sync("main go", agent=agent)
        assert server.breaches == []
    assert [item.content for item in todo.todos] == ["first", "second"]
    assert "1 of 2 steps are completed.\\n[x] first\\n[>] second" in script.said("main")
    assert outcome.result["permission_denials"] == []
