"""Starts a chat: terminal, trust, agent, then the talk."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import click
from attrs import evolve

from ...session.session import Session
from ..console import is_terminal, visible, warn
from ..problems import Problem
from ..project_options import is_trusted, read_source_option, servers
from ..run import read_asked
from ..running import Asked, access, make_agent
from .asking import ChatAsker


def start_chat(options: Mapping[str, Any]) -> int:
    """Talk until the user leaves.

    Args:
        options: of the command.

    Returns:
        The exit code.

    Raises:
        Problem: if it cannot begin.
    """
    if not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
        raise Problem("chat needs a terminal; for scripts there is: fsm-agent run")
    try:
        import prompt_toolkit  # noqa: F401 - said here, before anything is asked
    except ImportError:
        raise Problem("chat needs the package prompt_toolkit: pip install 'fsm_agent[chat]'") from None
    given = dict(options)
    if not given["trust"] and not given["bare"]:
        given["trust"] = _trusts(given["cwd"], given["setting_sources"])
    asked = read_asked(**given)
    key = access(asked.base_url)
    for text in asked.warnings:
        warn(text)
    return anyio.run(_talk, asked, key)


def _trusts(cwd: str, sources: str) -> bool:
    """Ask once whether the folder is trusted, if its files would grant something."""
    from ...session.project import asks_for_trust
    from ...session.settings import SettingsError
    from ...session.trust import TrustError, default_store

    if is_trusted(cwd):
        return True
    try:
        wanted = asks_for_trust(cwd, sources=read_source_option(sources))
    except SettingsError as error:
        raise Problem(str(error)) from None
    if not wanted:
        return False
    click.echo(f"{os.path.abspath(cwd)} brings:")
    for text in wanted:
        click.echo(f"  {visible(text)}")
    if not click.confirm("Do you trust the files in this folder?", default=False):
        return False
    try:
        default_store().trust(cwd)
    except (TrustError, RuntimeError) as error:
        warn(f"it is trusted for now, but that could not be kept: {error}")
    return True


async def _talk(asked: Asked, key: str | None) -> int:
    from .talk import Talk

    talk = Talk()
    asker = ChatAsker(talk.refresh)
    async with servers(asked.project, asked.servers, bare=asked.bare) as (tools, warnings, _):
        session, standing_model = _session_id(asked)
        agent = make_agent(evolve(asked, model=standing_model), key, session, tools, warnings, asker=asker)
        async with agent:
            begun = _begin(asked, agent, session)
            async with begun:
                return await talk.run(begun, asker)


def _session_id(asked: Asked) -> tuple[str, str]:
    """Give the session's id and the model: those of the log to go on with, if there is one."""
    from ...session.agent import new_id

    if asked.resume is None:
        return new_id(), asked.model
    from ..resuming import standing_of, surroundings

    standing = standing_of(asked.resume)
    for text in surroundings(standing, asked):
        warn(text)
    return standing.header.session, asked.model or standing.state.control.tool_use_context.model


def _begin(asked: Asked, agent: Any, session_id: str) -> Session:
    if asked.resume is None:
        return asked.project.session(agent, session_id=session_id)
    return asked.project.equip(Session.resume(agent, Path(asked.resume)))
