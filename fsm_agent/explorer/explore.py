"""Breadth-first search of the abstract space: every state, every event, every law (spec 04, testing kit).

The search keeps one concrete state for each abstract value, the first that is found, and so by the shortest way. With
several jobs the frontier is divided: each worker expands the states that it found first, and the parent process decides,
in the order of the search, which value is new. Counts and paths do not depend on the number of jobs.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Sequence

from attrs import field, frozen

from ..core.config import LoopConfig
from ..core.phases import TerminalReason
from ..core.rows import TABLE
from ..core.state import LoopState
from ..core.step import LOOKUP, Lookup
from ..laws import LAWS, Law, LawError, Over, need_laws
from .bounds import Bounds
from .expand import SAMPLE, Expansion, Found, Worker
from .live import Graph, liveness
from .oracle import Oracle
from .teams import Team, gather

Progress = Callable[["Pace"], None]
"""Called once in a while, and at the end of each level."""


@frozen
class Pace:
    """How far an exploration is.

    Attributes:
        states: abstract states found.
        pairs: (state, event) pairs judged.
        depth: length of the paths in hand.
        frontier: states that wait to be expanded.
        seconds: since the start.
        rows: declared rows that were taken so far.
    """

    states: int
    pairs: int
    depth: int
    frontier: int
    seconds: float
    rows: int = 0

    @property
    def pairs_a_second(self) -> float:
        """Pairs judged per second."""
        return self.pairs / self.seconds if self.seconds else 0.0


@frozen
class Violation:
    """A broken law.

    Attributes:
        law: its name.
        group: its number in spec 04.
        words: what is wrong.
        path: abstract events that lead there, the last one breaks the law.
        ordinals: the same path, by the place of each event among those offered.
    """

    law: str
    group: str
    words: str
    path: tuple[str, ...]
    ordinals: tuple[int, ...] = ()


@frozen
class Explored:
    """What an exploration found.

    Attributes:
        config: the configuration.
        bounds: the bounds.
        states: abstract states.
        pairs: (state, event) pairs.
        edges: pairs that led to another state.
        depth: length of the longest shortest path.
        terminals: abstract terminal states.
        rows: for each declared row that was taken, how often.
        reasons: for each terminal reason and cause that was reached, in how many pairs.
        violations: broken laws, each once, with its shortest path.
        checked: how often two concrete states of one value were compared.
        longest_call_run: most model calls between two exempt ones.
        complete: the whole space within the bounds was visited.
        seconds: wall time.
        graph: predecessors and successors, for paths.
        start: the state to begin with, if it was given.
        valuations: the (phase, trigger, answers of the guards) triples that the oracle compared, as numbers.
    """

    config: LoopConfig
    bounds: Bounds
    states: int
    pairs: int
    edges: int
    depth: int
    terminals: int
    rows: dict[str, int]
    reasons: dict[str, int]
    violations: tuple[Violation, ...]
    checked: int
    longest_call_run: int
    complete: bool
    seconds: float
    graph: Graph = field(repr=False)
    start: LoopState | None = field(default=None, repr=False)
    valuations: frozenset[int] = field(default=frozenset(), repr=False)

    @property
    def missed(self) -> tuple[str, ...]:
        """Declared rows that no path within the bounds takes."""
        return tuple(row.name for row in TABLE.rows if row.name not in self.rows)

    @property
    def coverage(self) -> float:
        """Share of declared rows that were taken, from 0 to 1."""
        return len(self.rows) / len(TABLE.rows)

    @property
    def terminal_reasons(self) -> tuple[TerminalReason, ...]:
        """Terminal reasons that were reached."""
        return tuple(reason for reason in TerminalReason if any(name.startswith(f"{reason.value}/") for name in self.reasons))


class Search:
    """The bookkeeping of one search: numbers of abstract values, predecessors, counts."""

    def __init__(self, config: LoopConfig, bounds: Bounds) -> None:
        self.config = config
        self.bounds = bounds
        self.numbers: dict[bytes, int] = {}
        self.graph = Graph(array("q"), array("q"), array("b"), [])
        self.pairs = 0
        self.edges = 0
        self.checked = 0
        self.longest = 0
        self.rows: dict[str, int] = {}
        self.reasons: dict[str, int] = {}
        self.faults: dict[str, tuple[int, int, Found]] = {}
        self.valuations: set[int] = set()

    def add(self, key: bytes, parent: int, ordinal: int, terminal: int) -> int:
        """Number a new value."""
        number = len(self.numbers)
        self.numbers[key] = number
        self.graph.parents.append(parent)
        self.graph.ordinals.append(ordinal)
        self.graph.terminal.append(terminal)
        self.graph.successors.append(array("q"))
        return number

    def take(self, number: int, expansion: Expansion) -> list[int]:
        """Enter what a state leads to.

        Returns:
            For each of its new values, in order: its number, or -1 where another state had found it before.
        """
        self.pairs += expansion.pairs
        self.checked += expansion.checked
        self.valuations.update(expansion.valuations)
        self.longest = max(self.longest, expansion.longest)
        for name, count in expansion.rows.items():
            self.rows[name] = self.rows.get(name, 0) + count
            self.graph.first_rows.setdefault(name, (number, expansion.first[name]))
        for name, count in expansion.reasons.items():
            self.reasons[name] = self.reasons.get(name, 0) + count
            self.graph.first_reasons.setdefault(name, (number, expansion.first[name]))
        for fault in expansion.faults:
            self.faults.setdefault(fault.law, (number, fault.ordinal, fault))
        won: list[int] = []
        links = self.graph.successors[number]
        for key, ordinal, count, fair, terminal in expansion.leads:
            known = self.numbers.get(key)
            if known is None:
                known = self.add(key, number, ordinal, terminal)
                won.append(known)
            else:
                won.append(-1)
            self.edges += count
            links.append(known * 2 + fair)
        return won


def explore(
    config: LoopConfig,
    bounds: Bounds | None = None,
    laws: Sequence[Law] = LAWS,
    jobs: int = 1,
    progress: Progress | None = None,
    *,
    start: LoopState | None = None,
    lookup: Lookup = LOOKUP,
    oracle: Oracle | None = None,
    sample: int = SAMPLE,
    twins: int = 0,
) -> Explored:
    """Visit the whole abstract space of a configuration within bounds, and judge every law on it.

    Args:
        config: the configuration.
        bounds: what the environment may do; by default a small alphabet.
        laws: the laws; users add their own.
        jobs: processes that share the frontier. More than one needs ``fork``.
        progress: told how far the search is, after each level.
        start: the state to begin with; by default that of a session with ``bounds.old_rounds``.
        lookup: the table; another one than the declared is for tests of the table.
        oracle: judges every step too; the reducer runs on its table then.
        sample: one state or edge in so many is judged by costly laws.
        twins: one in so many states of a value that is known already is compared with the first; 0 for a quarter of
            ``sample``.

    Returns:
        Counts, coverage and violations. A violated law has the shortest path that breaks it.

    Raises:
        LawError: for a law that raises, or gives what is no text; it tells the path, and has what was raised as its cause.
        TypeError: for a law over whole runs, and for what is no law.
        ValueError: for ``jobs``, ``sample`` or ``twins`` out of range.
    """
    bounds = bounds if bounds is not None else Bounds()
    for name, value, least in (("jobs", jobs, 1), ("sample", sample, 1), ("twins", twins, 0)):
        if not isinstance(value, int) or value < least:
            raise ValueError(f"{name}={value!r}: must be a whole number of at least {least}")
    began = time.monotonic()
    search = Search(config, bounds)
    worker = Worker(config, bounds, _judging(laws), start, lookup, oracle, sample, twins)
    key, first = worker.begin()
    search.add(key, -1, -1, 2)
    worker.keep(0, first)
    team = Team(worker, jobs)
    depth, complete = 0, True
    try:
        while team.waiting():
            if (bounds.depth and depth >= bounds.depth) or (bounds.states and len(search.numbers) >= bounds.states):
                complete = False
                break
            for number, expansion in gather(team):
                team.tell(number, search.take(number, expansion))
            team.turn()
            depth += 1
            if progress is not None:
                progress(
                    Pace(len(search.numbers), search.pairs, depth, team.waiting(), time.monotonic() - began, len(search.rows))
                )
    except LawError as error:
        raise _located(error, search, worker) from error.__cause__
    finally:
        team.close()
    faults = [_at(search, worker, found, number) for number, _, found in search.faults.values()]
    if complete:
        faults += [
            _at(search, worker, Found(law, "liveness", words, -1), number) for law, number, words in liveness(search.graph)
        ]
    faults.sort(key=lambda fault: (len(fault.path), fault.law))
    return Explored(
        config=config,
        bounds=bounds,
        states=len(search.numbers),
        pairs=search.pairs,
        edges=search.edges,
        depth=max(depth - 1, 0),
        terminals=sum(mark == 1 for mark in search.graph.terminal),
        rows=dict(sorted(search.rows.items())),
        reasons=dict(sorted(search.reasons.items())),
        violations=tuple(faults),
        checked=search.checked,
        longest_call_run=search.longest,
        complete=complete,
        seconds=time.monotonic() - began,
        graph=search.graph,
        start=start,
        valuations=frozenset(search.valuations),
    )


def _judging(laws: Sequence[Law]) -> tuple[Law, ...]:
    """Give the laws; one that could never be judged here must not seem to hold."""
    given = need_laws(laws)
    over_runs = [law.name for law in given if law.over is Over.RUN]
    if over_runs:
        raise TypeError(
            f"{', '.join(over_runs)}: an exploration sees states and edges, never a whole run; write @state_law() or "
            "@edge_law(), or judge runs by it: judge_run(...), trial(..., laws=...), inject(..., laws=...)"
        )
    return given


def _located(error: LawError, search: Search, worker: Worker) -> LawError:
    """Say by which events the state is reached at which a law could not judge."""
    ordinals = search.graph.ordinals_to(error.state)
    names = [name for _, _, name in worker.walk(ordinals if error.ordinal < 0 else (*ordinals, error.ordinal))]
    told = LawError(error.law, error.words, f"behind {', '.join(names)}" if names else "at the first state")
    told.state, told.ordinal = error.state, error.ordinal
    return told


def _at(search: Search, worker: Worker, found: Found, number: int) -> Violation:
    ordinals = search.graph.ordinals_to(number)
    if found.ordinal >= 0:
        ordinals = (*ordinals, found.ordinal)
    path = tuple(name for _, _, name in worker.walk(ordinals))
    return Violation(found.law, found.group, found.words, path, ordinals)
