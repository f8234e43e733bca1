"""The work of ``fsm-agent resume`` and of ``run --resume``: find the log, let its run go on, submit the next prompt."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .console import say, warn
from .follow import Followed, View, follow
from .log_files import find_logs, log_problems, summarise
from .places import log_folder
from .problems import LOG, Problem
from .prompts import worked_in

if TYPE_CHECKING:
    from ..log.resume import Standing
    from ..session.session import Session
    from .running import Asked


def find_log(name: str | None, cwd: str | os.PathLike[str] = ".") -> Path:
    """Find the log to resume.

    Args:
        name: a log, or the id of a session for its newest log; None for the newest log of a folder.
        cwd: that folder.

    Raises:
        Problem: if there is none.
    """
    if name is not None and Path(name).is_file():
        return Path(os.path.abspath(name))
    folder = log_folder()
    if name is not None:
        if os.sep in name or name.endswith(".jsonl") or not (folder / name).is_dir():
            raise Problem(f"{name!r} is neither a log nor a session; list them: fsm-agent logs")
        folder = folder / name
    found = [] if not folder.is_dir() else [summarise(path) for path in find_logs(folder)]
    # The log of a sub-agent goes on within its parent's run.
    readable = [one for one in found if not one.problem and not one.nested]
    if not readable:
        raise Problem(f"there is no log to go on with in {folder}")
    newest = max(readable, key=lambda one: one.created)
    if name is None:
        here = [one for one in readable if one.folder and os.path.realpath(one.folder) == os.path.realpath(cwd)]
        if not here:
            where = f"worked in {newest.folder}" if newest.folder else "does not say where it worked"
            raise Problem(
                f"there is no log of a run in {os.path.abspath(cwd)}; the newest of all {where}: "
                f"fsm-agent resume {shlex.quote(str(newest.path))}"
            )
        newest = max(here, key=lambda one: one.created)
    return newest.path


def surroundings(standing: Standing, asked: Asked) -> tuple[str, ...]:
    """Say in what a run that goes on would have other surroundings than before: they are not taken from its log.

    A log may come from anywhere: where it says to work, and what it says that was allowed, is for the user to repeat.
    """
    found: list[str] = []
    then, now = worked_in(standing.header.config.system_context), os.path.abspath(asked.cwd)
    if then and not asked.cwd_given and os.path.realpath(then) != os.path.realpath(now):
        there = f"give --cwd {shlex.quote(then)} to work there" if os.path.isdir(then) else "that folder is not there any more"
        found.append(f"the run worked in {then}; you are in {now}: {there}")
    mode = standing.state.control.tool_use_context.permission_mode
    if standing.begun and not asked.mode_given and mode != asked.mode:
        found.append(
            f"the run had the permission mode {mode}; now it is {asked.mode}: give --permission-mode {mode} to go on as before"
        )
    return tuple(found)


def mended(path: Path) -> None:
    """Repair a log, and say what was done."""
    from ..log.format import records_are
    from ..log.repair import repair

    with log_problems(path):
        done = repair(path)
    if done.kept is None:
        say(f"{path}: there is nothing to repair")
        return
    for lost in done.lost:
        warn(f"{records_are(lost.seq, lost.to)} lost ({lost.because}); the log says so in its place")
    if done.moved:
        say(f"{_lines(done.moved)} stood in another place, and {'was' if done.moved == 1 else 'were'} put back")
    if done.dropped:
        say(f"{_lines(done.dropped)} that had no place in the log {'was' if done.dropped == 1 else 'were'} taken out")
    if done.torn:
        warn("the torn line at the end was cut off")
    elif not (done.lost or done.moved or done.dropped):
        say("the last line has its end again")
    say(f"the log as it was is kept in {done.kept}")


def _lines(count: int) -> str:
    return "1 line" if count == 1 else f"{count} lines"


def standing_of(path: Path) -> Standing:
    """Fold a log, and say where it stands.

    Raises:
        Problem: if it cannot be gone on with.
    """
    from ..log.errors import BehaviourChanged, ReplayDiverged
    from ..log.resume import stand

    with log_problems(path):
        try:
            return stand(path)
        except BehaviourChanged as error:
            short = str(error).partition("; ")[0]
            raise Problem(f"{short}; to go on under this one, fork it: fsm-agent fork {path}", LOG) from None
        except ReplayDiverged as error:
            raise Problem(str(error), LOG) from None


async def go_on(session: Session, prompt: str | None, options: Mapping[str, Any], view: View, *, one_end: bool) -> Followed:
    """Let an interrupted run go on, then submit the prompt, if there is one.

    Args:
        session: the resumed session.
        prompt: what comes next, None for nothing.
        options: of the prompt's submission.
        view: what is written.
        one_end: only the last of two runs may write its end.

    Raises:
        Problem: if there is nothing to do.
    """
    followed: Followed | None = None
    async with session.agent:
        if session.interrupted is not None:
            path = session.interrupted.path
            shown = _Endless(view) if one_end and prompt is not None else view
            with log_problems(path):
                followed = await follow(session.go_on(), shown)
        if prompt is not None:
            followed = await follow(session.submit(prompt, **options), view)
    if followed is None:
        raise Problem("the run has ended, and there is nothing to go on with; give a prompt")
    return followed


class _Endless:
    """A view whose end is left to another one."""

    def __init__(self, view: View) -> None:
        self.show = view.show

    def end(self, result: Mapping[str, Any]) -> str:
        """Give nothing."""
        return ""
