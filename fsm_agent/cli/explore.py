"""``fsm-agent explore``: visit the whole bounded machine, and judge every law on it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from .console import coloured, is_terminal
from .problems import FAILED, Problem

if TYPE_CHECKING:
    from ..explorer.explore import Explored, Progress
    from ..explorer.matrix import Case


@click.command(
    epilog="Examples: fsm-agent explore tools; fsm-agent explore --list; fsm-agent explore --jobs 2 --paths; "
    "fsm-agent explore tools --set max_turns=2 --bound blocks=1"
)
@click.argument("cases", nargs=-1, metavar="[CASE]...")
@click.option("--list", "listing", is_flag=True, help="List the cases, and leave.")
@click.option("--release", is_flag=True, help="The cases of a release too: a quarter of an hour.")
@click.option("--jobs", type=click.IntRange(1, 64), default=None, help="Processes.  [default: one for each core]")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A field of the configuration of each case.")
@click.option("--bound", "bounds", multiple=True, metavar="KEY=VALUE", help="A number or switch of the bounds of each case.")
@click.option("--crash", "crashing", is_flag=True, help="Let the engine die at every state, and judge every recovery.")
@click.option("--paths", is_flag=True, help="Show the shortest path to each reason that was reached.")
@click.option("--rows", is_flag=True, help="Show how often each declared row was taken, and which never.")
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
) -> int:
    """Explore the bounded machine: every state, every event, every law.

    Without CASE all cases of the continuous check are visited. A broken law is shown with the shortest events that break
    it, as a test that is ready to be pasted, and makes the exit code 1.
    """
    from ..explorer.matrix import CI, RELEASE

    known = (*CI, *RELEASE)
    if listing:
        for case in known:
            click.echo(f"{case.name:16}{'release' if case in RELEASE else 'continuous'}")
        return 0
    chosen = _chosen(cases, known, (*CI, *RELEASE) if release else CI)
    chosen = tuple(_changed(case, settings, bounds) for case in chosen)
    if crashing:
        from .crashing import crash

        return crash(chosen, jobs or os.cpu_count() or 1, _bar)
    found = [(case.name, _explore(case, jobs or os.cpu_count() or 1)) for case in chosen]
    _total([one for _, one in found])
    if rows:
        _rows([one for _, one in found])
    if paths:
        _paths([one for _, one in found])
    return FAILED if any(one.violations for _, one in found) else 0


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


def _explore(case: Case, jobs: int) -> Explored:
    from ..explorer.explore import explore
    from ..explorer.report import counterexample, summary
    from ..laws import LAWS

    with _bar(case.name) as progress:
        found = explore(case.config, case.bounds, jobs=jobs, progress=progress)
    click.echo(summary(case.name, found))
    for violation in found.violations:
        if violation.ordinals:
            click.echo(f"\n{counterexample(found, violation, LAWS)}")
    sys.stdout.flush()
    return found


@contextmanager
def _bar(name: str) -> Iterator[Progress | None]:
    """Show how far a search is, on a terminal only: how much is known of what was found so far."""
    if not is_terminal(sys.stderr):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from ..explorer.explore import Pace

    console = Console(stderr=True, color_system="standard" if coloured(sys.stderr) else None)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[words]}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(name, total=1, words="")

        def told(pace: Pace) -> None:
            words = (
                f"{pace.states:,} states ({pace.frontier:,} wait), {pace.pairs:,} pairs, depth {pace.depth}, "
                f"{pace.pairs_a_second:,.0f} pairs/s"
            )
            bar.update(task, total=pace.states, completed=pace.states - pace.frontier, words=words)

        yield told


def _reached(found: list[Explored]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for one in found:
        for name, count in one.rows.items():
            counts[name] = counts.get(name, 0) + count
    return counts


def _total(found: list[Explored]) -> None:
    from ..core.rows import TABLE

    rows, ends = _reached(found), {name for one in found for name in one.reasons}
    seconds = sum(one.seconds for one in found)
    states, pairs = sum(one.states for one in found), sum(one.pairs for one in found)
    rate = pairs / seconds if seconds else 0
    broken = sum(len(one.violations) for one in found)
    click.echo(
        f"{states:,} states, {pairs:,} pairs in {seconds:.1f} s ({rate:,.0f} pairs/s); {len(rows)} of {len(TABLE.rows)} "
        f"declared rows ({100 * len(rows) // len(TABLE.rows)} %), {len(ends)} endings; "
        + ("no law is broken" if not broken else f"{broken} laws are broken")
    )


def _rows(found: list[Explored]) -> None:
    from ..core.rows import TABLE

    counts = _reached(found)
    for row in TABLE.rows:
        click.echo(f"{counts.get(row.name, 0):12,}  {row.name}")


def _paths(found: list[Explored]) -> None:
    from ..core.phases import ContinueReason, TerminalReason
    from ..explorer.paths import paths_to

    for reason in (*ContinueReason, *TerminalReason):
        paths = [path for one in found if (path := paths_to(one, reason)) is not None]
        if not paths:
            click.echo(f"{reason.value}: no path within the bounds")
            continue
        shortest = min(paths, key=lambda path: len(path.names))
        click.echo(f"{reason.value}: {' '.join(shortest.names)}")
