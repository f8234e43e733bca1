"""``fsm-agent logs``: which runs there were."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .places import log_folder
from .problems import Problem

if TYPE_CHECKING:
    from .log_files import Summary


@click.command(epilog="Examples: fsm-agent logs; fsm-agent logs --limit 5; fsm-agent logs ./mylogs --json")
@click.argument("directory", required=False, type=click.Path(path_type=Path))
@click.option("--limit", type=click.IntRange(1), metavar="N", help="The newest N only.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.option("--raw", is_flag=True, help="Do not mask secrets.")
def command(directory: Path | None, limit: int | None, as_json: bool, raw: bool) -> int:
    """List the logs, the newest first.

    Without DIRECTORY those of the usual place: $XDG_STATE_HOME/fsm-agent/logs, or ~/.local/state/fsm-agent/logs. Secrets
    in prompts are masked. The end of each log is looked at, not all of it: fsm-agent replay verifies a log whole.
    """
    folder = log_folder() if directory is None else directory
    if directory is None and not folder.exists():
        from .console import say

        say(f"there are no logs yet in {folder}; make one: fsm-agent demo")
        return 0
    from .log_files import find_logs, summarise

    try:
        paths = find_logs(folder)
    except OSError as error:
        raise Problem(f"{folder}: {error.strerror}") from None
    summaries = sorted((summarise(path) for path in paths), key=lambda one: one.created, reverse=True)[:limit]
    from .masking import redactor

    masker = redactor(raw)
    if as_json:
        from .json_view import line_of

        for one in summaries:
            click.echo(masker.mask(line_of(_value(one))), nl=False)
        return 0
    from .console import is_terminal, local_time, one_line, say, table, visible

    on_terminal = is_terminal(sys.stdout)
    rows = [
        (
            one_line(one.session) or "?",
            one_line(one.run or one.path.name),
            local_time(one.created) if one.created else "?",
            one_line(masker.mask(_what(one)), 76 if on_terminal else 50),
            "-" if one.terminal is None else str(one.terminal.turn_count),
            one_line(_how(one), 300),
            f"{one.cost / 1_000_000:.4f}",
        )
        for one in summaries
    ]
    head, right = ("session", "run", "started", "prompt", "turns", "ended", "cost $"), (4, 6)
    if on_terminal:
        # A path that is cut into pieces cannot be copied: each has a line of its own, however long.
        click.echo(_blocks(rows, summaries), nl=False)
    else:
        whole = [(*row, visible(str(one.path))) for row, one in zip(rows, summaries, strict=True)]
        click.echo(table((*head, "log"), whole, right=right), nl=False)
    bad = [one for one in summaries if one.damage]
    if bad:
        log = shlex.quote(str(bad[0].path))
        which = "1 log is" if len(bad) == 1 else f"{len(bad)} logs are"
        say(f"{which} damaged; mend {'it' if len(bad) == 1 else 'one'}: fsm-agent replay {log} --repair")
    return 0


def _blocks(rows: Sequence[Sequence[str]], summaries: Sequence[Summary]) -> str:
    """Give three lines for each log: when and how it went, the prompt, the path."""
    from .console import Paint, clean, coloured, visible

    paint = Paint(coloured(sys.stdout))
    wide = max((len(row[0]) for row in rows), default=0)
    lines = [paint(f"{'started':<19}  {'session':<{wide}}  turns   cost $  ended", bold=True)]
    for (session, _, started, prompt, turns, ended, cost), one in zip(rows, summaries, strict=True):
        lines.append(clean(f"{started:<19}  {session:<{wide}}  {turns:>5}  {cost:>7}  {ended}"))
        lines += [f"    {prompt}"] if prompt else []
        lines.append("    " + paint(visible(str(one.path)), dim=True))
    return "\n".join(lines) + "\n"


def _what(one: Summary) -> str:
    """Give the prompt; a fork has that of the run that it continues."""
    if one.continues is None or not one.forked:
        return one.prompt
    return f"(from record {one.continues.seq} of {one.continues.log.name}) {one.prompt}".rstrip()


def _how(one: Summary) -> str:
    if one.problem:
        return f"unreadable: {one.problem}"
    if one.damage:
        return f"damaged: {one.damage.partition(':')[0].removesuffix(' is damaged')}"
    if one.empty and one.continues is not None:
        return "not gone on with"
    end = "no end" if one.terminal is None else f"{one.terminal.reason.value}/{one.terminal.cause.value}"
    return end + (", torn" if one.torn else "") + (", a gap" if one.gap else "")


def _value(one: Summary) -> dict[str, Any]:
    terminal = one.terminal
    return {
        "log": str(one.path),
        "session_id": one.session or None,
        "run_id": one.run or None,
        "started_ms": one.created or None,
        "prompt": one.prompt,
        "num_turns": None if terminal is None else terminal.turn_count,
        "terminal": None if terminal is None else {"reason": terminal.reason.value, "cause": terminal.cause.value},
        "total_cost_usd": one.cost / 1_000_000,
        "problem": one.problem or one.damage or None,
        "torn": one.torn,
        "continues": None if one.continues is None else {"log": str(one.continues.log), "seq": one.continues.seq},
    }
