"""The machine that asks the mutants: a death is no verdict, nothing asked is no success, and its files are whole or refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cosmic_ray")

from .workers import forked

ROOT = Path(__file__).resolve().parents[2]
MAKE = """
import sys
from pathlib import Path
from tests.mutants import __main__, code, worlds
from tests.mutants.corpus import index, situation
from tests.mutants.keeping import keep_corpus

found = [situation(taken, case.config) for case in list(worlds.cases())[:4] for taken in worlds.walk(case, 3, 40, sharp=False)]
keep_corpus(Path(sys.argv[1]), index(found, code.modules()))
"""


def _die(how: str) -> str:
    match how:
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "left":
            sys.exit(3)
        case "no memory":
            raise MemoryError
        case "busy":
            while True:
                pass
        case "asleep":
            time.sleep(10**6)
    return how


def test_only_time_that_runs_out_is_late() -> None:
    """Whatever else ends a process says nothing of its task, and is told."""
    done = {one.task: one for one in forked(["killed", "left", "no memory", "busy", "asleep", "well"], _die, 2, 0.5)}
    assert {name: one.late for name, one in done.items()} == {
        "killed": False,
        "left": False,
        "no memory": False,
        "busy": True,
        "asleep": True,
        "well": False,
    }
    assert done["killed"].died == "ended by signal 9"
    assert "SystemExit: 3" in done["left"].died
    assert "MemoryError" in done["no memory"].died
    assert {name for name, one in done.items() if not one.died} == {"well", "busy", "asleep"}
    assert {name: one.value for name, one in done.items() if one.value is not None} == {"well": "well"}


def test_no_process_does_nothing() -> None:
    """Without processes nothing would be judged, so it is refused, not done."""
    with pytest.raises(ValueError, match="jobs=0: at least one process is needed"):
        list(forked(["well"], _die, 0, 1))


def test_what_is_left_alone_ends_with_the_machine() -> None:
    """One who stops asking leaves no process behind."""
    asked = forked(["well", "asleep", "asleep"], _die, 3, 60)
    assert next(asked).value == "well"
    asked.close()  # type: ignore[attr-defined]
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


@pytest.fixture(scope="module")
def walks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of a few walks."""
    place = tmp_path_factory.mktemp("walks") / "walks"
    subprocess.run([sys.executable, "-c", MAKE, str(place)], cwd=ROOT, check=True)
    return place


def _asked(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.mutants", "--jobs", "1", "--laws-only", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def _refused(*arguments: object) -> str:
    """Ask for what cannot be begun; gives the one line that says why."""
    done = _asked(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    return done.stderr


FEW = ("--only", "code", "--name", "guards/failing.py")


def test_nothing_asked_is_no_success(walks: Path, tmp_path: Path) -> None:
    """Names that no mutant has, and numbers that ask nothing, are refused."""
    assert "no mutant is asked for: --name 'nosuch'" in _refused("--corpus", walks, "--name", "nosuch")
    (tmp_path / "list").write_text("code nosuch.py\n")
    assert "1 of 1 lines name no mutant, such as 'code nosuch.py'" in _refused("--corpus", walks, "--list", tmp_path / "list")
    assert "No such file" in _refused("--corpus", walks, "--list", tmp_path / "nosuch")
    for wrong in (("--jobs", "0"), ("--jobs", "-1"), ("--seconds", "0"), ("--sample", "-1")):
        done = _asked(*wrong)
        assert done.returncode == 2
        assert f"'{wrong[1]}' is no whole number of at least" in done.stderr


def test_walks_are_whole_and_of_these_sources(walks: Path, tmp_path: Path) -> None:
    """A torn file and one of other sources are refused in a line that says what helps."""
    data = walks.read_bytes()
    other = tmp_path / "walks"
    for broken in (data[:-1], data[:2_000], data[:10], b"", data[:-1] + b"?"):
        other.write_bytes(broken)
        assert "it is torn, or no file of walks; remove it, and it is made anew" in _refused("--corpus", other, *FEW)
    other.write_bytes(b"0" * 64 + data[64:])
    assert "the walks were taken with other sources; remove it" in _refused("--corpus", other, *FEW)


def test_verdicts_are_gone_on_with(walks: Path, tmp_path: Path) -> None:
    """A line that was torn is asked again, what is no verdict is refused, and so is what other sources gave."""
    results = tmp_path / "results"
    first = _asked("--corpus", walks, "--results", results, *FEW)
    assert first.returncode in (0, 1), first.stderr
    lines = results.read_text().splitlines(keepends=True)
    names = {json.loads(line)[0] for line in lines[1:]}
    assert len(names) > 1
    for torn in ("".join(lines)[:-9], lines[0][:20]):
        results.write_text(torn)
        again = _asked("--corpus", walks, "--results", results, *FEW)
        assert (again.returncode, again.stdout.partition(" in ")[0]) == (first.returncode, first.stdout.partition(" in ")[0])
        assert {json.loads(line)[0] for line in results.read_text().splitlines()[1:]} == names
    for broken, said in (
        ([lines[0], "?\n", *lines[1:]], "a line of it is no verdict"),
        (lines[1:], "a line of it is no verdict"),
        (["something else"], "it does not begin like one"),
        ([json.dumps({"sources": "0" * 64}) + "\n", *lines[1:]], "the verdicts were given on other sources"),
    ):
        results.write_text("".join(broken))
        assert said in _refused("--corpus", walks, "--results", results, *FEW)
        assert results.read_text() == "".join(broken)


def test_an_interrupt_is_one_line(walks: Path, tmp_path: Path) -> None:
    """Ctrl-C reaches every process; one of them says so, once, and all are gone."""
    command = [sys.executable, "-m", "tests.mutants", "--jobs", "2", "--corpus", str(walks), "--only", "code"]
    running = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert running.stderr is not None
    assert "situations after" in running.stderr.readline()
    time.sleep(1)
    os.killpg(running.pid, signal.SIGINT)
    out, said = running.communicate(timeout=60)
    assert (running.returncode, out, said.strip()) == (130, "", "interrupted")
    with pytest.raises(ProcessLookupError):
        _until_gone(running.pid)


def _until_gone(group: int) -> Any:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        os.killpg(group, 0)
        time.sleep(0.05)
