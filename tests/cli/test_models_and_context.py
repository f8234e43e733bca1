"""``models`` and ``context``: against a real server, and on real logs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from attrs import evolve

from fsm_agent.core.models import ModelInfo
from fsm_agent.runtime.model_data import load_models
from fsm_agent.server.app import LoopbackServer

from .conftest import Cli, demo_log


def test_models_are_listed_with_windows_and_prices(cli: Cli) -> None:
    """The table has every packaged model and its date; a name picks one, and a wrong one names the nearest."""
    said = cli("models")
    assert all(info.name in said.out for info in load_models())
    assert "data of 2026-11-30" in said.out
    (one,) = cli("models", "claude-opus-5-20261001", "--json").lines
    assert (one["context_window"], one["input_price"], one["own"]) == (1_000_000, 5_000_000, False)
    wrong = cli("models", "claude-opus-6")
    assert wrong.code == 2
    assert "did you mean 'claude-opus-" in wrong.error


def test_refresh_asks_the_endpoint_and_keeps_what_it_says(cli: Cli, tmp_path: Path) -> None:
    """What the endpoint says goes over the packaged data and is there the next time; prices stay, new models have none."""
    served = (evolve(load_models()[4], efforts=("low", "max")), ModelInfo(name="claude-new-9", thinking=("adaptive",)))
    with LoopbackServer([], models=served) as server:
        said = cli("models", "--refresh", "--base-url", server.base_url, "--json")
    assert said.code == 0
    assert "2 models: 1 new, 1 changed" in said.err
    assert "no price is known of claude-new-9" in said.err
    known = {one["name"]: one for one in cli("models", "--json").lines}
    assert known[served[0].name]["efforts"] == ["low", "max"]
    assert known[served[0].name]["input_price"] == served[0].input_price
    assert known["claude-new-9"]["own"]
    assert set(known) == {info.name for info in load_models()} | {"claude-new-9", "scenario-model"}


def test_a_refresh_that_fails_changes_nothing(cli: Cli, tmp_path: Path) -> None:
    """Without a server, with a wrong key, or with an empty list: one line, exit code 6, and the file as it was."""
    path = tmp_path / "mine.json"
    path.write_text('{"models": [{"name": "mine"}]}')
    with LoopbackServer([], models=()) as server:
        empty = cli("models", "--refresh", "--file", path, "--base-url", server.base_url)
    gone = cli("models", "--refresh", "--file", path, "--base-url", server.base_url)
    assert (empty.code, gone.code) == (6, 6)
    assert "lists no models" in empty.error
    assert "cannot be asked" in gone.error
    assert path.read_text() == '{"models": [{"name": "mine"}]}'


def test_a_run_uses_the_data_of_the_file(cli: Cli, serve: Callable[[str], LoopbackServer], home: Path) -> None:
    """The file's prices count in a run; a model that nobody describes gets one warning."""
    place = home / "home" / ".config" / "fsm-agent" / "models.json"
    place.unlink()
    server = serve("hello")
    arguments = ("run", "Go.", "--base-url", server.base_url, "--model", "scenario-model", "--output-format", "json")
    unknown = cli(*arguments[:-2])
    assert unknown.err.count("nothing is known of the model 'scenario-model'") == 1
    place.write_text('{"models": [{"name": "scenario-model", "input_price": 3000000, "output_price": 15000000}]}')
    server = serve("hello")
    described = cli(*arguments[:3], server.base_url, *arguments[4:])
    assert "nothing is known" not in described.err
    assert json.loads(described.out)["total_cost_usd"] > 0


def test_context_shows_what_each_layer_did(cli: Cli, tmp_path: Path) -> None:
    """Of each request the log tells the view, what was cut, by which layer, and why the others did nothing."""
    log = demo_log(cli, "auto-compact", tmp_path / "demo")
    listed = cli("context", log, "--list", "--json").lines
    assert [[layer["layer"] for layer in one["layers"]] for one in listed] == [[], [], ["compact"]]
    compact = listed[-1]["layers"][0]
    assert compact["cut"]
    assert compact["freed"] > 1_000
    assert "became a summary of" in compact["detail"]
    assert [item["kind"] for item in listed[-1]["view"]][:3] == ["boundary", "summary", "prompt"]
    said = cli("context", log)
    assert said.out.startswith("request   ")
    assert "became a summary of" in said.out
    first = cli("context", log, "--at", listed[0]["seq"])
    assert "is below" in first.out
    assert "summary" not in first.out.split("the view holds")[1]


def test_context_of_each_layer(cli: Cli, tmp_path: Path) -> None:
    """Microcompact and collapse show with the results and spans that they touched."""
    for scenario, layer in (("microcompact", "microcompact"), ("collapse-commit", "collapse"), ("collapse-drain", "collapse")):
        log = demo_log(cli, scenario, tmp_path / scenario)
        reports = [report for one in cli("context", log, "--list", "--json").lines for report in one["layers"]]
        assert any(report["layer"] == layer and report["freed"] > 0 and report["ids"] for report in reports), scenario


def test_context_of_nothing_is_one_line(cli: Cli, tmp_path: Path) -> None:
    """A record before the first request, and a file that is no log, are one clear line."""
    log = demo_log(cli, "interrupt-ready", tmp_path / "demo")
    assert "there is no request" in cli("context", log).error
    (tmp_path / "x.jsonl").write_text("nonsense\n")
    assert cli("context", tmp_path / "x.jsonl").code == 3
