"""``fsm-agent fork``: a new log that goes on from any record of another one."""

from __future__ import annotations

from pathlib import Path

import click

from .log_param import LOG_PATH


@click.command(epilog="Examples: fsm-agent fork run.jsonl --at 12; fsm-agent fork run.jsonl -o other.jsonl")
@click.argument("log", type=LOG_PATH)
@click.option("--at", type=click.IntRange(0), metavar="N", help="The last record that counts.  [default: the last one]")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The new log, a new file.  [default: <log>-fork-<n>.jsonl beside it]",
)
def command(log: Path, at: int | None, output: Path | None) -> int:
    """Make a new log that continues LOG behind one of its records. LOG stays as it is, and has to stay where it is.

    From a record in the middle it is the run, interrupted there; from the end, a conversation that waits for a prompt.
    Go on with it: fsm-agent resume FILE [PROMPT].
    """
    from ..log.fork import fork
    from .log_files import log_problems

    with log_problems(log):
        if output is not None:
            click.echo(str(fork(log, at, output)))
            return 0
        number = 1
        while True:
            try:
                place = log.with_name(f"{log.name.removesuffix('.jsonl')}-fork-{number}.jsonl")
                click.echo(str(fork(log, at, place)))
                return 0
            except FileExistsError:
                number += 1
