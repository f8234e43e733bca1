"""``fsm-agent context``: what the view of a request held, layer by layer."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .log_param import LOG_PATH
from .problems import Problem

if TYPE_CHECKING:
    from .requests import Asked


@click.command(
    epilog="Examples: fsm-agent context run.jsonl; fsm-agent context run.jsonl --at 42; fsm-agent context run.jsonl --list"
)
@click.argument("log", type=LOG_PATH)
@click.option(
    "--at", type=click.IntRange(1), metavar="N", help="The last request at or before record N; by default the last one."
)
@click.option("--list", "listing", is_flag=True, help="All requests, one line each, with what the layers did before each.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a request.")
@click.option("--raw", is_flag=True, help="Do not mask secrets.")
def command(log: Path, at: int | None, listing: bool, as_json: bool, raw: bool) -> int:
    """Show what the view of a request held: its messages with their tokens, what each context layer cut, and why.

    Tokens are counted as the loop counts them: real usage where there is one, estimates for what follows it.
    """
    from .masking import redactor
    from .requests import requests_of

    masker = redactor(raw)
    last: list[Asked] = []
    shown = [0]

    def take(asked: Asked) -> None:
        last[:] = [asked]
        if listing:
            shown[0] += 1
            click.echo(masker.mask(_json(asked) if as_json else _line(asked)), nl=False)

    requests_of(log, at, take)
    if not last:
        raise Problem(f"{log}: there is no request" + (f" at or before record {at}" if at is not None else "") + _before(log))
    if not listing:
        click.echo(masker.mask(_json(last[0]) if as_json else _whole(last[0])), nl=False)
    return 0


def _before(log: Path) -> str:
    from ..log.glance import continued
    from ..log.reader import read_log

    found = continued(read_log(log))
    return "" if found is None else f"; the log continues {found}: fsm-agent context {shlex.quote(str(found.log))}"


def _line(asked: Asked) -> str:
    facts = asked.state.control.context
    did = ", ".join(f"{report.layer} -{report.freed}" for report in asked.reports if report.freed or report.cut)
    head = f"{asked.seq:>6}  {asked.effect.id:<24} {len(asked.view):>5} messages {facts.tokens:>8} tokens"
    return f"{head}  {did}".rstrip() + "\n"


def _json(asked: Asked) -> str:
    from .json_view import line_of
    from .requests import report_value

    facts, limits = asked.state.control.context, asked.limits
    system, user = asked.fixed
    request = asked.effect.request
    value: dict[str, Any] = {
        "seq": asked.seq,
        "call": asked.effect.id,
        "model": request.model,
        "turn": asked.state.control.run.turn_count,
        "tokens": facts.tokens,
        "blocking_tokens": facts.blocking_tokens,
        "system_and_tools_tokens": system,
        "user_context_tokens": user,
        "limits": {
            "effective_window": limits.effective_window,
            "blocking_limit": limits.blocking_limit,
            "auto_compact_at": limits.auto_compact_at,
            "commit_at": limits.commit_at,
            "stage_at": limits.stage_at,
        },
        "layers": [report_value(report) for report in asked.reports],
        "spans": [
            {"id": span.id, "tokens": span.tokens, "ready": span.summary is not None, "committed": span.committed}
            for span in asked.state.data.context.spans
        ],
        "view": [
            {"id": item.id, "role": item.role, "kind": item.kind.value, "tokens": item.tokens, "blocks": len(item.blocks)}
            for item in asked.view
        ],
    }
    return line_of(value)


def _whole(asked: Asked) -> str:
    from .console import table
    from .requests import held

    facts, limits = asked.state.control.context, asked.limits
    request, (system, user) = asked.effect.request, asked.fixed
    share = 100 * facts.tokens // limits.effective_window
    lines = [
        f"request   {asked.effect.id} (record {asked.seq}, turn {asked.state.control.run.turn_count}), model {request.model}\n",
        f"tokens    {facts.tokens} counted, {share} % of the effective window of {limits.effective_window}; "
        f"compaction from {limits.auto_compact_at}, no call from {limits.blocking_limit}\n",
        f"fixed     system prompt and tools {system}, user context {user}\n",
        f"sent      {len(request.messages)} messages, at most {request.max_tokens} tokens of reply\n\n",
        table(("layer", "freed", "what"), _layers(asked), right=(1,)),
        "\n",
        table(("the view holds", "messages", "tokens"), [(k, str(n), str(t)) for k, n, t in held(asked.view)], right=(1, 2)),
        "\n",
        table(("#", "kind", "tokens", "message"), _messages(asked), right=(0, 2)),
    ]
    return "".join(lines)


def _layers(asked: Asked) -> list[tuple[str, str, str]]:
    from .idle_layers import LAYERS, why_idle

    rows: list[tuple[str, str, str]] = []
    for report in asked.reports:
        touched = f" [{_some(report.ids)}]" if report.ids else ""
        rows.append((report.layer, str(report.freed), f"{report.detail or 'cut'}{touched}"))
    acted = {report.layer for report in asked.reports}
    rows += [(layer, "-", why_idle(layer, asked)) for layer in LAYERS if layer not in acted]
    return rows


def _some(ids: tuple[str, ...], most: int = 4) -> str:
    more = f" and {len(ids) - most} more" if len(ids) > most else ""
    return ", ".join(ids[:most]) + more


def _messages(asked: Asked) -> list[tuple[str, str, str, str]]:
    from .console import one_line
    from .requests import words_of

    return [
        (str(number), item.kind.value, str(item.tokens), one_line(words_of(item), 90))
        for number, item in enumerate(asked.view, 1)
    ]
