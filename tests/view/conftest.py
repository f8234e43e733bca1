"""One browser for all tests of the view."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fsm_agent.view import render_view

from .browser import CHROMIUM, WHY_NOT, Browser
from .logs import hostile_log, long_log


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Give a real headless Chromium."""
    if CHROMIUM is None:
        pytest.skip(WHY_NOT)
    with Browser() as made:
        yield made


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Give pages by name: ``small`` of 150 steps with compactions, ``long`` of 5,000, ``hostile``."""
    folder = tmp_path_factory.mktemp("view")
    logs = {
        "small": long_log(folder / "small.jsonl", 150, words=2_000),
        "long": long_log(folder / "long.jsonl", 5_000, words=60),
        "hostile": hostile_log(folder / "hostile.jsonl"),
    }
    made: dict[str, Path] = {}
    for name, log in logs.items():
        made[name] = folder / f"{name}.html"
        made[name].write_bytes(render_view(log).html)
    return made
