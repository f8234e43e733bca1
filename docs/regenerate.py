"""Make everything anew that is made from the declaration: the pictures, the reference pages, the committed graph.

A change of the committed graph is a change of the machine: look at it before it goes in.
"""

from __future__ import annotations

import sys
from pathlib import Path

from fsm_agent.diagram import DiagramError, write_all
from fsm_agent.diagram.bound_page import bound_page
from fsm_agent.diagram.golden import PATH as GOLDEN
from fsm_agent.diagram.golden import golden_text
from fsm_agent.diagram.reference import table_page, terminals_page
from fsm_agent.diagram.settings_page import settings_page
from fsm_agent.session.endings import ENDINGS
from fsm_agent.testing.kit_page import kit_page

REPOSITORY = Path(__file__).resolve().parents[1]
PAGES = {
    "table.md": table_page(),
    "terminals.md": terminals_page(ENDINGS),
    "settings.md": settings_page(),
    "bound.md": bound_page(),
    "laws.md": kit_page(),
}


def main() -> int:
    """Write the files; give the exit code, 2 where Graphviz is missing."""
    reference = REPOSITORY / "docs" / "reference"
    reference.mkdir(parents=True, exist_ok=True)
    for name, text in PAGES.items():
        (reference / name).write_text(text, encoding="utf-8")
    GOLDEN.write_text(golden_text(), encoding="utf-8")
    try:
        written = write_all(REPOSITORY / "diagrams")
    except DiagramError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{len(PAGES)} pages and {len(written)} pictures written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
