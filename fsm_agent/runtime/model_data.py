"""Capabilities and prices of models, as dated data (api-facts A6, A8, A17, A20). No code tests a model's name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any

from attrs import evolve, fields

from ..core.models import ModelInfo
from .usage_reader import Counts, Price

_DATE = re.compile(r"(?:[-@]\d{8}|-latest)$")
_FIELDS = frozenset(field.name for field in fields(ModelInfo)) - {"known"}
_MILLION = 1_000_000


class ModelDataError(ValueError):
    """Model data that cannot be used; the text says which entry and why."""


@cache
def _packaged() -> tuple[str, tuple[ModelInfo, ...]]:
    raw = json.loads(files(__package__).joinpath("models.json").read_text(encoding="utf-8"))
    return str(raw["date"]), read_models(raw["models"])


def load_models() -> tuple[ModelInfo, ...]:
    """Give the packaged models, newest first."""
    return _packaged()[1]


def models_date() -> str:
    """Give the day of the packaged data, as an ISO date."""
    return _packaged()[0]


def read_models(entries: Any) -> tuple[ModelInfo, ...]:
    """Read models from decoded JSON: a list of objects with the fields of :class:`ModelInfo`.

    Raises:
        ModelDataError: for an entry without a name, with an unknown field, or with a value of the wrong type.
    """
    if not isinstance(entries, list):
        raise ModelDataError("models must be a list")
    models = []
    for number, entry in enumerate(entries):
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str) or not entry["name"]:
            raise ModelDataError(f"model {number} has no name")
        if unknown := sorted(set(entry) - _FIELDS):
            raise ModelDataError(f"model {entry['name']} has unknown fields: {', '.join(unknown)}")
        default = ModelInfo(name=entry["name"])
        models.append(evolve(default, **{key: _value(entry["name"], key, value, default) for key, value in entry.items()}))
    return tuple(models)


def _value(name: str, key: str, value: Any, default: ModelInfo) -> Any:
    expected = getattr(default, key)
    if isinstance(expected, tuple):
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        raise ModelDataError(f"model {name}: {key} must be a list of words, not {value!r}")
    if type(value) is not type(expected) or (isinstance(value, int) and value < 0):
        raise ModelDataError(f"model {name}: {key} must be a {type(expected).__name__} that is not negative, not {value!r}")
    return value


def find_model(name: str, models: Iterable[ModelInfo] | None = None) -> ModelInfo:
    """Find a model by its name; a dated or ``-latest`` name stands for the undated one.

    Args:
        name: as it is sent to the API.
        models: where to look; the packaged ones if None.

    Returns:
        Its data under ``name``; for an unknown one safe defaults with ``known=False``.
    """
    known = {info.name: info for info in (load_models() if models is None else models)}
    found = known.get(name) or known.get(_DATE.sub("", name))
    if found is None:
        return ModelInfo(name=name, known=False)
    return found if found.name == name else evolve(found, name=name)


def cost(info: ModelInfo, counts: Counts) -> int:
    """Give what these tokens cost, in micro-dollars, rounded up.

    Writing to the cache costs 1.25 times the input price, 2 times for an hour; reading from it a tenth.
    """
    short = counts.cache_write - counts.cache_write_hour
    # In twentieths of an input token, so that all factors are integers.
    prompt = 20 * counts.input + 25 * short + 40 * counts.cache_write_hour + 2 * counts.cache_read
    total = prompt * info.input_price + 20 * counts.output * info.output_price
    return -(-total // (20 * _MILLION))


def price_of(models: Iterable[ModelInfo] | None = None) -> Price:
    """Make the function that prices tokens by model name; one that is not among ``models`` is looked up in the packaged data.

    A model that is unknown there too costs nothing.
    """
    kept = None if models is None else tuple(models)
    seen: dict[str, ModelInfo] = {}

    def price(model: str, counts: Counts) -> int:
        if model not in seen:
            found = find_model(model, kept)
            # A sub-agent may use a model that the configuration does not name; its calls are not free for that.
            seen[model] = found if found.known else find_model(model)
        return cost(seen[model], counts)

    return price
