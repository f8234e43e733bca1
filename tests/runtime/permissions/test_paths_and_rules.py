"""Paths and rules: links lead nowhere, rules are read in the known form, each decision names its rule."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from attrs import evolve

from fsm_agent.runtime.permissions.decide import Policy
from fsm_agent.runtime.permissions.modes import Mode, mode_of
from fsm_agent.runtime.permissions.rules import (
    Behavior,
    RuleError,
    RuleSet,
    parse_rule,
    parse_rules,
    rules_from_settings,
)
from fsm_agent.runtime.tools.base import Call, Tool
from fsm_agent.runtime.tools.edit import Edit
from fsm_agent.runtime.tools.glob import Glob
from fsm_agent.runtime.tools.paths import PathProblem, Workspace
from fsm_agent.runtime.tools.read import Read
from fsm_agent.runtime.tools.write import Write

ALLOW, ASK, DENY = Behavior.ALLOW, Behavior.ASK, Behavior.DENY


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "ws" / "docs").mkdir(parents=True)
    (tmp_path / "ws" / "src").mkdir()
    (tmp_path / "ws" / "docs" / "a.md").write_text("a")
    (tmp_path / "ws" / ".env").write_text("K=1")
    (tmp_path / "ws-evil").mkdir()
    (tmp_path / "ws-evil" / "x").write_text("x")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("s")
    return tmp_path


def policy(place: Path, mode: Mode = Mode.DEFAULT, **rules: tuple[str, ...]) -> Policy:
    return Policy(Workspace.at(place / "ws"), mode, parse_rules(**rules))


def judge(own: Policy, tool: Tool, path: str, hook: Behavior | None = None) -> Behavior:
    fields: dict[str, str] = {"file_path": path}
    if isinstance(tool, Glob):
        fields = {"path": path, "pattern": "*"}
    call = tool.prepare(fields, own.workspace)
    return own.judge(tool.name, call, read_only=tool.is_read_only(call.input), hook=hook).behavior


def escapes(place: Path) -> dict[str, str]:
    ws = place / "ws"
    (ws / "out").symlink_to(place / "outside")
    (ws / "file").symlink_to(place / "outside" / "secret")
    (ws / "dangling").symlink_to(place / "outside" / "new")
    (ws / "chain").symlink_to(ws / "out")
    (ws / "up").symlink_to("..")
    return {
        "absolute": str(place / "outside" / "secret"),
        "up": "../outside/secret",
        "up through a directory": "docs/../../outside/secret",
        "sibling with our name in front": str(place / "ws-evil" / "x"),
        "sibling by dots": "../ws-evil/x",
        "link to a directory": "out/secret",
        "link to a file": "file",
        "dangling link": "dangling",
        "link to a link": "chain/secret",
        "dots behind a link": "out/../outside/secret",
        "link up": "up/outside/secret",
        "proc root": f"/proc/self/root{place}/outside/secret",
        "proc cwd": "/proc/self/cwd/../../../../../../../../../etc/passwd",
        "home": "~/secret",
        "missing tail": "out/a/b/c",
        "double slash": "//etc/passwd",
    }


@pytest.mark.parametrize("tool", [Read(), Write(), Edit()], ids=lambda tool: tool.name)
@pytest.mark.parametrize("mode", [Mode.DEFAULT, Mode.ACCEPT_EDITS, Mode.BYPASS])
def test_no_path_leads_out_of_the_workspace(place: Path, tool: Tool, mode: Mode) -> None:
    """Every way out is asked, in every mode, also when a hook or a bare rule allows (field report 93)."""
    own = policy(place, mode, allow=("Read", "Edit", "Write"))
    for name, path in escapes(place).items():
        assert judge(own, tool, path) is ASK, name
        assert judge(own, tool, path, hook=ALLOW) is ASK, name


def test_inside_links_and_a_linked_root_work(place: Path) -> None:
    """A link that stays inside is fine, and so is a root that is itself a link."""
    (place / "ws" / "inner").symlink_to("docs")
    (place / "root").symlink_to(place / "ws")
    assert judge(policy(place), Read(), "inner/a.md") is ALLOW
    own = Policy(Workspace.at(place / "root"), Mode.ACCEPT_EDITS)
    assert judge(own, Read(), str(place / "root" / "docs" / "a.md")) is ALLOW
    assert judge(own, Write(), "src/new/deep/file") is ALLOW


def test_a_loop_of_links_and_bad_names_are_problems(place: Path) -> None:
    """A loop, a NUL, an empty path and a lone surrogate are refused with words, not with a crash."""
    (place / "ws" / "loop").symlink_to("loop")
    workspace = Workspace.at(place / "ws")
    for path, words in (("loop/x", "loop"), ("a\0b", "NUL"), ("", "empty"), ("a\ud83d", "no file name")):
        with pytest.raises(PathProblem, match=words):
            workspace.resolve(path)
    with pytest.raises(PathProblem, match="not a directory"):
        Workspace.at(place / "missing")


def test_an_added_directory_is_a_root(place: Path) -> None:
    """A further root may be read and written; a read root only read."""
    own = Policy(Workspace.at(place / "ws", [place / "outside"], [str(place / "ws-evil")]), Mode.ACCEPT_EDITS)
    assert judge(own, Write(), str(place / "outside" / "secret")) is ALLOW
    assert judge(own, Read(), str(place / "ws-evil" / "x")) is ALLOW
    assert judge(own, Write(), str(place / "ws-evil" / "x")) is ASK


def test_protected_directories_are_asked(place: Path) -> None:
    """Files that run or configure something later are not written without a question."""
    for path in (".git/hooks/pre-commit", ".claude/settings.json", "src/.git/config", ".fsm-agent/hooks.json"):
        assert judge(policy(place, Mode.ACCEPT_EDITS), Write(), path) is ASK
        assert judge(policy(place, Mode.BYPASS), Write(), path) is ASK
        assert judge(policy(place, Mode.BYPASS, allow=(f"Edit(./{path})",)), Write(), path) is ALLOW
    assert judge(policy(place), Read(), ".git/config") is ALLOW


PATTERNS = [
    ("Read(./docs/**)", "docs/a.md", True),
    ("Read(./docs/**)", "docs/x/y", True),
    ("Read(./docs/**)", "src/docs/a", False),
    ("Read(docs/)", "docs/a.md", True),
    ("Read(*.env)", "a/b/.env", True),
    ("Read(.env)", "a/b/.env", True),
    ("Read(./.env)", "a/b/.env", False),
    ("Read(./.env)", ".env", True),
    ("Read(//etc/**)", "/etc/passwd", True),
    ("Read(/docs/**)", "docs/a.md", True),
    ("Read(~/**)", "~/x", True),
    ("Read(./d?cs/*.md)", "docs/a.md", True),
    ("Read(./d?cs/*.md)", "docs/a.txt", False),
    ("Read(**)", "docs/a.md", True),
    ("Read", "docs/a.md", True),
]


@pytest.mark.parametrize(("rule", "path", "hit"), PATTERNS)
def test_path_patterns_are_those_of_gitignore(place: Path, rule: str, path: str, hit: bool) -> None:
    """A deny rule hits exactly the paths of its pattern."""
    assert (judge(policy(place, deny=(rule,)), Read(), path) is DENY) is hit


def test_a_deny_rule_hits_by_either_name(place: Path) -> None:
    """A rule that names a link and one that names its target both deny both spellings."""
    (place / "ws" / "secrets").mkdir()
    (place / "ws" / "alias").symlink_to("secrets")
    for rule in ("Read(./secrets/**)", "Read(./alias/**)"):
        for path in ("secrets/k", "alias/k"):
            assert judge(policy(place, deny=(rule,)), Read(), path) is DENY, (rule, path)


def test_an_allow_rule_goes_by_the_resolved_path(place: Path) -> None:
    """A link put below an allowed directory does not widen the rule."""
    (place / "ws" / "docs" / "src").symlink_to("../src")
    own = policy(place, allow=("Edit(./docs/**)",))
    assert judge(own, Write(), "docs/b.md") is ALLOW
    assert judge(own, Write(), "docs/src/main.py") is ASK


def test_edit_rules_cover_writing_and_read_rules_searching(place: Path) -> None:
    """Edit rules speak of Write too, Read rules of Glob and Grep too; searching leaves denied files out."""
    own = policy(place, deny=("Edit(./docs/**)", "Read(./src/**)"), mode=Mode.ACCEPT_EDITS)
    assert judge(own, Write(), "docs/x") is DENY
    assert judge(own, Edit(), "docs/x") is DENY
    assert judge(own, Glob(), "src/inner") is DENY
    root = own.workspace.cwd
    assert not own.readable(f"{root}/src/a")
    assert own.readable(f"{root}/docs/a")


def test_modes_of_file_tools(place: Path) -> None:
    """Reading is allowed inside; writing depends on the mode; plan refuses even what a rule allows."""
    assert judge(policy(place), Read(), "docs/a.md") is ALLOW
    assert judge(policy(place), Write(), "docs/b") is ASK
    assert judge(policy(place, Mode.ACCEPT_EDITS), Write(), "docs/b") is ALLOW
    assert judge(policy(place, Mode.DONT_ASK), Write(), "docs/b") is DENY
    assert judge(policy(place, Mode.PLAN, allow=("Edit",)), Write(), "docs/b") is DENY
    assert judge(policy(place, Mode.PLAN), Write(), "docs/b", hook=ALLOW) is DENY
    assert judge(policy(place, allow=("Write",)), Write(), "docs/b") is ALLOW
    assert judge(policy(place), Write(), "docs/b", hook=ALLOW) is ALLOW
    assert judge(policy(place, Mode.BYPASS), Read(), "docs/a.md", hook=ASK) is ASK
    with pytest.raises(ValueError, match="known: default, acceptEdits"):
        mode_of("yolo")


def test_rules_that_cannot_be_read_are_errors() -> None:
    """A malformed rule or settings object is one clear error."""
    for text in ("", "Bash(", "Bash)x", "Bash(a) b", "(x)", "a b"):
        with pytest.raises(RuleError, match="permission rule"):
            parse_rule(text, ALLOW)
    for settings in ({"permissions": []}, {"permissions": {"allow": "Bash"}}, {"permissions": {"deny": [1]}}):
        with pytest.raises(RuleError):
            rules_from_settings(settings)
    assert rules_from_settings({"permissions": {"allow": ["Bash"], "defaultMode": "plan"}}).allow[0].tool == "Bash"


def test_names_of_tools_in_rules() -> None:
    """A server's name covers its tools; a pattern over all tools may deny but not allow."""
    server = parse_rule("mcp__db", ALLOW)
    assert server.names("mcp__db__query")
    assert not server.names("mcp__dbx__query")
    assert parse_rule("mcp__db__*", ALLOW).names("mcp__db__query")
    assert not parse_rule("*", ALLOW).names("Bash")
    assert not parse_rule("mcp__*", ALLOW).names("mcp__db__query")
    assert parse_rule("*", DENY).names("Bash")
    assert parse_rule("mcp__*", DENY).names("mcp__db__query")


def test_a_parameter_rule_denies(place: Path) -> None:
    """`Tool(param:value)` looks at a field of the input."""
    own = policy(place, deny=("Deploy(target:prod*)",), allow=("Deploy",))
    for target, expected in (("production", DENY), ("staging", ALLOW)):
        assert own.judge("Deploy", Call(input={"target": target}), read_only=False).behavior is expected


def test_an_untrusted_folder_only_restricts(place: Path) -> None:
    """Allow rules of an untrusted folder are dropped, deny rules kept."""
    theirs = parse_rules(allow=("Bash",), deny=("Read(.env)",)).restricting()
    own = evolve(policy(place), rules=RuleSet() + theirs)
    assert judge(own, Read(), ".env") is DENY
    assert own.rules.allow == ()


def test_the_home_of_the_user_is_resolved(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`~` in a path is the home directory, inside or outside like any other."""
    monkeypatch.setenv("HOME", str(place / "ws"))
    assert judge(policy(place), Read(), "~/docs/a.md") is ALLOW
    assert os.path.expanduser("~") == str(place / "ws")
