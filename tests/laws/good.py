"""Good edges to be spoiled: some hundred steps of small explorations, found once."""

from __future__ import annotations

from functools import cache

from attrs import evolve

from fsm_agent.core.step import step
from fsm_agent.explorer.bounds import Form, Piece, Start
from fsm_agent.explorer.environment import Environment, start
from fsm_agent.explorer.expand import Worker
from fsm_agent.explorer.matrix import CALM, SMALL, Case
from fsm_agent.laws import Edge

CASES = (
    Case(
        "tools",
        evolve(SMALL, max_turns=2, stop_hooks=True, attachments=True),
        evolve(
            CALM,
            blocks=2,
            tools=2,
            kinds=("read", "write"),
            pieces=(Piece.TEXT, Piece.THINKING),
            forms=(Form.WHOLE, Form.MALFORMED),
            commands=1,
        ),
    ),
    Case(
        "money",
        evolve(SMALL, max_budget=1_000_000, stop_hooks=True),
        evolve(CALM, starts=(Start.BUDGET, Start.PLAIN), old_rounds=1, usage=(20_000, 110_000)),
    ),
)


STORIES = (
    ("user.start.plain", "0.write.whole", "user.command", "0.tool_use.20000", "0.started", "0.ok", "0.one"),
    ("user.start.plain", "0.write.whole", "0.tool_use.20000", "0.started", "user.interrupt"),
)
"""Runs of the first case that go deeper than its first levels."""


def told() -> list[Edge]:
    """Give the edges of the stories."""
    case = CASES[0]
    environment = Environment(case.config, case.bounds)
    found: list[Edge] = []
    for story in STORIES:
        state = start(case.config, case.bounds)
        for word in story:
            event = dict(environment.offers(state))[word]
            made = step(state, event, case.config)
            found.append(Edge(state, event, made, case.config))
            state = made.state
    return found


@cache
def edges() -> tuple[Edge, ...]:
    """Give the edges of the first levels of each case, each from one state of each abstract value."""
    found: list[Edge] = []
    for case in CASES:
        environment = Environment(case.config, case.bounds)
        worker = Worker(case.config, case.bounds, ())
        frontier, seen = [start(case.config, case.bounds)], set[bytes]()
        while frontier and len(seen) < 150:
            nexts = []
            for state in frontier:
                for _, event in environment.offers(state):
                    made = step(state, event, case.config)
                    found.append(Edge(state, event, made, case.config))
                    key = worker.key(made.state)
                    if key not in seen and len(seen) < 150:
                        seen.add(key)
                        nexts.append(made.state)
            frontier = nexts
    return (*found, *told())
