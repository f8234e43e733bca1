"""Stories told: events by their names, and answers that nobody asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attrs import evolve

from fsm_agent.core.events import EffectFailed, EffectLost, Event, StreamStarted, TimerFired
from fsm_agent.core.failures import ErrorKind, ModelFailure
from fsm_agent.core.state import LoopState
from fsm_agent.core.step import step
from fsm_agent.explorer.environment import Environment, start
from fsm_agent.explorer.matrix import Case

from .scenes import Told
from .worlds import Taken


def story(case: Case, told: tuple[Told, ...]) -> Iterator[Taken]:
    """Take events by their names, some with changes, and events that are made."""
    environment = Environment(case.config, case.bounds)
    state = start(case.config, case.bounds)
    for one in told:
        event = one(state) if callable(one) else _offered(environment, case, state, one)
        made = step(state, event, case.config)
        yield Taken(state, event, made)
        state = made.state


def _offered(environment: Environment, case: Case, state: LoopState, one: str | tuple[str, dict[str, Any]]) -> Event:
    name, changes = (one, {}) if isinstance(one, str) else one
    offers = dict(environment.offers(state))
    if name not in offers:
        raise LookupError(f"{case.name}: {name} is not offered in {state.phase}: {sorted(offers)}")
    return evolve(offers[name], **changes)


WORDS = ("timer", "call", "view", "nonsense", "")
"""Words of ids: two of effects that have answers, one of what has none, and none of ours."""


def strangers(state: LoopState) -> Iterator[Event]:
    """Answer effects that are not in flight: of ids that were issued, that were not, and that nobody would issue."""
    run = state.control.run
    flying = {item.id for item in state.control.flight}
    numbers = [*range(-1, run.issued + 3), 99_999, f"0{run.issued}", f"{run.issued}0", "01", "x", "1x", "", "²", "9" * 30]
    ids = [f"{run.id}/{word}-{number}" for word in WORDS for number in numbers]
    ids += ["", run.id, f"{run.id}/", f"{run.id}/timer", "timer-1", "other/timer-1", f"{run.id}/timer/1", f"{run.id}/-"]
    fault = ModelFailure(kind=ErrorKind.SERVER_ERROR)
    for name in ids:
        if name not in flying:
            yield from (TimerFired(name), StreamStarted(name), EffectLost(name), EffectFailed(name, fault))
