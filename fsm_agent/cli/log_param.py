"""The LOG argument: a file, or the id of a session for its newest log, as ``fsm-agent logs`` lists them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


class LogPath(click.Path):
    """A path of a log; the id of a session stands for its newest one."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Give the path; what is no id is taken as a path, whether there is a file or not."""
        name = str(value)
        if not Path(name).exists() and Path(name).name == name and not name.endswith(".jsonl"):
            from .places import log_folder

            if (log_folder() / name).is_dir():
                from .resuming import find_log

                return find_log(name)
        return super().convert(value, param, ctx)


LOG_PATH = LogPath()
