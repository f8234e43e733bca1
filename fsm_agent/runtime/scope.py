"""Which run a piece of code works for, and the runs that its sub-agents make: a tree of budgets and addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from attrs import define, field

from ..core.config import LoopConfig
from ..core.events import UserEvent
from ..core.state import LoopState
from ..core.usage import ModelUsage, add_usage, total_cost
from .ports import Deps


@define(eq=False)
class RunScope:
    """A run as its tools and hooks see it.

    Attributes:
        config: the run's configuration.
        deps: the parts that perform its effects.
        state: gives the state after the last recorded step.
        post: puts an event in; raises ``RunEnded`` when the run takes nothing more.
        tell: takes (command id, status) of a command that moved on, for whoever queued it.
        parent: the run whose tool made this one, None for a main run.
        children: runs that tools of this one made and that have not ended, by the id of the call.
        ended: what runs that have ended used, until this run has been told of it; by the id of the call.
    """

    config: LoopConfig
    deps: Deps
    state: Callable[[], LoopState]
    post: Callable[[UserEvent], None]
    tell: Callable[[str, str], None]
    parent: RunScope | None = None
    children: dict[str, RunScope] = field(factory=dict)
    ended: dict[str, tuple[ModelUsage, ...]] = field(factory=dict)

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.state().control.run.id

    @property
    def depth(self) -> int:
        """0 for a main run."""
        return self.state().tool_use_context.depth

    @property
    def cost(self) -> int:
        """Micro-dollars of this run, and of what its sub-agents spent that it has not been told of yet."""
        return self.state().control.budget.cost + total_cost(self.used_below)

    @property
    def used_below(self) -> tuple[ModelUsage, ...]:
        """What sub-agents used so far that this run has not been told of yet, by model."""
        # A child's usage enters the state in the very step that takes its call out of flight: nothing is counted twice.
        running = {flight.call for flight in self.state().control.flight}
        total: tuple[ModelUsage, ...] = ()
        for call, child in tuple(self.children.items()):
            if call in running:
                total = add_usage(total, child.used)
        for call, used in tuple(self.ended.items()):
            if call in running:
                total = add_usage(total, used)
        return total

    @property
    def used(self) -> tuple[ModelUsage, ...]:
        """What this run and its sub-agents used so far, by model."""
        return add_usage(self.state().data.usage, self.used_below)

    @property
    def money_left(self) -> int | None:
        """Micro-dollars left here and in all runs above, None without a limit; not below 0."""
        above = None if self.parent is None else self.parent.money_left
        limit = self.config.max_budget
        if limit is None:
            return above
        own = max(0, limit - self.state().control.budget.cost_before - self.cost)
        return own if above is None else min(own, above)

    @property
    def turns_left(self) -> int | None:
        """Rounds left, the one in hand included; None without a limit."""
        limit = self.config.max_turns
        return None if limit is None else max(1, limit - self.state().turn_count + 1)

    def find(self, address: str) -> RunScope | None:
        """Find the running descendant that takes commands of this address."""
        running = {flight.call for flight in self.state().control.flight}
        for call, child in tuple(self.children.items()):
            if call in running:
                found = child if child.config.address == address else child.find(address)
                if found is not None:
                    return found
        return None


SCOPE: ContextVar[RunScope | None] = ContextVar("fsm_agent_scope", default=None)
"""The run that the code at hand works for; set by the run's driver, inherited by every task that it starts."""

_CALLER: ContextVar[tuple[RunScope, str] | None] = ContextVar("fsm_agent_caller", default=None)
"""The run and the call on whose behalf the next run is made."""


def enter_scope(
    config: LoopConfig,
    deps: Deps,
    state: Callable[[], LoopState],
    post: Callable[[UserEvent], None],
    tell: Callable[[str, str], None],
) -> RunScope:
    """Make the scope of a run in its driver's task, below the run whose tool made it, if one did."""
    caller = _CALLER.get()
    scope = RunScope(config, deps, state, post, tell, parent=None if caller is None else caller[0])
    if caller is not None:
        caller[0].children[caller[1]] = scope
        # A run that a tool of this one makes by itself, without saying so, is nobody's child.
        _CALLER.set(None)
    SCOPE.set(scope)
    return scope


@contextmanager
def on_behalf_of(scope: RunScope, call: str) -> Iterator[None]:
    """Let the run that is begun inside be a child of ``scope``, made by its call ``call``."""
    running = {flight.call for flight in scope.state().control.flight}
    for known in set(scope.ended) - running:
        del scope.ended[known]
    token = _CALLER.set((scope, call))
    try:
        yield
    finally:
        _CALLER.reset(token)
        child = scope.children.pop(call, None)
        if child is not None:
            # Its answer is on its way; until it is taken in, what it spent must not look like money that is left.
            scope.ended[call] = child.used
