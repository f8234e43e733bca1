"""``fsm-agent show``: the steps of a log."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .log_param import LOG_PATH
from .problems import Problem

if TYPE_CHECKING:
    from ..log.format import Gap, Record
    from .log_steps import Steps


@click.command(
    epilog="Examples: fsm-agent show run.jsonl; fsm-agent show run.jsonl --step 12; fsm-agent show run.jsonl --json | jq .taken"
)
@click.argument("log", type=LOG_PATH)
@click.option("--step", type=click.IntRange(1), metavar="N", help="One step whole: its event and its effects; or the end.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a step, events and effects whole.")
@click.option("--raw", is_flag=True, help="Do not mask secrets.")
def command(log: Path, step: int | None, as_json: bool, raw: bool) -> int:
    """Show the steps of a log: number, time, event, rows taken, effects.

    Secrets are masked: shapes of well-known keys, and the values of this process's own secret variables. The log itself is
    exact.
    """
    from ..log.format import Gap
    from .log_steps import Steps
    from .masking import redactor

    masker = redactor(raw)
    steps = Steps(log, effects=as_json or step is not None)
    if not as_json and step is None:
        _beginning(steps, masker.mask)
    shown = 0
    for item, effects in steps.read(step):
        if isinstance(item, Gap):
            if step is None or item.seq <= step <= item.to:
                _gap(item)
                shown += step is not None
            continue
        if step is not None and item.seq != step:
            continue
        shown += 1
        click.echo(masker.mask(_json(item, effects) if as_json else _whole(item, effects) if step else _line(item)), nl=False)
    end = _end(steps)
    if step is None:
        _tail(steps, None if as_json else end)
    elif not shown and end is not None and step == steps.last + 1:
        click.echo(masker.mask(_whole_end(steps, as_json)), nl=False)
    elif not shown:
        last = f"the last one is {steps.last}" + ("" if end is None else f", {steps.last + 1} is the end of the run")
        raise Problem(f"{log}: there is no record {step}; {last}")
    return 0


def _beginning(steps: Steps, mask: Callable[[str], str]) -> None:
    """Say what the log continues: a fork holds none of the records before it."""
    from ..log.errors import LogError
    from ..log.glance import continued, prompt_of
    from .console import one_line, visible

    before = continued(steps.log)
    if before is None:
        return
    try:
        text, own = prompt_of(steps.log)
        prompt = "" if own else one_line(mask(text), 60)
    except (LogError, OSError):  # the steps say what is wrong
        prompt = ""
    click.echo(visible(f"    0  continues {before}") + (f": {prompt}" if prompt else ""))


def _gap(gap: Gap) -> None:
    from .console import clean, warn

    warn(clean(f"{gap.words} ({gap.because}; the log as it was is {gap.kept})"))


def _line(record: Record) -> str:
    from .console import visible
    from .log_steps import brief, event_word, kinds_of

    rejected = "" if record.rejected is None else f"  rejected: {record.rejected.because}"
    taken = " ".join(record.taken) or "-"
    effects = ", ".join(kinds_of(record.sketch))
    head = f"{record.seq:>5}  {event_word(record.event):<22} {taken}"
    line = f"{head}{rejected}{f'  => {effects}' if effects else ''}  {brief(record.event)}"
    return visible(line.rstrip()) + "\n"


def _whole(record: Record, effects: list[str] | None) -> str:
    from .console import clean, local_time, visible
    from .log_steps import event_json, event_word, kinds_of, pretty

    lines = [
        f"step {record.seq}: {event_word(record.event)}",
        f"at       {local_time(record.at, 'milliseconds')}",
        visible(f"taken    {' '.join(record.taken) or '-'}"),
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


def _end(steps: Steps) -> str | None:
    """Give the line of the end; where its own record is missing, the last step says it."""
    if steps.terminal is None:
        return None
    terminal = steps.terminal
    detail = f" ({terminal.detail})" if terminal.detail else ""
    turns = "1 turn" if terminal.turn_count == 1 else f"{terminal.turn_count} turns"
    return f"{steps.last + 1:>5}  end: {terminal.reason.value}/{terminal.cause.value}{detail}, {turns}"


def _whole_end(steps: Steps, as_json: bool) -> str:
    import json

    from ..log.codec import SPARSE
    from .console import clean, local_time
    from .json_view import line_of
    from .log_steps import pretty

    terminal = steps.terminal
    assert terminal is not None
    text, seq = SPARSE.record(type(terminal))(terminal), steps.last + 1
    at = None if steps.end is None else steps.end.at
    if as_json:
        return line_of({"seq": seq, "at_ms": at, "kind": "end", "terminal": json.loads(text)})
    when = "its line is missing; the last step says it" if at is None else local_time(at, "milliseconds")
    return "\n".join(clean(line) for line in (f"step {seq}: end", f"at       {when}", "terminal", pretty(text))) + "\n"


def _tail(steps: Steps, end: str | None) -> None:
    from .console import say, visible, warn

    if steps.torn and steps.terminal is not None:
        warn("the closing line is torn: it was cut off while it was written; the run had ended")
    elif steps.torn:
        warn("the last record is torn: it was cut off while it was written")
    elif steps.last == 0 and steps.log.header.parent is not None:
        say(f"the log holds no record of its own yet; go on with it: fsm-agent resume {shlex.quote(str(steps.log.path))}")
    elif steps.terminal is None:
        say("the log has no end: the run is still on, or its process died")
    if end is not None:
        click.echo(visible(end))
