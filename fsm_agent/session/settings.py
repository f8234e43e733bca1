"""Settings files: where they are, which one wins, and what an untrusted folder may say (api-facts C1; spec 03, Trust)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from ..core.blocks import clean_text
from ..runtime.hooks.config import Hook, HookConfigError, hooks_from_settings
from ..runtime.permissions.modes import Mode, mode_of
from ..runtime.permissions.rules import NO_RULES, RuleError, RuleSet, rules_from_settings

MAX_SETTINGS = 1_000_000
"""Bytes of a settings file."""
FOLDERS = (".claude", ".fsm-agent")
"""Folders with settings, commands, skills and agents; the later one is the stronger."""
_STRICTNESS = (Mode.BYPASS, Mode.ACCEPT_EDITS, Mode.DEFAULT, Mode.DONT_ASK, Mode.PLAN)
_PERMISSIONS = ("allow", "ask", "deny", "defaultMode", "additionalDirectories")
_KNOWN = ("permissions", "hooks", "model", "fallbackModel", "env", "disableAllHooks", "$schema")


class SettingsError(ValueError):
    """Settings that cannot be read; the text names the file and the place in it."""


class Source(StrEnum):
    """Where settings come from, the weakest first."""

    USER = "user"
    PROJECT = "project"
    LOCAL = "local"
    FLAG = "flag"
    """The command line."""


DISCOVERED = (Source.USER, Source.PROJECT, Source.LOCAL)


def read_sources(text: str) -> tuple[Source, ...]:
    """Read ``user,project,local``; an empty text names none.

    Raises:
        SettingsError: for another word.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    wrong = [word for word in words if word not in [source.value for source in DISCOVERED]]
    if wrong:
        raise SettingsError(f"{wrong[0]!r} is no source of settings; the sources are user, project, local")
    return tuple(source for source in DISCOVERED if source.value in words)


@frozen
class Settings:
    """What all settings say together.

    Attributes:
        rules: permission rules, of all files.
        mode: permission mode, None if none says.
        add_dirs: further folders.
        hooks: hooks of all files, the weakest file first.
        hooks_off: no hook of any file runs; None if no file says.
        model: None if none says.
        fallback_models: of the strongest file that names some.
        env: variables for child processes.
        files: the files that were read, the weakest first.
        warnings: what was left out, and why.
        withheld: what an untrusted folder would have granted, in words.
    """

    rules: RuleSet = NO_RULES
    mode: Mode | None = None
    add_dirs: tuple[str, ...] = ()
    hooks: tuple[Hook, ...] = ()
    hooks_off: bool | None = None
    model: str | None = None
    fallback_models: tuple[str, ...] = ()
    env: Mapping[str, str] = field(factory=dict)
    files: tuple[Path, ...] = ()
    warnings: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()


def settings_files(cwd: Path, home: Path | None, sources: Iterable[Source] = DISCOVERED) -> tuple[tuple[Source, Path], ...]:
    """Give where settings may be, the weakest first; a file need not exist.

    Args:
        cwd: the workspace.
        home: the user's home directory, None without one.
        sources: which to look at.
    """
    found: list[tuple[Source, Path]] = []
    wanted = tuple(sources)
    for source in DISCOVERED:
        root = home if source is Source.USER else cwd
        if source not in wanted or root is None:
            continue
        if source is Source.PROJECT and Source.USER in wanted and same_folder(cwd, home):
            continue  # the user's own file, which has been read
        name = "settings.local.json" if source is Source.LOCAL else "settings.json"
        found += [(source, root / folder / name) for folder in FOLDERS]
    return tuple(found)


def same_folder(one: Path, other: Path | None) -> bool:
    """True if both are one folder, links resolved."""
    return other is not None and os.path.realpath(one) == os.path.realpath(other)


def load_settings(
    cwd: str | os.PathLike[str],
    *,
    home: str | os.PathLike[str] | None = None,
    sources: Iterable[Source] = DISCOVERED,
    flag: str | None = None,
    trusted: bool = False,
) -> Settings:
    """Read all settings; the strongest wins, lists are joined.

    The command line is the strongest, then ``settings.local.json``, then ``settings.json`` of the project, then the user's.
    In each place ``.fsm-agent`` is stronger than ``.claude``. Rules, hooks, folders and variables are joined; of other
    values the strongest counts.

    Args:
        cwd: the workspace.
        home: the user's home directory.
        sources: which files to look at.
        flag: what ``--settings`` was given: JSON text, or the path of a file.
        trusted: the workspace's own files may grant.

    Raises:
        SettingsError: for a file that is there and cannot be used.
    """
    root = Path(cwd).absolute()
    merged = Settings()
    for source, path in settings_files(root, None if home is None else Path(home), sources):
        value = _load(path)
        if value is None:
            continue
        base = path.parent.parent
        read = _read(value, str(path), str(base), quiet=path.parent.name == ".claude")
        if source is not Source.USER and not trusted:
            read = restricting(read, str(path), merged.mode)
        merged = join(merged, evolve(read, files=(path,)))
    if flag is not None:
        merged = join(merged, read_flag(flag, root))
    return evolve(merged, hooks=()) if merged.hooks_off else merged


def read_flag(given: str, cwd: Path) -> Settings:
    """Read what ``--settings`` was given.

    Raises:
        SettingsError: if it cannot be used.
    """
    if given.lstrip().startswith("{"):
        return _read(_decoded(given, "--settings"), "--settings", str(cwd), quiet=False)
    path = Path(given)
    value = _load(path, any_kind=True)
    if value is None:
        raise SettingsError(f"--settings {given}: No such file or directory")
    return evolve(_read(value, f"--settings {given}", str(cwd), quiet=False), files=(path,))


def restricting(settings: Settings, where: str, mode: Mode | None = None) -> Settings:
    """Keep what restricts, name what would have granted something.

    Args:
        settings: what one file says.
        where: its name.
        mode: the mode of weaker settings; a stricter one stays, a looser one does not.
    """
    withheld: list[str] = []
    if settings.rules.allow:
        withheld.append(f"allow rules in {where}")
    if settings.hooks:
        withheld.append(f"hooks in {where}")
    if settings.hooks_off:
        withheld.append(f"the end of all hooks in {where}")
    if settings.add_dirs:
        withheld.append(f"additional directories in {where}")
    if settings.env:
        withheld.append(f"environment variables in {where}")
    if settings.model or settings.fallback_models:
        withheld.append(f"the model in {where}")
    kept = settings.mode
    if kept is not None and _STRICTNESS.index(kept) <= _STRICTNESS.index(mode or Mode.DEFAULT):
        if kept is not (mode or Mode.DEFAULT):
            withheld.append(f"the permission mode in {where}")
        kept = None
    return Settings(
        rules=settings.rules.restricting(),
        mode=kept,
        files=settings.files,
        warnings=settings.warnings,
        withheld=tuple(withheld),
    )


def join(weak: Settings, strong: Settings) -> Settings:
    """Put stronger settings over weaker ones."""
    return Settings(
        rules=weak.rules + strong.rules,
        mode=strong.mode if strong.mode is not None else weak.mode,
        add_dirs=weak.add_dirs + strong.add_dirs,
        hooks=weak.hooks + strong.hooks,
        hooks_off=strong.hooks_off if strong.hooks_off is not None else weak.hooks_off,
        model=strong.model or weak.model,
        fallback_models=strong.fallback_models or weak.fallback_models,
        env={**weak.env, **strong.env},
        files=weak.files + strong.files,
        warnings=weak.warnings + strong.warnings,
        withheld=weak.withheld + strong.withheld,
    )


def _load(path: Path, *, any_kind: bool = False) -> Mapping[str, Any] | None:
    """Read one file; ``any_kind`` for one that the user named: a file that was found must not wait for a writer."""
    if not any_kind and os.path.exists(path) and not os.path.isfile(path):
        raise SettingsError(f"{path}: is no regular file")
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_SETTINGS + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from None
    if len(raw) > MAX_SETTINGS:
        raise SettingsError(f"{path}: larger than {MAX_SETTINGS} bytes")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: is no UTF-8 text") from None
    return _decoded(text, str(path)) if text.strip() else {}


def _decoded(text: str, where: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise SettingsError(f"{where}: is no JSON: {error.msg} in line {error.lineno}, column {error.colno}") from None
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{where}: is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise SettingsError(f"{where}: must be a JSON object")
    if not all(map(_fits, _texts_in(value))):
        raise SettingsError(f"{where}: has a text with a NUL character or with half of a surrogate pair")
    return value


def _texts_in(value: Any) -> Iterator[str]:
    """Give all texts and keys of a JSON value."""
    open_values = [value]
    while open_values:
        item = open_values.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            open_values += [*item, *item.values()]
        elif isinstance(item, list):
            open_values += item


def _fits(text: str) -> bool:
    """True for what can be a path, a variable or a part of a request."""
    return "\0" not in text and clean_text(text) == text


def _read(value: Mapping[str, Any], where: str, base: str, *, quiet: bool) -> Settings:
    """Read one settings object; ``quiet`` for files that other programs write too: their other keys are no mistake."""
    permissions = value.get("permissions", {})
    if not isinstance(permissions, dict):
        raise SettingsError(f"{where}: 'permissions' must be an object")
    odd = [f"permissions.{key}" for key in permissions if key not in _PERMISSIONS]
    odd += [key for key in value if key not in _KNOWN]
    warnings = [] if quiet else [f"{where}: {key} is not known here; left out" for key in odd]
    try:
        rules = rules_from_settings(value, base)
        hooks = hooks_from_settings(value)
    except (RuleError, HookConfigError) as error:
        raise SettingsError(f"{where}: {error}") from None
    word = _word(permissions, "defaultMode", where, "permissions.")
    return Settings(
        rules=rules,
        mode=_mode(word, where, warnings) if word is not None else None,
        add_dirs=tuple(_folder(item, base) for item in _words(permissions, "additionalDirectories", where, "permissions.")),
        hooks=hooks.hooks,
        hooks_off=_flag(value, "disableAllHooks", where),
        model=_word(value, "model", where),
        fallback_models=_fallbacks(value, where),
        env=_env(value, where),
        warnings=(*warnings, *(f"{where}: {text}" for text in hooks.warnings)),
    )


def _mode(word: str, where: str, warnings: list[str]) -> Mode | None:
    if word in ("auto", "manual"):  # modes of other programs: the first needs a classifier, the second is the default
        if word == "auto":
            warnings.append(f"{where}: there is no permission mode 'auto' here; left out")
        return Mode.DEFAULT if word == "manual" else None
    try:
        return mode_of(word)
    except ValueError as error:
        raise SettingsError(f"{where}: permissions.defaultMode: {error}") from None


def _folder(text: str, base: str) -> str:
    return os.path.join(base, os.path.expanduser(text))


def _fallbacks(value: Mapping[str, Any], where: str) -> tuple[str, ...]:
    given = value.get("fallbackModel")
    return (given,) if isinstance(given, str) and given else _words(value, "fallbackModel", where)


def _env(value: Mapping[str, Any], where: str) -> Mapping[str, str]:
    given = value.get("env", {})
    if not isinstance(given, dict) or not all(isinstance(item, str | int | float) for item in given.values()):
        raise SettingsError(f"{where}: 'env' must be an object of texts")
    wrong = next((key for key in given if not key or "=" in key), None)
    if wrong is not None:
        raise SettingsError(f"{where}: env: {wrong!r} is no name of a variable")
    return {key: str(item) for key, item in given.items()}


def _words(owner: Mapping[str, Any], key: str, where: str, prefix: str = "") -> tuple[str, ...]:
    value = owner.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise SettingsError(f"{where}: '{prefix}{key}' must be a list of texts")
    return tuple(value)


def _flag(owner: Mapping[str, Any], key: str, where: str) -> bool | None:
    value = owner.get(key)
    if value is not None and not isinstance(value, bool):
        raise SettingsError(f"{where}: '{key}' must be true or false")
    return value


def _word(owner: Mapping[str, Any], key: str, where: str, prefix: str = "") -> str | None:
    value = owner.get(key)
    if value is not None and not isinstance(value, str):
        raise SettingsError(f"{where}: '{prefix}{key}' must be a text")
    return value or None
