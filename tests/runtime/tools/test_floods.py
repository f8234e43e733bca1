"""Tools that print without measure: memory stays bounded, the timeout fires, head, tail and the count of the rest are kept."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .kit import is_alive

HERE = Path(__file__).parent
MEGABYTE = 1_000_000
LIMIT = 200_000
"""Kilobytes that the engine may have at most."""


def run(folder: Path, command: str, timeout: int = 120_000) -> dict[str, Any]:
    """Run a command in an engine of its own and give its result and its memory."""
    argv = [sys.executable, str(HERE / "flood_engine.py"), str(folder), str(timeout), command]
    done = subprocess.run(
        argv, capture_output=True, check=True, env={"PYTHONPATH": str(HERE.parents[2]), "PATH": "/usr/bin:/bin"}
    )
    value: dict[str, Any] = json.loads(done.stdout)
    return value


FLOODS = {
    "one line": "echo BEGIN; head -c {size} /dev/zero | tr '\\0' x; echo; echo END",
    "short lines": "echo BEGIN; yes line | head -c {size}; echo; echo END",
    "standard error": "echo BEGIN; yes line | head -c {size} >&2; echo; echo END",
    "no text": "echo BEGIN; yes $'\\xff\\xfe\\x00' | head -c {size}; echo; echo END",
}


@pytest.mark.parametrize("size", [100 * MEGABYTE, pytest.param(2_147_483_648, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", FLOODS)
def test_80_a_flood_is_bounded(tmp_path: Path, kind: str, size: int) -> None:
    """Up to 2 GB of output, of whatever kind: under 200 MB of memory, head, tail and the number of dropped bytes."""
    done = run(tmp_path, FLOODS[kind].format(size=size))
    text = done["result"]["content"]
    assert done["outcome"] == "ok"
    assert text.startswith("BEGIN\n")
    assert text.endswith("\nEND")
    (dropped,) = re.findall(r"\[(\d+) bytes dropped\]", text)
    printed = size + len("BEGIN\n\nEND\n")
    assert int(dropped) == printed - 30_000
    assert len(text) < 40_000
    assert done["peak"] < LIMIT
    assert all(length <= 2_000 for length in done["progress"])


@pytest.mark.parametrize("command", ["yes", "cat /dev/zero", "yes >&2", "while :; do printf '\\377\\000'; done"])
def test_80_endless_output_meets_its_timeout(tmp_path: Path, command: str) -> None:
    """A command that never ends is ended at its timeout, with what it had printed; nothing of it is left."""
    done = run(tmp_path, f"echo BEGIN; echo $$ > pid; {command}", timeout=1_500)
    text = done["result"]["content"]
    assert done["outcome"] == "failed"
    assert text.startswith("Timed out after 1.5 s")
    assert "BEGIN" in text
    assert len(text) < 40_000
    assert done["peak"] < LIMIT
    assert not is_alive(int((tmp_path / "pid").read_text()))
