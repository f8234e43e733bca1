"""``fsm-agent replay``: fold the reducer over a log, and compare."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .log_param import LOG_PATH
from .problems import LOG, OK, Problem

if TYPE_CHECKING:
    from ..core.config import LoopConfig
    from ..log.glance import Continued
    from ..log.replay import Replayed


@click.command(
    epilog="Examples: fsm-agent replay run.jsonl; fsm-agent replay run.jsonl --until 12; "
    "fsm-agent replay run.jsonl --config max_turns=2; fsm-agent replay mylogs --jobs 2"
)
@click.argument("logs", type=LOG_PATH, nargs=-1, required=True, metavar="LOG...")
@click.option("--until", type=click.IntRange(0), metavar="N", help="Stop behind record N; 0 is the state before the first.")
@click.option(
    "--config",
    "pairs",
    multiple=True,
    metavar="KEY=VALUE",
    help="Replay under another setting, to see where it would go differently.",
)
@click.option(
    "--repair", is_flag=True, help="First take damaged records out; the log as it was is kept, and gaps are recorded."
)
@click.option("--any-table", is_flag=True, help="Also if the log was written under another table or reducer.")
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    default=None,
    help="Processes, for several logs or a large one.  [default: one for each core]",
)
def command(
    logs: tuple[Path, ...], until: int | None, pairs: tuple[str, ...], repair: bool, any_table: bool, jobs: int | None
) -> int:
    """Replay a log without tools, network or key, and compare rows and effects record by record.

    Of several logs, or of all in a folder and the folders in it, there is a line for each.

    Exit code 3 if the log is damaged, the replay diverges, or a gap is in its way; the first difference is named. Behind a
    gap that a repair left, the replay goes on from the next stored state, and says so.
    """
    from time import perf_counter

    from ..core import step as _loaded  # noqa: F401 - its import is not to count in the rate
    from ..core.config import ConfigError
    from ..log.errors import BehaviourChanged
    from ..log.glance import continued
    from ..log.parts import replay_in_parts
    from ..log.reader import read_log
    from ..log.replay import replay
    from .log_files import log_problems
    from .progress import progress, waiting
    from .settings import read_set

    changes = read_set(pairs, "--config")
    if len(logs) > 1 or logs[0].is_dir():
        from .replay_many import report_all

        if until is not None or changes or repair:
            raise Problem("--until, --config and --repair are for one log")
        return report_all(logs, jobs, check_table=not any_table)
    (log,) = logs
    if repair:
        from .resuming import mended

        mended(log)
    with log_problems(log):
        opened = read_log(log)
        header, before = opened.header, continued(opened)
        try:
            config = _changed(header.config, changes) if changes else None
        except ConfigError as error:
            raise Problem(str(error)) from None
        jobs = jobs or os.cpu_count() or 1
        begun = perf_counter()
        try:
            if until is None and config is None and jobs > 1:
                with waiting(log):
                    found = replay_in_parts(log, jobs, check_table=not any_table)
            else:
                with progress(log) as each:
                    found = replay(log, until, config=config, check_table=not any_table, each=each)
        except BehaviourChanged as error:
            raise Problem(f"{str(error).partition('; ')[0]}; to replay it all the same, add --any-table", LOG) from None
        seconds = perf_counter() - begun
    return _report(found, seconds, until, log, before)


def _changed(config: LoopConfig, changes: dict[str, Any]) -> LoopConfig:
    from attrs import evolve

    from ..core.config import check_names, check_words

    context = evolve(config.context, **changes.get("context", {}))
    changed = evolve(config, **{**changes, "context": context})
    check_names(changed)
    check_words(changed)
    return changed


def _report(found: Replayed, seconds: float, until: int | None, log: Path, before: Continued | None) -> int:
    from .console import clean, say, visible, warn

    rate = f"{found.steps / seconds:,.0f} a second" if seconds > 0 else "at once"
    records = "1 record" if found.steps == 1 else f"{found.steps} records"
    if found.divergence is not None:
        sys.stdout.flush()
        say(f"the replay diverges behind {records} that agree. {found.divergence}")
        return LOG
    click.echo(f"{records} agree ({rate})")
    if before is not None:
        click.echo(visible(f"continues {before}"))
    for one in found.skipped:
        behind = (
            f"the replay went on from the state stored with record {one.resumed}"
            if one.resumed
            else "the state behind is not known"
        )
        warn(f"{one.gap.words} ({one.gap.because}; the log as it was is {clean(one.gap.kept)}); {behind}")
    if until is not None:
        turn, messages = found.state.control.run.turn_count, len(found.state.messages)
        click.echo(f"state     {found.state.phase.value}, turn {turn}, {messages} messages")
        return OK
    tail, terminal = found.tail, found.state.terminal
    if tail is not None and tail.torn:
        if terminal is not None and found.known:
            warn("the closing line is torn: it was cut off while it was written; the run had ended")
        else:
            warn("the last record is torn: it was cut off while it was written, and its effects were never performed")
    if not found.known:
        return _cut(found, log)
    if found.seq == 0 and before is not None:
        click.echo(f"waits     in {found.state.phase.value}; go on with it: fsm-agent resume {shlex.quote(str(log))}")
    elif terminal is None:
        click.echo(f"no end    the run rests in {found.state.phase.value}: it is still on, or its process died")
    else:
        detail = f" ({terminal.detail})" if terminal.detail else ""
        turns = "1 turn" if terminal.turn_count == 1 else f"{terminal.turn_count} turns"
        click.echo(visible(f"ended     {terminal.reason.value} / {terminal.cause.value}{detail}, {turns}"))
    return OK


def _cut(found: Replayed, log: Path) -> int:
    """Say that the rest of the log could not be replayed: what it records from the gap on is not known to be right."""
    from ..log.errors import LogGap
    from .console import say
    from .log_files import remedy

    gap, last = found.skipped[-1].gap, 0 if found.tail is None else found.tail.records
    click.echo(f"cut       the replay stops in {found.state.phase.value}, before record {gap.seq} of {last}")
    say(
        f"what stands behind the gap was not replayed, since no state was stored there{remedy(LogGap(log, gap.seq, gap.words))}"
    )
    return LOG
