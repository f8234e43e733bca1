"""The tree of runs: what is spent in it, counted once; who is found by an address."""

from __future__ import annotations

from typing import Any, cast

from attrs import define, evolve, field

from fsm_agent.core.config import LoopConfig
from fsm_agent.core.control import Budget, Flight
from fsm_agent.core.effects import EffectKind
from fsm_agent.core.state import LoopState, initial
from fsm_agent.core.usage import ModelUsage, total_cost
from fsm_agent.runtime.ports import Deps
from fsm_agent.runtime.scope import RunScope, enter_scope, on_behalf_of


@define
class Place:
    """A run whose state the test sets."""

    config: LoopConfig
    state: LoopState = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.state = initial(self.config)

    def set(self, cost: int, *calls: str) -> None:
        """It has spent so much, and these calls are in flight."""
        flights = tuple(Flight(f"e-{call}", EffectKind.TOOL, call) for call in calls)
        control = evolve(self.state.control, budget=Budget(cost=cost), flight=flights)
        data = evolve(self.state.data, usage=(ModelUsage("m", cost=cost),))
        self.state = LoopState(control, data)

    def enter(self) -> RunScope:
        """Begin the run."""
        return enter_scope(self.config, cast(Deps, None), lambda: self.state, lambda event: None, lambda name, status: None)


def place(**fields: Any) -> Place:
    return Place(LoopConfig(model="m", **fields))


def test_a_child_is_counted_once_at_every_moment() -> None:
    """What a child spends counts while it runs, when it has ended and its answer is under way, and once it was taken in."""
    root, child = place(max_budget=100), place(max_budget=100, address="agent:a")
    scope = root.enter()
    root.set(10, "call")
    with on_behalf_of(scope, "call"):
        below = child.enter()
        child.set(30)
        assert (scope.cost, scope.money_left, below.money_left) == (40, 60, 60)
        assert (total_cost(scope.used_below), total_cost(scope.used)) == (30, 40)
        assert scope.find("agent:a") is below
        assert scope.find("agent:b") is None
    assert scope.cost == 40
    assert scope.find("agent:a") is None
    root.set(40)
    assert scope.cost == 40
    # The same id may come again in a later reply.
    root.set(40, "call")
    with on_behalf_of(scope, "next"):
        pass
    root.set(40)
    with on_behalf_of(scope, "call"):
        root.set(40, "call")
        assert scope.cost == 40


def test_the_tightest_limit_of_the_tree_counts() -> None:
    """A grandchild has no more than any run above it has left; rounds left include the one in hand."""
    root, middle, leaf = place(max_budget=100), place(max_budget=50), place()
    top = root.enter()
    root.set(0, "a")
    with on_behalf_of(top, "a"):
        between = middle.enter()
        middle.set(20, "b")
        with on_behalf_of(between, "b"):
            low = leaf.enter()
            leaf.set(25)
            assert low.money_left == 5
            assert (top.money_left, between.money_left) == (55, 5)
            leaf.set(99)
            assert low.money_left == 0
    assert place(max_turns=3).enter().turns_left == 3
    assert place().enter().turns_left is None
    assert place().enter().money_left is None


def test_a_run_that_nobody_asked_for_is_nobodys_child() -> None:
    """A run made inside a tool, without saying so, is in no tree."""
    root, other = place(max_budget=10), place()
    scope = root.enter()
    alone = other.enter()
    assert alone.parent is None
    assert scope.children == {}
