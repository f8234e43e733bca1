"""The project of the main demo is really broken, and the model's edit really repairs it."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from fsm_agent.scenario import ScenarioError, load
from fsm_agent.scenario.answers import ToolItem
from fsm_agent.scenario.project import write_project


def test_repair_is_a_real_repair(tmp_path: Path) -> None:
    """The command of the scenario fails on its project, and passes once the scenario's edit is made."""
    scenario = load("repair", values={"python": shlex.quote(sys.executable)})
    calls = [item for reply in scenario.replies for item in reply.items if isinstance(item, ToolItem)]
    assert [call.name for call in calls] == ["Read", "Bash", "Edit", "Bash"]
    _, first, edit, second = (json.loads(call.raw) for call in calls)
    write_project(scenario, tmp_path)

    def run(command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)

    broken = run(first["command"])
    assert broken.returncode != 0
    assert "0 != 360" in broken.stderr
    path = tmp_path / edit["file_path"]
    text = path.read_text(encoding="utf-8")
    assert text.count(edit["old_string"]) == 1
    path.write_text(text.replace(edit["old_string"], edit["new_string"]), encoding="utf-8")
    repaired = run(second["command"])
    assert repaired.returncode == 0, repaired.stderr


def test_project_overwrites_nothing(tmp_path: Path) -> None:
    """A folder in which a file of the project is there already is refused."""
    (tmp_path / "basket.py").write_text("mine", encoding="utf-8")
    with pytest.raises(ScenarioError, match="is there already"):
        write_project(load("repair"), tmp_path)
    assert (tmp_path / "basket.py").read_text(encoding="utf-8") == "mine"
