"""Strict parsing of tool input."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_agent.runtime.strict_json import MAX_DEPTH, MAX_DIGITS, depth_of, parse_input


@pytest.mark.parametrize("text", ["", "  ", "\n"])
def test_empty_means_no_arguments(text: str) -> None:
    """A call without input is a call with an empty object."""
    assert parse_input(text).json == "{}"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('{"path":"x","content":"abc', "valid JSON"),
        ('{"a": 1,,}', "valid JSON"),
        ('{"a":1}{"b":2}', "valid JSON"),
        ("{'a':1}", "valid JSON"),
        ('{"a":01}', "valid JSON"),
        ('{"a":"\n"}', "valid JSON"),
        ('"text"', "a string"),
        ("[1]", "an array"),
        ("null", "null"),
        ("true", "a boolean"),
        ("12", "a number"),
        ('{"a":NaN}', "NaN"),
        ('{"a":-Infinity}', "Infinity"),
        ('{"a":1e999}', "too large"),
        ('{"a":1,"b":2,"a":3}', "twice"),
        ('{"o":{"k":1,"k":1}}', "twice"),
        ('{"\\ud800":1,"\\ud801":2}', "twice"),
        ('{"a":' + "9" * (MAX_DIGITS + 1) + "}", "digits"),
        ('{"a":0.' + "9" * MAX_DIGITS + "}", "digits"),
        ('{"a":' + "[" * MAX_DEPTH + "]" * MAX_DEPTH + "}", "deep"),
        ("[" * 1_000_000, "deep"),
        ('{"a":' * 50_000, "deep"),
    ],
)
def test_what_is_no_strict_object_is_refused_in_words(text: str, word: str) -> None:
    """Nothing is repaired or guessed; the reason says what to mend."""
    found = parse_input(text)
    assert (found.value, found.json) == (None, None)
    assert word in found.problem


def test_limits_are_inclusive() -> None:
    """Just at the limits the input is taken."""
    deep = '{"a":' + "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1) + "}"
    assert parse_input(deep).json == deep
    number = '{"a":' + "9" * MAX_DIGITS + "}"
    assert parse_input(number).json == number


def test_brackets_in_strings_are_no_nesting() -> None:
    """Only structure counts, also behind escaped quotes and in a string that never ends."""
    text = json.dumps({"code": "[" * 5_000 + '\\"' + "{" * 5_000})
    assert parse_input(text).json == text.replace(": ", ":")
    assert depth_of('{"a": "[[[') == 1
    assert depth_of('"' + '\\"' * 200_000) == 0


def test_the_canonical_text_is_compact_and_keeps_the_order_of_keys() -> None:
    """Equal objects in one order give one text, whatever the white space and escapes."""
    assert parse_input('{ "b" : 1.50, "a":"\\u00e9" }').json == '{"b":1.5,"a":"é"}'


@given(st.dictionaries(st.text(), st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5)))
def test_every_strict_object_comes_back(value: dict[str, object]) -> None:
    """What strict JSON can say is read as it is (lone surrogates aside)."""
    found = parse_input(json.dumps(value, ensure_ascii=False))
    assert found.value == value


@given(st.text(alphabet='{}[]":,\\ud8a0123e.-+ntrf \n', max_size=40))
def test_nothing_raises(text: str) -> None:
    """Any text is an object or a problem, and the canonical text always encodes."""
    found = parse_input(text)
    assert (found.json is None) == bool(found.problem)
    assert found.json is None or json.loads(found.json) == found.value or "\ufffd" in found.json
    (found.json or "").encode("utf-8")
