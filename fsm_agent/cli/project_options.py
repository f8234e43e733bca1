"""Options that say what a project may bring: settings, trust, MCP servers; for ``run`` and ``chat``."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .problems import Problem

if TYPE_CHECKING:
    from ..runtime.tools.base import Tool
    from ..session.project import Project
    from ..session.settings import Source

    Given = tuple[Sequence[Tool] | None, Sequence[str], Sequence[Mapping[str, Any]]]

F = TypeVar("F", bound=Callable[..., Any])
MAX_SCHEMA = 1_000_000
"""Bytes of a schema file."""


def project_options(command: F) -> F:
    """Add the options; they come to the command as ``settings_given``, ``setting_sources``, ``bare`` and ``mcp_given``."""
    options = (
        click.option(
            "--settings",
            "settings_given",
            metavar="FILE|JSON",
            help="Settings with 'permissions', 'hooks', 'model', 'env' in the known form; stronger than settings files.",
        ),
        click.option(
            "--setting-sources",
            metavar="SOURCES",
            default="user,project,local",
            show_default=True,
            help="Where settings files and commands are looked for.",
        ),
        click.option("--bare", is_flag=True, help="Discover no settings, commands, memory files, skills, agents or servers."),
        click.option(
            "--mcp-config", "mcp_given", multiple=True, metavar="FILE|JSON", help="MCP servers besides those of .mcp.json."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def read_source_option(text: str) -> tuple[Source, ...]:
    """Read ``--setting-sources``.

    Raises:
        Problem: for a word that names none.
    """
    from ..session.settings import SettingsError, read_sources

    try:
        return read_sources(text)
    except SettingsError as error:
        raise Problem(f"--setting-sources: {error}") from None


def home_folder() -> Path | None:
    """Give the user's home directory, None without one."""
    try:
        return Path.home()
    except RuntimeError:
        return None


def open_project(cwd: Path, *, settings: str | None, sources: Iterable[Source], bare: bool, trusted: bool) -> Project:
    """Read what a project brings.

    Raises:
        Problem: for settings that cannot be used.
    """
    from ..session.project import load_project
    from ..session.settings import SettingsError

    try:
        return load_project(
            Path(os.path.abspath(cwd)), home=home_folder(), sources=sources, flag=settings, trusted=trusted, bare=bare
        )
    except SettingsError as error:
        raise Problem(str(error)) from None


def read_schema(given: str) -> str:
    """Read ``--json-schema``: JSON text, or a file that holds it.

    Raises:
        Problem: if it is no JSON schema.
    """
    from ..core.config import ConfigError
    from ..session.structured import check_output_schema

    text, place = given, "--json-schema"
    if not given.lstrip().startswith("{"):
        place = f"--json-schema {given}"
        try:
            with open(given, "rb") as file:
                text = file.read(MAX_SCHEMA).decode("utf-8-sig")
        except UnicodeDecodeError:
            raise Problem(f"{place}: is no UTF-8 text") from None
        except OSError as error:
            raise Problem(f"{place}: {error.strerror}") from None
    try:
        check_output_schema(text)
    except ConfigError as error:
        raise Problem(f"{place}: {error}") from None
    return text


def is_trusted(cwd: str | os.PathLike[str]) -> bool:
    """True if the user trusts this folder."""
    from ..session.trust import default_store

    try:
        return default_store().trusts(cwd)
    except RuntimeError:  # there is no home directory to keep the list in
        return False


@asynccontextmanager
async def servers(project: Project, given: Sequence[str], *, bare: bool) -> AsyncIterator[Given]:
    """Connect the MCP servers of a project and of the command line.

    Yields:
        All tools besides those of the project, None for the built-in ones; warnings; the servers with their status.

    Raises:
        Problem: for a configuration that cannot be used, or if the ``mcp`` package is missing.
    """
    files = [] if bare or not project.trusted else [path for path in (project.cwd / ".mcp.json",) if path.is_file()]
    if not files and not given:
        yield None, (), ()
        return
    from ..runtime.mcp.config import McpConfigError, merge, read_mcp_file, read_mcp_text
    from ..runtime.mcp.servers import McpMissing, McpServers
    from ..runtime.tools.builtin import builtin_tools
    from ..runtime.tools.environment import child_environment

    env = {**os.environ, **project.settings.env}
    try:
        configs = [read_mcp_file(path, env) for path in files]
        for item in given:
            text = item.lstrip().startswith("{")
            configs.append(read_mcp_text(item, env, "--mcp-config") if text else read_mcp_file(Path(item), env))
    except McpConfigError as error:
        raise Problem(str(error)) from None
    config = merge(*configs)
    connected = McpServers(config.servers, cwd=str(project.cwd), env=child_environment(env))
    try:
        await connected.__aenter__()
    except McpMissing as error:
        raise Problem(str(error)) from None
    try:
        warnings = (*config.warnings, *connected.warnings)
        yield (*builtin_tools(), *connected.tools), warnings, connected.statuses
    finally:
        await connected.__aexit__(None, None, None)
