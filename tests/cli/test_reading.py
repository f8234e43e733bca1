"""Values of options: what is read, and that everything else is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_agent.cli.console import clean, one_line
from fsm_agent.cli.problems import Problem
from fsm_agent.cli.project_options import open_project
from fsm_agent.cli.rule_options import split_rules, spread
from fsm_agent.cli.settings import read_dollars, read_set, read_tokens
from fsm_agent.core.config import EarlyStart, Microcompact


def refusal(read: Callable[[], object]) -> str:
    """Give the words of a refusal, empty if there was none; any other exception fails the test."""
    try:
        read()
    except Problem as problem:
        return problem.message
    return ""


@pytest.mark.parametrize(("text", "tokens"), [("500k", 500_000), ("+500K", 500_000), ("1.5m", 1_500_000), ("42", 42)])
def test_tokens(text: str, tokens: int) -> None:
    """Numbers of tokens, as people write them."""
    assert read_tokens(text) == tokens


@pytest.mark.parametrize(("text", "micro"), [("0.5", 500_000), ("$2", 2_000_000), ("0.000001", 1), ("1e-3", 1_000)])
def test_dollars(text: str, micro: int) -> None:
    """Dollars become whole micro-dollars."""
    assert read_dollars(text) == micro


def test_set_reads_each_type() -> None:
    """Each type of field is read; context fields are found with and without their prefix."""
    pairs = (
        "max_turns=3",
        "max_model_calls=1_000",
        "prompt_caching=off",
        "early_start=never",
        "betas=a, b",
        "effort=none",
        "thinking=adaptive",
        "context_window=20000",
        "context.microcompact=local",
    )
    assert read_set(pairs) == {
        "max_turns": 3,
        "max_model_calls": 1_000,
        "prompt_caching": False,
        "early_start": EarlyStart.NEVER,
        "betas": ("a", "b"),
        "effort": None,
        "thinking": "adaptive",
        "context": {"context_window": 20_000, "microcompact": Microcompact.LOCAL},
    }


@given(st.lists(st.text(max_size=20), max_size=3))
def test_set_never_crashes(pairs: list[str]) -> None:
    """Whatever is written, it is read or refused in words."""
    words = refusal(lambda: read_set(pairs))
    assert not words or words.startswith("--set")


@given(st.text(max_size=12))
def test_numbers_never_crash(text: str) -> None:
    """Numbers are read as positive whole numbers, or refused in words."""
    for read in (read_tokens, read_dollars):
        values: list[int] = []
        words = refusal(partial(lambda kept, reader: kept.append(reader(text)), values, read))
        assert values[0] > 0 if values else "write" in words or "at least" in words


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from(["permissions", "hooks", "model", "allow", "ask", "x"]), inner)
    ),
)


@given(JSON)
def test_settings_never_crash(value: object) -> None:
    """Whatever JSON the settings are, they are read or refused in words."""
    text = json.dumps(value)
    settings = text if text.startswith("{") else '{"permissions": ' + text + "}"
    words = refusal(lambda: open_project(Path("."), settings=settings, sources=(), bare=True, trusted=False))
    assert not words or words.startswith("--settings")


def test_rules_that_follow_an_option() -> None:
    """Every rule behind the option belongs to it; the prompt does not, nor what is behind ``--``."""
    assert spread(["--allowed-tools", "Bash(git:*)", "Read", "Do it."]) == [
        "--allowed-tools", "Bash(git:*)", "--allowed-tools", "Read", "Do it.",
    ]  # fmt: skip
    assert spread(["--allowed-tools", "Bash", "--effort", "low", "Read"]) == [
        "--allowed-tools",
        "Bash",
        "--effort",
        "low",
        "Read",
    ]
    assert spread(["--allowedTools=Bash", "mcp__a__b"]) == ["--allowedTools=Bash", "--allowedTools", "mcp__a__b"]
    assert spread(["--disallowed-tools", "x", "--", "Read"]) == ["--disallowed-tools", "x", "--", "Read"]


def test_rules_are_split_outside_of_parentheses() -> None:
    """Commas and blanks inside of parentheses belong to the rule."""
    assert split_rules("Read, Bash(git log:*),Bash(a,b)  Edit") == ["Read", "Bash(git log:*)", "Bash(a,b)", "Edit"]


@given(st.text(alphabet=st.characters(), max_size=50))
def test_cleaned_text_has_no_controls(text: str) -> None:
    """What is shown holds no control character, and can be encoded."""
    shown = clean(text)
    shown.encode()
    assert not any((ord(sign) < 32 and sign not in "\t\n") or 127 <= ord(sign) < 160 for sign in shown)
    assert "\n" not in one_line(text)
