"""Plays a scenario for ``demo``: real HTTP where the scenario can be served, real tools where it has a project."""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import click
from attrs import evolve, frozen

from ..core.events import Event
from ..core.state import Step
from ..scenario import Scenario, ScenarioError, load
from ..scenario.acting import ScriptedUser
from ..scenario.checking import Played, differences
from ..scenario.format import Way
from ..scenario.playing import first_state, run_started, scripted_traits
from ..scenario.project import write_project
from ..scenario.scripted import World, scripted_deps
from ..session.agent import Agent, new_id
from ..session.endings import exit_code
from ..session.session import Session
from .bare_run import BareRun
from .console import Paint, coloured, say, warn
from .follow import Followable, Followed, View, follow
from .places import check_writable, log_folder
from .problems import FAILED, Problem
from .rows import path_lines, recoveries
from .text_view import TextView


def load_scenario(source: str) -> Scenario:
    """Read a scenario by name or from a file; its project is worked on with the Python that runs this.

    Raises:
        Problem: if there is none, or it is wrong.
    """
    try:
        scenario = load(source)
        if scenario.real_tools:
            try:
                return load(source, values={"python": shlex.quote(sys.executable)})
            except ScenarioError:  # it names no Python
                return scenario
        return scenario
    except ScenarioError as error:
        raise Problem(str(error)) from None


@frozen
class _Stage:
    """What a demo works with.

    Attributes:
        scenario: what is played.
        folder: the workspace.
        log: file of the log.
        session_id: the session.
        run_id: the run.
    """

    scenario: Scenario
    folder: Path
    log: Path
    session_id: str
    run_id: str


def play_demo(source: str, *, keep: Path | None, plain: bool, view: View | None) -> int:
    """Play a scenario and show it.

    Args:
        source: name or file.
        keep: folder for project and log, None for a temporary project and the usual place of logs.
        plain: no colour, ASCII only.
        view: a JSON view, None for text.

    Returns:
        The exit code.
    """
    scenario = load_scenario(source)
    paint = Paint(coloured(sys.stdout) and not plain)
    with _stage(scenario, keep) as stage:
        if view is None:
            click.echo(_opening(stage, paint))
        with _server(scenario) as base_url:
            shown = TextView(paint, plain=plain) if view is None else view
            followed, played = anyio.run(_play, stage, base_url, shown)
    wrong = differences(scenario.expect, played)
    if view is None:
        click.echo(_closing(stage, followed, played, paint, plain=plain, kept=keep is not None))
    for text in wrong:
        say(f"scenario {scenario.name}: {text}")
    return exit_code(followed.terminal) or (FAILED if wrong else 0)


@contextmanager
def _stage(scenario: Scenario, keep: Path | None) -> Iterator[_Stage]:
    session_id, run_id = new_id(), new_id()
    with tempfile.TemporaryDirectory(prefix="fsm-agent-demo-", ignore_cleanup_errors=True) as temporary:
        if keep is None:
            folder = Path(os.path.realpath(temporary)) / scenario.name
            log = _log_place() / session_id / f"{run_id}.jsonl"
        else:
            folder = Path(os.path.abspath(keep)) / "project"
            log = folder.parent / f"{run_id}.jsonl"
            _check_empty(folder.parent)
        try:
            folder.mkdir(parents=True)
            write_project(scenario, folder)
        except OSError as error:
            raise Problem(f"cannot make the project: {error.filename or folder}: {error.strerror}") from None
        yield _Stage(scenario, folder, log, session_id, run_id)


def _log_place() -> Path:
    """Give the folder of logs; a demo must run where it cannot be written, too."""
    try:
        folder = log_folder()
        why = check_writable(folder)
    except Problem as problem:
        folder, why = Path(), problem.message
    if not why:
        return folder
    other = Path(tempfile.mkdtemp(prefix="fsm-agent-logs-"))
    warn(f"{why}; the log goes to {other}")
    return other


def _check_empty(folder: Path) -> None:
    try:
        if folder.exists() and any(folder.iterdir()):
            raise Problem(f"{folder} is not empty; --keep needs an empty or new folder")
    except OSError as error:
        raise Problem(f"cannot use {folder}: {error.strerror}") from None


@contextmanager
def _server(scenario: Scenario) -> Iterator[str]:
    """Serve the scenario; an empty URL where it can only be played by a scripted model."""
    if Way.HTTP not in scenario.ways:
        yield ""
        return
    from ..server.app import LoopbackServer
    from ..server.from_scenario import server_script

    with LoopbackServer(server_script(scenario), models=scenario.config.models) as server:
        yield server.base_url
        for number, breach in server.breaches:
            say(f"request {number} broke a rule of the API: {breach}")


async def _play(stage: _Stage, base_url: str, view: View) -> tuple[Followed, Played]:
    scenario = stage.scenario
    world, user = World(), ScriptedUser(scenario)
    outputs: list[Any] = []

    def observe(event: Event, step: Step) -> None:
        world.observe(event, step)
        user.observe(event, step)

    async with _agent(stage, base_url, world) as agent:
        submission = _submission(stage, agent, observe)
        followed = await follow(submission, _Kept(view, outputs), attach=user.attach)
    return followed, Played(followed.terminal, user.taken, tuple(outputs), user.compactions)


def _submission(stage: _Stage, agent: Agent, observe: Callable[[Event, Step], None]) -> Followable:
    scenario = stage.scenario
    start = run_started(scenario, stage.run_id)
    if all(block.blank for message in start.messages for block in message.blocks):
        # A session refuses such a prompt; the loop itself must end well with it too.
        return BareRun(agent, start, first_state(scenario), log=stage.log, session_id=stage.session_id, on_step=observe)
    return Session(agent, session_id=stage.session_id, state=first_state(scenario)).submit(
        [json.loads(text) for text in scenario.prompt],
        token_budget=scenario.token_budget,
        log=stage.log,
        run_id=stage.run_id,
        source=scenario.source,
        depth=scenario.depth,
        on_step=observe,
    )


class _Kept:
    """A view that keeps the outputs too."""

    def __init__(self, view: View, outputs: list[Any]) -> None:
        self._view = view
        self._outputs = outputs
        self.end = view.end

    def show(self, output: Any) -> str:
        """Keep it, and show it."""
        self._outputs.append(output)
        return self._view.show(output)


@asynccontextmanager
async def _agent(stage: _Stage, base_url: str, world: World) -> AsyncIterator[Agent]:
    scenario = stage.scenario
    if scenario.real_tools and base_url:
        python = shlex.quote(sys.executable)
        async with Agent(
            config=evolve(scenario.config, tools=()),
            cwd=stage.folder,
            base_url=base_url,
            api_key="demo",
            permission_mode="acceptEdits",
            allow=(f"Bash({python} -m unittest:*)",),
        ) as agent:
            yield agent
    elif base_url:
        from ..runtime.model_caller import ModelCaller
        from ..server.over_http import http_deps

        models = scenario.config.models
        async with ModelCaller(scripted_traits(scenario), base_url=base_url, api_key="demo", models=models) as caller:
            yield Agent(config=scenario.config, deps=http_deps(scenario, caller, world=world), cwd=stage.folder)
    else:
        yield Agent(config=scenario.config, deps=scripted_deps(scenario, world=world), cwd=stage.folder)


def _opening(stage: _Stage, paint: Paint) -> str:
    scenario = stage.scenario
    how = "real tools" if scenario.real_tools else "scripted tools"
    how += ", real HTTP on loopback" if Way.HTTP in scenario.ways else ", scripted model (this case cannot come over HTTP)"
    lines = [f"{paint(scenario.name, bold=True)}: {scenario.title}", paint(f"({how})", dim=True)]
    if scenario.files:
        lines.append(paint(f"project: {stage.folder}", dim=True))
    lines.append(paint(f"log: {stage.log}", dim=True))
    words = " ".join(str(json.loads(text).get("text", "[image]")) for text in scenario.prompt)
    return "\n".join([*lines, "", paint(f"> {words}", "blue")])


def _closing(stage: _Stage, followed: Followed, played: Played, paint: Paint, *, plain: bool, kept: bool) -> str:
    terminal, result, expect = followed.terminal, followed.result, stage.scenario.expect
    usage = result["usage"]
    got = f"{terminal.reason.value} / {terminal.cause.value}"
    wanted = f"{expect.reason.value} / {expect.cause.value}"
    detail = terminal.detail or (terminal.error.message if terminal.error is not None else "")
    log = shlex.quote(str(stage.log))
    lines = ["", paint("transitions", bold=True), *path_lines(played.taken, paint, arrow="->" if plain else "→"), ""]
    facts = [
        ("ended", paint(got, "green" if got == wanted else "red", bold=True) + (f"  ({detail})" if detail else "")),
        ("expected", wanted),
        ("went on by", ", ".join(result["transitions"]) or "-"),
        *([("recovered", mended)] if (mended := ", ".join(recoveries(played.taken))) else []),
        ("turns", str(result["num_turns"])),
        ("tokens", f"{usage['input_tokens']} in, {usage['output_tokens']} out"),
        ("cost", f"${result['total_cost_usd']:.4f} (as if the model were real)"),
        *([("project", str(stage.folder))] if kept and stage.scenario.files else []),
        ("log", str(stage.log)),
        ("replay it", f"fsm-agent replay {log}"),
        ("show it", f"fsm-agent show {log}"),
        ("view it", f"fsm-agent view {log} --open"),
    ]
    return "\n".join([*lines, *(f"{name:<11} {value}" for name, value in facts)])
