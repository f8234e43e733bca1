"""``fsm-agent doctor``: what the command line needs, what is there, and what each lack costs."""

from __future__ import annotations

import click


@click.command(epilog="Examples: fsm-agent doctor; fsm-agent doctor --json")
@click.option("--base-url", metavar="URL", help="The API that is tried.  [default: $ANTHROPIC_BASE_URL, else the public one]")
@click.option("--offline", is_flag=True, help="Try no connection.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(base_url: str | None, offline: bool, as_json: bool) -> int:
    """Check what the command line needs, and say what each lack costs.

    Exit code 1 if something is missing without which nothing works.
    """
    from .checks import Level, all_checks

    found = all_checks(base_url, offline=offline)
    broken = any(check.level is Level.NECESSARY and not check.good for check in found)
    if as_json:
        from .json_view import line_of

        checks = [
            {
                "name": one.name,
                "ok": one.good,
                "necessary": one.level is Level.NECESSARY,
                "found": one.found,
                "cost": one.cost or None,
            }
            for one in found
        ]
        click.echo(line_of({"ok": not broken, "checks": checks}), nl=False)
    else:
        import sys

        from .console import table

        rows = [(one.name, one.word, one.found, one.cost) for one in found]
        click.echo(table(("what", "is", "found", "what the lack costs"), rows, stream=sys.stdout), nl=False)
    return 1 if broken else 0
