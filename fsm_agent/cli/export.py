"""``fsm-agent export``: a log in the forms of others."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from .log_param import LOG_PATH
from .writing import OutputFile, is_file, tell_written, write_file


@click.command(
    epilog="Examples: fsm-agent export run.jsonl > messages.json; fsm-agent export run.jsonl --format otel --output trace.json"
)
@click.argument("log", type=LOG_PATH)
@click.option(
    "--format",
    "form",
    type=click.Choice(["messages", "otel"]),
    default="messages",
    show_default=True,
    help="messages: as the Messages API takes them; otel: OpenTelemetry spans as OTLP JSON.",
)
@click.option("--at", type=click.IntRange(1), metavar="N", help="messages: as they were behind record N.")
@click.option("--content", is_flag=True, help="otel: with what was said, and what tools got and gave.")
@click.option("--output", type=OutputFile(dash=True), metavar="FILE", help="[default: standard output]")
@click.option("--raw", is_flag=True, help="Do not mask secrets.")
def command(log: Path, form: str, at: int | None, content: bool, output: Path | None, raw: bool) -> int:
    """Export a log as messages of the API, or as spans.

    Secrets are masked: shapes of well-known keys, and the values of this process's own secret variables. The messages keep
    the API's rules; what a log without an end has in flight is closed as if the run had been left.
    """
    if at is not None and form != "messages":
        raise click.UsageError("--at goes with --format messages only")
    if content and form != "otel":
        raise click.UsageError("--content goes with --format otel only")
    from ..log.export import export_messages, export_otel
    from .log_files import log_problems
    from .masking import redactor

    masker = redactor(raw)
    with log_problems(log):
        made = (
            _masked(export_messages(log, at), masker.mask)
            if form == "messages"
            else export_otel(log, content=content, mask=masker.mask)
        )
    text = json.dumps(made, ensure_ascii=False, indent=1) + "\n"
    data = text.encode(errors="backslashreplace")  # half a character has no bytes, but an escape of JSON
    if output is None or not is_file(output):
        sys.stdout.buffer.write(data)
        return 0
    write_file(output, data)
    tell_written(output, f"{form}, {len(text) / 1000:.0f} kB")
    return 0


def _masked(value: Any, mask: Any) -> Any:
    """Mask every text of a JSON value."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, list):
        return [_masked(item, mask) for item in value]
    if isinstance(value, dict):
        # Signatures and media are opaque: a part of them that looks like a key is none.
        return {mask(key): item if key in ("signature", "data") else _masked(item, mask) for key, item in value.items()}
    return value
