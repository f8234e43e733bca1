"""The work of ``fsm-agent run``: make the agent, follow the run, say how it ended."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio
from attrs import evolve, frozen

from ..core.outputs import Notice, Output, Retrying
from ..session.agent import Agent, new_id
from ..session.endings import ending, exit_code, succeeded
from ..session.session import Session
from .console import Paint, clean, coloured, is_terminal, is_verbose, one_line, say, warn
from .follow import Followed, View, follow
from .json_view import ResultView
from .log_told import with_log_told
from .places import check_writable, log_folder, models_file
from .problems import Problem
from .project_options import servers
from .prompts import read_prompt, system_context, system_parts
from .text_view import TextView

if TYPE_CHECKING:
    from ..runtime.tools.base import Tool
    from ..session.project import Project


@frozen
class Asked:
    """What the user asked for; see the options of ``run``."""

    prompt: str | None
    model: str
    base_url: str | None
    values: Mapping[str, Any]
    system: tuple[str | None, str | None]
    token_budget: int | None
    allow: tuple[str, ...]
    deny: tuple[str, ...]
    mode: str
    add_dirs: tuple[str, ...]
    project: Project
    servers: tuple[str, ...]
    bare: bool
    summaries: str | None
    cwd: Path
    log: Path | None
    warnings: tuple[str, ...]
    partial: bool
    resume: Path | None = None
    log_sync: str = "tools"
    cwd_given: bool = False
    mode_given: bool = False


def run_prompt(asked: Asked, view: View | None) -> int:
    """Run the prompt to its end.

    Args:
        asked: what the user asked for.
        view: a JSON view, None for text.

    Returns:
        The exit code.

    Raises:
        Problem: if it cannot be started; nothing was sent then.
    """
    if asked.resume is not None:
        return _resume(asked, asked.resume, view)
    key = access(asked.base_url)
    make_agent(asked, key, "check")  # what is wrong is said before anything is read or started
    prompt = read_prompt(asked.prompt)
    shown = _begin(asked, view)
    followed = anyio.run(partial(_run, asked, key, prompt, shown, view is None))
    _close(followed, quiet=view is not None)
    return exit_code(followed.terminal)


def _resume(asked: Asked, log: Path, view: View | None) -> int:
    """Go on from a log: its run, if that was interrupted, then the prompt, if there is one."""
    from .resuming import go_on, standing_of, surroundings

    standing = standing_of(log)
    if asked.prompt is None and (standing.finished or not standing.begun):
        raise Problem(
            f"{log}: the run has ended; give a prompt to go on from it"
            if standing.finished
            else f"{log}: no run has begun; give a prompt"
        )
    key = access(asked.base_url)
    model = asked.model or standing.state.control.tool_use_context.model
    session_id = standing.header.session
    asked = evolve(asked, model=model, warnings=(*asked.warnings, *surroundings(standing, asked)))
    make_agent(asked, key, session_id)
    prompt = None if asked.prompt is None else read_prompt(asked.prompt)
    shown = _begin(asked, view)
    run_id = new_id()
    place = _log_file(asked.log) or log.parent / f"{run_id}.jsonl"
    shown = with_log_told(shown, place if standing.finished or not standing.begun else log, text=view is None)
    options = {"token_budget": asked.token_budget, "log": place, "run_id": run_id}

    async def resumed() -> Followed:
        async with servers(asked.project, asked.servers, bare=asked.bare) as (tools, warnings, statuses):
            session = Session.resume(make_agent(asked, key, session_id, tools, warnings), standing)
            asked.project.equip(session).described["mcp_servers"] = list(statuses)
            async with session:
                return await go_on(session, prompt, options, shown, one_end=isinstance(view, ResultView))

    followed = anyio.run(resumed)
    _close(followed, quiet=view is not None)
    return exit_code(followed.terminal)


def _begin(asked: Asked, view: View | None) -> View:
    """Give the warnings, and what shows the run."""
    for text in asked.warnings:
        warn(text)
    if view is not None:
        return view
    return TextView(Paint(coloured(sys.stdout)), thinking=is_verbose()) if is_terminal(sys.stdout) else _Answer()


async def _run(asked: Asked, key: str | None, prompt: str, view: View, text: bool) -> Followed:
    session_id, run_id = new_id(), new_id()
    async with servers(asked.project, asked.servers, bare=asked.bare) as (tools, warnings, statuses):
        agent = make_agent(asked, key, session_id, tools, warnings)
        async with agent, asked.project.session(agent, session_id=session_id) as session:
            session.described["mcp_servers"] = list(statuses)
            log = _log_file(asked.log) or agent.log_path(session_id, run_id)
            submission = session.submit(prompt, token_budget=asked.token_budget, log=log, run_id=run_id)
            return await follow(submission, with_log_told(view, log, text=text))


class _Answer:
    """The final answer on standard output; what goes wrong on the way on standard error."""

    def __init__(self) -> None:
        self._view = TextView(Paint(coloured(sys.stderr)), thinking=True)

    def show(self, output: Output) -> str:
        """Write nothing to standard output."""
        if is_verbose():
            print(self._view.show(output), end="", file=sys.stderr, flush=True)
        elif isinstance(output, Retrying):
            failure = output.failure
            which = f"attempt {output.attempt} of {output.max_attempts} failed"
            say(f"{which} ({failure.kind.value}: {failure.message}); again in {output.delay_ms / 1000:g} s")
        elif isinstance(output, Notice) and output.level == "warning":
            warn(output.text)
        return ""

    def end(self, result: Mapping[str, Any]) -> str:
        """Give the answer."""
        text = str(result["result"])
        if not text:
            return ""
        return text if text.endswith("\n") else text + "\n"


def make_agent(
    asked: Asked,
    key: str | None,
    session_id: str,
    tools: Sequence[Tool] | None = None,
    warnings: Sequence[str] = (),
    **more: Any,
) -> Agent:
    """Make the agent that was asked for.

    Args:
        asked: what the user asked for.
        key: for the SDK; None if it finds one.
        session_id: the session, whose folder takes long results.
        tools: tools besides those of the project; None for the built-in ones.
        warnings: of whoever made them.
        more: further settings of the agent.

    Raises:
        Problem: for a setting that cannot hold.
    """
    log = _log_file(asked.log)
    logs = None
    if log is None:
        logs = log_folder()
        why = check_writable(logs)
        if why:
            raise Problem(f"logs cannot be kept: {why}; give --log FILE or set XDG_STATE_HOME")
    results = logs / session_id / "results" if logs is not None else Path(f"{log}.results")
    cwd = Path(os.path.abspath(asked.cwd))
    given = asked.project.agent_settings(tools)
    given["add_dirs"] = (*given["add_dirs"], *asked.add_dirs)
    try:
        agent = Agent(
            asked.model,
            logs=logs,
            cwd=cwd,
            permission_mode=asked.mode,
            log_sync=asked.log_sync,
            allow=asked.allow,
            deny=asked.deny,
            summary_model=asked.summaries,
            api_key=key,
            base_url=asked.base_url,
            models_file=models_file(),
            raw_events=asked.partial,
            results_folder=str(results),
            system=system_parts(*asked.system),
            system_context=system_context(cwd),
            **given,
            **asked.values,
            **more,
        )
    except ValueError as error:  # a setting, a rule, a mode, a hook: the text says which
        raise Problem(str(error)) from None
    agent.warnings = (*asked.project.warnings, *warnings, *agent.warnings)
    return agent


def _log_file(path: Path | None) -> Path | None:
    if path is None:
        return None
    place = Path(os.path.abspath(path))
    if os.path.lexists(place):
        raise Problem(f"--log {path}: the file exists; a log is never overwritten")
    why = check_writable(place.parent)
    if why:
        raise Problem(f"--log {path}: {why}")
    return place


def access(base_url: str | None) -> str | None:
    """Check that there is a key, or a server that may not need one.

    Returns:
        The key to give to the SDK; None if it finds one itself.

    Raises:
        Problem: if there is neither, or the URL is none.
    """
    url = base_url or os.environ.get("ANTHROPIC_BASE_URL")
    if url is not None:
        try:
            parts = urlsplit(url)
            good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # half a bracket, or a port that is none
            good = False
        if not good:
            raise Problem(f"the base URL {url!r} is no URL; write one such as http://127.0.0.1:8080")
    if os.environ.get("ANTHROPIC_API_KEY") or os.environ.get("ANTHROPIC_AUTH_TOKEN") or _sdk_finds_access():
        return None
    if url is None:
        raise Problem(
            "there is no API key: set ANTHROPIC_API_KEY, or give --base-url for a server that needs none; "
            "to see the agent work without either, try: fsm-agent demo"
        )
    return "none"


def _sdk_finds_access() -> bool:
    """True if the SDK finds a profile or a federated identity."""
    from anthropic import AnthropicError, AsyncAnthropic

    try:
        client = AsyncAnthropic()
    except (AnthropicError, OSError, ValueError) as error:
        raise Problem(f"the API access that is set up cannot be used: {error}") from None
    return client.credentials is not None


def _close(followed: Followed, *, quiet: bool) -> None:
    """Say on standard error what the user should know of the end."""
    terminal, result = followed.terminal, followed.result
    denials = result["permission_denials"]
    if denials and not quiet:
        names = ", ".join(dict.fromkeys(str(denial["tool_name"]) for denial in denials))
        calls = "1 call was" if len(denials) == 1 else f"{len(denials)} calls were"
        say(f"{calls} denied ({names}); allow more with --allowed-tools or --permission-mode")
    if not succeeded(terminal):
        why = one_line((terminal.error.message if terminal.error is not None else "") or terminal.detail, 300)
        meaning = f"{terminal.reason.value}/{terminal.cause.value}" + (f" ({why})" if why else "")
        if terminal.turn_count:
            say(f"the run ended with {meaning}. {ending(terminal).advice}")
        elif quiet:  # nothing ran, and what a notice said was not shown
            say(why)
    if is_verbose() or (not quiet and is_terminal(sys.stdout) and is_terminal(sys.stderr)):
        usage = result["usage"]
        cost = f"${result['total_cost_usd']:.4f}"
        tokens = f"{usage['input_tokens']} tokens in, {usage['output_tokens']} out"
        turns = "1 turn" if result["num_turns"] == 1 else f"{result['num_turns']} turns"
        say(f"{turns}, {tokens}, {cost}; log: {clean(str(result['log']))}")
