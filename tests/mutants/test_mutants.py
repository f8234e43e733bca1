"""The mutants themselves: they are found, they are put in, and the judge notices plain ones by stated laws alone."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cosmic_ray")

from . import code, judge, table, worlds
from .__main__ import equivalents
from .corpus import Corpus, index, situation
from .workers import forked

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = 150


@pytest.fixture(scope="module")
def small() -> Corpus:
    """Situations of the packaged matrix: one walk through each case."""
    found = []
    for case in worlds.cases():
        for taken in worlds.walk(case, 3, 40, sharp=False):
            found.append(situation(taken, case.config))
    return index(found, code.modules())


def by_laws(mutant: Any, corpus: Corpus) -> str:
    """Install a mutant and judge it by laws; runs in a forked process."""
    refused = judge.refused(mutant)
    if refused:
        return refused
    numbers = judge.situations_of(mutant, corpus)
    if isinstance(mutant, code.CodeMutant):
        assert code.install(mutant)
    else:
        table.install(mutant)
    rows = {name: len(found) for name, found in corpus.rows.items()}
    return judge.judge(numbers, corpus, rows, examples=False).laws


PLAIN = [
    table.TableMutant("retarget", "stream_started", "compacting"),
    table.TableMutant("delete", "tool_finished"),
    table.TableMutant("negate", "run_tools"),
    table.TableMutant("drop", "run_tools", "RunTool"),
    table.TableMutant("add", table.TABLE.rejects[0].name, "ready"),
]


def test_plain_mutants_of_the_table_break_laws(small: Corpus) -> None:
    """A row led elsewhere, deleted, negated, without its effect, or added: each is found wrong without anything pinned."""
    found = {done.task.name: done.value for done in forked(PLAIN, lambda mutant: by_laws(mutant, small), 1, 60)}
    assert len(found) == len(PLAIN)
    assert [name for name, words in found.items() if not words] == []


def test_plain_mutants_of_functions_break_laws(small: Corpus) -> None:
    """Negated conditions in the policy of tools are found wrong."""
    mutants = [one for one in code.code_mutants() if one.path == "scheduling.py" and one.operator.endswith("AddNot")][:4]
    assert len(mutants) == 4
    found = {done.task.name: done.value for done in forked(mutants, lambda mutant: by_laws(mutant, small), 1, 60)}
    assert sum(bool(words) for words in found.values()) >= 3


def test_the_original_keeps_every_law(small: Corpus) -> None:
    """What a mutant is judged by says nothing against the original."""
    assert judge.faults_of_the_original(small, list(range(len(small.situations)))) == []


def test_the_original_is_not_touched() -> None:
    """What is done in a forked process stays there; a process that dies gives nothing."""
    assert sorted(done.value for done in forked([1, 2, 3], lambda task: task * 2, 2, 60)) == [2, 4, 6]
    (dead,) = forked([0], lambda task: 1 // task, 1, 60)
    assert dead.value is None
    assert "ZeroDivisionError" in dead.died
    assert len(list(table.table_mutants({}))) > 2_500


def test_names_are_unique_and_hold_no_line_number() -> None:
    """A mutant keeps its name while its line does, wherever the line stands."""
    names = Counter(mutant.name for mutant in code.code_mutants())
    assert [name for name, count in names.items() if count > 1] == []
    assert all(" | " in name for name in names)


def test_equivalent_mutants_are_there_and_have_reasons() -> None:
    """Each line of the file names a mutant that exists, and says why it changes nothing."""
    known = {mutant.name for mutant in code.code_mutants()}
    known |= {mutant.name for mutant in table.table_mutants(dict.fromkeys((row.name for row in table.TABLE.rows), KINDS))}
    for name, reason in equivalents().items():
        assert name in known, f"no mutant has this name any more: {name}"
        assert len(reason.split()) > 4, name


KINDS = ["CallModel", "Cancel", "StartTimer", "UserOutput", "ToolUseSummary", "Notice", "Boundary", "Tombstone"]


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_a_sample_of_mutants_is_noticed() -> None:
    """Of a sample of all mutants none survives that is not listed."""
    command = [sys.executable, "-m", "tests.mutants", "--sample", str(SAMPLE), "--seed", "6", "--jobs", "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-2_000:]
