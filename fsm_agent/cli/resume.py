"""``fsm-agent resume``: go on where a log stops. It is ``run --resume`` with the log first."""

from __future__ import annotations

from typing import Any

import click

from .rule_options import RuleCommand
from .run import command as run_command

_EPILOG = """\b
Examples:
  fsm-agent resume run.jsonl
  fsm-agent resume run.jsonl "And now the tests."
  fsm-agent resume run.jsonl --repair"""


def _go_on(start: str, repair: bool, **options: Any) -> int:
    """Go on where LOG stops; LOG may also be the id of a session.

    A run that was interrupted goes on to its end, in the same log and under the settings that it began with. What was
    answered is not asked again; a call of the model that was lost is made again; a tool that had begun is reported to
    the model with an unknown outcome, and not run again. Then PROMPT is submitted, if there is one, in a log that names
    LOG as its parent.
    """
    if repair:
        from .resuming import find_log, mended

        mended(find_log(start))
    callback = run_command.callback
    assert callback is not None
    code: int = callback(resume=start, latest=False, **options)
    return code


command = RuleCommand(
    "resume",
    callback=_go_on,
    help=_go_on.__doc__,
    epilog=_EPILOG,
    params=[
        click.Argument(["start"], metavar="LOG"),
        *[param for param in run_command.params if param.name not in ("resume", "latest")],
        click.Option(["--repair"], is_flag=True, help="First take damaged records out of the log, and record the gaps."),
    ],
)
