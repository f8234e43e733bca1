"""Properties over drawn configurations, histories and runs."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fsm_agent.core.config import LoopConfig
from fsm_agent.core.effects import CallModel
from fsm_agent.core.events import RunStarted
from fsm_agent.core.messages import Message
from fsm_agent.core.request.encode import body_of
from fsm_agent.core.state import initial
from fsm_agent.core.step import step
from fsm_agent.laws import LAWS, Edge, Over, judge_run
from fsm_agent.laws.runs import RUN_LAWS
from fsm_agent.server.wire_checker import check_request, decode_body
from fsm_agent.testing.strategies import configs, events, histories, runs

DEEP = int(os.environ.get("FSM_AGENT_DEEP", "0"))
"""Steps of a deep run, such as 100000; 0 for the short form of each day."""
short = settings(max_examples=max(60, DEEP // 15), deadline=None, suppress_health_check=list(HealthCheck))
CHEAP = (*[law for law in LAWS if law.over is not Over.RUN and not law.costly], *RUN_LAWS)


@short
@given(runs())
def test_every_law_holds_on_drawn_runs(drawn: tuple[LoopConfig, tuple[Edge, ...]]) -> None:
    """Whatever the configuration and the order of events, no law is broken."""
    config, edges = drawn
    assert judge_run(edges, config, CHEAP) == []


@short
@given(histories(), configs())
def test_drawn_histories_can_be_sent(history: tuple[Message, ...], config: LoopConfig) -> None:
    """A run that goes on from a drawn history makes a request that the API takes."""
    from fsm_agent.explorer.environment import PROMPT

    made = step(initial(config, history), RunStarted("r", (PROMPT,)), config)
    calls = [effect for effect in made.effects if isinstance(effect, CallModel)]
    assert calls
    for call in calls:
        assert check_request(decode_body(body_of(call.request)), config.info("m"), call.request.betas) == ()


@short
@given(st.data(), configs())
def test_drawn_events_are_taken_or_refused(data: st.DataObject, config: LoopConfig) -> None:
    """At the start any offered event is taken, ignored by name or refused with a reason; the state before stays equal."""
    state = initial(config)
    event = data.draw(events(state, config))
    made = step(state, event, config)
    assert bool(made.taken) != (made.rejected is not None)
    assert state == initial(config)
