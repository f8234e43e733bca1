"""``fsm-agent fork``: a new log that goes on from any record of another one."""

from __future__ import annotations

import shlex
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
        made = fork(log, at, output) if output is not None else _beside(log, at)
        click.echo(str(made))
        _tell(made)
    return 0


def _beside(log: Path, at: int | None) -> Path:
    from ..log.fork import fork

    number = 1
    while True:
        try:
            return fork(log, at, log.with_name(f"{log.name.removesuffix('.jsonl')}-fork-{number}.jsonl"))
        except FileExistsError:
            number += 1


def _tell(made: Path) -> None:
    """Say what the new log is, and what one can do with it: it holds nothing of its own yet."""
    from ..core.phases import Phase
    from ..log.glance import continued
    from ..log.reader import read_log
    from ..log.replay import begin_state
    from .console import clean, say

    opened = read_log(made)
    waits = begin_state(opened).phase is Phase.READY
    what = "waits for a prompt" if waits else "is that run, interrupted there"
    prompt = " PROMPT" if waits else ""
    say(clean(f"it continues {continued(opened)}, and {what}; go on: fsm-agent resume {shlex.quote(str(made))}{prompt}"))
