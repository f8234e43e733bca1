"""``fsm-agent serve``: the Messages-API server on loopback, for any client."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

import click

from .problems import Problem

if TYPE_CHECKING:
    from ..server.exchange import Exchange


@click.command(
    epilog="""\b
Examples:
  fsm-agent serve repair --port 8080
  fsm-agent run "Hello." --base-url http://127.0.0.1:8080 --model scenario-model""",
)
@click.argument("scenario", required=False)
@click.option("--port", type=click.IntRange(0, 65_535), default=0, help="Port on 127.0.0.1.  [default: a free one]")
@click.option(
    "--check/--no-check", default=True, show_default=True, help="Refuse requests that break a rule of the API, as the API does."
)
@click.option("--list", "list_all", is_flag=True, help="Name the scenarios.")
def command(scenario: str | None, port: int, check: bool, list_all: bool) -> int:
    """Serve a scenario as the Messages API, for any client.

    SCENARIO is a name of --list, or a YAML file. Its replies are given in order, one a call, and then from the beginning
    again; a server that is started anew begins with the first reply, also for a run that is resumed. Each request is named on
    standard error. Ctrl-C ends it.
    """
    if list_all:
        from .scenarios import list_text

        click.echo(list_text(), nl=False)
        return 0
    if scenario is None:
        raise click.UsageError("which scenario? Name one of: fsm-agent serve --list")
    from ..runtime.model_data import load_models
    from ..server.app import LoopbackServer
    from ..server.from_scenario import server_script
    from .playing import load_scenario

    chosen = load_scenario(scenario)
    own = {model.name for model in chosen.config.models}
    models = (*chosen.config.models, *(model for model in load_models() if model.name not in own))
    server = LoopbackServer(
        server_script(chosen, repeat=True), models=models, strict=check, port=port, keep_bodies=False, on_request=_name_request
    )
    try:
        server.start()
    except OSError as error:
        raise Problem(f"port {port} of 127.0.0.1 cannot be used: {error.strerror}") from None
    try:
        click.echo(f"serving {chosen.name}: {chosen.title}")
        click.echo(f"base URL  {server.base_url}")
        click.echo(f"model     {chosen.config.model}")
        click.echo(f"a client  ANTHROPIC_BASE_URL={server.base_url} ANTHROPIC_API_KEY=anything ...")
        click.echo(f"or        fsm-agent run 'Hello.' --base-url {server.base_url} --model {chosen.config.model}")
        sys.stdout.flush()
        server.wait()
    finally:
        server.stop()
    return 0


def _name_request(exchange: Exchange) -> None:
    """Say one line about a request, on the server's thread; a closed standard error must not stop the server."""
    from .console import clean

    broken = "".join(f"; broke {found.rule}: {found.text}" for found in exchange.breaches)
    left = "; the client left" if exchange.client_left else ""
    with contextlib.suppress(OSError):
        click.echo(clean(f"{exchange.method} {exchange.path} {exchange.status}{broken}{left}"), err=True)
