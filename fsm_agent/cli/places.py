"""Where the command line keeps things."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from .problems import Problem

LOGS_HELP = "$XDG_STATE_HOME/fsm-agent/logs, or ~/.local/state/fsm-agent/logs"


def log_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Give the folder of logs: one folder a session in it, one file a run in that.

    Raises:
        Problem: if there is no home directory.
    """
    environ = os.environ if environ is None else environ
    state = environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):  # the XDG rules say that a relative one is ignored
        try:
            state = str(Path.home() / ".local" / "state")
        except RuntimeError:
            raise Problem("there is no home directory to keep logs in; set XDG_STATE_HOME, or give --log FILE") from None
    return Path(state) / "fsm-agent" / "logs"


def models_file(environ: Mapping[str, str] | None = None) -> Path:
    """Give the file with the user's own data of models, which need not exist.

    Raises:
        Problem: if there is no home directory.
    """
    environ = os.environ if environ is None else environ
    config = environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(config):
        try:
            config = str(Path.home() / ".config")
        except RuntimeError:
            raise Problem("there is no home directory to look for models.json in; set XDG_CONFIG_HOME") from None
    return Path(config) / "fsm-agent" / "models.json"


def check_writable(folder: Path) -> str:
    """Say why no file can be made in ``folder`` or in the nearest parent that exists; empty if one can."""
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        return f"{place} is no directory"
    if not os.access(place, os.W_OK | os.X_OK):
        return f"{place} is not writable"
    return ""
