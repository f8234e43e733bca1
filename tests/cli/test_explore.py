"""``fsm-agent explore``: cases by name, options, what is shown, exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsm_agent.cli.main import run

SHALLOW = ("--jobs", "1", "--bound", "depth=3")


def test_a_case_is_explored(capsys: pytest.CaptureFixture[str]) -> None:
    """One case within a small depth: counts, rows, endings, and that no law is broken."""
    assert run(["explore", "limits", *SHALLOW]) == 0
    shown = capsys.readouterr().out
    assert "limits: " in shown
    assert "pairs/s" in shown
    assert "declared rows" in shown
    assert "no law is broken" in shown


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
    assert run(["explore", "limits", *SHALLOW, "--coverage", str(tmp_path / "a.jpeg")]) != 0


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
        (["limits", "--set", "max_turns=many"], "max_turns"),
        (["limits", "--set", "max_turns"], "write KEY=VALUE"),
        (["limits", "--bound", "deep=1"], "unknown setting 'deep'"),
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
    assert "1 laws are broken" in shown
