"""``fsm-agent diagram``: the machine, a part of it, or the path of a run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .pictures import DRAWN, PAINTED, check_drawable, endings, format_of
from .problems import Problem
from .writing import OutputFile, is_file, tell_written, write_file

if TYPE_CHECKING:
    from ..diagram import Paint


@click.command(
    epilog="Examples: fsm-agent diagram --output machine.svg; fsm-agent diagram --format mermaid --focus recovery; "
    "fsm-agent diagram --log run.jsonl --output run.svg"
)
@click.option("--format", "fmt", type=click.Choice(DRAWN), help="[default: by the name of --output, else svg]")
@click.option(
    "--focus", default="machine", show_default=True, metavar="NAME", help="A part: recovery, tools, ... or the whole machine."
)
@click.option(
    "--log",
    "logs",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="LOG",
    help="Paint the path of this run, with counts.",
)
@click.option("--coverage", is_flag=True, help="Paint which rows the runs of all --log together have taken.")
@click.option(
    "--output", type=OutputFile(dash=True), metavar="FILE", help=f"A file: {endings(DRAWN)}.  [default: standard output]"
)
def command(fmt: str | None, focus: str, logs: tuple[Path, ...], coverage: bool, output: Path | None) -> int:
    """Draw the declared machine, a part of it, or the path of a run.

    SVG and PNG are drawn by Graphviz; dot, mermaid and scxml are text and need no program.
    """
    if coverage and not logs:
        raise click.UsageError("--coverage needs --log")
    if len(logs) > 1 and not coverage:
        raise click.UsageError("several --log can be painted with --coverage only")
    from ..diagram import FOCI, MACHINE, DiagramError, draw

    if focus not in (MACHINE, *FOCI):
        raise click.UsageError(f"--focus: there is no part {focus!r}; there are {', '.join((MACHINE, *FOCI))}")
    output = output if is_file(output) else None
    formats = PAINTED if logs else DRAWN
    chosen = fmt or format_of(output, formats, "--output", f"; or name one with --format, of {', '.join(formats)}")
    if chosen not in formats:
        raise click.UsageError(f"{chosen} shows no path of a run; there are {', '.join(formats)}")
    if chosen == "png" and output is None and sys.stdout.isatty():
        raise click.UsageError("a PNG does not go to a terminal; give --output FILE")
    check_drawable(chosen)
    paint = _paint(logs, coverage) if logs else None
    try:
        content = draw(focus, chosen, paint)
    except DiagramError as error:
        raise Problem(str(error)) from None
    if output is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        return 0
    write_file(output, content)
    tell_written(output, f"{focus}, {chosen}, {len(content) / 1000:.0f} kB")
    return 0


def _paint(logs: tuple[Path, ...], coverage: bool) -> Paint:
    from ..diagram import Ink, counted
    from .console import warn
    from .log_steps import Steps

    taken = [name for log in logs for record in Steps(log, effects=False).records() for name in record.taken]
    paint = counted(taken, Ink.COVERAGE if coverage else Ink.PATH)
    unknown = [name for name in paint.unknown if name != "stale"]
    if unknown:
        warn(f"not in the table of this version: {', '.join(unknown)}")
    return paint
