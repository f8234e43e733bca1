"""The judge of a mutant: first the stated laws, at the situations that execute it; then everything that is pinned.

What the original does at a situation says where to look, and never what is right: a step that differs is judged by the
laws alone, on the edge itself, and then on walks that go on from it. What is pinned (golden): what scenarios do, the
counts of a small exploration, and examples among the tests of the core. A law needs none of that.
"""

from __future__ import annotations

import random
import signal
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from attrs import frozen

from fsm_agent.core.phases import TERMINAL_SET
from fsm_agent.core.request.encode import body_of
from fsm_agent.core.rows import TABLE
from fsm_agent.core.rows.check import TableError, check
from fsm_agent.core.state import Step
from fsm_agent.core.step import step
from fsm_agent.explorer.bounds import KINDS, Bounds, Form, Piece
from fsm_agent.explorer.environment import Environment
from fsm_agent.explorer.explore import explore
from fsm_agent.laws import LAWS, Edge, Over
from fsm_agent.laws.runs import RUN_LAWS
from fsm_agent.server.wire_checker import check_request, decode_body

from . import worlds
from .code import CodeMutant
from .corpus import Corpus, Situation
from .table import TableMutant, mutated

TESTS = Path(__file__).resolve().parents[1]
OVER_STATES = tuple(law for law in LAWS if law.over is Over.STATE)
OVER_EDGES = tuple(sorted((law for law in LAWS if law.over is Over.EDGE), key=lambda law: law.costly))
MOST = 1_500
"""Situations at which one mutant differs and is judged by all laws; it is asked at all that it can change."""
ON, STEPS = 24, 30
"""Differing steps from which walks go on, and how far."""
SECONDS = 3.0
"""Processor seconds that one batch of steps may take; a mutant that takes longer does not end."""
SUITE = (
    "core/test_loops.py",
    "core/test_continues.py",
    "core/test_replies.py",
    "core/context/test_compact.py",
    "core/context/test_layers.py",
)


class Hangs(BaseException):
    """A step does not end."""


def _hangs(number: int, frame: Any) -> None:
    raise Hangs


def _arm() -> None:
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)


@frozen
class Verdict:
    """What became of a mutant.

    Attributes:
        laws: the stated law that it breaks, or empty.
        pinned: the pinned part that notices it, if no law does.
        asked: situations at which it was asked.
        differs: how many of them it changes.
    """

    laws: str = ""
    pinned: str = ""
    asked: int = 0
    differs: int = 0
    where: str = ""


def broken(edge: Edge, *, wire: bool = False) -> str:
    """Name the first law that an edge breaks; empty if it breaks none."""
    for law in OVER_EDGES:
        if law.quiet or not edge.quiet:
            words = law.check(edge)
            if words:
                return f"{law.group} {law.name}: {words}"
    if not edge.quiet:
        for law in OVER_STATES:
            words = law.check(edge.made.state, edge.config)
            if words:
                return f"{law.group} {law.name}: {words}"
    for call in edge.calls if wire else ():
        breaches = check_request(decode_body(body_of(call.request)), edge.config.info(call.request.model), call.request.betas)
        if breaches:
            return f"I6 {breaches[0].rule}: {breaches[0].text}"
    return ""


def broken_run(edges: tuple[Edge, ...], config: Any) -> str:
    """Name the first law that a whole run breaks."""
    for law in RUN_LAWS:
        words = law.check(edges, config)
        if words:
            return f"{law.group} {law.name}: {words}"
    return ""


def situations_of(mutant: CodeMutant | TableMutant, corpus: Corpus) -> list[int]:
    """Give the numbers of the situations that a mutant can change."""
    found: set[int] = set()
    if isinstance(mutant, CodeMutant):
        first, last = mutant.lines
        for line in range(first, last + 1):
            found.update(corpus.at.get((mutant.path, line), ()))
    elif mutant.what == "add":
        blank = next(one for one in (*TABLE.ignores, *TABLE.rejects) if one.name == mutant.row)
        found.update(corpus.cells.get((blank.source, blank.event), ()))
    else:
        row = next(row for row in TABLE.rows if row.name == mutant.row)
        for other in TABLE.rows:
            if other is row or ((other.source, other.event) == (row.source, row.event) and mutant.what != "retarget"):
                found.update(corpus.rows.get(other.name, ()))
    return sorted(found)


def refused(mutant: CodeMutant | TableMutant) -> str:
    """Say why the import-time check refuses the table of a mutant; empty if it does not. Needs no process of its own."""
    if isinstance(mutant, TableMutant):
        try:
            check(mutated(mutant))
        except TableError as error:
            return f"import check: {error}"
    return ""


def judge(numbers: list[int], corpus: Corpus, original_rows: dict[str, int], *, examples: bool) -> Verdict:
    """Judge the machine as it now is in this process, a mutant.

    Args:
        numbers: the situations that it can change.
        corpus: all situations.
        original_rows: for each row, how many situations take it in the original.
        examples: ask the examples among the tests of the core too, if no law is broken.
    """
    signal.signal(signal.SIGVTALRM, _hangs)
    try:
        return _judge(numbers, corpus, original_rows, examples)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _judge(numbers: list[int], corpus: Corpus, original_rows: dict[str, int], examples: bool) -> Verdict:
    different: list[tuple[Situation, Step]] = []
    left = dict(original_rows)
    asked = _spread(numbers, corpus)
    for place, number in enumerate(asked):
        if place % 64 == 0:
            _arm()
        one = corpus.situations[number]
        try:
            made = step(one.before, one.event, one.config)
        except Hangs:
            return Verdict("I8 a step does not end", asked=place, differs=len(different))
        except Exception as error:
            return Verdict(f"I1 step raises {type(error).__name__}", asked=place, differs=len(different))
        if made.taken != one.made.taken:
            for name in one.made.taken:
                left[name] = left.get(name, 0) - 1
            for name in made.taken:
                left[name] = left.get(name, 0) + 1
        if made == one.made or len(different) >= MOST:
            continue
        different.append((one, made))
        _arm()
        try:
            words = broken(Edge(one.before, one.event, made, one.config), wire=one.rich)
        except Hangs:
            words = "I8 a law does not come to an end"
        except Exception as error:
            words = f"I1 a law meets {type(error).__name__}: {error}"
        if words:
            return Verdict(words, asked=place + 1, differs=len(different))
    seen = {"asked": len(asked), "differs": len(different), "where": _where(different)}
    if different or any(row.name == "added" for row in TABLE.rows):
        never = next(
            (row.name for row in TABLE.rows if left.get(row.name, 0) <= 0 < original_rows.get(row.name, row.name == "added")),
            "",
        )
        if never:
            return Verdict(f"I4 row {never} is never taken", **seen)
    words = _going_on(different)
    if words:
        return Verdict(words, **seen)
    return Verdict("", _pinned(different, examples), **seen)


def _spread(numbers: list[int], corpus: Corpus) -> list[int]:
    """Put situations in order: of each sequence of rows one, then of each a second one, and so on."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for number in random.Random(1).sample(numbers, len(numbers)):
        groups.setdefault(corpus.situations[number].made.taken, []).append(number)
    layers = range(max(map(len, groups.values()), default=0))
    return [members[layer] for layer in layers for members in groups.values() if layer < len(members)]


def _where(different: list[tuple[Situation, Step]]) -> str:
    if not different:
        return ""
    one, made = different[0]
    return f"{type(one.event).__name__} {one.made.taken} -> {made.taken}"[:200]


def _going_on(different: list[tuple[Situation, Step]]) -> str:
    """Go on from steps that differ, judged by every law, as runs too."""
    pick = random.Random(7)
    chosen = different if len(different) <= ON else pick.sample(different, ON)
    for one, made in chosen:
        bounds = Bounds(usage=(20_000, 110_000), pieces=tuple(Piece), forms=tuple(Form), kinds=KINDS)
        environment = Environment(one.config, bounds)
        edges = [Edge(item.before, item.event, item.made, one.config) for item in one.trail]
        edges.append(Edge(one.before, one.event, made, one.config))
        state = made.state
        _arm()
        try:
            for _ in range(STEPS):
                if state.phase in TERMINAL_SET:
                    break
                event = worlds.choose(environment, state, pick)
                edge = Edge(state, event, step(state, event, one.config), one.config)
                edges.append(edge)
                words = broken(edge)
                if words:
                    return words
                state = edge.made.state
            words = broken_run(tuple(edges), one.config) if one.trail else ""
        except Hangs:
            return "I8 a walk does not end"
        except Exception as error:
            return f"I1 step raises {type(error).__name__}"
        if words:
            return words
    if not different:
        return ""
    _arm()
    signal.setitimer(signal.ITIMER_VIRTUAL, 10 * SECONDS)
    try:
        tiny = next(worlds.cases())
        found = explore(tiny.config, tiny.bounds, LAWS)
    except Hangs:
        return "I8 an exploration does not end"
    except Exception as error:
        return f"I1 step raises {type(error).__name__}"
    if found.violations:
        fault = found.violations[0]
        return f"{fault.group} {fault.law}: {fault.words}"
    return ""


def _pinned(different: list[tuple[Situation, Step]], examples: bool) -> str:
    """Judge by what is pinned: what scenarios do, and examples."""
    for one, made in different:
        if one.scenario and (made.effects != one.made.effects or made.taken != one.made.taken):
            return f"scenario {one.scenario}"
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return _by_tests() if examples else ""


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


def faults_of_the_original(corpus: Corpus, numbers: list[int]) -> list[str]:
    """Judge situations as they are: the original must keep every law at each of them, or nothing is proved."""
    found = []
    for number in numbers:
        one = corpus.situations[number]
        words = broken(Edge(one.before, one.event, one.made, one.config), wire=one.rich)
        if not words and one.trail and number % 8 == 0:
            edges = [Edge(item.before, item.event, item.made, one.config) for item in one.trail]
            words = broken_run((*edges, Edge(one.before, one.event, one.made, one.config)), one.config)
        if words:
            found.append(f"situation {number}: {words}")
    return found
