"""Projects that somebody else wrote, with bad intent or bad luck: nothing is granted, read or broken by their files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from fsm_agent.core.blocks import dumps
from fsm_agent.runtime.permissions.rules import parse_rules
from fsm_agent.runtime.tools.files import FileMemory
from fsm_agent.session.memory import NestedMemory
from fsm_agent.session.places import files_in, places
from fsm_agent.session.project import load_project
from fsm_agent.session.settings import SettingsError, load_settings

HOOKS = {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}


def write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))


def test_a_folder_that_is_a_link_to_elsewhere_is_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``.claude/commands`` may be a link to the root of the disk: it is passed over before anything below is listed."""
    project = tmp_path / "project"
    write(tmp_path / "elsewhere/c.md", "from elsewhere")
    (project / ".claude").mkdir(parents=True)
    (project / ".claude/commands").symlink_to(tmp_path / "elsewhere")
    searched: list[Path] = []
    glob = Path.glob

    def watched(path: Path, pattern: str) -> Any:
        searched.append(path)
        return glob(path, pattern)

    monkeypatch.setattr(Path, "glob", watched)
    (place,) = (place for place in places("commands", project, None) if ".claude" in str(place.path))
    assert list(files_in(place, "**/*.md")) == []
    assert searched == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_settings_that_are_no_file_are_refused_at_once(tmp_path: Path) -> None:
    """A pipe, or a link to a device, in the place of a settings file is an error and not a wait without end."""
    (tmp_path / ".claude").mkdir()
    os.mkfifo(tmp_path / ".claude/settings.json")
    with pytest.raises(SettingsError, match=r"settings\.json: is no regular file"):
        load_settings(tmp_path)


@pytest.mark.parametrize("head", ['description: "a \\ud800 b"', 'description: "x: \\udfff"\nodd: a: b'])
def test_half_a_surrogate_pair_in_a_head_becomes_a_plain_character(tmp_path: Path, head: str) -> None:
    """YAML escapes can make text that is no Unicode; it is mended before it reaches a request."""
    write(tmp_path / ".claude/skills/odd/SKILL.md", f"---\n{head}\n---\nbody")
    (skill,) = load_project(tmp_path).found.skills.values()  # type: ignore[union-attr]
    skill.description.encode("utf-8")
    assert "\ufffd" in skill.description


@pytest.mark.parametrize(
    "value",
    [
        {"permissions": {"additionalDirectories": ["a\0b"]}},
        {"env": {"A": "x\0y"}},
        {"env": {"A": "\ud800"}},
        {"env": {"": "x"}},
        {"env": {"A=B": "x"}},
        {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "a\0b"}]}]}},
        {"model": "\udfff"},
    ],
)
def test_texts_that_no_system_call_takes_are_refused_with_the_file_s_name(tmp_path: Path, value: Any) -> None:
    """NUL, half a surrogate pair and names that are none are told when settings are read, not when something is started."""
    write(tmp_path / ".claude/settings.json", value)
    with pytest.raises(SettingsError, match=r"settings\.json: "):
        load_settings(tmp_path, trusted=True)


@pytest.mark.parametrize("trusted", [True, False])
def test_the_home_directory_as_a_project_counts_once_and_as_the_user_s(tmp_path: Path, trusted: bool) -> None:
    """Hooks of a user who works in the home directory run once, and nothing of the user's is withheld or doubled."""
    write(tmp_path / ".claude/settings.json", {"hooks": HOOKS, "permissions": {"allow": ["Bash(ls)"]}})
    write(tmp_path / ".claude/commands/c.md", "---\nallowed-tools: Bash(ls)\n---\n!`ls`")
    write(tmp_path / ".claude/skills/s/SKILL.md", "---\ndescription: mine\n---\nbody")
    project = load_project(tmp_path, home=tmp_path, trusted=trusted)
    assert len(project.settings.hooks) == 1
    assert project.warnings == ()
    assert project.commands.by_name["c"].trusted
    assert not project.found.skills["s"].project  # type: ignore[union-attr]
    dumps([skill.description for skill in project.found.skills.values()])  # type: ignore[union-attr]


@pytest.mark.parametrize("word", ["deny", "ask"])
@pytest.mark.parametrize("trusted", [True, False])
def test_an_import_does_not_go_around_a_rule_of_read(tmp_path: Path, word: str, trusted: bool) -> None:
    """What the user's rules keep from the model, or have asked, no memory file brings in, by whatever name."""
    home, project = tmp_path / "home", tmp_path / "project"
    write(home / ".claude/settings.json", {"permissions": {word: ["Read(**/.env)", "Read(secrets/**)"]}})
    write(project / "CLAUDE.md", "rules\n@.env @link @secrets/key @fine.md")
    write(project / ".env", "KEY=1")
    write(project / "secrets/key", "KEY=2")
    write(project / "fine.md", "fine")
    (project / "link").symlink_to(".env")
    found = load_project(project, home=home, trusted=trusted)
    assert found.found is not None
    assert [file.path.name for file in found.found.memory] == ["CLAUDE.md", "fine.md"]
    assert sum("a rule of Read speaks of it" in text for text in found.warnings) == 2


def test_nested_memory_does_not_go_around_a_rule_of_read(tmp_path: Path) -> None:
    """The same holds for memory files below the project, which come while a run is on."""
    write(tmp_path / "sub/CLAUDE.md", "nested\n@.env")
    write(tmp_path / "sub/.env", "KEY=1")
    write(tmp_path / "sub/code.py", "x")
    files = FileMemory()
    files.note(os.path.realpath(tmp_path / "sub/code.py"))
    rules = parse_rules(deny=["Read(**/.env)"], base=str(tmp_path))
    (text,) = NestedMemory(tmp_path).attach(files, rules)
    assert "nested" in text
    assert "KEY=1" not in text


def test_agents_of_an_untrusted_folder_choose_no_model(tmp_path: Path) -> None:
    """Neither a dearer model nor more effort is granted to an agent by a folder that nobody trusts."""
    write(tmp_path / ".claude/agents/general.md", "---\nmodel: opus\neffort: max\n---\nwork")
    untrusted, trusted = (load_project(tmp_path, trusted=trusted) for trusted in (False, True))
    assert untrusted.found is not None
    assert trusted.found is not None
    assert (untrusted.found.agents["general"].model, untrusted.found.agents["general"].effort) == ("", None)
    assert any("its model and effort were left out" in text for text in untrusted.warnings)
    assert (trusted.found.agents["general"].model, trusted.found.agents["general"].effort) == ("opus", "max")


def test_hooks_are_switched_off_as_a_whole_and_by_nobody_untrusted(tmp_path: Path) -> None:
    """``disableAllHooks`` ends the hooks of every file; a stronger file may say otherwise, an untrusted one may not say it."""
    home, project = tmp_path / "home", tmp_path / "project"
    write(home / ".claude/settings.json", {"hooks": HOOKS})
    write(project / ".claude/settings.json", {"disableAllHooks": True})
    assert load_settings(project, home=home, trusted=True).hooks == ()
    untrusted = load_settings(project, home=home)
    assert len(untrusted.hooks) == 1
    assert any("the end of all hooks" in text for text in untrusted.withheld)
    assert len(load_settings(project, home=home, trusted=True, flag='{"disableAllHooks": false}').hooks) == 1
    assert load_settings(project, home=home, flag='{"disableAllHooks": true}').hooks == ()
    with pytest.raises(SettingsError, match="disableAllHooks"):
        load_settings(project, home=home, flag='{"disableAllHooks": "yes"}')
