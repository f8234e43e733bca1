"""``fsm-agent explore``: visit the whole bounded machine, and judge every law on it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .console import coloured, is_terminal
from .problems import FAILED, Problem

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
@click.option("--release", is_flag=True, help="The cases of a release too: much longer.")
@click.option("--jobs", type=click.IntRange(1, 64), default=None, help="Processes.  [default: one for each core]")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A field of the configuration of each case.")
@click.option("--bound", "bounds", multiple=True, metavar="KEY=VALUE", help="A number or switch of the bounds of each case.")
@click.option("--crash", "crashing", is_flag=True, help="Let the engine die at every state, and judge every recovery.")
@click.option("--paths", is_flag=True, help="Show the shortest path to each reason and to each declared row.")
@click.option("--rows", is_flag=True, help="Show how often each declared row was taken, and which never.")
@click.option(
    "--coverage",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Draw the machine with how often each row was taken: .svg, .png or .dot.",
)
def command(
    cases: tuple[str, ...],
    listing: bool,
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
    chosen = _chosen(cases, known, (*CI, *RELEASE) if release and not crashing else CI)
    chosen = tuple(_changed(case, settings, bounds) for case in chosen)
    if crashing:
        from .crashing import crash

        return crash(chosen, jobs or os.cpu_count() or 1, _bar, wide=release)
    began = time.monotonic()
    found = _explore(chosen, jobs or os.cpu_count() or 1)
    _total(found, time.monotonic() - began)
    if rows:
        _rows(found)
    if paths:
        _paths(chosen, found)
    if coverage is not None:
        _draw(found, coverage)
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


def _changed(case: Case, settings: tuple[str, ...], bounds: tuple[str, ...]) -> Case:
    from attrs import evolve

    from ..core.config import ConfigError
    from ..scenario import ScenarioError
    from ..scenario.settings import overridden

    try:
        config = overridden(case.config, _pairs(settings, "--set"), "--set")
        within = overridden(case.bounds, _pairs(bounds, "--bound"), "--bound")
    except (ScenarioError, ConfigError) as error:
        raise Problem(str(error), 2) from None
    return evolve(case, config=config, bounds=within)


def _pairs(words: tuple[str, ...], option: str) -> dict[str, Any]:
    import json

    found: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise click.UsageError(f"{option} {word}: write KEY=VALUE")
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value
    return found


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


def _total(found: list[Explored], seconds: float) -> None:
    from ..core.rows import TABLE

    rows, ends = _reached(found), {name for one in found for name in one.reasons}
    states, pairs = sum(one.states for one in found), sum(one.pairs for one in found)
    rate = pairs / seconds if seconds else 0
    broken = sum(len(one.violations) for one in found)
    valuations = len({code for one in found for code in one.valuations})
    click.echo(
        f"{states:,} states, {pairs:,} pairs in {seconds:.1f} s ({rate:,.0f} pairs/s); {len(rows)} of {len(TABLE.rows)} "
        f"declared rows ({100 * len(rows) // len(TABLE.rows)} %), {len(ends)} endings; "
        + ("no law is broken" if not broken else f"{broken} laws are broken")
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


def _draw(found: list[Explored], file: Path) -> None:
    from ..diagram import DiagramError, Ink, Paint, draw

    try:
        file.write_bytes(draw(fmt=file.suffix.lower().removeprefix(".") or "svg", paint=Paint(Ink.WEIGHT, _reached(found))))
    except DiagramError as error:
        raise Problem(str(error)) from None
    except OSError as error:
        raise Problem(f"{file}: {error.strerror}") from None
