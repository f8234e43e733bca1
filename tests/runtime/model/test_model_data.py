"""Model data and prices."""

from __future__ import annotations

from typing import Any

import pytest

from fsm_agent.core.config import LoopConfig
from fsm_agent.core.models import ModelInfo
from fsm_agent.runtime.model_data import ModelDataError, cost, find_model, load_models, models_date, price_of, read_models
from fsm_agent.runtime.usage_reader import Counts


def test_the_packaged_data_holds() -> None:
    """Each packaged model has a name of its own, a price, a window that gives sound thresholds, and a date goes with all."""
    models = load_models()
    assert len({info.name for info in models}) == len(models) > 10
    assert models_date() == "2026-11-30"
    for info in models:
        LoopConfig(model=info.name, models=models)
        assert 0 < info.input_price < info.output_price
        assert info.known


def test_a_dated_name_stands_for_its_model() -> None:
    """Dated and ``-latest`` names have the data of the undated one, under their own name."""
    for name in ("claude-haiku-4-5-20251001", "claude-haiku-4-5@20251001", "claude-haiku-4-5-latest"):
        info = find_model(name)
        assert (info.name, info.known, info.context_window) == (name, True, 200_000)
    assert not find_model("some-local-model").known
    assert not find_model("claude-haiku").known


def test_cost_counts_the_cache_by_its_own_factors() -> None:
    """Writes cost 1.25 times the input, for an hour 2 times, reads a tenth; parts of a micro-dollar are rounded up."""
    info = ModelInfo(name="m", input_price=1_000_000, output_price=5_000_000)
    assert cost(info, Counts(input=100)) == 100
    assert cost(info, Counts(output=100)) == 500
    assert cost(info, Counts(cache_write=100)) == 125
    assert cost(info, Counts(cache_write=100, cache_write_hour=100)) == 200
    assert cost(info, Counts(cache_read=100)) == 10
    assert cost(info, Counts(cache_read=1)) == 1
    assert cost(info, Counts()) == 0


def test_an_unknown_model_costs_nothing() -> None:
    """A local model has no price."""
    assert price_of()("some-local-model", Counts(input=1_000_000)) == 0
    assert price_of()("claude-opus-5", Counts(input=1_000_000)) == 5_000_000


@pytest.mark.parametrize(
    ("entry", "word"),
    [
        ({}, "no name"),
        ({"name": "m", "windows": 5}, "windows"),
        ({"name": "m", "context_window": "big"}, "context_window"),
        ({"name": "m", "context_window": -1}, "context_window"),
        ({"name": "m", "prefill": 1}, "prefill"),
        ({"name": "m", "thinking": "adaptive"}, "thinking"),
    ],
)
def test_bad_data_says_which_entry_and_why(entry: dict[str, Any], word: str) -> None:
    """A data file with a mistake is refused with the name of the field."""
    with pytest.raises(ModelDataError, match=word):
        read_models([entry])
