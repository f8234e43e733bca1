"""Model data of the user's own: a file whose entries go over the packaged ones, and what the models endpoint says."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import asdict, evolve, fields, frozen

from ..core.models import ModelInfo
from .model_data import ModelDataError, find_model, load_models, models_date, read_models
from .tools.paths import PathProblem, write_atomic

MAX_BYTES = 4_000_000
"""Bytes of a data file."""
_NAMES = tuple(field.name for field in fields(ModelInfo) if field.name != "known")
_MEDIA_OF_LARGE_WINDOWS = 600
_LARGE_WINDOW = 1_000_000


@frozen
class ModelData:
    """Models and the day that the data is of.

    Attributes:
        date: an ISO date.
        models: entries of the file first, then the packaged ones that it does not name.
        own: names that the file describes.
    """

    date: str
    models: tuple[ModelInfo, ...]
    own: frozenset[str] = frozenset()


def read_model_file(path: str | os.PathLike[str] | None) -> ModelData:
    """Read a data file over the packaged data.

    Args:
        path: a JSON object with ``date`` and ``models``; an entry needs a name and the fields that differ from the
            packaged model of that name. None, or a file that is not there, gives the packaged data.

    Raises:
        ModelDataError: for a file that cannot be used; the text names it and the entry.
    """
    packaged = ModelData(models_date(), load_models())
    if path is None:
        return packaged
    try:
        raw = Path(path).read_bytes()
    except FileNotFoundError:
        return packaged
    except OSError as error:
        raise ModelDataError(f"{os.fspath(path)}: {error.strerror}") from None
    try:
        if len(raw) > MAX_BYTES:
            raise ModelDataError(f"larger than {MAX_BYTES} bytes")
        value = json.loads(raw.decode("utf-8-sig"))
        if not isinstance(value, dict) or not isinstance(value.get("models"), list):
            raise ModelDataError("must be an object with a list under 'models'")
        return _over_packaged(value, packaged)
    except (ModelDataError, ValueError, RecursionError) as error:
        raise ModelDataError(f"{os.fspath(path)}: {error}") from None


def _over_packaged(value: Mapping[str, Any], packaged: ModelData) -> ModelData:
    read_models(value["models"])  # complains about names, fields and types
    own: dict[str, ModelInfo] = {}
    for entry in value["models"]:
        given: dict[str, Any] = {key: tuple(item) if isinstance(item, list) else item for key, item in entry.items()}
        base = own.get(entry["name"]) or evolve(find_model(entry["name"]), known=True)
        own[entry["name"]] = evolve(base, **given)
    rest = tuple(info for info in packaged.models if info.name not in own)
    date = value.get("date")
    return ModelData(date if isinstance(date, str) else packaged.date, (*own.values(), *rest), frozenset(own))


def write_model_file(path: str | os.PathLike[str], date: str, models: tuple[ModelInfo, ...]) -> None:
    """Write a data file, whole or not at all.

    Args:
        path: the file; its folder is made where it is missing.
        date: the day of the data, an ISO date.
        models: whole entries.

    Raises:
        OSError: if it cannot be written; the old file is then still there.
    """
    entries = [{name: value for name, value in asdict(info).items() if name in _NAMES} for info in models]
    lines = ",\n".join("    " + json.dumps(entry, ensure_ascii=False) for entry in entries)
    text = f'{{\n  "date": {json.dumps(date)},\n  "models": [\n{lines}\n  ]\n}}\n'
    try:
        write_atomic(os.path.realpath(path), text.encode())
    except PathProblem as problem:
        raise OSError(0, str(problem), os.fspath(path)) from None


def from_endpoint(value: Mapping[str, Any], known: ModelInfo) -> ModelInfo:
    """Bring a model's data up to date with an object of the models endpoint (api-facts A17).

    Args:
        value: the decoded object; every field may be missing or null, which leaves what is known.
        known: what is known of the model; of an unknown one, safe defaults.

    Returns:
        The data. Prices and what the endpoint does not tell stay as they were; of an unknown model that cannot stop
        thinking, thinking is taken as bound to the history, since that is right for both kinds.
    """
    told: dict[str, Any] = {}
    _take(told, "context_window", value.get("max_input_tokens"))
    _take(told, "max_output", value.get("max_tokens"))
    abilities = _mapping(value.get("capabilities"))
    _flag(told, "api_compaction", _mapping(abilities.get("compaction")))
    _flag(told, "context_edits", _mapping(_mapping(abilities.get("context_management")).get("clear_tool_uses_20250919")))
    efforts = _mapping(abilities.get("effort"))
    if efforts:
        told["efforts"] = _supported(efforts)
    kinds = _supported(_mapping(_mapping(abilities.get("thinking")).get("types")))
    if _mapping(abilities.get("thinking")).get("types") is not None:
        told["thinking"] = kinds if kinds != ("disabled",) else ()
    if not known.known and kinds:
        always = "disabled" not in kinds and "enabled" not in kinds
        told.update(thinking_default=always, binds_thinking=always, forced_tool_choice=not always)
    if not known.known and told.get("context_window", 0) >= _LARGE_WINDOW:
        told["max_media"] = _MEDIA_OF_LARGE_WINDOWS
    return evolve(known, known=True, **told)


def _take(told: dict[str, Any], name: str, value: object) -> None:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        told[name] = value


def _flag(told: dict[str, Any], name: str, value: Mapping[str, Any]) -> None:
    if isinstance(value.get("supported"), bool):
        told[name] = value["supported"]


def _supported(value: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(name for name, item in value.items() if _mapping(item).get("supported") is True)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def unknown_model_warning(info: ModelInfo) -> str:
    """Say what is assumed of a model that no data describes."""
    return (
        f"nothing is known of the model {info.name!r}: a window of {info.context_window} tokens is assumed, no thinking and "
        "no cost; describe it in the data of models (fsm-agent models shows where), or refresh that"
    )
