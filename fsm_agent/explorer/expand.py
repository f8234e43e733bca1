"""Expanding one state: every event it may get, what comes of each, and what the laws say."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attrs import field, frozen

from ..core.config import LoopConfig
from ..core.events import Event
from ..core.phases import TERMINAL_SET, Phase
from ..core.state import LoopState, Step
from ..core.step import LOOKUP, Lookup, step
from ..laws import Edge, Law, LawError, Over
from ..laws.law import ROWS, need_words, raised
from .abstract import key_of
from .bounds import Bounds
from .environment import Environment, NextRun, after_run, start
from .oracle import Oracle
from .twins import Result, Twins

SAMPLE = 16
"""One state or edge in so many is judged by costly laws; unless told, states of one value are compared four times as often."""

Lead = tuple[bytes, int, int, bool, int]
"""An abstract successor: its key, the first event that leads there, how many do, if a fair one does, how it rests."""


@frozen
class Found:
    """A broken law at a state: ``ordinal`` of the event that breaks it, -1 if the state itself does."""

    law: str
    group: str
    words: str
    ordinal: int


@frozen
class Expansion:
    """What became of one state.

    Attributes:
        pairs: events judged.
        leads: other abstract values that it leads to, in order.
        rows: how often each row was taken.
        reasons: how often each terminal reason and cause was reached.
        first: for each row and reason, the first event that led to it.
        faults: broken laws.
        longest: most model calls since the last exempt one.
        checked: comparisons with another state of the same value.
        valuations: what the oracle saw for the first time.
    """

    pairs: int
    leads: list[Lead]
    rows: dict[str, int]
    reasons: dict[str, int]
    first: dict[str, int]
    faults: list[Found] = field(factory=list)
    longest: int = 0
    checked: int = 0
    valuations: tuple[int, ...] = ()


class Worker:
    """Holds the concrete states of a part of the frontier, and expands them."""

    def __init__(
        self,
        config: LoopConfig,
        bounds: Bounds,
        laws: tuple[Law, ...],
        begin: LoopState | None = None,
        lookup: Lookup = LOOKUP,
        oracle: Oracle | None = None,
        sample: int = SAMPLE,
        twins: int = 0,
    ) -> None:
        self.config = config
        self.bounds = bounds
        self.environment = Environment(config, bounds)
        self.lookup = lookup
        self._begin = begin
        self._oracle = oracle
        self._sample = sample
        self._over_states = tuple(law for law in laws if law.over is Over.STATE)
        edges = [law for law in laws if law.over is Over.EDGE]
        self._over_edges = _checks(law for law in edges if not law.costly)
        self._dear_edges = _checks(law for law in edges if law.costly)
        self._over_quiet = _checks(law for law in edges if law.quiet)
        self.frontier: dict[int, LoopState] = {}
        self._next: dict[int, LoopState] = {}
        self._runs: dict[int, int] = {}
        self._seen: set[bytes] = set()
        self._candidates: dict[int, list[tuple[LoopState, int] | None]] = {}
        self._keys: dict[bytes, LoopState] = {}
        self._twins = Twins(config, self.environment, lookup, self.key, twins or max(1, sample // 4))
        if oracle is not None:
            oracle.begin()

    def begin(self) -> tuple[bytes, LoopState]:
        """Give the first state and its key."""
        state = self._begin if self._begin is not None else start(self.config, self.bounds)
        return self.key(state, 1), state

    def key(self, state: LoopState, run: int = 1) -> bytes:
        """Give the abstract value of a state of a run as bytes."""
        loops, runs = self.bounds.same_inputs, self.bounds.runs
        key = key_of(state, self.config, loops=loops)
        if runs == 1:
            return key
        if run < runs and state.control.phase in TERMINAL_SET:  # what the session keeps will decide in its next run
            key += key_of(after_run(state, self.config), self.config, loops=loops)
        return key + bytes((run,))

    def keep(self, number: int, state: LoopState) -> None:
        """Put a state into the frontier in hand."""
        self.frontier[number] = state
        self._seen.add(self.key(state))

    def settle(self, number: int, won: list[int]) -> None:
        """Hear which of a state's new values are its own; they make the next frontier."""
        for held, winner in zip(self._candidates.pop(number), won, strict=True):
            if winner >= 0 and held is not None:
                self._next[winner], run = held
                if run > 1:
                    self._runs[winner] = run

    def turn(self) -> None:
        """Go on to the next level."""
        self.frontier, self._next = dict(sorted(self._next.items())), {}
        self._candidates.clear()
        self._keys.clear()

    def expand(self, number: int) -> Expansion:
        """Take every event at a state of the frontier.

        Args:
            number: the number of its abstract value.

        Returns:
            What came of it. The concrete successors stay with the worker until :meth:`settle`.

        Raises:
            LawError: for a law that raises, or gives what is no text.
        """
        try:
            return self._expand(number)
        except LawError as error:
            error.state = number
            raise

    def _expand(self, number: int) -> Expansion:
        state, run = self.frontier[number], self._runs.get(number, 1)
        own = self.key(state, run)
        made = Expansion(0, [], {}, {}, {}, longest=state.control.guards.model_calls)
        before = self._twins.checked
        self._judge_state(state, number, made)
        targets: dict[bytes, list[int]] = {}
        results: list[Result] = []
        concrete: list[tuple[LoopState, int] | None] = []
        offers = self.environment.all(state, run)
        for ordinal, (name, event) in enumerate(offers):
            if isinstance(event, NextRun):
                taken, now = Step(after_run(state, self.config), (), (), None), run + 1
            else:
                taken, now = self._step(state, event, ordinal, made), run
                if taken.state is state and not taken.effects:
                    self._judge_quiet(state, event, taken, ordinal, made)
                    results.append((name, taken.taken, None))
                    continue
                self._count(taken, ordinal, made)
                self._judge_edge(state, event, taken, number, ordinal, made)
            after = taken.state
            key = self.key(after, now)
            results.append((name, taken.taken, key))
            entry = targets.get(key)
            if entry is None:
                phase = after.control.phase
                terminal = 1 if phase in TERMINAL_SET else 2 * (phase is Phase.READY)
                targets[key] = [ordinal, 1, self.environment.fair(name), terminal]
                concrete.append(self._candidate(key, after, now, ordinal, made))
            else:
                entry[1] += 1
                entry[2] = entry[2] or self.environment.fair(name)
                self._meet(key, after, now, ordinal, made)
        leads = [(key, entry[0], entry[1], bool(entry[2]), entry[3]) for key, entry in targets.items() if key != own]
        self._candidates[number] = [item for item, key in zip(concrete, targets, strict=True) if key != own]
        words, place = self._twins.expanded(own, results, run)
        if words:
            made.faults.append(Found("step_respects_abstract", "abstraction", words, place))
        return Expansion(
            len(offers),
            leads,
            made.rows,
            made.reasons,
            made.first,
            made.faults,
            made.longest,
            self._twins.checked - before,
            self._oracle.news() if self._oracle is not None else (),
        )

    def _step(self, state: LoopState, event: Event, ordinal: int, made: Expansion) -> Step:
        """Take one event; the oracle looks on, if there is one."""
        oracle = self._oracle
        if oracle is None:
            return step(state, event, self.config, self.lookup)
        taken = step(state, event, self.config, oracle.lookup)
        words = oracle.judge(state, event, taken, self.config)
        if words:
            made.faults.append(Found("the_witnesses_agree", "agreement", words, ordinal))
        return taken

    def _candidate(self, key: bytes, state: LoopState, run: int, ordinal: int, made: Expansion) -> tuple[LoopState, int] | None:
        """Keep a state whose value may be new; one whose value is known may be compared."""
        if key not in self._seen:
            self._seen.add(key)
            self._keys[key] = state
            return state, run
        self._meet(key, state, run, ordinal, made)
        return None

    def _meet(self, key: bytes, state: LoopState, run: int, ordinal: int, made: Expansion) -> None:
        words = self._twins.meet(key, state, self._keys.get(key), run)
        if words:
            made.faults.append(Found("step_respects_abstract", "abstraction", words, ordinal))

    def _count(self, taken: Step, ordinal: int, made: Expansion) -> None:
        rows, first = made.rows, made.first
        for name in taken.taken:
            if name in ROWS:
                rows[name] = rows.get(name, 0) + 1
                first.setdefault(name, ordinal)
        terminal = taken.state.data.terminal
        if terminal is not None:
            word = f"{terminal.reason.value}/{terminal.cause.value}"
            made.reasons[word] = made.reasons.get(word, 0) + 1
            first.setdefault(word, ordinal)

    def _judge_state(self, state: LoopState, number: int, made: Expansion) -> None:
        for law in self._over_states:
            if law.costly and number % self._sample:
                continue
            try:
                words = law.check(state, self.config)
            except Exception as problem:
                raise raised(law, problem) from problem
            if words != "":
                made.faults.append(Found(law.name, law.group, need_words(law, words), -1))

    def _judge_quiet(self, state: LoopState, event: Event, taken: Step, ordinal: int, made: Expansion) -> None:
        for name in taken.taken:
            if name in ROWS:
                made.rows[name] = made.rows.get(name, 0) + 1
                made.first.setdefault(name, ordinal)
        if self._over_quiet:
            self._judge(self._over_quiet, Edge(state, event, taken, self.config), ordinal, made)

    def _judge_edge(self, state: LoopState, event: Event, taken: Step, number: int, ordinal: int, made: Expansion) -> None:
        edge = Edge(state, event, taken, self.config)
        self._judge(self._over_edges, edge, ordinal, made)
        if self._dear_edges and (number + ordinal) % self._sample == 0:
            self._judge(self._dear_edges, edge, ordinal, made)

    def _judge(self, checks: Checks, edge: Edge, ordinal: int, made: Expansion) -> None:
        try:
            for check, law in checks:
                words = check(edge)
                if words != "":
                    made.faults.append(Found(law.name, law.group, need_words(law, words), ordinal))
        except Exception as problem:
            error = problem if isinstance(problem, LawError) else raised(law, problem)
            error.ordinal = ordinal
            raise error from (None if error is problem else problem)

    def walk(self, ordinals: tuple[int, ...]) -> list[tuple[Event | NextRun, Step, str]]:
        """Take a path again from the first state: (event, step, name of the abstract event) each."""
        _, state = self.begin()
        found: list[tuple[Event | NextRun, Step, str]] = []
        run = 1
        for ordinal in ordinals:
            name, event = self.environment.all(state, run)[ordinal]
            if isinstance(event, NextRun):
                taken, run = Step(after_run(state, self.config), (), (), None), run + 1
            else:
                taken = step(state, event, self.config, self.lookup)
            found.append((event, taken, name))
            state = taken.state
        return found


Checks = tuple[tuple[Callable[[Edge], str], Law], ...]
"""What to ask of an edge, each with its law."""


def _checks(laws: Iterable[Law]) -> Checks:
    return tuple((law.check, law) for law in laws)
