"""Settings files: which wins, what is joined, and what a folder that is not trusted may say."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from fsm_agent.core.config import ConfigError, EarlyStart, Microcompact
from fsm_agent.runtime.permissions.modes import Mode
from fsm_agent.session.agent import Agent, make_config
from fsm_agent.session.settings import Settings, SettingsError, Source, load_settings, read_sources
from fsm_agent.session.trust import TrustError, TrustStore

HOOK = {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}


def write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))


def allowed(settings: Settings) -> list[str]:
    return [rule.text for rule in settings.rules.allow]


def test_the_strongest_file_wins_and_lists_are_joined(tmp_path: Path) -> None:
    """Command line over local over project over user; rules of all files count, other values of the strongest."""
    home, work = tmp_path / "home", tmp_path / "work"
    for number, place in enumerate(
        (
            home / ".claude/settings.json",
            home / ".fsm-agent/settings.json",
            work / ".claude/settings.json",
            work / ".fsm-agent/settings.json",
            work / ".claude/settings.local.json",
            work / ".fsm-agent/settings.local.json",
        )
    ):
        write(place, {"model": f"m{number}", "permissions": {"allow": [f"Bash(c{number})"]}, "env": {"N": str(number)}})
    settings = load_settings(work, home=home, trusted=True)
    assert (settings.model, settings.env["N"]) == ("m5", "5")
    assert allowed(settings) == [f"Bash(c{number})" for number in range(6)]
    assert load_settings(work, home=home, trusted=True, flag='{"model": "top"}').model == "top"
    assert load_settings(work, home=home, sources=(Source.USER,)).model == "m1"
    assert load_settings(work, home=home, sources=()).files == ()


def test_an_untrusted_folder_restricts_and_grants_nothing(tmp_path: Path) -> None:
    """Deny and ask rules and a stricter mode hold; allow rules, hooks, folders, variables and model are withheld and named."""
    write(
        tmp_path / ".claude/settings.json",
        {
            "permissions": {
                "allow": ["Bash(rm:*)"],
                "deny": ["Read(./.env)"],
                "ask": ["Bash(git push:*)"],
                "defaultMode": "plan",
                "additionalDirectories": ["/"],
            },
            "hooks": HOOK,
            "env": {"PATH": "/evil"},
            "model": "costly",
        },
    )
    settings = load_settings(tmp_path, trusted=False)
    assert (allowed(settings), settings.hooks, settings.add_dirs, dict(settings.env), settings.model) == ([], (), (), {}, None)
    assert [rule.text for rule in settings.rules.deny] == ["Read(./.env)"]
    assert [rule.text for rule in settings.rules.ask] == ["Bash(git push:*)"]
    assert settings.mode is Mode.PLAN
    assert len(settings.withheld) == 5
    assert all(str(tmp_path) in text for text in settings.withheld)
    trusted = load_settings(tmp_path, trusted=True)
    assert allowed(trusted) == ["Bash(rm:*)"]
    assert (len(trusted.hooks), trusted.add_dirs, trusted.withheld) == (1, ("/",), ())


@pytest.mark.parametrize("mode", ["bypassPermissions", "acceptEdits"])
def test_an_untrusted_folder_cannot_loosen_the_mode(tmp_path: Path, mode: str) -> None:
    """A looser mode of an untrusted folder is withheld, in its local file too; the user's own stays."""
    home = tmp_path / "home"
    write(home / ".claude/settings.json", {"permissions": {"defaultMode": "dontAsk"}})
    write(tmp_path / "w/.claude/settings.local.json", {"permissions": {"defaultMode": mode}})
    settings = load_settings(tmp_path / "w", home=home)
    assert settings.mode is Mode.DONT_ASK
    assert settings.withheld == (f"the permission mode in {tmp_path}/w/.claude/settings.local.json",)


def test_no_hooks_at_all_where_a_file_says_so(tmp_path: Path) -> None:
    """``disableAllHooks`` leaves out the hooks of its file."""
    write(tmp_path / ".fsm-agent/settings.json", {"hooks": HOOK, "disableAllHooks": True})
    assert load_settings(tmp_path, trusted=True).hooks == ()


def test_unknown_keys_are_named_in_our_own_files_only(tmp_path: Path) -> None:
    """A typo in our own files is a warning; keys of other programs in theirs are nobody's mistake."""
    write(tmp_path / ".claude/settings.json", {"outputStyle": "x"})
    write(tmp_path / ".fsm-agent/settings.json", {"modle": "x"})
    (warning,) = load_settings(tmp_path, trusted=True).warnings
    assert "modle" in warning


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "line 1, column 2"),
        ("[]", "must be a JSON object"),
        ('{"permissions": []}', "'permissions' must be an object"),
        ('{"permissions": {"allow": "Read"}}', "permissions.allow"),
        ('{"permissions": {"allow": ["Bash("]}}', "is no permission rule"),
        ('{"permissions": {"defaultMode": "never"}}', "unknown permission mode"),
        ('{"hooks": []}', "'hooks' must be an object"),
        ('{"model": 3}', "'model' must be a text"),
        ('{"env": {"A": []}}', "'env' must be an object of texts"),
        ('{"fallbackModel": [1]}', "fallbackModel"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, text: str, words: str) -> None:
    """What cannot be read is one clear error that names the file and the place; on the command line likewise."""
    write(tmp_path / ".fsm-agent/settings.json", text)
    with pytest.raises(SettingsError, match=r"settings\.json") as caught:
        load_settings(tmp_path, trusted=True)
    assert words in str(caught.value)
    if text.startswith("{"):
        with pytest.raises(SettingsError, match="--settings"):
            load_settings(tmp_path, sources=(), flag=text)


def test_a_missing_file_on_the_command_line_is_an_error(tmp_path: Path) -> None:
    """A file that was named must be there; discovered ones need not."""
    with pytest.raises(SettingsError, match="No such file"):
        load_settings(tmp_path, flag=str(tmp_path / "none.json"))


def test_sources_are_read_by_name() -> None:
    """``--setting-sources`` takes the three names in any order; another one is an error."""
    assert read_sources("project, user") == (Source.USER, Source.PROJECT)
    assert read_sources("") == ()
    with pytest.raises(SettingsError, match="'team' is no source"):
        read_sources("user,team")


def test_trust_covers_folders_below_and_follows_links(tmp_path: Path) -> None:
    """A trusted folder and those below it are trusted, by their real path; a neighbour with the same beginning is not."""
    store = TrustStore(tmp_path / "state" / "trusted.json")
    project, other = tmp_path / "project", tmp_path / "project-evil"
    (project / "sub").mkdir(parents=True)
    other.mkdir()
    assert not store.trusts(project)
    store.trust(project)
    store.trust(project)
    assert store.trusts(project / "sub")
    assert not store.trusts(other)
    (project / "out").symlink_to(other)
    assert not store.trusts(project / "out")
    assert oct(os.stat(store.path).st_mode & 0o777) == "0o600"
    assert json.loads(store.path.read_text()) == {"trusted": [str(project.resolve())]}


def test_a_broken_list_trusts_nothing_and_is_not_overwritten(tmp_path: Path) -> None:
    """A list that cannot be read grants nothing, and trusting something else does not lose it."""
    store = TrustStore(tmp_path / "trusted.json")
    store.path.write_text("{")
    assert not store.trusts("/")
    with pytest.raises(TrustError, match="no JSON"):
        store.trust(tmp_path)
    assert store.path.read_text() == "{"


def test_words_stand_for_members_of_closed_sets() -> None:
    """A setting that is one of a few words takes the plain word; another word is refused by name."""
    config = make_config({"model": "m", "early_start": "never", "context": {"microcompact": "off"}})
    assert config.early_start is EarlyStart.NEVER
    assert config.context.microcompact is Microcompact.OFF
    with pytest.raises(ConfigError, match=r"context\.microcompact must be one of"):
        make_config({"model": "m", "context": {"microcompact": "sometimes"}})
    with pytest.raises(ConfigError, match="effort must be one of low, medium, high, xhigh, max, not 'zzz'"):
        Agent("m", effort="zzz", api_key="k")
    with pytest.raises(ConfigError, match="early_start must be one of"):
        make_config({"model": "m", "early_start": "soon"})
