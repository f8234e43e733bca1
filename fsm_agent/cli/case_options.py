"""``--set`` and ``--bound`` of ``explore``: fields of a case's configuration and bounds, checked before any work."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .problems import Problem

if TYPE_CHECKING:
    from ..explorer.matrix import Case

T = TypeVar("T")
_FEW = 30
"""So many names are listed even where one is near."""


def changed_case(case: Case, settings: tuple[str, ...], bounds: tuple[str, ...]) -> Case:
    """Give a case with other settings and bounds.

    Args:
        case: as it is.
        settings: ``key=value`` of its configuration.
        bounds: ``key=value`` of its bounds.

    Raises:
        Problem: for an unknown name or a value that does not fit.
    """
    from attrs import evolve

    return evolve(
        case, config=_given(case.config, settings, "--set", "setting"), bounds=_given(case.bounds, bounds, "--bound", "bound")
    )


def _given(base: T, words: tuple[str, ...], option: str, kind: str) -> T:
    import attrs

    from ..core.config import ConfigError
    from ..scenario import ScenarioError
    from ..scenario.settings import overridden

    known = [one.name for one in attrs.fields(type(base))]  # type: ignore[arg-type]
    values = {key: _decoded(text) for key, text in (_pair(word, option) for word in words)}
    for key in values:
        if key not in known:
            raise Problem(f"{option} {key}: there is no {kind} {key!r}; {_hint(key, known)}")
    try:
        return overridden(base, values, option)
    except ScenarioError as error:
        said = str(error)
        for word in words:
            # The place is told as it was written, not as a path within decoded data.
            said = said.replace(f"{option}.{word.partition('=')[0]}", f"{option} {word}", 1)
        raise Problem(said) from None
    except ConfigError as error:
        raise Problem(f"{' '.join(f'{option} {word}' for word in words)}: {error}") from None


def _hint(key: str, known: list[str]) -> str:
    near = get_close_matches(key, known, 1)
    there = f"ere are {', '.join(known)}"
    if not near:
        return f"th{there}"
    return f"did you mean {near[0]!r}?" + (f" Th{there}" if len(known) <= _FEW else "")


def _pair(word: str, option: str) -> tuple[str, str]:
    key, equals, value = word.partition("=")
    if not equals or not key:
        raise click.UsageError(f"{option} {word}: write KEY=VALUE")
    return key, value


def _decoded(text: str) -> Any:
    import json

    try:
        return json.loads(text)
    except ValueError:
        return text
