"""Expanding one state: every event it may get, what comes of each, and what the laws say."""

from __future__ import annotations

from attrs import field, frozen

from ..core.config import LoopConfig
from ..core.events import Event
from ..core.phases import TERMINAL_SET, Phase
from ..core.state import LoopState, Step
from ..core.step import LOOKUP, Lookup, step
from ..laws import Edge, Law, Over
from ..laws.law import ROWS
from .abstract import key_of
from .bounds import Bounds
from .environment import Environment, start

SAMPLE = 16
"""One state or edge in so many is judged by costly laws; one value in so many is compared with another state of it."""

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
    """

    pairs: int
    leads: list[Lead]
    rows: dict[str, int]
    reasons: dict[str, int]
    first: dict[str, int]
    faults: list[Found] = field(factory=list)
    longest: int = 0
    checked: int = 0


class Worker:
    """Holds the concrete states of a part of the frontier, and expands them."""

    def __init__(
        self,
        config: LoopConfig,
        bounds: Bounds,
        laws: tuple[Law, ...],
        begin: LoopState | None = None,
        lookup: Lookup = LOOKUP,
    ) -> None:
        self.config = config
        self.bounds = bounds
        self.environment = Environment(config, bounds)
        self.lookup = lookup
        self._begin = begin
        self._over_states = tuple(law for law in laws if law.over is Over.STATE)
        edges = [law for law in laws if law.over is Over.EDGE]
        self._over_edges = tuple(law for law in edges if not law.costly)
        self._dear_edges = tuple(law for law in edges if law.costly)
        self._over_quiet = tuple(law for law in edges if law.quiet)
        self.frontier: dict[int, LoopState] = {}
        self._next: dict[int, LoopState] = {}
        self._seen: set[bytes] = set()
        self._candidates: dict[int, list[LoopState | None]] = {}
        self._keys: dict[bytes, LoopState] = {}
        self._twins: dict[bytes, LoopState] = {}
        self._again = 0

    def begin(self) -> tuple[bytes, LoopState]:
        """Give the first state and its key."""
        state = self._begin if self._begin is not None else start(self.config, self.bounds)
        return self.key(state), state

    def key(self, state: LoopState) -> bytes:
        """Give a state's abstract value as bytes."""
        return key_of(state, self.config, loops=self.bounds.same_inputs)

    def keep(self, number: int, state: LoopState) -> None:
        """Put a state into the frontier in hand."""
        self.frontier[number] = state
        self._seen.add(self.key(state))

    def settle(self, number: int, won: list[int]) -> None:
        """Hear which of a state's new values are its own; they make the next frontier."""
        for state, winner in zip(self._candidates.pop(number), won, strict=True):
            if winner >= 0 and state is not None:
                self._next[winner] = state

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
        """
        state = self.frontier[number]
        config, lookup = self.config, self.lookup
        made = Expansion(0, [], {}, {}, {}, longest=state.control.guards.model_calls)
        self._judge_state(state, number, made)
        twin = self._twins.pop(self.key(state), None) if self._twins else None
        targets: dict[bytes, list[int]] = {}
        results: list[tuple[str, Step, bytes | None]] = []
        concrete: list[LoopState | None] = []
        offers = self.environment.offers(state)
        for ordinal, (name, event) in enumerate(offers):
            taken = step(state, event, config, lookup)
            if taken.state is state and not taken.effects:
                self._judge_quiet(state, event, taken, ordinal, made)
                if twin is not None:
                    results.append((name, taken, None))
                continue
            self._count(taken, ordinal, made)
            self._judge_edge(state, event, taken, number, ordinal, made)
            after = taken.state
            key = self.key(after)
            if twin is not None:
                results.append((name, taken, key))
            entry = targets.get(key)
            if entry is None:
                phase = after.control.phase
                terminal = 1 if phase in TERMINAL_SET else 2 * (phase is Phase.READY)
                targets[key] = [ordinal, 1, self.environment.fair(name), terminal]
                concrete.append(self._candidate(key, after))
            else:
                entry[1] += 1
                entry[2] = entry[2] or self.environment.fair(name)
        own = self.key(state)
        leads: list[Lead] = []
        for key, entry in targets.items():
            if key != own:
                leads.append((key, entry[0], entry[1], bool(entry[2]), entry[3]))
        kept = [item for item, key in zip(concrete, targets, strict=True) if key != own]
        self._candidates[number] = kept
        if twin is not None:
            self._compare(twin, results, made)
        return Expansion(
            len(offers), leads, made.rows, made.reasons, made.first, made.faults, made.longest, int(twin is not None)
        )

    def _candidate(self, key: bytes, state: LoopState) -> LoopState | None:
        """Keep a state whose value may be new; remember now and then another state of a value in hand."""
        if key not in self._seen:
            self._seen.add(key)
            self._keys[key] = state
            return state
        known = self._keys.get(key)
        if known is not None and key not in self._twins and known.data is not state.data:
            self._again += 1
            if self._again % SAMPLE == 0:
                self._twins[key] = state
        return None

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
            if law.costly and number % SAMPLE:
                continue
            words = law.check(state, self.config)
            if words:
                made.faults.append(Found(law.name, law.group, words, -1))

    def _judge_quiet(self, state: LoopState, event: Event, taken: Step, ordinal: int, made: Expansion) -> None:
        for name in taken.taken:
            if name in ROWS:
                made.rows[name] = made.rows.get(name, 0) + 1
                made.first.setdefault(name, ordinal)
        if self._over_quiet:
            edge = Edge(state, event, taken, self.config)
            for law in self._over_quiet:
                words = law.check(edge)
                if words:
                    made.faults.append(Found(law.name, law.group, words, ordinal))

    def _judge_edge(self, state: LoopState, event: Event, taken: Step, number: int, ordinal: int, made: Expansion) -> None:
        edge = Edge(state, event, taken, self.config)
        for law in self._over_edges:
            words = law.check(edge)
            if words:
                made.faults.append(Found(law.name, law.group, words, ordinal))
        if self._dear_edges and (number + ordinal) % SAMPLE == 0:
            for law in self._dear_edges:
                words = law.check(edge)
                if words:
                    made.faults.append(Found(law.name, law.group, words, ordinal))

    def _compare(self, twin: LoopState, results: list[tuple[str, Step, bytes | None]], made: Expansion) -> None:
        """Law: ``step`` respects the abstraction."""
        offers = self.environment.offers(twin)
        names = [name for name, _, _ in results]
        if names != [name for name, _ in offers]:
            different = set(names) ^ {name for name, _ in offers}
            made.faults.append(Found("step_respects_abstract", "abstraction", f"offers differ: {sorted(different)}", -1))
            return
        for ordinal, ((name, event), (_, expected, key)) in enumerate(zip(offers, results, strict=True)):
            taken = step(twin, event, self.config, self.lookup)
            quiet = taken.state is twin and not taken.effects
            got = None if quiet else self.key(taken.state)
            if taken.taken != expected.taken or got != key:
                words = f"{name}: {expected.taken} and {taken.taken}"
                made.faults.append(Found("step_respects_abstract", "abstraction", words, ordinal))
                return

    def walk(self, ordinals: tuple[int, ...]) -> list[tuple[Event, Step, str]]:
        """Take a path again from the first state: (event, step, name of the abstract event) each."""
        _, state = self.begin()
        found: list[tuple[Event, Step, str]] = []
        for ordinal in ordinals:
            name, event = self.environment.offers(state)[ordinal]
            taken = step(state, event, self.config, self.lookup)
            found.append((event, taken, name))
            state = taken.state
        return found
