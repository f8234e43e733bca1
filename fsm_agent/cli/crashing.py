"""``fsm-agent explore --crash``: the engine dies at every state, and every recovery is judged."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import click

from .problems import FAILED

if TYPE_CHECKING:
    from ..explorer.explore import Progress
    from ..explorer.matrix import Case
    from ..testing.crashing import Crashed

Bar = Callable[[str], "AbstractContextManager[Progress | None]"]


def crash(cases: tuple[Case, ...], jobs: int, bar: Bar, *, wide: bool) -> int:
    """Crash everywhere in some cases, and say what came of it; gives the exit code.

    Args:
        cases: the cases.
        jobs: processes.
        bar: shows how far a search is.
        wide: also in the case that is made for crashes.
    """
    from ..explorer.report import counterexample
    from ..testing.crashing import WIDE, crash_everywhere, every_crash_is_survived

    found: list[Crashed] = []
    for case in (*cases, *((WIDE,) if wide else ())):
        with bar(f"{case.name}, crashing") as progress:
            made = crash_everywhere(case.config, case.bounds, jobs, progress)
        found.append(made)
        click.echo(f"{case.name}: {made.words}")
        for violation in made.explored.violations:
            click.echo(f"  {violation.group} {violation.law}: {violation.words}")
            if violation.ordinals:
                click.echo(f"\n{counterexample(made.explored, violation, (every_crash_is_survived,))}")
        for fault in made.faults:
            click.echo(f"  in a log: {fault}")
        sys.stdout.flush()
    _total(found)
    return FAILED if any(made.explored.violations or made.faults for made in found) else 0


def _total(found: list[Crashed]) -> None:
    from ..explorer.report import limits_of

    counts: dict[tuple[str, str], int] = {}
    for made in found:
        for kind, stage, count in made.stages:
            counts[kind.value, stage.value] = counts.get((kind.value, stage.value), 0) + count
    stages = tuple(dict.fromkeys(stage for _, stage in counts))
    click.echo(f"\n{'died at':12}" + "".join(f"{stage:>12}" for stage in stages))
    for name in dict.fromkeys(kind for kind, _ in counts):
        click.echo(f"{name:12}" + "".join(f"{counts[name, stage]:12,}" for stage in stages))
    seconds = sum(made.seconds for made in found)
    cut = [limits_of(made.explored) for made in found if not made.explored.complete]
    whole = "nothing was lost or done twice" + (f" as far as was looked: not complete ({cut[0]})" if cut else "")
    broken = sum(len(made.explored.violations) + len(made.faults) for made in found)
    click.echo(
        f"{sum(made.recoveries for made in found):,} recoveries at {sum(made.states for made in found):,} states in "
        f"{seconds:.1f} s, {sum(made.row for made in found):,} of them of engines that died again and again, "
        f"{4 * sum(made.logs for made in found):,} from logs that were cut; at most {max(made.longest for made in found)} "
        "resumes in a row; " + (whole if not broken else f"{broken} faults")
    )
