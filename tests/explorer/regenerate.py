"""Write the pinned counts anew: ``python -m tests.explorer.regenerate``. Commit them only if you understand the change."""

from __future__ import annotations

import json
from pathlib import Path

from fsm_agent.explorer.explore import explore
from fsm_agent.explorer.matrix import CI
from fsm_agent.explorer.report import summary

from .small import TINY

GOLDENS = Path(__file__).parent / "goldens.json"


def main(jobs: int = 2) -> None:
    """Explore every case of the continuous matrix and pin what was found."""
    pinned: dict[str, dict[str, int]] = {}
    for case in (TINY, *CI):
        found = explore(case.config, case.bounds, jobs=jobs)
        print(summary(case.name, found), flush=True)
        pinned[case.name] = {
            "states": found.states,
            "pairs": found.pairs,
            "depth": found.depth,
            "rows": len(found.rows),
        }
    GOLDENS.write_text(json.dumps(pinned, indent=2) + "\n")


if __name__ == "__main__":
    main()
