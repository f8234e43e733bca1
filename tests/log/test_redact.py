"""Masking of what leaves the machine."""

from __future__ import annotations

import json

import pytest

from fsm_agent.log.redact import MASK, Redactor


@pytest.mark.parametrize(
    "secret",
    [
        "sk-ant-" + "api03-a1B2c3D4",
        "sk-" + "a1" * 12,
        "ghp_" + "a1B2" * 9,
        "AKIA" + "ABCD1234" * 2,
        "xoxb-1234567890-abc",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nMIIE cut off",
    ],
)
def test_well_known_keys_are_masked(secret: str) -> None:
    """Keys of known shapes vanish from plain text and from JSON text, which stays JSON."""
    assert Redactor().mask(f"key={secret}") == f"key={MASK}"
    assert json.loads(Redactor().mask(json.dumps({"out": secret}))) == {"out": MASK}


def test_header_values_are_masked() -> None:
    """What follows ``Bearer`` or ``x-api-key`` vanishes, the name stays."""
    assert Redactor().mask("Authorization: Bearer abcdefgh1234") == f"Authorization: Bearer {MASK}"
    assert Redactor().mask("X-Api-Key: abcdefgh1234") == f"X-Api-Key: {MASK}"


def test_named_values_are_masked_in_every_spelling() -> None:
    """A value that the user names vanishes, its JSON spelling too; the longer of two overlapping ones goes as a whole."""
    redactor = Redactor(values=('pass"word', "pass", "abc"))
    assert redactor.mask('pass"word') == MASK
    assert json.loads(redactor.mask(json.dumps('pass"word'))) == MASK
    assert redactor.mask("bypass abc") == f"by{MASK} abc"


def test_ordinary_text_is_left_alone() -> None:
    """Words, hashes and code without secrets come out as they went in."""
    text = "git show 4f3a2b1c && echo sk-1 risk-free; bearer of news\n" + "ab" * 32
    assert Redactor(values=("",)).mask(text) == text
