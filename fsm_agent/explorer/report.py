"""A counterexample as a test that is ready to be pasted, and an exploration in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..core.config import LoopConfig
from ..core.events import Event
from ..core.state import LoopState, initial
from ..laws import Law
from .environment import NextRun
from .expand import Worker
from .explore import Explored, Violation
from .pasting import Source


def as_test(
    name: str, words: str, config: LoopConfig, start: LoopState, events: Iterable[Event | NextRun], law: Law | None
) -> str:
    """Write a run as a pytest test that fails as long as a law is broken at its end.

    Args:
        name: of the test, an identifier.
        words: what is wrong.
        config: the configuration.
        start: the state that it begins with; one that :func:`initial` gives for a history.
        events: the events, the last of which breaks the law; each :class:`NextRun` begins the session's next run.
        law: the broken law; None for a test that only takes the path.

    Returns:
        Source of a module with one test.
    """
    source = Source()
    source.need("fsm_agent.core.state", "initial")
    source.need("fsm_agent.laws.runs", "edges_of")
    lines = [f"    config = {source.of(config)}"]
    begin = "initial(config)"
    if start != initial(config):
        begin = f"initial(config, {source.of(start.data.messages)})"
    runs: list[list[Event]] = [[]]
    for event in events:
        if isinstance(event, NextRun):
            runs.append([])
        else:
            runs[-1].append(event)
    for number, happened in enumerate(runs):
        if number:
            source.need("fsm_agent.core.step", "next_run")
            begin = "next_run(edges[-1].made.state, config)"
        lines.append("    events = [")
        lines.extend(f"        {source.of(event)}," for event in happened)
        lines.append("    ]")
        lines.append(f"    edges = edges_of({begin}, events, config)")
    if law is not None:
        source.need("fsm_agent.laws", "judge_run")
        source.law(law)
        lines.append(f"    for _, place, words in judge_run(edges, config, ({law.name},)):")
        lines.append('        raise AssertionError(f"event {place}: {words}")')
    else:
        lines.append("    assert all(edge.made.rejected is None for edge in edges)")
    quoted = words.replace("\\", "\\\\").replace('"""', "'''").replace("\n", " ")
    quoted += " " if quoted.endswith('"') else ""
    head = f'def test_{name}() -> None:\n    """{quoted}"""'
    return f"{source.head()}\n\n\n{head}\n" + "\n".join(lines) + "\n"


def counterexample(explored: Explored, violation: Violation, laws: Iterable[Law]) -> str:
    """Write a violation as a test that is ready to be pasted.

    A law that cannot be imported, such as one of the script that explores, is taken over with what it uses; what cannot be
    taken over is named in a comment.
    """
    worker = Worker(explored.config, explored.bounds, (), explored.start)
    steps = worker.walk(violation.ordinals)
    law = next((law for law in laws if law.name == violation.law), None)
    events = [event for event, _, _ in steps]
    return as_test(violation.law, violation.words, explored.config, worker.begin()[1], events, law)


def limits_of(explored: Explored) -> str:
    """Name the bounds that may have cut a search off, as they are written."""
    return ", ".join(
        f"{name}={getattr(explored.bounds, name)}" for name in ("depth", "states") if getattr(explored.bounds, name)
    )


def verdict(found: Mapping[str, Explored]) -> str:
    """Say whether laws are broken, and whether everything was looked at.

    Args:
        found: explorations by the names of their cases.
    """
    broken = sum(len(one.violations) for one in found.values())
    cut = [name for name, one in found.items() if not one.complete]
    if broken:
        words = "1 law is broken" if broken == 1 else f"{broken} laws are broken"
        return words + (f"; not complete: {', '.join(cut)}" if cut else "")
    if not cut:
        return "no law is broken"
    limits = ", ".join(dict.fromkeys(limits_of(found[name]) for name in cut))
    return (
        f"not complete: within {limits} nothing was found that breaks a law; what lies farther was not visited, and whether "
        f"every run ends was not judged ({', '.join(cut)})"
    )


def summary(name: str, explored: Explored) -> str:
    """Say in a few lines what an exploration found."""
    rate = explored.pairs / explored.seconds if explored.seconds else 0
    lines = [
        f"{name}: {explored.states:,} states, {explored.pairs:,} pairs, depth {explored.depth}, "
        f"{len(explored.rows)} of {len(explored.rows) + len(explored.missed)} rows, {rate:,.0f} pairs/s"
        + ("" if explored.complete else f", not complete ({limits_of(explored)})")
    ]
    for violation in explored.violations:
        lines.append(f"  {violation.group} {violation.law}: {violation.words}")
        lines.extend(f"    {event}" for event in violation.path)
    return "\n".join(lines)
