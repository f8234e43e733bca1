"""``fsm-agent models``: what models can do and cost, refreshed from the models endpoint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .problems import API, Problem

if TYPE_CHECKING:
    from ..core.models import ModelInfo
    from ..runtime.model_files import ModelData

PAGE = 1_000
MAX_MODELS = 10_000


@click.command(
    epilog="Examples: fsm-agent models; fsm-agent models claude-opus-5-5; fsm-agent models --refresh --base-url http://127.0.0.1:8080"
)
@click.argument("names", nargs=-1)
@click.option("--refresh", is_flag=True, help="Ask the models endpoint, and keep what it says.")
@click.option("--base-url", metavar="URL", help="Of the API.  [default: $ANTHROPIC_BASE_URL or the API itself]")
@click.option(
    "--file",
    "path",
    type=click.Path(path_type=Path),
    help="The data file of your own.  [default: models.json in the configuration folder]",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a model.")
def command(names: tuple[str, ...], refresh: bool, base_url: str | None, path: Path | None, as_json: bool) -> int:
    """Show the capability and price table: the packaged data, with the entries of your own file over it.

    The file is models.json in $XDG_CONFIG_HOME/fsm-agent, or ~/.config/fsm-agent. An entry holds a name and the fields that
    differ. --refresh writes it from the models endpoint; prices, which that does not tell, stay. `run` reads it.
    """
    from ..runtime.model_data import ModelDataError
    from ..runtime.model_files import read_model_file
    from .places import models_file

    place = models_file() if path is None else path
    try:
        if refresh:
            _refresh(place, base_url)
        data = read_model_file(place)
    except ModelDataError as error:
        raise Problem(str(error)) from None
    chosen = [_named(name, data) for name in names] if names else list(data.models)
    if as_json:
        _as_json(chosen, data)
    else:
        _as_table(chosen, data, place)
    return 0


def _named(name: str, data: ModelData) -> ModelInfo:
    from difflib import get_close_matches

    from ..runtime.model_data import find_model

    found = find_model(name, data.models)
    if not found.known:
        near = get_close_matches(name, [info.name for info in data.models], 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise Problem(f"nothing is known of the model {name!r}{hint}")
    return found


def _refresh(place: Path, base_url: str | None) -> None:
    """Ask the endpoint, and write what it says over what is known; models that it does not list stay as they are."""
    from datetime import date

    from ..runtime.model_data import find_model
    from ..runtime.model_files import from_endpoint, read_model_file, write_model_file
    from .console import say

    before = read_model_file(place)
    told = _ask(base_url)
    fresh: dict[str, ModelInfo] = {}
    for value in told:
        name = value.get("id")
        if isinstance(name, str) and name:
            fresh[name] = from_endpoint(value, find_model(name, before.models))
    kept = tuple(info for info in before.models if info.name in before.own and info.name not in fresh)
    try:
        write_model_file(place, date.today().isoformat(), (*fresh.values(), *kept))
    except OSError as error:
        raise Problem(f"{place}: {error.strerror or error}") from None
    known = {info.name: info for info in before.models}
    new = [name for name in fresh if name not in known]
    changed = [name for name, info in fresh.items() if name in known and known[name] != info]
    free = [name for name, info in fresh.items() if not info.input_price]
    say(f"{len(fresh)} models: {len(new)} new, {len(changed)} changed; kept in {place}")
    if free:
        say(f"warning: no price is known of {', '.join(free[:5])}{' and others' if len(free) > 5 else ''}")


def _ask(base_url: str | None) -> list[dict[str, Any]]:
    from anthropic import Anthropic, AnthropicError

    from ..runtime.error_table import failure_of
    from .running import access

    key = access(base_url)
    told: list[dict[str, Any]] = []
    try:
        with Anthropic(base_url=base_url, api_key=key, max_retries=2) as client:
            for info in client.models.list(limit=PAGE):
                told.append(info.to_dict(mode="json"))
                if len(told) >= MAX_MODELS:
                    break
    except (AnthropicError, OSError, ValueError) as error:
        found = failure_of(error)
        raise Problem(f"the models endpoint cannot be asked: {found.message or found.kind.value}", API) from None
    except Exception as error:  # the transport of the SDK raises errors of its own
        found = failure_of(error)
        raise Problem(f"the models endpoint cannot be asked: {found.message or found.kind.value}", API) from None
    if not told:
        raise Problem("the models endpoint lists no models; nothing was changed", API)
    return told


def _as_json(chosen: list[ModelInfo], data: ModelData) -> None:
    from attrs import asdict

    from .json_view import line_of

    for info in chosen:
        click.echo(line_of({**asdict(info), "date": data.date, "own": info.name in data.own}), nl=False)


def _as_table(chosen: list[ModelInfo], data: ModelData, place: Path) -> None:
    from .console import clean, table

    rows = [
        (
            info.name,
            f"{info.context_window:,}",
            f"{info.max_output:,}",
            _dollars(info.input_price),
            _dollars(info.output_price),
            ",".join(info.thinking) + (" (bound)" if info.binds_thinking else ""),
            ",".join(info.efforts),
            " ".join(word for word, has in (("compaction", info.api_compaction), ("edits", info.context_edits)) if has),
        )
        for info in chosen
    ]
    head = ("model", "window", "output", "$ in/M", "$ out/M", "thinking", "effort", "context")
    click.echo(table(head, rows, right=(1, 2, 3, 4)), nl=False)
    own = f"; {len(data.own)} from {place}" if data.own else f"; entries of your own go into {place}"
    click.echo(clean(f"\ndata of {data.date}{own}"))


def _dollars(micro: int) -> str:
    return f"{micro / 1_000_000:.2f}" if micro else "-"
