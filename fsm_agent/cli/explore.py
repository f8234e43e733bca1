"""``fsm-agent explore``: visit the whole bounded machine, and judge every law on it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .case_options import changed_case
from .console import coloured, is_terminal
from .pictures import PAINTED, check_drawable, endings, format_of
from .problems import FAILED, Problem
from .writing import OutputFile, tell_written, write_file

if TYPE_CHECKING:
    from rich.progress import TaskID

    from ..explorer.explore import Explored, Progress
    from ..explorer.matrix import Case
    from ..explorer.side_by_side import CasePace


@click.command(
    epilog="Examples: fsm-agent explore tools; fsm-agent explore --list; fsm-agent explore --jobs 2 --paths; "
    "fsm-agent explore tools --set max_turns=2 --bound blocks=1"
)
@click.argument("cases", nargs=-1, metavar="[CASE]...")
@click.option("--list", "listing", is_flag=True, help="List the cases, and leave.")
@click.option("--bounds", "list_bounds", is_flag=True, help="List the bounds that --bound can set, and leave.")
@click.option("--release", is_flag=True, help="The cases of a release too: much longer.")
@click.option("--jobs", type=click.IntRange(1, 64), default=None, help="Processes.  [default: one for each core]")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A field of the configuration of each case.")
@click.option("--bound", "bounds", multiple=True, metavar="KEY=VALUE", help="A bound of each case; see --bounds.")
@click.option("--crash", "crashing", is_flag=True, help="Let the engine die at every state, and judge every recovery.")
@click.option("--paths", is_flag=True, help="Show the shortest path to each reason and to each declared row.")
@click.option("--rows", is_flag=True, help="Show how often each declared row was taken, and which never.")
@click.option(
    "--coverage",
    type=OutputFile(),
    metavar="FILE",
    help=f"Draw the machine with how often each row was taken: {endings(PAINTED)}.",
)
def command(
    cases: tuple[str, ...],
    listing: bool,
    list_bounds: bool,
    release: bool,
    jobs: int | None,
    settings: tuple[str, ...],
    bounds: tuple[str, ...],
    crashing: bool,
    paths: bool,
    rows: bool,
    coverage: Path | None,
) -> int:
    """Explore the bounded machine: every state, every event, every law.

    Without CASE all cases of the continuous check are visited. A broken law is shown with the shortest events that break
    it, as a test that is ready to be pasted, and makes the exit code 1. On every pair the reducer, the machine of the
    library transitions and the committed graph of the machine are compared.
    """
    from ..explorer.matrix import CI, RELEASE

    known = (*CI, *RELEASE)
    if listing:
        for case in known:
            click.echo(f"{case.name:16}{'release' if case in RELEASE else 'continuous':12}{case.text}")
        return 0
    if list_bounds:
        if cases:
            raise Problem("--bounds lists what can be set, with what holds where a case says nothing; it takes no case")
        from ..explorer.bounds import Bounds
        from ..testing.kit_page import told

        for name, default, text in told(Bounds):
            click.echo(f"{name:16}{text} [{default}]")
        return 0
    chosen = _chosen(cases, known, (*CI, *RELEASE) if release and not crashing else CI)
    chosen = tuple(changed_case(case, settings, bounds) for case in chosen)
    if crashing and (rows or paths or coverage is not None):
        raise click.UsageError("--rows, --paths and --coverage do not go with --crash")
    fmt = format_of(coverage, PAINTED, "--coverage")
    if coverage is not None:
        check_drawable(fmt)
    if crashing:
        from .crashing import crash

        return crash(chosen, jobs or os.cpu_count() or 1, _bar, wide=release)
    began = time.monotonic()
    found = _explore(chosen, jobs or os.cpu_count() or 1)
    _total(chosen, found, time.monotonic() - began)
    if rows:
        _rows(found)
    if paths:
        _paths(chosen, found)
    if coverage is not None:
        _draw(found, coverage, fmt)
    return FAILED if any(one.violations for one in found) else 0


def _chosen(names: tuple[str, ...], known: tuple[Case, ...], usual: tuple[Case, ...]) -> tuple[Case, ...]:
    by_name = {case.name: case for case in known}
    for name in names:
        if name not in by_name:
            from difflib import get_close_matches

            near = get_close_matches(name, by_name, 1)
            hint = f"; did you mean {near[0]!r}?" if near else "; see --list"
            raise click.UsageError(f"there is no case {name!r}{hint}")
    return tuple(by_name[name] for name in names) or usual


def _explore(cases: tuple[Case, ...], jobs: int) -> list[Explored]:
    from ..diagram.agreement import Agreement
    from ..explorer.report import counterexample, summary
    from ..explorer.side_by_side import explore_all
    from ..laws import LAWS

    def done(name: str, found: Explored) -> None:
        click.echo(summary(name, found))
        for violation in found.violations:
            if violation.ordinals:
                click.echo(f"\n{counterexample(found, violation, LAWS)}")
        sys.stdout.flush()

    with _bars() as progress:
        return explore_all(cases, LAWS, jobs, progress, done, Agreement())


@contextmanager
def _bar(name: str) -> Iterator[Progress | None]:
    """Show how far one search is, on a terminal only."""
    with _bars() as told:
        yield None if told is None else lambda pace: told(name, pace)


@contextmanager
def _bars() -> Iterator[CasePace | None]:
    """Show how far each search is, on a terminal only: how much is known of what was found so far."""
    if not is_terminal(sys.stderr):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from ..core.rows import TABLE
    from ..explorer.explore import Pace

    console = Console(stderr=True, color_system="standard" if coloured(sys.stderr) else None)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[words]}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        tasks: dict[str, TaskID] = {}

        def told(name: str, pace: Pace) -> None:
            if name not in tasks:
                tasks[name] = bar.add_task(name, total=1, words="")
            words = (
                f"{pace.states:,} states ({pace.frontier:,} wait), {pace.pairs:,} pairs, depth {pace.depth}, "
                f"{pace.rows} of {len(TABLE.rows)} rows, {pace.pairs_a_second:,.0f} pairs/s"
            )
            bar.update(tasks[name], total=pace.states, completed=pace.states - pace.frontier, words=words)
            if not pace.frontier:
                bar.remove_task(tasks.pop(name))

        yield told


def _reached(found: list[Explored]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for one in found:
        for name, count in one.rows.items():
            counts[name] = counts.get(name, 0) + count
    return counts


def _total(cases: tuple[Case, ...], found: list[Explored], seconds: float) -> None:
    from ..core.rows import TABLE
    from ..explorer.report import verdict

    rows, ends = _reached(found), {name for one in found for name in one.reasons}
    states, pairs = sum(one.states for one in found), sum(one.pairs for one in found)
    rate = pairs / seconds if seconds else 0
    valuations = len({code for one in found for code in one.valuations})
    click.echo(
        f"{states:,} states, {pairs:,} pairs in {seconds:.1f} s ({rate:,.0f} pairs/s); {len(rows)} of {len(TABLE.rows)} "
        f"declared rows ({100 * len(rows) // len(TABLE.rows)} %), {len(ends)} endings; "
        + verdict({case.name: one for case, one in zip(cases, found, strict=True)})
    )
    click.echo(
        f"step, the transitions machine and the committed graph were compared on every pair: the machine was fired for "
        f"{valuations:,} triples of phase, trigger and answers of the guards, {len(rows)} edges of the graph were seen"
    )


def _rows(found: list[Explored]) -> None:
    from ..core.rows import TABLE

    counts = _reached(found)
    for row in TABLE.rows:
        click.echo(f"{counts.get(row.name, 0):12,}  {row.name}")


def _paths(cases: tuple[Case, ...], found: list[Explored]) -> None:
    from ..core.phases import ContinueReason, TerminalReason
    from ..core.rows import TABLE
    from ..explorer.pages import shortest, shortest_rows

    together = list(zip(cases, found, strict=True))
    reasons, rows = shortest(together), shortest_rows(together)
    for title, names, paths in (
        ("the shortest path to each reason", [reason.value for reason in (*ContinueReason, *TerminalReason)], reasons),
        ("the shortest path to each declared row", [row.name for row in TABLE.rows], rows),
    ):
        click.echo(f"\n{title}:")
        for name in names:
            words = " ".join(paths[name][1].names) if name in paths else "no path within the bounds"
            click.echo(f"{name}: {words}")


def _draw(found: list[Explored], place: Path, fmt: str) -> None:
    from ..diagram import DiagramError, Ink, Paint, draw

    counts = _reached(found)
    try:
        content = draw(fmt=fmt, paint=Paint(Ink.WEIGHT, counts))
    except DiagramError as error:
        raise Problem(str(error)) from None
    write_file(place, content)
    tell_written(place, f"the machine with how often each row was taken, {fmt}, {len(content) / 1000:.0f} kB")
