"""Says where the log of a run is as its first call goes out, so that a run that is killed can be found."""

from __future__ import annotations

import sys
from pathlib import Path

from ..core.outputs import Output, RequestStart
from .console import Paint, coloured, is_terminal, is_verbose, visible
from .follow import View


class LogTold:
    """A view that says it on standard error; a run that never begins has no log.

    Args:
        view: what is written to standard output.
        log: where the log is.
    """

    def __init__(self, view: View, log: Path) -> None:
        self._view = view
        self._log = log
        self._told = False
        self.end = view.end

    def show(self, output: Output) -> str:
        """Give what the view gives."""
        if isinstance(output, RequestStart) and not self._told:
            self._told = True
            line = Paint(coloured(sys.stderr))(f"fsm-agent: the log is {visible(str(self._log))}", dim=True)
            print(line, file=sys.stderr, flush=True)
        return self._view.show(output)


def with_log_told(view: View, log: Path | None, *, text: bool) -> View:
    """Let a text view say where the log is, where a person looks on or wants to know more; else nothing is added."""
    wanted = text and (is_terminal(sys.stderr) or is_verbose())
    return LogTold(view, log) if wanted and log is not None else view
