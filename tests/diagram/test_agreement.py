"""``step``, the ``transitions`` machine and the committed graph agree; whichever of them is changed, it shows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from attrs import evolve
from explorer.small import TINY

from fsm_agent.core.events import EventKind
from fsm_agent.core.phases import Phase
from fsm_agent.core.rows import TABLE
from fsm_agent.core.table import Row, Table
from fsm_agent.diagram.agreement import Agreement
from fsm_agent.diagram.golden import PATH, GoldenError, golden_edges, golden_text
from fsm_agent.diagram.machine import Edge, TableMachine
from fsm_agent.explorer.explore import explore

RETARGETED = ("stream_failed", "retry", "next_turn", "call_model", "aborted.calling_model", "tool_finished")
"""Rows of every kind that the tiny case takes."""


def _other(row: Row) -> Phase:
    """A phase that the row does not lead to, of a kind that lets the search go on."""
    return Phase.BACKING_OFF if row.target is not Phase.BACKING_OFF else Phase.RUNNING_TOOLS


def _retargeted(name: str) -> Table:
    return evolve(TABLE, rows=tuple(evolve(row, target=_other(row)) if row.name == name else row for row in TABLE.rows))


def _faults(oracle: Agreement) -> Iterator[str]:
    """Give what the oracle finds in the tiny case, judged by nothing else; two turns, two attempts."""
    config = evolve(TINY.config, max_attempts=2, max_turns=2)
    found = explore(config, evolve(TINY.bounds, depth=6), (), oracle=oracle, sample=1_000_000)
    return (fault.words for fault in found.violations if fault.law == "the_witnesses_agree")


def test_the_three_agree() -> None:
    """On every pair of the tiny case nothing parts them, and the machine was fired for many answers of the guards."""
    found = explore(TINY.config, TINY.bounds, (), oracle=Agreement())
    assert not found.violations
    assert len(found.valuations) > 50


def test_counts_do_not_depend_on_who_went_before() -> None:
    """An oracle that has judged another exploration counts the next one anew."""
    oracle = Agreement()
    first = explore(TINY.config, TINY.bounds, (), oracle=oracle)
    assert explore(TINY.config, TINY.bounds, (), oracle=oracle).valuations == first.valuations


@pytest.mark.parametrize("name", RETARGETED)
def test_a_step_that_leads_elsewhere_is_noticed(name: str) -> None:
    """The reducer runs on a table with a retargeted row; machine and graph are as declared."""
    try:
        words = " ".join(_faults(Agreement(_retargeted(name))))
    except (AssertionError, LookupError, StopIteration):
        return  # the reducer itself stumbles over what its row led to
    assert words


@pytest.mark.parametrize("name", RETARGETED)
def test_a_machine_that_leads_elsewhere_is_noticed(name: str) -> None:
    """The machine has the retargeted row; reducer and graph are as declared."""
    row = next(row for row in TABLE.rows if row.name == name)
    words = " ".join(_faults(Agreement(machine=TableMachine(_retargeted(name)))))
    assert f"the machine takes {name} to {_other(row)}" in words


@pytest.mark.parametrize("name", RETARGETED)
def test_a_graph_that_leads_elsewhere_is_noticed(name: str) -> None:
    """The committed graph has the retargeted edge; reducer and machine are as declared."""
    row = next(row for row in TABLE.rows if row.name == name)
    edges = [evolve(edge, target=_other(row).value) if edge.row == name else edge for edge in golden_edges()]
    words = " ".join(_faults(Agreement(golden=edges)))
    assert f"the committed graph says {row.source} -> {_other(row)}" in words


def test_edges_that_are_missing_or_too_many_are_noticed() -> None:
    """A graph without a row that is taken, and one with a row in a cell that the reducer refuses."""
    less = [edge for edge in golden_edges() if edge.row != "run_started"]
    assert "the committed graph says nothing of it" in " ".join(_faults(Agreement(golden=less)))
    more = [*golden_edges(), Edge("added", Phase.CALLING_MODEL.value, EventKind.RUN_STARTED.value, "completed", "")]
    assert "the committed graph has ['added']" in " ".join(_faults(Agreement(golden=more)))


def test_a_machine_with_a_row_too_many_is_noticed() -> None:
    """A row in a cell that the reducer refuses, and one that moves a phase at rest."""
    model = next(row for row in TABLE.rows if row.name == "call_model")
    restless = evolve(model, name="added", source=Phase.CALLING_MODEL, guard=None)
    words = " ".join(_faults(Agreement(machine=TableMachine(evolve(TABLE, rows=(*TABLE.rows, restless))))))
    assert "the reducer rests in calling_model, the machine takes added" in words


def test_guards_that_are_no_partition_are_noticed() -> None:
    """Without their exclusions the guards of a cell overlap; each answer of theirs is looked at."""
    loose = tuple(evolve(row, guard=evolve(row.guard, earlier=())) if row.guard is not None else row for row in TABLE.rows)
    assert "the guards are no partition" in " ".join(_faults(Agreement(evolve(TABLE, rows=loose))))


def test_the_committed_graph_is_that_of_the_table() -> None:
    """``python docs/regenerate.py`` mends it; look at its difference first, it is a change of the machine."""
    assert PATH.read_text(encoding="utf-8") == golden_text()
    assert golden_edges() == TableMachine().edges


@pytest.mark.parametrize("text", ["", "row\tsource\n", "row\tsource\ttrigger\ttarget\tguard\na\tnowhere\tauto\tready\t\n"])
def test_a_broken_graph_is_refused(text: str) -> None:
    """A file that is no graph is an error, not an empty one."""
    with pytest.raises(GoldenError):
        golden_edges(text)
