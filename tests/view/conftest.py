"""One browser for all tests of the view."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
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


class Pages(dict[str, Path]):
    """Pages by name, each made when a test first asks for it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._logs: dict[str, Callable[[Path], Path]] = {
            "small": partial(long_log, steps=220, words=900),
            "long": partial(long_log, steps=5_000, words=60),
            "hostile": hostile_log,
        }

    def __missing__(self, name: str) -> Path:
        page = self._folder / f"{name}.html"
        page.write_bytes(render_view(self._logs[name](self._folder / f"{name}.jsonl")).html)
        self[name] = page
        return page


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    """Give pages by name: ``small`` of 220 steps with compactions, ``long`` of 5,000, ``hostile``."""
    return Pages(tmp_path_factory.mktemp("view"))
