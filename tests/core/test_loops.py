"""Rounds that repeat: equal ones in a row, and pairs that alternate (spec 01, section 11)."""

from __future__ import annotations

import pytest

from fsm_agent.core import loops

REPEATS = [
    ("", 0),
    ("a", 1),
    ("aa", 2),
    ("aaa", 3),
    ("ab", 1),
    ("aba", 1),
    ("abab", 2),
    ("ababab", 3),
    ("cababab", 3),
    ("bababa", 3),
    ("abb", 2),
    ("bbabb", 2),
    ("abcabc", 1),
    ("aaab", 1),
    ("abaab", 1),
]


@pytest.mark.parametrize(("rounds", "count"), REPEATS)
def test_repeats_are_counted_from_the_end(rounds: str, count: int) -> None:
    """Only what stands at the end counts; a pair counts once for each time that it was gone through."""
    assert [times for times in range(1, 9) if loops.repeats(tuple(rounds), times)] == list(range(1, count + 1))
