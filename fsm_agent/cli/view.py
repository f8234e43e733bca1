"""``fsm-agent view``: a log as one HTML file."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from .log_param import LOG_PATH
from .problems import LOG, OK, Problem
from .writing import OutputFile, check_place, tell_written


@click.command(epilog="Examples: fsm-agent view run.jsonl --open; fsm-agent view run.jsonl --output run.html")
@click.argument("log", type=LOG_PATH)
@click.option(
    "--output",
    type=OutputFile(dash=True),
    metavar="FILE",
    help="Where to write it; - is standard output.  [default: beside the log]",
)
@click.option("--open", "opens", is_flag=True, help="Open it in the browser.")
@click.option("--raw", is_flag=True, help="Do not mask secrets.")
def command(log: Path, output: Path | None, opens: bool, raw: bool) -> int:
    """Make one HTML file of a log: the machine and the path taken, step by step, with messages, effects, times and context.

    The file needs no network and no program beside a browser. Secrets are masked: shapes of well-known keys, and the values
    of this process's own secret variables.
    """
    from ..view import render_view
    from .console import say, warn
    from .log_files import log_problems
    from .masking import redactor

    to_stdout = output is not None and str(output) == "-"
    if to_stdout and opens:
        raise click.UsageError("--open needs a file; give --output FILE")
    place = log.with_suffix(".html") if output is None else output
    if not to_stdout and log.exists():
        _check(place)
    with log_problems(log):
        made = render_view(log, mask=redactor(raw).mask)
    if to_stdout:
        sys.stdout.buffer.write(made.html)
    else:
        _write(place, made.html)
        tell_written(place, f"{made.steps} steps, {len(made.html) / 1_000_000:.1f} MB")
        if opens:
            _open(place)
    if made.damaged:
        say(f"{made.problem} What stands before that is shown. Mend it: fsm-agent replay {shlex.quote(str(log))} --repair")
        return LOG
    if made.problem:
        warn(made.problem)
    return OK


def _check(place: Path) -> None:
    """See whether the view can be written, before the log is read; no other file than a view is overwritten."""
    from ..view import is_view

    check_place(place)
    if not place.exists():
        return
    try:
        with place.open("rb") as file:
            start = file.read(100)
    except OSError as error:
        raise Problem(f"{place}: {error.strerror}; choose another place with --output FILE") from None
    if start and not is_view(start):
        raise Problem(f"{place}: there is a file that is no view; it is not overwritten. Give another --output FILE")


def _write(place: Path, html: bytes) -> None:
    """Write the file, open to its owner only, as a whole or not at all."""
    import os
    import tempfile

    try:
        descriptor, temporary = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(html)
            os.replace(temporary, place)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise Problem(f"{place}: {error.strerror}; choose another place with --output FILE") from None


def _open(place: Path) -> None:
    import webbrowser

    from .console import warn

    if not webbrowser.open(place.resolve().as_uri()):
        warn(f"no browser could be opened; open {place} yourself")
