"""``fsm-agent show``: the steps of a log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .log_param import LOG_PATH
from .problems import Problem

if TYPE_CHECKING:
    from ..log.format import End, Record


@click.command(
    epilog="Examples: fsm-agent show run.jsonl; fsm-agent show run.jsonl --step 12; fsm-agent show run.jsonl --json | jq .taken"
)
@click.argument("log", type=LOG_PATH)
@click.option("--step", type=click.IntRange(1), metavar="N", help="One step whole: its event and its effects.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a step, events and effects whole.")
@click.option("--raw", is_flag=True, help="Do not mask secrets.")
def command(log: Path, step: int | None, as_json: bool, raw: bool) -> int:
    """Show the steps of a log: number, time, event, rows taken, effects.

    Secrets are masked: shapes of well-known keys, and the values of this process's own secret variables. The log itself is
    exact.
    """
    from .log_steps import Steps
    from .masking import redactor

    masker = redactor(raw)
    steps = Steps(log, effects=as_json or step is not None)
    shown = 0
    for record, effects in steps.read(step):
        if step is not None and record.seq != step:
            continue
        shown += 1
        click.echo(
            masker.mask(_json(record, effects) if as_json else _whole(record, effects) if step else _line(record)), nl=False
        )
    if step is not None and not shown:
        raise Problem(f"{log}: there is no record {step}; the last one is {steps.last}")
    if step is None:
        _tail(steps.end, steps.torn, as_json=as_json)
    return 0


def _line(record: Record) -> str:
    from .log_steps import brief, event_word, kinds_of

    rejected = "" if record.rejected is None else f"  rejected: {record.rejected.because}"
    taken = " ".join(record.taken) or "-"
    effects = ", ".join(kinds_of(record.sketch))
    head = f"{record.seq:>5}  {event_word(record.event):<22} {taken}"
    return f"{head}{rejected}{f'  => {effects}' if effects else ''}  {brief(record.event)}".rstrip() + "\n"


def _whole(record: Record, effects: list[str] | None) -> str:
    from .console import clean
    from .log_steps import event_json, event_word, kinds_of, pretty

    lines = [
        f"step {record.seq}: {event_word(record.event)}",
        f"at       {_time(record.at)}",
        f"taken    {' '.join(record.taken) or '-'}",
    ]
    if record.rejected is not None:
        lines.append(f"rejected {record.rejected.because}")
    lines += ["event", pretty(event_json(record.event))]
    if effects is None:
        kinds = ", ".join(kinds_of(record.sketch)) or "none"
        lines.append(f"effects  {kinds} (their contents need the transition table that wrote the log)")
    else:
        lines.append(f"effects  {len(effects)}")
        lines += [pretty(effect) for effect in effects]
    return "\n".join(clean(line) for line in lines) + "\n"


def _json(record: Record, effects: list[str] | None) -> str:
    import json

    from .json_view import line_of
    from .log_steps import event_json, event_word, kinds_of

    value: dict[str, Any] = {
        "seq": record.seq,
        "at_ms": record.at,
        "kind": event_word(record.event),
        "event": json.loads(event_json(record.event)),
        "taken": list(record.taken),
        "rejected": None if record.rejected is None else record.rejected.because,
        "effect_kinds": kinds_of(record.sketch),
        "effects": None if effects is None else [json.loads(effect) for effect in effects],
    }
    return line_of(value)


def _time(milliseconds: int) -> str:
    from datetime import datetime

    return datetime.fromtimestamp(milliseconds / 1000).isoformat(sep=" ", timespec="milliseconds")


def _tail(end: End | None, torn: bool, *, as_json: bool) -> None:
    from .console import say, warn

    if torn:
        warn("the last record is torn: it was cut off while it was written")
    if end is None:
        if not torn:
            say("the log has no end: the run is still on, or its process died")
    elif not as_json:
        terminal = end.terminal
        detail = f" ({terminal.detail})" if terminal.detail else ""
        click.echo(f"{end.seq:>5}  end: {terminal.reason.value}/{terminal.cause.value}{detail}, {terminal.turn_count} turns")
