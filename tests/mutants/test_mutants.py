"""The mutants themselves: they are found, they are put in, and the judge notices plain ones by stated laws alone."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("cosmic_ray")

from . import code, judge, table
from .__main__ import equivalents
from .workers import forked


def by_laws(mutant: Any) -> str:
    """Install a mutant and judge it by laws; runs in a forked process."""
    installed = code.install(mutant) if isinstance(mutant, code.CodeMutant) else table.install(mutant)
    assert installed
    seen = judge.Seen()
    return judge.by_laws(seen) or judge.by_rows(seen, {"rows": []})


PLAIN = [
    table.TableMutant("retarget", "stream_started", "compacting"),
    table.TableMutant("delete", "tool_finished"),
    table.TableMutant("negate", "fallback"),
    table.TableMutant("drop", "run_tools", "RunTool"),
    table.TableMutant("add", table.TABLE.rejects[0].name, "ready"),
]


def test_plain_mutants_of_the_table_break_laws() -> None:
    """A row led elsewhere, deleted, negated, without its effect, or added: each is found wrong without anything pinned."""
    found = {done.task.name: done.value for done in forked(PLAIN, by_laws, 1, 60)}
    assert len(found) == len(PLAIN)
    assert [name for name, words in found.items() if not words] == []


def test_plain_mutants_of_functions_break_laws() -> None:
    """Negated conditions in the policy of tools are found wrong."""
    mutants = [one for one in code.code_mutants() if one.path == "scheduling.py" and one.operator.endswith("AddNot")][:4]
    assert len(mutants) == 4
    found = {done.task.name: done.value for done in forked(mutants, by_laws, 1, 60)}
    assert sum(bool(words) for words in found.values()) >= 3


def test_the_original_is_not_touched() -> None:
    """What is done in a forked process stays there; a process that dies gives nothing."""
    assert sorted(done.value for done in forked([1, 2, 3], lambda task: task * 2, 2, 60)) == [2, 4, 6]
    (dead,) = forked([0], lambda task: 1 // task, 1, 60)
    assert dead.value is None
    assert len(list(table.table_mutants({}))) > 2_500


def test_equivalent_mutants_have_reasons() -> None:
    """Each line of the file names a mutant of a known kind and says why it changes nothing."""
    for name, reason in equivalents().items():
        assert name.split()[0] in ("code", "table")
        assert len(reason.split()) > 4
