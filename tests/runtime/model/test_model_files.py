"""Model data of the user's own: a file over the packaged data, and what the models endpoint says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from fsm_agent.core.config import LoopConfig
from fsm_agent.core.models import ModelInfo
from fsm_agent.runtime.model_data import ModelDataError, find_model, load_models
from fsm_agent.runtime.model_files import from_endpoint, read_model_file, write_model_file
from fsm_agent.server.models_endpoint import model_object


def test_entries_go_over_the_packaged_data(tmp_path: Path) -> None:
    """An entry changes the fields that it names, of a known model as of a new one; the rest of the data stays."""
    path = tmp_path / "models.json"
    path.write_text(json.dumps({"models": [{"name": "claude-opus-5", "input_price": 7}, {"name": "mine", "max_output": 9}]}))
    data = read_model_file(path)
    opus = find_model("claude-opus-5", data.models)
    assert opus == evolve(find_model("claude-opus-5"), input_price=7)
    assert find_model("mine", data.models) == ModelInfo(name="mine", max_output=9)
    assert len(data.models) == len(load_models()) + 1
    assert data.own == {"claude-opus-5", "mine"}


def test_without_a_file_the_packaged_data_holds(tmp_path: Path) -> None:
    """No file, or none that is there, changes nothing."""
    assert read_model_file(None).models == load_models() == read_model_file(tmp_path / "none.json").models


@pytest.mark.parametrize("text", ["", "[]", "{", '{"models": 1}', '{"models": [{"name": "m", "windows": 1}]}', "[" * 9_999])
def test_a_bad_file_is_refused_by_name(tmp_path: Path, text: str) -> None:
    """A file that cannot be used is an error that names it, never a silent return to the packaged data."""
    path = tmp_path / "models.json"
    path.write_text(text)
    with pytest.raises(ModelDataError, match=r"models\.json"):
        read_model_file(path)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    """Whole entries come back as they were, with their date."""
    models = (*load_models()[:3], ModelInfo(name="mine", thinking=("adaptive",), binds_thinking=True))
    path = tmp_path / "deep" / "models.json"
    write_model_file(path, "2026-12-01", models)
    data = read_model_file(path)
    assert data.models[:4] == models
    assert data.date == "2026-12-01"


@pytest.mark.parametrize("info", load_models(), ids=lambda info: info.name)
def test_the_endpoint_tells_what_we_know(info: ModelInfo) -> None:
    """Of a known model the endpoint's object changes nothing that is as it says."""
    assert from_endpoint(model_object(info), info) == info


def test_the_endpoint_brings_data_up_to_date() -> None:
    """Window, output, efforts and abilities are taken over; prices and what it does not tell stay."""
    old = find_model("claude-opus-5-5")
    told = model_object(evolve(old, context_window=2_000_000, efforts=("low", "max"), api_compaction=False))
    new = from_endpoint(told, old)
    assert (new.context_window, new.efforts, new.api_compaction) == (2_000_000, ("low", "max"), False)
    assert evolve(new, context_window=old.context_window, efforts=old.efforts, api_compaction=True) == old


def test_an_unknown_model_that_always_thinks_is_taken_as_bound() -> None:
    """A new model that cannot stop thinking is handled as one that binds it; one that can is not."""
    unknown = ModelInfo(name="new", known=False)
    always = from_endpoint(model_object(evolve(unknown, thinking=("adaptive",), context_window=1_000_000)), unknown)
    assert (always.known, always.binds_thinking, always.forced_tool_choice, always.max_media) == (True, True, False, 600)
    free = from_endpoint(model_object(evolve(unknown, thinking=("adaptive", "disabled"))), unknown)
    assert not free.binds_thinking
    LoopConfig(model="new", models=(always,))


@pytest.mark.parametrize(
    "value",
    [{}, {"capabilities": None}, {"max_tokens": None, "max_input_tokens": -5}, {"capabilities": {"thinking": [], "effort": 3}}],
)
def test_missing_and_odd_fields_leave_what_is_known(value: dict[str, Any]) -> None:
    """Every field of the endpoint may be null: nothing is lost by that."""
    info = find_model("claude-sonnet-5")
    assert from_endpoint(value, info) == info
