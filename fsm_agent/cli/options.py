"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from .follow import View

F = TypeVar("F", bound=Callable[..., Any])


def output_options(command: F) -> F:
    """Add ``--output-format`` and ``--include-partial-messages``."""
    command = click.option(
        "--include-partial-messages", is_flag=True, help="With stream-json: a line for each raw event of the API too."
    )(command)
    return click.option(
        "--output-format",
        type=click.Choice(["text", "json", "stream-json"]),
        default="text",
        show_default=True,
        help="json: one object at the end; stream-json: one object a line, the last one the same.",
    )(command)


def json_view(output_format: str, partial: bool) -> View | None:
    """Make the view of a JSON format; None for text.

    Raises:
        click.UsageError: for partial messages without ``stream-json``.
    """
    if partial and output_format != "stream-json":
        raise click.UsageError("--include-partial-messages needs --output-format stream-json")
    from .json_view import LinesView, ResultView

    if output_format == "stream-json":
        return LinesView(partial=partial)
    return ResultView() if output_format == "json" else None
