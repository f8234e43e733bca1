"""Fault injection on the bare reducer: something happens at every event of a scenario, and both checkers look on.

Each injected run is followed by another prompt in the same session, which must go through: whatever happened, the
conversation is usable.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from attrs import evolve, frozen

from ..core.blocks import text_block
from ..core.config import LoopConfig
from ..core.control import Flight
from ..core.effects import CallModel, Cancel, EffectKind
from ..core.events import (
    EVENT_KINDS,
    AbortRequested,
    CommandQueued,
    EffectLost,
    Event,
    RunStarted,
    StreamFailed,
)
from ..core.failures import ErrorKind
from ..core.messages import MessageKind, message
from ..core.phases import TERMINAL_SET, AbortReason, Phase
from ..core.state import LoopState, Step
from ..core.step import next_run, step
from ..explorer.words import need_word
from ..laws import LAWS, Edge, Law, Over, judge_run
from ..laws.runs import RUN_LAWS
from ..scenario.answers import Failing, Reply, SummarySpec, SummaryWord, TextItem
from ..scenario.faults import failure_of
from ..scenario.format import Scenario, ScenarioError
from ..scenario.playing import first_state, run_started
from ..scenario.simulation import Environment
from ..scenario.user import UserScript
from .run_checker import RUN_CHECKS, Evidence, check_run
from .wire import check_requests

MAX_STEPS = 5_000
SPARE = 40
"""Further replies of the model, and of the summariser, for what an injection makes necessary."""
TYPED = "And one more thing that was typed meanwhile."


class Fault(StrEnum):
    """What is injected."""

    INTERRUPT = "interrupt"
    SUBMIT = "submit"
    CLOSE = "close"
    KILL = "kill"
    """The engine dies, and the run is resumed: everything in flight is lost."""
    MESSAGE = "message"
    """The user queues a command."""
    CUT = "cut"
    """The connection of the model's stream is lost; of the next one, if none is open."""
    OVERLOAD = "overload"
    TOO_LONG = "too_long"
    """The API finds the prompt too long (400)."""


_ABORTS = {Fault.INTERRUPT: AbortReason.INTERRUPT, Fault.SUBMIT: AbortReason.SUBMIT, Fault.CLOSE: AbortReason.CLOSE}
FAILURES = {
    Fault.CUT: ErrorKind.CONNECTION_LOST,
    Fault.OVERLOAD: ErrorKind.OVERLOADED,
    Fault.TOO_LONG: ErrorKind.PROMPT_TOO_LONG,
}


@frozen
class Injected:
    """One injected run.

    Attributes:
        fault: what was injected.
        at: right before the event of this number, from 0; that of the events stands for "after the last".
        steps: events with the steps that took them, of the injected run and of the one after it.
        problems: what the checkers and the laws found; empty if all holds.
    """

    fault: Fault
    at: int
    steps: tuple[tuple[Event, Step], ...]
    problems: tuple[str, ...]


def need_fault(given: Fault | str) -> Fault:
    """Give a fault by its word.

    Raises:
        ValueError: if there is none.
    """
    return need_word(Fault, given, "fault")


def need_scenario(given: object) -> Scenario:
    """Give a scenario.

    Raises:
        TypeError: for anything else; says what to write.
    """
    if isinstance(given, Scenario):
        return given
    raise TypeError(f"{given!r} is no scenario" + (f"; write load({given!r})" if isinstance(given, str) else ""))


def spared(scenario: Scenario) -> Scenario:
    """Give a scenario more replies than it needs: an injection may make further calls necessary."""
    done = Reply(items=(TextItem("Done."),))
    summary = SummarySpec(SummaryWord.SUMMARY, text="What was done so far: little.")
    return evolve(
        scenario,
        replies=(*scenario.replies, *[done] * SPARE),
        compactor=(*scenario.compactor, *[summary] * SPARE),
        collapses=(*scenario.collapses, *[summary] * SPARE),
    )


class _Driver:
    """Drives one run, with something injected at one event."""

    def __init__(self, scenario: Scenario, fault: Fault | None, at: int) -> None:
        self.scenario = scenario
        self.config: LoopConfig = scenario.config
        self.fault = fault
        self.at = at
        self.state = first_state(scenario)
        self.environment = Environment(scenario)
        self.user = UserScript(scenario.user)
        self.steps: list[tuple[Event, Step]] = []
        self._armed: Fault | None = None

    def run(self) -> None:
        inbox: list[Event] = [*self.user.after(None, self.state.phase), run_started(self.scenario, "run")]
        for number in range(MAX_STEPS):
            if number == self.at and self.fault is not None:
                self._inject(self.fault)
            if self.state.phase in TERMINAL_SET:
                return
            event = inbox.pop(0) if inbox else self.environment.next()
            if event is None:
                self.take(AbortRequested(AbortReason.INTERRUPT))
                return
            self.take(event)
            if self.state.phase not in TERMINAL_SET:
                inbox.extend(self.user.after(EVENT_KINDS[type(event)], self.state.phase))
        raise ScenarioError(f"scenario {self.scenario.name}: more than {MAX_STEPS} steps")

    def take(self, event: Event) -> None:
        made = step(self.state, event, self.config)
        self.steps.append((event, made))
        self.state = made.state
        self.environment.take(made.effects)
        if self._armed is not None:
            self._break_call()

    def _inject(self, fault: Fault) -> None:
        match fault:
            case Fault.INTERRUPT | Fault.SUBMIT | Fault.CLOSE:
                self.take(AbortRequested(_ABORTS[fault]))
            case Fault.MESSAGE:
                content = message("typed", "user", MessageKind.COMMAND, (text_block(TYPED),))
                self.take(CommandQueued(command_id="typed", message=content))
            case Fault.KILL:
                self._kill()
            case Fault.CUT | Fault.OVERLOAD | Fault.TOO_LONG:
                self._armed = fault
                self._break_call()

    def _kill(self) -> None:
        lost = sorted((item.id for item in self.state.control.flight), key=_number)
        self.environment.take(tuple(Cancel(effect_id) for effect_id in lost))
        for effect_id in lost:
            if any(item.id == effect_id for item in self.state.control.flight):
                self.take(EffectLost(effect_id))

    def _break_call(self) -> None:
        """Break the model call in flight, if there is one."""
        call: Flight | None = next((item for item in self.state.control.flight if item.kind is EffectKind.CALL), None)
        if call is None or self._armed is None:
            return
        fault, self._armed = self._armed, None
        self.environment.take((Cancel(call.id),))
        self.take(StreamFailed(id=call.id, failure=failure_of(Failing(FAILURES[fault]))))


def _number(effect_id: str) -> int:
    return int(effect_id.rpartition("-")[2])


def goes_on(state: LoopState, config: LoopConfig) -> tuple[tuple[Event, Step], ...]:
    """Submit another prompt after a run has ended, and let the model answer it plainly.

    Args:
        state: where the run ended.
        config: its configuration.

    Returns:
        The events with the steps that took them.
    """
    simple = Scenario(
        name="after",
        title="After.",
        expect=None,  # type: ignore[arg-type]  # nothing of it is looked at
        config=config,
        prompt=(),
    )
    driver = _Driver(spared(simple), None, -1)
    driver.state = next_run(state, config)
    prompt = message("after/prompt", "user", MessageKind.PROMPT, (text_block("And now?"),))
    driver.take(RunStarted(run_id="after", messages=(prompt,), source="sdk"))
    for _ in range(MAX_STEPS):
        event = None if driver.state.phase in TERMINAL_SET else driver.environment.next()
        if event is None:
            break
        driver.take(event)
    return tuple(driver.steps)


def edges(begin: LoopState, steps: Iterable[tuple[Event, Step]], config: LoopConfig) -> tuple[Edge, ...]:
    """Lay the steps of a run out for laws."""
    found: list[Edge] = []
    for event, made in steps:
        found.append(Edge(begin, event, made, config))
        begin = made.state
    return tuple(found)


def judged(run: Evidence, laws: Iterable[Law]) -> tuple[str, ...]:
    """Judge a run by laws, by the wire checker and by the run checker."""
    problems = [
        f"{law.name} {'over the whole run' if place < 0 else f'at event {place}'}: {words}"
        for law, place, words in judge_run(edges(run.start, run.steps, run.config), run.config, laws)
    ]
    return (*problems, *check_requests(run.steps, run.config), *check_run(run, RUN_CHECKS))


def _one(scenario: Scenario, fault: Fault | None, at: int, laws: tuple[Law, ...]) -> Injected:
    driver = _Driver(scenario, fault, at)
    driver.run()
    config = scenario.config
    steps = tuple(driver.steps)
    problems = list(judged(Evidence(config, steps, first_state(scenario)), laws))
    if driver.state.phase not in TERMINAL_SET:
        problems.append(f"it rests in {driver.state.phase}")
    elif not _spent(driver.state):
        begin = next_run(driver.state, config)
        after = goes_on(driver.state, config)
        problems += [f"afterwards, {words}" for words in judged(Evidence(config, after, begin), laws)]
        called = any(isinstance(effect, CallModel) for _, made in after for effect in made.effects)
        if not called and after[-1][1].state.phase is not Phase.BLOCKING_LIMIT:
            problems.append(f"afterwards, no call was made: {after[-1][1].taken}")
        steps = (*steps, *after)
    return Injected(fault or Fault.MESSAGE, at, steps, tuple(problems))


def _spent(state: LoopState) -> bool:
    """Tell whether a limit stands that the next prompt meets too: the window, the money."""
    return state.phase in (Phase.BLOCKING_LIMIT, Phase.PROMPT_TOO_LONG)


def inject(
    scenario: Scenario, fault: Fault | str, at: int | None = None, laws: tuple[Law, ...] | None = None
) -> tuple[Injected, ...]:
    """Inject a fault at every event of a scenario, on the bare reducer, with the laws and both checkers on.

    Args:
        scenario: what happens otherwise; it gets spare replies.
        fault: what is injected.
        at: only right before the event of this number; None for each of them, and after the last.
        laws: judged on each run; by default all that are not costly.

    Returns:
        One entry for each place. All is well if no entry has ``problems``.

    Raises:
        ScenarioError: if a run does not come to rest.
        ValueError: for an unknown fault, and a place where no event is.
        TypeError: for what is no scenario.
    """
    fault = need_fault(fault)
    if laws is None:
        laws = (*[law for law in LAWS if law.over is not Over.RUN and not law.costly], *RUN_LAWS)
    full = spared(need_scenario(scenario))
    plain = _Driver(full, None, -1)
    plain.run()
    if at is not None:
        last = len(plain.steps)
        if isinstance(at, bool) or not isinstance(at, int) or not 0 <= at <= last:
            raise ValueError(f"at={at!r}: the run of {scenario.name} has {last} events; write a number from 0 to {last}")
        return (_one(full, fault, at, laws),)
    return tuple(_one(full, fault, place, laws) for place in range(len(plain.steps) + 1))
