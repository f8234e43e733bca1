"""``fsm-agent demo``: the main job with nothing to set up, and every other scenario of the catalog."""

from __future__ import annotations

from pathlib import Path

import click

from .options import json_view, output_options


@click.command(
    epilog="Examples: fsm-agent demo; fsm-agent demo --list; fsm-agent demo --scenario fallback",
)
@click.option("--scenario", default="repair", show_default=True, metavar="NAME", help="A name of --list, or a YAML file.")
@click.option("--list", "list_all", is_flag=True, help="Name the scenarios, and how each must end.")
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep the project and the log in DIR, which must be empty or new.",
)
@click.option("--plain", is_flag=True, help="No colour, ASCII signs only.")
@output_options
def command(
    scenario: str, list_all: bool, keep: Path | None, plain: bool, output_format: str, include_partial_messages: bool
) -> int:
    """Repair a small broken project, with nothing to set up.

    A project with a failing test is made in a temporary folder, the built-in Messages-API server is started on
    loopback, and the real agent works on it through the official SDK: it reads the file, runs the tests, edits, and runs
    them again. Then the path of transitions is shown, and the commands that replay the log and show it.

    Each other scenario shows one way in which the loop goes on, recovers or ends; the exit code is that of its ending.
    """
    if list_all:
        from .scenarios import list_text

        click.echo(list_text(), nl=False)
        return 0
    view = json_view(output_format, include_partial_messages)
    from .playing import play_demo

    return play_demo(scenario, keep=keep, plain=plain, view=view)
