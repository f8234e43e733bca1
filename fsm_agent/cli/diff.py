"""``fsm-agent diff``: where two logs first differ."""

from __future__ import annotations

from pathlib import Path

import click

from .log_param import LOG_PATH
from .problems import FAILED, OK


@click.command(epilog="Example: fsm-agent diff monday.jsonl tuesday.jsonl")
@click.argument("first", type=LOG_PATH)
@click.argument("second", type=LOG_PATH)
@click.option("--raw", is_flag=True, help="Do not mask secrets.")
def command(first: Path, second: Path, raw: bool) -> int:
    """Find the first difference between two logs: in their settings, in what happened, or in what was made of it.

    Times are no difference, nor are ids of sessions, runs and replies: an id counts only by what else has the same one. So
    two runs of one task are compared by what happened. Exit code 0 if there is no difference, 1 if there is one.
    """
    from ..log.compare import compare
    from .console import visible
    from .log_files import log_problems
    from .masking import redactor

    with log_problems(first):
        found = compare(first, second)
    if found is None:
        click.echo("no difference")
        return OK
    mask = redactor(raw).mask
    before = "what the run begins with" if found.field.startswith("begin") else "the settings"
    where = before if found.seq == 0 else f"record {found.seq}"
    agreed = "" if found.seq == 0 else f" (behind {found.agreed} that agree)"
    click.echo(f"first difference in {where}{agreed}: {visible(found.field)}")
    click.echo(f"  {visible(str(first))}: {visible(mask(found.first))}")
    click.echo(f"  {visible(str(second))}: {visible(mask(found.second))}")
    return FAILED
