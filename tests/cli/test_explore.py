"""``fsm-agent explore``: cases by name, options, what is shown, exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import fields

from fsm_agent.cli.main import run
from fsm_agent.explorer.bounds import Bounds

SHALLOW = ("--jobs", "1", "--bound", "depth=3")


def test_a_case_is_explored(capsys: pytest.CaptureFixture[str]) -> None:
    """One case: counts, rows, endings, and that no law is broken."""
    assert run(["explore", "calls", "--jobs", "1"]) == 0
    shown = capsys.readouterr().out
    assert "calls: " in shown
    assert "pairs/s" in shown
    assert "declared rows" in shown
    assert "no law is broken\n" in shown
    assert "not complete" not in shown


@pytest.mark.parametrize("more", [(), ("--crash",)])
def test_a_search_that_is_cut_off_says_so(more: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """Within a small depth nothing is said of all the rest: the total is not complete, and by which bound."""
    assert run(["explore", "limits", *SHALLOW, *more]) == 0
    shown = capsys.readouterr().out
    assert "no law is broken" not in shown
    (total,) = [line for line in shown.splitlines() if "not complete" in line and "limits: " not in line]
    assert "depth=3" in total


def test_the_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    """Each bound is listed with what it is and its default."""
    assert run(["explore", "--bounds"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in shown] == [one.name for one in fields(Bounds)]
    assert "depth           Length of the longest path; 0 for no limit. [0]" in shown


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("x.pdf", "there is no format 'pdf' here; there are .svg, .png, .dot, .gv, .mmd, .mermaid"),
        ("x.scxml", "there is no format 'scxml' here"),
        ("missing/x.svg", "there is no folder"),
        ("file/x.svg", "is no folder"),
        ("folder", "it is a folder"),
    ],
)
def test_nothing_is_explored_for_a_picture_that_cannot_be_written(
    name: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The name, the folder and the format are looked at before any work."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    assert run(["explore", "limits", *SHALLOW, "--coverage", str(tmp_path / name)]) == 2
    shown = capsys.readouterr()
    assert said in shown.err
    assert shown.out == ""
    assert not (tmp_path / name).is_file()


def test_nothing_is_explored_without_the_program_that_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without Graphviz a drawn format is refused at once; a text is written, and told of."""
    monkeypatch.setenv("PATH", "/nowhere")
    assert run(["explore", "limits", *SHALLOW, "--coverage", str(tmp_path / "x.png")]) == 2
    shown = capsys.readouterr()
    assert (shown.out, "Graphviz is not installed" in shown.err) == ("", True)
    assert run(["explore", "limits", *SHALLOW, "--coverage", str(tmp_path / "x.mmd")]) == 0
    assert f"{tmp_path / 'x.mmd'}  (the machine with how often each row was taken, mermaid" in capsys.readouterr().out
    assert "flowchart" in (tmp_path / "x.mmd").read_text()


def test_paths_and_rows(capsys: pytest.CaptureFixture[str]) -> None:
    """The shortest path to each of the 17 reasons, or that there is none, and how often each row was taken."""
    assert run(["explore", "limits", *SHALLOW, "--paths", "--rows"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert "aborted_streaming: user.interrupt" in shown
    assert "next_turn: no path within the bounds" in shown
    assert any(line.endswith("  run_started") and not line.strip().startswith("0 ") for line in shown)
    assert "run_started: user.start.plain" in shown
    assert any(line.startswith("step, the transitions machine and the committed graph were compared") for line in shown)


def test_cases_side_by_side_and_their_coverage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two cases in two processes find what one process finds, and the rows taken are drawn."""
    picture = tmp_path / "coverage.dot"
    assert run(["explore", "limits", "early", "--jobs", "2", "--bound", "depth=3", "--coverage", str(picture)]) == 0
    two = capsys.readouterr().out
    assert run(["explore", "limits", "early", *SHALLOW, "--coverage", str(tmp_path / "again.dot")]) == 0
    one = capsys.readouterr().out
    counts = [sorted(line.partition(" rows,")[0] for line in text.splitlines() if " depth " in line) for text in (one, two)]
    assert counts[0] == counts[1]
    assert "rows covered" in picture.read_text()
    assert picture.read_text() == (tmp_path / "again.dot").read_text()


def test_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    """The cases are listed with when they are run."""
    assert run(["explore", "--list"]) == 0
    shown = capsys.readouterr().out
    assert "tools           continuous  two calls a reply" in shown
    assert "tools-wide      release     every kind and form of two calls" in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tool"], "did you mean 'tools'"),
        (["limits", "--set", "max_turn=1"], "did you mean 'max_turns'"),
        (["limits", "--set", "zzz=1"], "there are model, fallback_models, "),
        (["limits", "--set", "max_turns=many"], "--set max_turns=many: must be a whole number"),
        (["limits", "--set", "max_turns=0"], "--set max_turns=0: "),
        (["limits", "--set", "max_turns"], "write KEY=VALUE"),
        (["limits", "--bound", "deph=1"], "there is no bound 'deph'; did you mean 'depth'? There are blocks, tools, "),
        (["limits", "--bound", "nosuch=1"], "there is no bound 'nosuch'; there are blocks, tools, "),
        (["limits", "--bound", "depth=deep"], "--bound depth=deep: must be a whole number"),
        (["limits", "--crash", "--rows"], "do not go with --crash"),
    ],
)
def test_wrong_use(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong use is one line and exit code 2."""
    assert run(["explore", *words]) == 2
    shown = capsys.readouterr()
    assert said in shown.err
    assert shown.out == ""


def test_a_broken_law_is_a_failed_exploration(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A law that is broken is shown with a test to paste, and the exit code is 1."""
    from fsm_agent import laws
    from fsm_agent.laws import Edge, edge_law

    @edge_law()
    def nothing_is_ever_aborted(edge: Edge) -> str:
        """It is."""
        return "aborted" if edge.new.tool_use_context.abort is not None else ""

    monkeypatch.setattr(laws, "LAWS", (nothing_is_ever_aborted,))
    assert run(["explore", "limits", *SHALLOW]) == 1
    shown = capsys.readouterr().out
    assert "def test_nothing_is_ever_aborted() -> None:" in shown
    assert "1 law is broken" in shown
