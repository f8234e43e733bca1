"""The small project that a scenario with real tools works in."""

from __future__ import annotations

from pathlib import Path

from .format import Scenario, ScenarioError


def write_project(scenario: Scenario, folder: Path) -> None:
    """Write the files of a scenario into an existing folder.

    Args:
        scenario: whose files are written; their paths were checked when it was read.
        folder: where to; nothing that is there is overwritten.

    Raises:
        ScenarioError: if a file is there already.
        OSError: if one cannot be written.
    """
    for path, text in scenario.files:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with target.open("x", encoding="utf-8", newline="\n") as file:
                file.write(text)
        except FileExistsError:
            raise ScenarioError(f"{target} is there already; a scenario's project needs an empty folder") from None
