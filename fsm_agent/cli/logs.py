"""``fsm-agent logs``: which runs there were."""

from __future__ import annotations

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
    in prompts are masked.
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
    from .console import one_line, table

    rows = [
        (
            one.session or "?",
            one.run or one.path.name,
            _when(one.created),
            one_line(masker.mask(one.prompt), 50),
            "-" if one.terminal is None else str(one.terminal.turn_count),
            _how(one),
            f"{one.cost / 1_000_000:.4f}",
            str(one.path),
        )
        for one in summaries
    ]
    click.echo(table(("session", "run", "started", "prompt", "turns", "ended", "cost $", "log"), rows, right=(4, 6)), nl=False)
    return 0


def _when(milliseconds: int) -> str:
    from datetime import datetime

    return datetime.fromtimestamp(milliseconds / 1000).strftime("%Y-%m-%d %H:%M:%S") if milliseconds else "?"


def _how(one: Summary) -> str:
    if one.problem:
        return f"unreadable: {one.problem}"
    return "no end" if one.terminal is None else f"{one.terminal.reason.value}/{one.terminal.cause.value}"


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
        "problem": one.problem or None,
    }
