"""``python -m fsm_agent.diagram [DIRECTORY]``: draw the committed pictures anew; ``--check`` says which are stale."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .files import stale, write_all
from .model import DiagramError


def main(arguments: list[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: of the command line; None takes the process's own.

    Returns:
        The exit code: 0, 1 if a picture is stale, 2 if it cannot be drawn.
    """
    parser = argparse.ArgumentParser(prog="python -m fsm_agent.diagram", description="Draw the committed pictures anew.")
    parser.add_argument("directory", nargs="?", default="diagrams", type=Path, help="where they are (default: diagrams)")
    parser.add_argument("--check", action="store_true", help="write nothing; say which pictures are stale")
    chosen = parser.parse_args(arguments)
    if chosen.check:
        found = stale(chosen.directory)
        print("\n".join(found) or "all pictures are up to date")
        return 1 if found else 0
    try:
        written = write_all(chosen.directory)
    except DiagramError as error:
        print(error, file=sys.stderr)
        return 2
    print("\n".join(str(path) for path in written))
    return 0


if __name__ == "__main__":
    sys.exit(main())
