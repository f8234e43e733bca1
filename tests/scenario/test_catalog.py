"""The packaged scenarios against the bare reducer."""

from __future__ import annotations

from itertools import pairwise

import pytest

from fsm_agent.core.config import EarlyStart
from fsm_agent.core.effects import CallModel
from fsm_agent.core.messages import MessageKind
from fsm_agent.core.phases import CAUSES, ContinueReason
from fsm_agent.core.request.encode import body_of
from fsm_agent.core.state import LoopState
from fsm_agent.scenario import Scenario, ScenarioError, catalog, load, loads
from fsm_agent.scenario.answers import Item, Settle, ToolItem
from fsm_agent.scenario.checking import continues_of, differences
from fsm_agent.scenario.drive import Driven, drive
from fsm_agent.scenario.format import Way
from fsm_agent.server.from_scenario import SETTLE_SECONDS
from fsm_agent.server.wire_checker import Breach, check_request, decode_body


def breaches(scenario: Scenario, driven: Driven) -> list[Breach]:
    """Give the rules of the API that a request of the run would break."""
    found: list[Breach] = []
    for effect in driven.effects:
        if isinstance(effect, CallModel):
            request = effect.request
            found += check_request(decode_body(body_of(request)), scenario.config.info(request.model), request.betas)
    return found


def unanswered(state: LoopState) -> set[str]:
    """Give the calls of the history that have no result, or results without a call."""
    calls = {block.id for message in state.messages for block in message.calls}
    results = {block.id for message in state.messages for block in message.results}
    return calls ^ results


@pytest.mark.parametrize("name", catalog())
def test_reducer_goes_as_expected(name: str) -> None:
    """The bare reducer takes the path that the scenario declares, and leaves nothing in flight; its requests are legal."""
    scenario = load(name)
    driven = drive(scenario)
    assert differences(scenario.expect, driven.played) == ()
    assert [step.rejected for _, step in driven.steps if step.rejected] == []
    assert driven.state.control.flight == ()
    assert breaches(scenario, driven) == []
    if MessageKind.SUMMARY not in {message.kind for message in driven.state.messages}:
        assert unanswered(driven.state) == set()


@pytest.mark.parametrize("name", ["repair", "collapse-drain", "salvage", "prefetch"])
def test_driving_twice_is_equal(name: str) -> None:
    """The driver is deterministic: the same scenario gives equal steps, effects included."""
    assert drive(load(name)).steps == drive(load(name)).steps


def test_every_reason_has_a_scenario() -> None:
    """Each continue reason, and each terminal reason with each of its causes, is reached by a packaged scenario."""
    scenarios = [load(name) for name in catalog()]
    endings = {(scenario.expect.reason, scenario.expect.cause) for scenario in scenarios}
    assert endings == {(reason, cause) for reason, causes in CAUSES.items() for cause in causes}
    continues = {reason for scenario in scenarios for reason in scenario.expect.continues or ()}
    assert continues == set(ContinueReason)


def test_every_reason_can_come_over_http() -> None:
    """Each of the seventeen reasons has a scenario that is played in all three ways."""
    scenarios = [scenario for scenario in map(load, catalog()) if scenario.ways == tuple(Way)]
    assert {scenario.expect.reason for scenario in scenarios} == set(CAUSES)
    assert {reason for scenario in scenarios for reason in scenario.expect.continues or ()} == set(ContinueReason)


BASE = "title: A test.\nprompt: Go.\n"


def test_differences_are_told() -> None:
    """A run that goes otherwise is described: ending, continues, outputs."""
    expect = "expect: {reason: max_turns, cause: max_turns, continues: [next_turn], outputs: [tombstone], absent: [terminal]}\n"
    scenario = loads(BASE + expect + "replies: [Hello.]\n")
    found = differences(scenario.expect, drive(scenario).played)
    assert [text.split(":")[0] for text in found] == ["ending", "continues", "outputs", "outputs"]
    assert "got completed/end_turn" in found[0]


def test_a_run_that_comes_to_rest_is_told() -> None:
    """A model that never answers leaves the run where it waits, which is no ending."""
    scenario = loads(BASE + "expect: {reason: completed, cause: end_turn}\nreplies: [{hangs: true}]\n")
    driven = drive(scenario)
    assert driven.state.terminal is None
    assert "did not end" in differences(scenario.expect, driven.played)[0]


def test_missing_replies_are_an_error_of_the_scenario() -> None:
    """A call for which there is no reply ends the run with an error that says so."""
    scenario = loads(BASE + "expect: {reason: completed, cause: end_turn}\nreplies: []\n")
    terminal = drive(scenario).state.terminal
    assert terminal is not None
    assert terminal.error is not None
    assert "the scenario has 0 replies" in terminal.error.message


def test_endless_scenarios_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that does not come to rest within the bound is an error."""
    monkeypatch.setattr("fsm_agent.scenario.drive.MAX_STEPS", 3)
    with pytest.raises(ScenarioError, match="more than 3 steps"):
        drive(load("repair"))


def test_continue_reasons_come_from_the_table() -> None:
    """Rows that are no continue are left out."""
    assert continues_of(("no such row",)) == ()


def may_start_early(scenario: Scenario, item: Item) -> bool:
    """Tell whether a call may start while the model streams."""
    tool = scenario.tool(item.name) if isinstance(item, ToolItem) else None
    if tool is None:
        return False
    match scenario.config.early_start:
        case EarlyStart.NEVER:
            return False
        case EarlyStart.READ_ONLY:
            return tool.read_only and tool.concurrency_safe
        case EarlyStart.CONCURRENCY_SAFE:
            return tool.concurrency_safe
        case EarlyStart.ANY:
            return True


@pytest.mark.parametrize("name", catalog())
def test_rows_do_not_depend_on_speed(name: str) -> None:
    """Behind a call that may start while the model streams there is a rest, so that every way takes the rows in one order.

    Where tools only start in that rest, they take longer than the rest, so that they do not end in it; behind one that
    runs alone nothing starts then.
    """
    scenario = load(name)
    for reply in scenario.replies:
        alone = False
        for item, after in pairwise(reply.items):
            if alone or not may_start_early(scenario, item):
                continue
            assert isinstance(item, ToolItem)
            assert isinstance(after, Settle), item
            tool = scenario.tool(item.name)
            assert tool is not None
            assert after.finish or tool.duration_ms >= 2_000 * SETTLE_SECONDS, item
            assert not after.finish or tool.duration_ms <= 500 * SETTLE_SECONDS, item
            alone = not after.finish and not tool.concurrency_safe
