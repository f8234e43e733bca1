"""Token estimates against real usage, as far as it is recorded, and the floor for scripts that no recording covers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_agent.core.tokens import estimate_text

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

from calibrate_tokens import DATA, distribution, growth, percentile, replies

recorded = pytest.mark.skipif(not DATA.exists(), reason="the recordings (../shared/data) are not here")


@recorded
def test_estimates_are_seldom_under_real_usage() -> None:
    """At most one sample in twenty is under by more than 5 %: replies by themselves, and with the growth of prompts."""
    said, grown = list(replies()), list(growth())
    assert len(said) > 90
    assert len(grown) > 25
    assert distribution(said)["p5"] >= -0.05
    assert percentile([sample.error for sample in said + grown], 0.05) >= -0.05
    assert distribution(grown)["total"] >= 0
    assert distribution(said + grown)["p95"] < 2


@pytest.mark.parametrize(
    "letter", ["\u6f22", "\ud55c", "\u3042", "\u30ab", "\u1112", "\U0001f642", "\u0416", "\u0627", "\u0939"]
)
def test_other_scripts_count_at_least_one_token_a_character(letter: str) -> None:
    """Han, Hangul, jamo, kana, emoji, Cyrillic, Arabic, Devanagari: the floor is one token a character (field report 23)."""
    assert estimate_text(letter * 2_000) >= 2_000
    assert estimate_text(f"{letter} a " * 100) >= 100


@given(st.text(max_size=200), st.text(max_size=200))
def test_estimates_add_up(first: str, second: str) -> None:
    """A text is never estimated above the sum of its parts by more than rounding, and never below its wide characters."""
    both = estimate_text(first + second)
    assert both <= estimate_text(first) + estimate_text(second) + 1
    assert both >= sum(1 for letter in first + second if not letter.isascii())


@given(st.text(alphabet=st.characters(codec="ascii"), max_size=300))
def test_no_text_counts_more_than_its_characters(text: str) -> None:
    """An ASCII text has at most one token a character, and an unbroken run half of that."""
    assert estimate_text(text) <= len(text) + 1
    assert estimate_text("Ab3" * 100) == 150
