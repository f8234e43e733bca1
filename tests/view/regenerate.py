"""Make the picture of the view anew: ``python -m tests.view.regenerate``. Needs Chromium.

The demo is played, and its log is opened at the step at which the edit ended and the next turn began.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from fsm_agent.cli.main import run
from fsm_agent.diagram.render import carrying
from fsm_agent.log.reader import read_log
from fsm_agent.view import render_view
from fsm_agent.view.picture import machine_svg

from .browser import CHROMIUM, WHY_NOT, Browser

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "view.png"
ROUND = 3
"""The turn that is shown as it begins is the one behind this round."""


def made_of() -> str:
    """Give the digest of what the page looks like: its style, its program, and the machine."""
    assets = sorted(files("fsm_agent.view").joinpath("assets").iterdir(), key=lambda one: one.name)
    look = b"".join(one.read_bytes() for one in assets if one.is_file())
    return sha256(look + machine_svg({}).encode()).hexdigest()


def main() -> int:
    """Play, open, and save; 1 if the demo failed, 2 without Chromium."""
    if CHROMIUM is None:
        print(WHY_NOT, file=sys.stderr)
        return 2
    folder = Path(tempfile.gettempdir()) / "demo"  # its name can be read on the picture
    shutil.rmtree(folder, ignore_errors=True)
    try:
        if run(["demo", "--keep", str(folder)]):
            return 1
        (log,) = folder.rglob("*.jsonl")
        turns = [record.seq for record in read_log(log).records() if "next_turn" in record.taken]
        page = folder / "view.html"
        page.write_bytes(render_view(log).html)
        with Browser(1440, 960, "--force-prefers-reduced-motion") as browser:
            browser.open(page, step=turns[ROUND - 1])
            assert browser.problems == []
            browser.picture(PICTURE)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    PICTURE.write_bytes(carrying(PICTURE.read_bytes(), made_of()))
    print(PICTURE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
