"""A counterexample runs wherever it is pasted, whatever the law was made of."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fsm_agent import LoopConfig
from fsm_agent.explorer.explore import explore
from fsm_agent.explorer.report import counterexample
from fsm_agent.laws import Law, state_law
from fsm_agent.testing import Bounds

SCRIPT = '''
import json
from collections import Counter as Tally
from enum import Enum

from fsm_agent import LoopConfig
from fsm_agent.core.phases import Phase
from fsm_agent.testing import Bounds, counterexample, explore, state_law

MOST = {"calls": 0}
PHASES = (Phase.COMPLETED, Phase.READY)


class Colour(Enum):
    RED = "red"


def even(number):
    return number == 0 or odd(number - 1)


def odd(number):
    return number != 0 and even(number - 1)


@state_law()
def few(state, config):
    """At most so many calls."""
    many = state.control.guards.model_calls > MOST["calls"] and Tally("aa")["a"] == 2 and even(4)
    return f"too many {json.dumps(Colour.RED.value)}" if many and state.phase not in PHASES else ""


found = explore(LoopConfig(model="m", max_turns=1), Bounds(blocks=1, tools=0, depth=3), (few,))
print(counterexample(found, found.violations[0], (few,)))
'''


def _run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    return subprocess.run([sys.executable, *words], cwd=folder, env=env, capture_output=True, text=True, timeout=120)


def test_a_law_of_a_script_is_taken_over(tmp_path: Path) -> None:
    """Pasted into a file of its own, elsewhere, it fails for the law's reason; nothing of the script runs again."""
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    (tmp_path / "here" / "mine.py").write_text(SCRIPT)
    made = _run(tmp_path / "here", "mine.py")
    assert made.stderr == ""
    assert "__main__" not in made.stdout
    pasted = tmp_path / "there" / "test_pasted.py"
    pasted.write_text(made.stdout)
    went = _run(tmp_path / "there", "-m", "pytest", "-q", "-p", "no:cacheprovider", pasted.name)
    assert went.returncode == 1, went.stdout
    assert 'too many "red"' in went.stdout
    assert "AssertionError: event" in went.stdout


def _broken(law: Law) -> str:
    found = explore(LoopConfig(model="m", max_turns=1), Bounds(blocks=1, tools=0, depth=2), (law,))
    return counterexample(found, found.violations[0], (law,))


def test_a_law_of_a_test_is_taken_over() -> None:
    """A law made inside a function comes with its source and with what it encloses."""
    word = "never"

    @state_law()
    def nothing_begins(state, config):  # type: ignore[no-untyped-def]
        """Nothing begins."""
        return word if state.control.run.id else ""

    text = _broken(nothing_begins)
    assert "word = 'never'" in text
    space: dict[str, object] = {}
    exec(compile(text, "pasted", "exec"), space)
    test = space["test_nothing_begins"]
    assert callable(test)
    with pytest.raises(AssertionError, match="never"):
        test()


def test_what_cannot_be_taken_over_is_named() -> None:
    """Without a source, or with a value that cannot be written down, a comment says what to define."""
    space: dict[str, object] = {}
    code = (
        "from fsm_agent.testing import state_law\n@state_law()\ndef hidden(state, config):\n    return state.control.run.id\n"
    )
    exec(compile(code, "nowhere", "exec"), space)
    hidden = space["hidden"]
    assert isinstance(hidden, Law)
    assert "# Define hidden here: its source cannot be read where it was written." in _broken(hidden)
    thing = object()

    @state_law()
    def odd(state, config):  # type: ignore[no-untyped-def]
        """Odd."""
        return state.control.run.id and str(thing)

    assert "# Define thing here: it could not be taken over." in _broken(odd)
