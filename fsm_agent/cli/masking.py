"""Which secrets are masked in what the command line shows of a log (spec 04; field report 99)."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ..log.redact import Redactor
from ..runtime.tools.environment import is_secret

_SHORTEST = 8
"""Values of variables that only look like secrets by their name are often short words."""


class _Raw:
    def mask(self, text: str) -> str:
        """Leave it as it is."""
        return text


def redactor(raw: bool, environ: Mapping[str, str] | None = None) -> Redactor | _Raw:
    """Make what masks secrets: shapes of well-known keys, and the values of this process's own secret variables.

    Args:
        raw: mask nothing.
        environ: by default this process's own.
    """
    if raw:
        return _Raw()
    own = os.environ if environ is None else environ
    return Redactor(tuple(value for name, value in own.items() if _names_secret(name) and len(value) >= _SHORTEST))


def _names_secret(name: str) -> bool:
    """Child processes get nothing of ours (the model's name, the URL); only keys and tokens among it are secrets."""
    return is_secret(name.removeprefix("ANTHROPIC_"))
