"""The functions that replace a part of a record replace what they name, and nothing else."""

from __future__ import annotations

import inspect
import typing
from types import FunctionType
from typing import Any

import attrs
import pytest

from fsm_agent.core import rebuild
from fsm_agent.core.evolving import evolve

_ALL = vars(rebuild).values()
FUNCTIONS = [value for value in _ALL if isinstance(value, FunctionType) and value.__module__ == rebuild.__name__]
CONSTANT: dict[str, dict[str, Any]] = {
    "with_attempt": {"tools": rebuild.NO_TOOLS, "wait": rebuild.NO_WAIT, "salvage": None},
    "with_base": {"freed": 0},
    "with_new_round": {"salvages": 0, "pauses": 0, "blocks_in_row": 0, "model_calls": 0},
}
"""What a function sets without being told."""


def _filled(cls: type[Any], mark: str) -> Any:
    return cls(**{field.name: f"{mark} {field.name}" for field in attrs.fields(cls)})


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_a_function_replaces_what_it_names(function: FunctionType) -> None:
    """Each one gives what ``evolve`` gives, whichever the fields hold."""
    first, *names = inspect.signature(function).parameters
    old = _filled(typing.get_type_hints(function)[first], "old")
    new = {name: f"new {name}" for name in names}
    made = function(old, *new.values())
    wanted = new | CONSTANT.get(function.__name__, {})
    assert made == evolve(old, **wanted) == attrs.evolve(old, **wanted)
    assert type(made) is type(old)
