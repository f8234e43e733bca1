"""Write anew what the exploration pins and shows: ``python -m tests.explorer.regenerate``.

Counts of the continuous matrix, the page of its paths, the picture of its coverage. With ``--release`` the counts of the
release matrix instead, or of those of its cases that are named behind it; each is written when it is finished. Commit them
only if you understand the change.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from fsm_agent.diagram.agreement import Agreement
from fsm_agent.diagram.render import render_png, render_svg
from fsm_agent.explorer.explore import Explored, explore
from fsm_agent.explorer.matrix import RELEASE
from fsm_agent.explorer.pages import explored_page
from fsm_agent.explorer.report import summary
from fsm_agent.explorer.side_by_side import explore_all

from .matrix_run import PAGE, PICTURE, counts, coverage_dot, explored
from .small import TINY

GOLDENS = Path(__file__).with_name("goldens.json")
RELEASED = Path(__file__).with_name("release.json")


def main(arguments: list[str]) -> int:
    """Explore, and write; 1 if a law is broken, and then nothing is written."""
    if "--release" in arguments:
        return _release([word for word in arguments if word != "--release"])
    tiny, found = explore(TINY.config, TINY.bounds, oracle=Agreement()), explored()
    for case, one in ((TINY, tiny), *found):
        print(summary(case.name, one), flush=True)
    if tiny.violations or any(one.violations for _, one in found):
        return 1
    pinned = {case.name: counts(one) for case, one in ((TINY, tiny), *found)}
    GOLDENS.write_text(json.dumps(pinned, indent=2) + "\n")
    PAGE.write_text(explored_page(found), encoding="utf-8")
    dot = coverage_dot(found)
    PICTURE.write_text(dot, encoding="utf-8")
    PICTURE.with_suffix(".svg").write_bytes(render_svg(dot))
    PICTURE.with_suffix(".png").write_bytes(render_png(dot))
    return 0


def _release(names: list[str]) -> int:
    pinned = json.loads(RELEASED.read_text()) if RELEASED.exists() else {}

    def told(name: str, one: Explored) -> None:
        print(f"{summary(name, one)}, {one.seconds:.0f} s", flush=True)
        if one.violations:
            return
        pinned[name] = counts(one)
        ordered = {case.name: pinned[case.name] for case in RELEASE if case.name in pinned}
        RELEASED.write_text(json.dumps(ordered, indent=2) + "\n")

    cases = [case for case in RELEASE if not names or case.name in names]
    found = explore_all(cases, jobs=os.cpu_count() or 1, done=told, oracle=Agreement())
    return int(any(one.violations for one in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
