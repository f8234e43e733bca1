"""Fault injection on the interpreter and over real HTTP: a fault at one event becomes a scenario of its own.

What the user does is told by the number of an event among those of its kind, and a broken stream by the reply that is
cut behind the blocks that had come; so the same injected scenario plays in every way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import evolve, frozen

from ..core.effects import CallModel
from ..core.events import EVENT_KINDS, BlockCompleted, Event, EventKind, StreamStarted
from ..core.phases import Phase
from ..core.state import Step
from ..laws import LAWS, Law, Over
from ..laws.runs import RUN_LAWS
from ..scenario.answers import Ending, Failing, Item, Reply, Settle
from ..scenario.drive import drive
from ..scenario.format import Scenario, UserSpec, UserWord, Way
from ..scenario.play import PlayedRun, play
from ..scenario.playing import first_state
from .injection import FAILURES, TYPED, Fault, judged, need_fault, need_scenario, spared
from .run_checker import Alive, Evidence

_WORDS = {
    Fault.INTERRUPT: UserWord.INTERRUPT,
    Fault.SUBMIT: UserWord.SUBMIT,
    Fault.CLOSE: UserWord.CLOSE,
    Fault.MESSAGE: UserWord.QUEUE,
}


@frozen
class Staged:
    """A scenario with a fault in it: ``at`` is the number of the event behind which it comes, -1 before all."""

    fault: Fault
    at: int
    scenario: Scenario


def staged(scenario: Scenario, fault: Fault | str) -> tuple[Staged, ...]:
    """Put a fault behind every event of a scenario.

    Args:
        scenario: what happens otherwise; it gets spare replies.
        fault: what is injected. A kill is none of them: it needs a log, see :mod:`.resuming`.

    Returns:
        The scenarios, equal ones left out.

    Raises:
        ValueError: for a kill, and an unknown fault.
        TypeError: for what is no scenario.
    """
    fault = need_fault(fault)
    if fault is Fault.KILL:
        raise ValueError("a kill cannot be staged; resume from every prefix of the log instead")
    full = spared(need_scenario(scenario))
    steps = drive(full).steps
    if fault in _WORDS:
        return _acted(full, fault, steps)
    return _broken(full, fault, steps)


def _acted(scenario: Scenario, fault: Fault, steps: Sequence[tuple[Event, Step]]) -> tuple[Staged, ...]:
    counts: dict[EventKind, int] = {}
    text = TYPED if fault is Fault.MESSAGE else ""
    made = [Staged(fault, -1, _with(scenario, UserSpec(_WORDS[fault], text, phase=Phase.READY)))]
    for at, (event, _) in enumerate(steps[:-1]):
        kind = EVENT_KINDS[type(event)]
        counts[kind] = counts.get(kind, 0) + 1
        made.append(Staged(fault, at, _with(scenario, UserSpec(_WORDS[fault], text, event=kind, nth=counts[kind]))))
    return tuple(made)


def _with(scenario: Scenario, action: UserSpec) -> Scenario:
    return evolve(scenario, user=(*scenario.user, action))


def _broken(scenario: Scenario, fault: Fault, steps: Sequence[tuple[Event, Step]]) -> tuple[Staged, ...]:
    made: list[Staged] = []
    seen: set[tuple[int, int]] = set()
    call, blocks, begun = -1, 0, False
    for at, (event, step) in enumerate(steps[:-1]):
        if isinstance(event, StreamStarted):
            begun = True
        elif isinstance(event, BlockCompleted):
            blocks = event.index + 1
        if any(isinstance(effect, CallModel) for effect in step.effects):
            call, blocks, begun = call + 1, 0, False
        if call < 0 or call >= len(scenario.replies) or (call, blocks + begun) in seen:
            continue
        seen.add((call, blocks + begun))
        made.append(Staged(fault, at, _cut(scenario, fault, call, blocks, begun)))
    return tuple(made)


def _cut(scenario: Scenario, fault: Fault, call: int, blocks: int, begun: bool) -> Scenario:
    whole = scenario.replies[call]
    if whole.ending is not Ending.COMPLETE:
        begun = False
    broken = Reply(
        items=_first(whole.items, blocks) if begun else (),
        ending=Ending.FAILS,
        stop_reason=None,
        streamed=begun,
        failure=Failing(FAILURES[fault]),
    )
    return evolve(scenario, replies=(*scenario.replies[:call], broken, *scenario.replies[call:]))


def _first(items: tuple[Item, ...], blocks: int) -> tuple[Item, ...]:
    """Give the first blocks, and the rest that the stream took behind them."""
    kept: list[Item] = []
    for item in items:
        if not isinstance(item, Settle):
            if blocks == 0:
                break
            blocks -= 1
        kept.append(item)
    return tuple(kept)


@frozen
class PlayedFault:
    """One injected run of the interpreter, and what is wrong with it."""

    staged: Staged
    run: PlayedRun
    problems: tuple[str, ...]


async def inject_played(
    scenario: Scenario,
    fault: Fault | str,
    *,
    way: Way = Way.INTERPRETER,
    every: int = 1,
    first: int = 0,
    laws: tuple[Law, ...] | None = None,
    **options: Any,
) -> tuple[PlayedFault, ...]:
    """Inject a fault behind events of a scenario that is played on the interpreter, or over real HTTP.

    Args:
        scenario: what happens otherwise.
        fault: what is injected; no kill.
        way: the interpreter with scripted parts, or the official SDK over real HTTP.
        every: take only each so many-th place.
        first: the first place that is taken.
        laws: judged on each run; by default all that are not costly.
        options: further arguments of :func:`fsm_agent.scenario.play.play`.

    Returns:
        One entry for each place that was taken.

    Raises:
        ValueError: if no place is taken, for a kill, and an unknown fault.
        TypeError: for what is no scenario.
    """
    if laws is None:
        laws = (*[law for law in LAWS if law.over is not Over.RUN and not law.costly], *RUN_LAWS)
    places = staged(scenario, fault)
    if not 0 <= first < len(places) or every < 1:
        raise ValueError(
            f"first={first!r}, every={every!r}: {scenario.name} has {len(places)} places for {fault}, the first is 0, and "
            "every is at least 1"
        )
    found: list[PlayedFault] = []
    for one in places[first::every]:
        before = Alive.now()
        breaches: tuple[tuple[int, str], ...] = ()
        if way is Way.HTTP:
            from ..server.over_http import play_over_http

            over = await play_over_http(one.scenario, **options)
            run, breaches = over.run, over.breaches
            alive = None  # the client keeps connections of its own for a moment
        else:
            run = await play(one.scenario, **options)
            alive = Alive.now()
        evidence = Evidence(scenario.config, run.steps, first_state(scenario), before=before, after=alive)
        problems = [f"request {number}: {words}" for number, words in breaches]
        found.append(PlayedFault(one, run, (*problems, *judged(evidence, laws))))
    return tuple(found)
