"""``fsm-agent replay`` of several logs: a line for each, and a sum."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .console import clean, coloured, is_terminal
from .problems import LOG, OK, USAGE, Problem

if TYPE_CHECKING:
    from ..log.replay_many import Verdict


def report_all(given: tuple[Path, ...], jobs: int | None, *, check_table: bool) -> int:
    """Replay logs and say what came of each; gives the exit code.

    Args:
        given: logs, and folders of logs.
        jobs: processes, None for one a core.
        check_table: pass over a log that was written under another table or reducer.

    Raises:
        Problem: if a folder cannot be read, or there is no log.
    """
    from time import perf_counter

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from ..core import step as _loaded  # noqa: F401 - its import is not to count in the rate
    from ..log.replay_many import replay_many

    paths = _logs(given)
    console = Console(stderr=True, color_system="standard" if coloured(sys.stderr) else None)
    found: list[Verdict] = []
    begun = perf_counter()
    with Progress(
        TextColumn("replaying"),
        BarColumn(),
        MofNCompleteColumn(),
        console=console,
        transient=True,
        auto_refresh=False,  # the thread that it takes would keep processes from parting
        disable=not is_terminal(sys.stderr),
    ) as bar:
        task = bar.add_task("", total=len(paths))
        for one in replay_many(paths, jobs or os.cpu_count() or 1, check_table=check_table):
            found.append(one)
            bar.advance(task)
            bar.refresh()
    seconds = perf_counter() - begun
    for one in found:
        click.echo(clean(f"{one.path}: {_said(one)}"))
    wrong = sum(1 for one in found if one.problem and not one.other)
    passed_over = sum(one.other for one in found)
    right, records = len(found) - wrong - passed_over, sum(one.records for one in found)
    click.echo(
        f"\n{right} of {len(found)} logs agree, {records:,} records in {seconds:.1f} s ({records / seconds:,.0f} a second)"
        + (f"; {wrong} {'does' if wrong == 1 else 'do'} not" if wrong else "")
        + (f"; {passed_over} {'was' if passed_over == 1 else 'were'} not replayed" if passed_over else "")
    )
    return LOG if wrong else OK


def _said(one: Verdict) -> str:
    if one.problem:
        return f"not replayed: {one.problem}" if one.other else one.problem
    records = "1 record agrees" if one.records == 1 else f"{one.records} records agree"
    return f"{records}; the last line is torn" if one.torn else records


def _logs(given: tuple[Path, ...]) -> list[Path]:
    found: list[Path] = []
    for path in given:
        if not path.is_dir():
            found.append(path)
            continue
        try:
            os.scandir(path).close()
        except OSError as error:
            raise Problem(f"{path}: {error.strerror}", USAGE) from None
        inside = sorted(path.rglob("*.jsonl"))
        if not inside:
            raise Problem(f"{path}: there is no log in this folder", USAGE)
        found.extend(inside)
    return list(dict.fromkeys(found))
