"""Schemas and inputs that servers and models make up: told in words, never an exception, nothing fetched."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fsm_agent.runtime.tools.validate import check_schema, problems


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/x"}}}, "leads nowhere"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/nope"}}}, "leads nowhere"),
        ({"type": "object", "properties": {"a": {"allOf": [{"$ref": "#x"}]}}}, "leads nowhere"),
        ({"type": "object", "$ref": "#"}, "without an end"),
        ({"type": "object", "properties": {"a": {"const": float("nan")}}}, "JSON"),
        (nested(5_000), "too deeply"),
    ],
    ids=["remote", "missing", "anchor", "circle", "nan", "deep"],
)
def test_a_schema_that_cannot_be_used_is_told_before_any_call(schema: dict[str, Any], words: str) -> None:
    """What would break the check of some later input is found when the tool is taken, and the check itself breaks nothing."""
    found = check_schema(schema)
    assert found
    assert words in found
    assert problems(schema, {"a": "x"}), "an input that cannot be checked does not pass"


def test_references_that_lead_somewhere_are_fine() -> None:
    """Definitions, trees and data that look like references are no mistake."""
    tree = {
        "type": "object",
        "properties": {"node": {"$ref": "#/$defs/node"}, "plain": {"const": {"$ref": "#/no/reference"}}},
        "$defs": {"node": {"type": "object", "properties": {"child": {"$ref": "#/$defs/node"}, "n": {"type": "integer"}}}},
    }
    assert check_schema(tree) == ""
    assert problems(tree, {"node": {"child": {"n": 1}}}) == ()
    assert problems(tree, {"node": {"child": {"n": "1"}}})


@pytest.mark.parametrize("value", [10**400, json.loads("[" * 900 + "]" * 900)], ids=["huge", "deep"])
def test_an_input_that_cannot_be_checked_is_refused_in_words(value: Any) -> None:
    """A number beyond all floats, or a value that is nested without measure, is a refusal that the model can read."""
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"anyOf": [{"type": "integer", "multipleOf": 0.1}]}}}
    assert problems(schema, {"a": value})
