"""The judge of a mutant: first the stated laws, on walks and on a small exploration; then everything that is pinned.

What is pinned (golden): the paths that scenarios declare, digests of all that they do, the counts of the exploration, and
the examples among the tests of the core. A law needs none of that.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from hashlib import sha256
from io import StringIO
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from fsm_agent.core.blocks import text_block
from fsm_agent.core.config import ContextConfig, LoopConfig
from fsm_agent.core.effects import EffectKind
from fsm_agent.core.events import (
    AbortRequested,
    CollapseFailed,
    CollapseStaged,
    CompactRequested,
    EffectLost,
    Event,
    ModelSwitched,
    PrefetchFinished,
    RunStarted,
    ToolUseSummaryReady,
)
from fsm_agent.core.failures import ErrorKind, ModelFailure
from fsm_agent.core.messages import MessageKind, message
from fsm_agent.core.models import ModelInfo
from fsm_agent.core.phases import TERMINAL_SET
from fsm_agent.core.request.encode import body_of
from fsm_agent.core.rows import TABLE
from fsm_agent.core.rows.check import TableError, check
from fsm_agent.core.state import LoopState, initial
from fsm_agent.core.step import step
from fsm_agent.explorer.environment import Environment, start
from fsm_agent.explorer.explore import explore
from fsm_agent.explorer.matrix import CI, Case
from fsm_agent.laws import LAWS, Edge, Law, Over
from fsm_agent.laws.law import ROWS
from fsm_agent.laws.runs import RUN_LAWS
from fsm_agent.log.digest import effects_digest
from fsm_agent.scenario import catalog, load
from fsm_agent.scenario.checking import differences
from fsm_agent.scenario.drive import drive
from fsm_agent.server.wire_checker import check_request, decode_body

from . import table as tables

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "core"), str(TESTS)]

WALKS, STEPS = 40, 40
"""Random walks through each case of the matrix, and how long each is at most."""
SEEDS = 4
"""Random sessions of each configuration of the tests of the core, with contents of all kinds."""
RESTLESS = 150
RESUMING = LoopConfig(
    model="m",
    models=(ModelInfo(name="m", context_window=20_000, max_output=8_000),),
    stop_hooks=True,
    attachments=True,
    prefetch_skills=True,
    tool_summaries=True,
    context=ContextConfig(collapse=True),
)
"""One model, and everything that runs beside it."""
HOPS = ("user.interrupt", "user.submit", "user.close")
SUITE = (
    "core/test_loops.py",
    "core/test_continues.py",
    "core/test_replies.py",
    "core/context/test_compact.py",
    "core/context/test_layers.py",
)


class Broken(Exception):
    """A law does not hold: its group, its name, and what is wrong."""


@frozen
class Seen:
    """What a run of the judge saw; that of the mutant is compared with that of the original.

    Attributes:
        rows: rows that were taken.
        emitted: for each row, the kinds of effects that its step gave.
        scenarios: for each scenario, a digest of its steps, and whether it went as it declares.
        counts: states, pairs and depth of the small exploration.
    """

    rows: set[str] = field(factory=set)
    emitted: dict[str, set[str]] = field(factory=dict)
    scenarios: dict[str, str] = field(factory=dict)
    counts: dict[str, list[int]] = field(factory=dict)


def _raising(law: Law) -> Law:
    def checked(*args: Any) -> str:
        words = law.check(*args)
        if words:
            raise Broken(law.group, law.name, words)
        return ""

    return evolve(law, check=checked)


STRICT = tuple(_raising(law) for law in LAWS)
OVER_STATES = tuple(law for law in STRICT if law.over is Over.STATE)
OVER_EDGES = tuple(law for law in STRICT if law.over is Over.EDGE)
COSTLY = 8
"""One edge in so many is judged by costly laws too."""


def _judge(edge: Edge, number: int, seen: Seen, *, wire: bool = True) -> None:
    dear = number % COSTLY == 0
    for law in OVER_EDGES:
        if (law.quiet or not edge.quiet) and (dear or not law.costly):
            law.check(edge)
    if not edge.quiet:
        for law in OVER_STATES:
            if dear or not law.costly:
                law.check(edge.made.state, edge.config)
    for call in edge.calls if wire else ():
        breaches = check_request(decode_body(body_of(call.request)), edge.config.info(call.request.model), call.request.betas)
        if breaches:
            raise Broken("I6", breaches[0].rule, breaches[0].text)
    for name in edge.taken:
        if name in ROWS:
            seen.rows.add(name)
            if len(edge.taken) == 1:
                seen.emitted.setdefault(name, set()).update(tables.kind_of(effect) for effect in edge.made.effects)


def _finish(edges: list[Edge], config: LoopConfig) -> None:
    for law in RUN_LAWS:
        words = law.check(tuple(edges), config)
        if words:
            raise Broken(law.group, law.name, words)


def _cases() -> Iterator[Case]:
    from explorer.small import TINY

    yield TINY
    yield from CI


def _choose(environment: Environment, state: LoopState, pick: random.Random) -> Event:
    """Choose the next event: mostly an answer, each kind of event as often as the others, the user and crashes rarely."""
    offers = environment.offers(state)
    fair = [event for name, event in offers if environment.fair(name)]
    if not fair or pick.random() < 0.12:
        calm = [event for name, event in offers if name not in HOPS]
        fair = calm if calm and pick.random() < 0.9 else [event for _, event in offers]
    kinds = sorted(
        {type(event).__name__ for event in fair} - ({"StreamFailed", "EffectFailed"} if pick.random() < 0.7 else set())
    )
    kind = pick.choice(kinds) if kinds else ""
    return pick.choice([event for event in fair if type(event).__name__ == kind] or fair)


def walks(seen: Seen) -> None:
    """Walk at random through every case of the matrix, judged by every law."""
    number = 0
    for case in _cases():
        environment = Environment(case.config, case.bounds)
        for seed in range(WALKS):
            pick = random.Random(seed)
            state, edges = start(case.config, case.bounds), []
            for _ in range(STEPS):
                event = _choose(environment, state, pick)
                made = step(state, event, case.config)
                edge = Edge(state, event, made, case.config)
                edges.append(edge)
                number += 1
                # The bounded world pauses replies that hold nothing to pause for; the API does not.
                _judge(edge, number, seen, wire=False)
                state = made.state
                if state.phase in TERMINAL_SET and pick.random() < 0.8:
                    break
            _finish(edges, case.config)


def sessions(seen: Seen) -> None:
    """Walk through random sessions with contents of all kinds, judged by every law."""
    from test_walk import CONFIGS
    from walk import walk

    number = 0
    for config in CONFIGS.values():
        for seed in range(SEEDS):
            edges: list[Edge] = []
            for taken in walk(seed, config, steps=120, runs=2):
                edge = Edge(taken.before, taken.event, taken.made, config)
                number += 1
                _judge(edge, number, seen)
                edges.append(edge)
                if isinstance(taken.event, AbortRequested) or taken.made.state.phase in TERMINAL_SET:
                    _finish(edges, config)
                    edges.clear()


def restless(seen: Seen) -> None:
    """Sessions whose user acts at every third event, and whose effects are lost now and then."""
    from test_walk import CONFIGS
    from walk import Environment as World

    number = 0
    for config in (CONFIGS["rich"], CONFIGS["tight"], RESUMING):
        for seed in range(RESTLESS):
            world, state = World(seed, config), initial(config)
            pick = world.random
            prompt = message("prompt", "user", MessageKind.PROMPT, (text_block("request"),))
            event: Event = RunStarted(run_id="r", messages=(prompt,), source="sdk", token_budget=pick.choice((None, 3_000)))
            edges: list[Edge] = []
            for _ in range(150):
                made = step(state, event, config)
                world.note(made)
                edge = Edge(state, event, made, config)
                edges.append(edge)
                number += 1
                _judge(edge, number, seen)
                state = made.state
                if state.phase in TERMINAL_SET:
                    break
                if pick.random() < 0.4:
                    for aside in _asides(world, state):
                        _judge(Edge(state, aside, step(state, aside, config), config), number, seen)
                draw = pick.random()
                if draw < 0.3 or not state.control.flight:
                    event = world.user(state)
                    while isinstance(event, AbortRequested) and pick.random() < 0.9:
                        event = world.user(state)
                elif draw < 0.38:
                    event = EffectLost(pick.choice(state.control.flight).id)
                else:
                    event = world.answer(_without_slow(state) if draw < 0.9 else state)
            _finish(edges, config)


_SLOW = (EffectKind.COLLAPSE, EffectKind.SUMMARY, EffectKind.MEMORY, EffectKind.SKILLS)
"""What runs beside the loop, and is answered late."""


def _without_slow(state: LoopState) -> LoopState:
    """Hide what is slow, if anything else is awaited."""
    awaited = tuple(item for item in state.control.flight if item.kind not in _SLOW)
    return evolve(state, control=evolve(state.control, flight=awaited)) if awaited else state


def _asides(world: Any, state: LoopState) -> list[Event]:
    """Give what may come from beside the loop in any phase: late answers, the user, a crash. They are judged, not followed."""
    found: list[Event] = [CompactRequested(), ModelSwitched(model="n"), AbortRequested()]
    found += [world.user(state) for _ in range(2)]
    for flight in state.control.flight:
        found.append(EffectLost(flight.id))
        match flight.kind:
            case EffectKind.COLLAPSE:
                failure = ModelFailure(kind=ErrorKind.SERVER_ERROR)
                found += [CollapseStaged(flight.id, text_block("a span")), CollapseFailed(flight.id, failure)]
            case EffectKind.SUMMARY:
                found.append(ToolUseSummaryReady(flight.id, "read files"))
            case EffectKind.MEMORY | EffectKind.SKILLS:
                found.append(PrefetchFinished(flight.id))
            case _:
                pass
    return found


def driven(seen: Seen) -> None:
    """Drive every scenario, judged by every law; what they do is only noted."""
    number = 0
    for name in catalog():
        scenario = load(name)
        digest = sha256()
        run = drive(scenario)
        state: LoopState = initial(scenario.config)
        edges: list[Edge] = []
        for event, made in run.steps:
            edge = Edge(state, event, made, scenario.config)
            number += 1
            _judge(edge, number, seen)
            edges.append(edge)
            digest.update(f"{made.taken}{effects_digest(made.effects)}".encode())
            state = made.state
        _finish(edges, scenario.config)
        seen.scenarios[name] = f"{digest.hexdigest()[:16]} {len(differences(scenario.expect, run.played))}"


def explored(seen: Seen) -> None:
    """Explore the tiny case whole, judged by every law and by liveness."""
    case = next(_cases())
    found = explore(case.config, case.bounds, STRICT)
    seen.counts[case.name] = [found.states, found.pairs, found.depth]
    seen.rows.update(found.rows)
    if found.violations:
        fault = found.violations[0]
        raise Broken(fault.group, fault.law, fault.words)


STAGES: tuple[Callable[[Seen], None], ...] = (walks, sessions, restless, driven, explored)


def by_laws(seen: Seen) -> str:
    """Judge the machine in this process by stated laws alone.

    Returns:
        The law that is broken, empty if none is.
    """
    try:
        check(TABLE)
    except TableError as error:
        return f"import check: {error}"
    for stage in STAGES:
        try:
            stage(seen)
        except Broken as broken:
            return f"{broken.args[0]} {broken.args[1]}"
        except Exception as error:
            return f"I1 step raises {type(error).__name__}"
    return ""


def by_rows(seen: Seen, original: dict[str, Any]) -> str:
    """Judge by the part of I4 that says that each declared row is reached, where the original reaches it."""
    names = {row.name for row in TABLE.rows}
    missed = sorted(name for name in names - seen.rows if name in original["rows"] or name == "added")
    return f"I4 row {missed[0]} is never taken" if missed else ""


def by_goldens(seen: Seen, original: dict[str, Any]) -> str:
    """Judge by what is pinned: scenarios, digests, counts, examples."""
    for name, digest in seen.scenarios.items():
        if original["scenarios"][name] != digest:
            return f"scenario {name}"
    for name, counts in seen.counts.items():
        if original["counts"][name] != counts:
            return f"counts of {name}"
    return _by_tests()


def _by_tests() -> str:
    import pytest

    class Failed:
        name = ""

        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.failed and not self.name:
                self.name = report.nodeid

    failed = Failed()
    with redirect_stdout(StringIO()):
        arguments = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not slow and not long"]
        code = pytest.main([*arguments, *[str(TESTS / name) for name in SUITE]], plugins=[failed])
    return f"test {failed.name.rpartition('/')[2]}" if code else ""
