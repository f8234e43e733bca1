"""The machine of ``transitions``, driven beside the reducer, agrees with it; a changed table is noticed."""

from __future__ import annotations

import pytest
from attrs import evolve

from fsm_agent.core.events import AbortRequested, EventKind
from fsm_agent.core.phases import AbortReason, Phase
from fsm_agent.core.rows import TABLE
from fsm_agent.core.state import initial
from fsm_agent.core.step import LOOKUP, Lookup, step
from fsm_agent.core.table import Row, Table
from fsm_agent.diagram.lockstep import Lockstep
from fsm_agent.diagram.machine import TableMachine, compare
from fsm_agent.scenario import catalog

from .runs import run

MACHINE = TableMachine()
RUNS = ("next-turn", "retry", "stop-hook-blocking", "max-turns", "fallback")
"""Short runs that take, together, rows of every kind."""


def _without(name: str) -> Table:
    return evolve(TABLE, rows=tuple(row for row in TABLE.rows if row.name != name))


def _with(changed: Row) -> Table:
    return evolve(TABLE, rows=tuple(changed if row.name == changed.name else row for row in TABLE.rows))


def _first_taken(name: str) -> tuple[str, ...]:
    """Rows that this run takes and no run before it in the list."""
    before = {taken for other in RUNS[: RUNS.index(name)] for taken in run(other)[2].taken}
    return tuple(taken for taken in dict.fromkeys(run(name)[2].taken) if taken not in before)


def _row(name: str) -> Row:
    return next(row for row in TABLE.rows if row.name == name)


@pytest.mark.parametrize("name", catalog())
def test_machine_takes_the_reducers_rows(name: str) -> None:
    """In every scenario the machine takes the rows of the reducer and lands where it does, microstep by microstep."""
    config, start, driven = run(name)
    lockstep = Lockstep(config, MACHINE)
    assert lockstep.check_all(start, driven.steps) is None
    assert lockstep.steps == len(driven.steps)
    assert lockstep.rows == sum(name in {row.name for row in TABLE.rows} for name in driven.taken)


@pytest.mark.parametrize("name", RUNS)
def test_removed_row_is_noticed(name: str) -> None:
    """A machine without a row that a run takes parts from the reducer at that row."""
    config, start, driven = run(name)
    for taken in _first_taken(name):
        found = Lockstep(config, TableMachine(_without(taken))).check_all(start, driven.steps)
        assert found is not None
        assert f"takes {taken} to" in found.expected
        assert compare(_without(taken))[0] == f"row {taken!r} was removed"


@pytest.mark.parametrize("name", RUNS)
def test_retargeted_row_is_noticed(name: str) -> None:
    """A machine in which a row of the run leads elsewhere parts from the reducer at that row."""
    config, start, driven = run(name)
    for taken in _first_taken(name):
        row = _row(taken)
        other = Phase.IMAGE_ERROR if row.target is not Phase.IMAGE_ERROR else Phase.MAX_TURNS
        changed = _with(evolve(row, target=other))
        found = Lockstep(config, TableMachine(changed)).check_all(start, driven.steps)
        assert found is not None
        assert found.got == f"takes {taken} to {other}"
        assert compare(changed) == (f"row {taken!r}: target is {other}, declared is {row.target}",)


def test_added_row_is_noticed() -> None:
    """A row added to a cell that the reducer refuses, or as an ``auto`` row of a phase at rest, is noticed."""
    config, start, driven = run("next-turn")
    over = driven.state
    event = AbortRequested(reason=AbortReason.INTERRUPT)
    refused = step(over, event, config)
    assert refused.rejected is not None
    model = _row("aborted.ready")
    after_end = evolve(TABLE, rows=(*TABLE.rows, evolve(model, name="added", source=Phase.COMPLETED)))
    found = Lockstep(config, TableMachine(after_end)).check(over, event, refused)
    assert found is not None
    assert found.expected == "takes no row"
    assert compare(after_end) == ("row 'added' was added",)

    restless = evolve(_row("call_model"), name="added", source=Phase.CALLING_MODEL, guard=None, event=EventKind.AUTO)
    with_auto = evolve(TABLE, rows=(*TABLE.rows, restless))
    found = Lockstep(config, TableMachine(with_auto)).check_all(start, driven.steps)
    assert found is not None
    assert found.expected == "rests in calling_model"


def test_overlapping_guards_are_noticed() -> None:
    """The machine takes a cell's rows in another order, so guards that are no partition show."""
    config, start, driven = run("next-turn")
    loose = tuple(evolve(row, guard=evolve(row.guard, earlier=())) if row.guard is not None else row for row in TABLE.rows)
    found = Lockstep(config, TableMachine(evolve(TABLE, rows=loose))).check_all(start, driven.steps)
    assert found is not None


def test_record_that_is_not_the_reducers_is_noticed() -> None:
    """A step recorded with other rows than the reducer takes is reported, not compared further."""
    config, start, driven = run("next-turn")
    event, made = driven.steps[0]
    found = Lockstep(config, MACHINE).check(start, event, evolve(made, taken=("call_model",)))
    assert found is not None
    assert "was given a record of call_model" in str(found)


def test_user_events_in_every_waiting_phase_agree() -> None:
    """An abort at every step of a run is taken alike by both."""
    for name in RUNS:
        config, start, driven = run(name)
        lockstep = Lockstep(config, MACHINE)
        for state in (start, *(made.state for _, made in driven.steps)):
            event = AbortRequested(reason=AbortReason.SUBMIT)
            assert lockstep.check(state, event, step(state, event, config)) is None


def test_machine_has_one_edge_a_row() -> None:
    """The machine's graph is the table's, row by row, and equal tables have no differences."""
    assert {edge.row for edge in MACHINE.edges} == {row.name for row in TABLE.rows}
    assert len(MACHINE.edges) == len(TABLE.rows)
    assert compare(TABLE) == ()


def test_guard_and_source_changes_are_named() -> None:
    """Changes of a trigger or a guard are differences too, as are exclusions that lost their guard."""
    row = _row("timer_fired")
    assert compare(_with(evolve(row, event=EventKind.EFFECT_FAILED))) == (
        "row 'timer_fired': trigger is effect_failed, declared is timer_fired",
    )
    assert "row 'budget_usd' excludes guard 'unsendable', which no row of its cell has" in compare(_without("invalid_history"))


def test_retracing_changes_nothing() -> None:
    """The lookup of the engine is not touched by building another one, and steps stay equal."""
    config, start, driven = run("next-turn")
    Lockstep(config, MACHINE).check_all(start, driven.steps)
    event, made = driven.steps[0]
    assert step(initial(config), event, config, Lookup(TABLE)) == step(start, event, config, LOOKUP) == made
