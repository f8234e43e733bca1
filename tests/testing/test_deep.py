"""A walk through the machine by Hypothesis: odd texts, odd configurations, crashes, and one run after another.

``FSM_AGENT_DEEP=100000 python -m pytest tests/testing/test_deep.py`` takes so many steps; each day's form a few hundred.
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from fsm_agent.core.blocks import text_block, tool_result
from fsm_agent.core.config import LoopConfig
from fsm_agent.core.effects import EffectKind
from fsm_agent.core.events import (
    BlockCompleted,
    CommandQueued,
    CompactionFinished,
    Event,
    Outcome,
    StreamFailed,
    ToolFinished,
    ToolProgressed,
)
from fsm_agent.core.failures import ErrorKind, ModelFailure
from fsm_agent.core.messages import Message, MessageKind, message
from fsm_agent.core.phases import TERMINAL_SET
from fsm_agent.core.state import initial
from fsm_agent.core.step import next_run, step
from fsm_agent.explorer.environment import Environment
from fsm_agent.laws import LAWS, Edge, Over, judge_run
from fsm_agent.laws.runs import RUN_LAWS
from fsm_agent.log.resume import lost_in
from fsm_agent.testing import LOG_LAWS
from fsm_agent.testing.strategies import BOUNDS, TEXTS, configs, histories

DEEP = int(os.environ.get("FSM_AGENT_DEEP", "0"))
"""Steps of a deep walk, such as 100000; 0 for the form of each day."""
STEPS = 400
LENGTH = 50
"""Rules of one walk."""
ALWAYS = tuple(law for law in LAWS if not law.costly)
SOMETIMES = (*(law for law in LAWS if law.costly), *(law for law in LOG_LAWS if law.over is not Over.RUN))
EVERY = 8
"""One step in so many is judged by the costly laws too."""


class Walk(RuleBasedStateMachine):
    """A session that goes on from a drawn history under a drawn configuration; every step keeps every law."""

    taken = 0

    @initialize(config=configs(), history=histories())
    def begin(self, config: LoopConfig, history: tuple[Message, ...]) -> None:
        self.config = config
        self.environment = Environment(config, BOUNDS)
        self.state = initial(config, history)
        self.edges: list[Edge] = []
        self.names = 0

    def take(self, event: Event) -> None:
        Walk.taken += 1
        made = step(self.state, event, self.config)
        edge = Edge(self.state, event, made, self.config)
        found = judge_run((edge,), self.config, ALWAYS if Walk.taken % EVERY else (*ALWAYS, *SOMETIMES))
        assert not found, [(law.name, words) for law, _, words in found]
        self.edges.append(edge)
        self.state = made.state

    def flying(self, kind: EffectKind) -> Any:
        return next((flight for flight in self.state.control.flight if flight.kind is kind), None)

    @rule(data=st.data())
    def an_answer(self, data: st.DataObject) -> None:
        offers = self.environment.offers(self.state)
        fair = [event for name, event in offers if self.environment.fair(name)]
        self.take(data.draw(st.sampled_from(fair or [event for _, event in offers])))

    @rule(data=st.data())
    def another_answer(self, data: st.DataObject) -> None:
        self.an_answer(data)

    @rule(data=st.data())
    def anything(self, data: st.DataObject) -> None:
        self.take(data.draw(st.sampled_from([event for _, event in self.environment.offers(self.state)])))

    @rule(text=TEXTS)
    def the_user_speaks(self, text: str) -> None:
        self.names += 1
        name = f"u{self.names}"
        self.take(CommandQueued(name, message(name, "user", MessageKind.COMMAND, (text_block(text or "x"),))))

    @precondition(lambda self: self.flying(EffectKind.CALL) is not None)
    @rule(text=TEXTS)
    def the_model_says_something_odd(self, text: str) -> None:
        place = len(self.state.data.iteration.blocks)
        self.take(BlockCompleted(self.flying(EffectKind.CALL).id, place, text_block(text)))

    @precondition(lambda self: self.flying(EffectKind.CALL) is not None)
    @rule(kind=st.sampled_from(list(ErrorKind)), wait=st.sampled_from([None, 0, 5, 10**6]), text=TEXTS)
    def the_call_fails(self, kind: ErrorKind, wait: int | None, text: str) -> None:
        failure = ModelFailure(kind=kind, message=text, retry_after_ms=wait)
        self.take(StreamFailed(self.flying(EffectKind.CALL).id, failure))

    @precondition(lambda self: self.flying(EffectKind.TOOL) is not None)
    @rule(text=TEXTS, outcome=st.sampled_from(list(Outcome)), progress=st.booleans())
    def a_tool_ends_oddly(self, text: str, outcome: Outcome, progress: bool) -> None:
        flight = self.flying(EffectKind.TOOL)
        if progress:
            self.take(ToolProgressed(flight.id, text))
        self.take(ToolFinished(flight.id, outcome, tool_result(flight.call, text, is_error=outcome is not Outcome.OK), text))

    @precondition(lambda self: self.flying(EffectKind.COMPACT) is not None)
    @rule(text=TEXTS)
    def an_odd_summary(self, text: str) -> None:
        self.take(CompactionFinished(self.flying(EffectKind.COMPACT).id, (text_block(text),)))

    @rule()
    def the_engine_dies(self) -> None:
        for event in lost_in(self.state):
            self.take(event)

    @precondition(lambda self: self.state.phase in TERMINAL_SET)
    @rule()
    def the_next_run(self) -> None:
        self.whole()
        self.state = next_run(self.state, self.config)

    def whole(self) -> None:
        """Judge the run as a whole, its log and every resume from it too."""
        found = judge_run(tuple(self.edges), self.config, (*RUN_LAWS, *(law for law in LOG_LAWS if law.over is Over.RUN)))
        assert not found, [(law.name, words) for law, _, words in found]
        self.edges = []

    def teardown(self) -> None:
        if getattr(self, "edges", None):
            self.whole()


def test_a_walk_keeps_every_law() -> None:
    """Whatever comes in whatever order, no law is broken; the deep form takes as many steps as it was asked for."""
    walks = max(8, DEEP // 500)
    quick = settings(
        max_examples=walks,
        stateful_step_count=LENGTH,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
        phases=(Phase.generate, Phase.shrink),
    )
    begun = Walk.taken
    while Walk.taken - begun < (DEEP or STEPS):
        run_state_machine_as_test(Walk, settings=quick)
    print(f"{Walk.taken - begun:,} steps")
