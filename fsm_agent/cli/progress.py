"""A bar for work that takes a moment, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from .console import coloured, is_terminal

if TYPE_CHECKING:
    from ..core.state import Step
    from ..log.format import Record

_LARGE = 2_000_000
"""Bytes of a log from which on a bar is worth its while."""
_EVERY = 200


@contextmanager
def progress(path: Path) -> Iterator[Callable[[Record, Step], None] | None]:
    """Give what counts the records of a large log on a terminal; None elsewhere."""
    if not is_terminal(sys.stderr) or path.stat().st_size < _LARGE:
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn

    console = Console(stderr=True, color_system="standard" if coloured(sys.stderr) else None)
    with Progress(SpinnerColumn(), TextColumn("{task.description}"), console=console, transient=True) as bar:
        task = bar.add_task("replaying", total=None)

        def each(record: Record, step: Step) -> None:
            if record.seq % _EVERY == 0:
                bar.update(task, description=f"replaying: record {record.seq}")

        yield each


@contextmanager
def waiting(path: Path) -> Iterator[None]:
    """Say on a terminal that a large log is being replayed; without a bar, whose thread would keep processes from parting."""
    size = path.stat().st_size
    if not is_terminal(sys.stderr) or size < _LARGE:
        yield
        return
    words = f"replaying {size / 1e6:,.0f} MB ..."
    print(words, end="\r", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        print(" " * len(words), end="\r", file=sys.stderr, flush=True)
