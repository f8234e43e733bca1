"""Situations: steps that the original takes, with the lines of the core that each executes.

A mutant can only differ where its line is executed, and it differs first at a state that the original reaches. So the
walks are taken once, by the original; a mutant is asked for its step at those situations that execute what it changes.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any

from attrs import field, frozen

from fsm_agent.core.config import LoopConfig
from fsm_agent.core.events import EVENT_KINDS, CompactionFinished, Event, EventKind
from fsm_agent.core.phases import Phase
from fsm_agent.core.state import LoopState, Step, initial
from fsm_agent.core.step import step
from fsm_agent.explorer.bounds import Bounds
from fsm_agent.laws.choices import repeats
from fsm_agent.laws.limits import limits
from fsm_agent.scenario import catalog, load
from fsm_agent.scenario.drive import drive

from . import told as telling
from . import worlds
from .cases import random_case
from .code import CORE
from .stories import STORIES

Place = tuple[str, int]
"""A module below the core, and a line."""

SEEDS = 640
"""Random worlds."""
ALIKE = 2
"""Situations kept of those that look alike."""
MANY = (12, 20)
"""Ids issued at the states at which answers of strangers are tried, once each: numbers of two digits, with and without a 0."""
STORY = "a story"
ASIDE = Bounds(blocks=0, tools=0, stops=(), errors=())


@frozen(eq=False)
class Situation:
    """One step of the original.

    Attributes:
        config: the configuration.
        before: the state.
        event: the event.
        made: what the original makes of it.
        trail: the situations of the walk before this one, by number; empty where the walk is not known.
        scenario: the name of the scenario that it belongs to, or empty.
        rich: its contents are those of real requests, so that the rules of the wire can be asked.
    """

    config: LoopConfig
    before: LoopState
    event: Event
    made: Step
    trail: tuple[worlds.Taken, ...] = ()
    scenario: str = ""
    rich: bool = False


@frozen(eq=False)
class Corpus:
    """All situations, and who executes what.

    Attributes:
        situations: in the order in which they are asked.
        at: numbers of situations for each executed line.
        rows: numbers of situations for each row that was taken.
        cells: numbers of situations for each (phase, kind of event) that came to a blank cell.
    """

    situations: list[Situation]
    at: dict[Place, list[int]] = field(factory=dict)
    rows: dict[str, list[int]] = field(factory=dict)
    cells: dict[tuple[Phase, EventKind], list[int]] = field(factory=dict)


def _clip(value: int) -> int:
    return max(-2, min(2, value))


def _looks(taken: worlds.Taken, config: LoopConfig) -> tuple[Any, ...]:
    """Say what a situation looks like: rows, kinds, and where each counter stands to its limit."""
    before, made = taken.before.control, taken.made
    effects = tuple(type(getattr(effect, "output", effect)).__name__ for effect in made.effects)
    kind = EVENT_KINDS[type(taken.event)]
    if made.state is taken.before and not made.effects:
        return (made.taken, kind, before.phase)
    guards, budget = before.guards, made.state.control.budget
    token_budget = budget.token_budget
    return (
        made.taken,
        kind,
        effects,
        before.phase,
        min(len(before.flight), 2),
        tuple((call.state, call.started, call.traits.concurrency_safe) for call in before.tools.calls[:2]),
        _clip(before.call.attempt - config.max_attempts),
        _clip(before.call.overloads - config.overload_fallback_after),
        _clip(guards.pauses - config.max_pauses),
        _clip(guards.model_calls - config.max_model_calls),
        _clip(guards.blocks_in_row - config.stop_hook_row_cap),
        _clip(guards.blocks_in_run - config.stop_hook_run_cap),
        _clip(guards.salvages - config.max_attempts),
        _clip(len(made.state.data.messages) - len(taken.before.data.messages)),
        token_budget is not None and _clip(10 * budget.output_tokens - 9 * token_budget),
        token_budget is not None and _clip(budget.last_delta - 500),
        token_budget is not None and _clip(before.budget.output_tokens - before.budget.spent_at_check - 500),
        token_budget is not None and _clip(before.budget.continuations - 3),
        kind is EventKind.TOOL_FINISHED and _clip(repeats(made.state.control.guards.rounds) - config.loop_rounds - 2),
        kind is EventKind.TOOL_FINISHED and made.state.control.guards.rounds[-4:-1].count(made.state.control.guards.rounds[-1])
        if made.state.control.guards.rounds
        else 0,
        *_gain(taken, config),
    )


def _gain(taken: worlds.Taken, config: LoopConfig) -> tuple[int, ...]:
    """Say where the gain of a compaction stands to what counts as progress."""
    event, facts = taken.event, taken.before.control.context
    if not isinstance(event, CompactionFinished):
        return ()
    freed = facts.replacing - sum(block.tokens for block in event.summary) - sum(item.tokens for item in event.attachments)
    low, _ = limits(taken.before.control, config)
    return (_clip(100 * freed - config.context.min_freed_percent * facts.tokens), _clip(facts.tokens - freed - low))


def _walks() -> Iterator[tuple[list[worlds.Taken], LoopConfig, str, bool]]:
    for name in catalog():
        scenario = load(name)
        state: LoopState = initial(scenario.config)
        taken = []
        for event, made in drive(scenario).steps:
            taken.append(worlds.Taken(state, event, made))
            state = made.state
        yield taken, scenario.config, name, True
    for case, names in STORIES:
        yield list(telling.story(case, names)), case.config, STORY, False
    for case in worlds.cases():
        for seed in range(12):
            yield list(worlds.walk(case, seed, 40, sharp=False)), case.config, "", False
    for seed in range(SEEDS):
        case = random_case(seed)
        for again in range(3 if case.name.startswith(("salvage", "hooks", "loops")) else 1):
            yield list(worlds.walk(case, seed + 1_000 * again, 80, sharp=True)), case.config, "", False
    yield from _rich()


def _rich() -> Iterator[tuple[list[worlds.Taken], LoopConfig, str, bool]]:
    from test_walk import CONFIGS
    from walk import walk

    for config in CONFIGS.values():
        for seed in range(10):
            found = [worlds.Taken(one.before, one.event, one.made) for one in walk(seed, config, steps=150, runs=2)]
            yield found, config, "", True


def _asides(state: LoopState, config: LoopConfig, pick: random.Random, *, every: bool) -> Iterator[worlds.Taken]:
    """Give what the user and a crash do at a state, and what is late: some, or all of it; nobody goes on from there."""
    environment = worlds.Environment(config, ASIDE)
    offers = [event for name, event in environment.offers(state) if not environment.fair(name)]
    offers += [event for name, event in environment.offers(state) if environment.fair(name) and worlds.is_late(event)]
    for event in offers if every else pick.sample(offers, min(4, len(offers))):
        event = worlds.sharpened(event, state, config, pick)
        yield worlds.Taken(state, event, step(state, event, config))


def situations() -> list[Situation]:
    """Walk, and keep what does not look like what is there already."""
    alike: dict[tuple[Any, ...], int] = {}
    found: list[Situation] = []
    pick = random.Random(1)
    for walk, config, scenario, rich in _walks():
        first = 0
        for place, taken in enumerate(walk):
            if taken.before.phase is Phase.READY:
                first = place
            trail = tuple(walk[first:place])
            told = scenario == STORY
            if told or pick.random() < 0.5:
                for aside in _asides(taken.before, config, pick, every=told):
                    looks = ("aside", *_looks(aside, config)[:4])
                    if alike.get(looks, 0) < ALIKE:
                        alike[looks] = alike.get(looks, 0) + 1
                        found.append(Situation(config, aside.before, aside.event, aside.made, trail))
            looks = _looks(taken, config)
            count = alike.get(looks, 0)
            if count >= ALIKE and not scenario:
                continue
            alike[looks] = count + 1
            name = scenario if scenario != STORY else ""
            found.append(Situation(config, taken.before, taken.event, taken.made, trail, name, rich))
            if taken.before.control.run.issued in MANY and not alike.get(key := ("strangers", taken.before.control.run.issued)):
                alike[key] = 1
                for event in telling.strangers(taken.before):
                    found.append(Situation(config, taken.before, event, step(taken.before, event, config)))
            if not count:
                for event, other in worlds.gains(taken, config):
                    made = step(taken.before, event, other)
                    key = ("gain", made.taken)
                    if alike.get(key, 0) < 20 * ALIKE:
                        alike[key] = alike.get(key, 0) + 1
                        found.append(Situation(other, taken.before, event, made))
                for other in worlds.probes(taken, config):
                    made = step(taken.before, taken.event, other)
                    key = ("probe", made.taken)
                    if alike.get(key, 0) < 20 * ALIKE:
                        alike[key] = alike.get(key, 0) + 1
                        found.append(Situation(other, taken.before, taken.event, made))
    return found


class _Tracer:
    """Notes the lines of the core that a step executes."""

    def __init__(self, files: Iterable[str]) -> None:
        self.files = {str(CORE / name): name for name in files}
        self.seen: set[Place] = set()

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        name = self.files.get(frame.f_code.co_filename)
        if name is None:
            return None
        seen = self.seen

        def line(frame: FrameType, event: str, argument: Any) -> Any:
            seen.add((name, frame.f_lineno))
            return line

        seen.add((name, frame.f_lineno))
        return line

    def lines(self, situation: Situation) -> set[Place]:
        self.seen = set()
        sys.settrace(self._call)
        try:
            step(situation.before, situation.event, situation.config)
        finally:
            sys.settrace(None)
        return self.seen


def situation(taken: worlds.Taken, config: LoopConfig) -> Situation:
    """Make a situation of one step of a walk."""
    return Situation(config, taken.before, taken.event, taken.made)


def index(found: list[Situation], files: Iterable[str]) -> Corpus:
    """See which lines of ``files`` each situation executes."""
    corpus = Corpus(found)
    tracer = _Tracer(files)
    for number, situation in enumerate(found):
        for place in tracer.lines(situation):
            corpus.at.setdefault(place, []).append(number)
        made = situation.made
        blank = made.state is situation.before and not made.effects
        if blank:
            cell = (situation.before.phase, EVENT_KINDS[type(situation.event)])
            corpus.cells.setdefault(cell, []).append(number)
        for name in made.taken:
            corpus.rows.setdefault(name, []).append(number)
    return corpus


def corpus(files: Iterable[str]) -> Corpus:
    """Take the walks, and see which lines of ``files`` each situation executes."""
    return index(situations(), files)
