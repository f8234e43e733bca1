"""Masking of secrets in what leaves the machine: output, export, view, telemetry. The log itself stays exact (spec 04)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from attrs import field, frozen

from ..core.blocks import dumps

MASK = "[masked]"

_PATTERNS = (
    r"sk-ant-[A-Za-z0-9_\-]{8,}",
    r"\bsk-[A-Za-z0-9_\-]{20,}",
    r"\bgh[pousr]_[A-Za-z0-9]{20,}",
    r"\bgithub_pat_[A-Za-z0-9_]{20,}",
    r"\bxox[abeoprs]-[A-Za-z0-9\-]{10,}",
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    r"\bAIza[0-9A-Za-z_\-]{35}",
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[A-Za-z0-9+/=:,\s]|\\[nr])*(?:-----END [A-Z ]*PRIVATE KEY-----)?",
    r"(?i:(?<=bearer )|(?<=x-api-key: ))[A-Za-z0-9._~+/=\-]{8,}",
)
"""Shapes of well-known keys. They also match inside JSON text, where a newline is written as an escape."""

_SHORTEST = 4
"""Shorter values are not masked: they would hide ordinary words."""


def _compile(values: Iterable[str]) -> re.Pattern[str]:
    spelled: set[str] = set()
    for value in values:
        if len(value) >= _SHORTEST:
            spelled |= {value, dumps(value)[1:-1]}
    # Longer values first, so that one which contains another is masked as a whole; sorted, so that the order is fixed.
    known = [re.escape(value) for value in sorted(spelled, key=lambda value: (-len(value), value))]
    return re.compile("|".join([*known, *_PATTERNS]))


@frozen
class Redactor:
    """Replaces secrets by a mask, in plain text and in JSON text.

    Attributes:
        values: secrets that the user names; one that is shorter than four characters is left alone.
    """

    values: tuple[str, ...] = ()
    _pattern: re.Pattern[str] = field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_pattern", _compile(self.values))

    def mask(self, text: str) -> str:
        """Give ``text`` with each secret replaced."""
        return self._pattern.sub(MASK, text)
