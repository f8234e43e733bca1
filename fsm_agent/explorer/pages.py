"""Pages that an exploration writes: what was visited, the bound of calls, and the shortest path to each row and reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..core.phases import ContinueReason, TerminalReason
from ..core.rank import bound, calls_bound
from ..core.rows import TABLE
from .bounds import Start
from .environment import TOKEN_BUDGET
from .explore import Explored
from .matrix import Case
from .paths import Path, length_to, paths_to, paths_to_row

Found = Sequence[tuple[Case, Explored]]
"""Cases, each with what was found."""

_MADE = "<!-- Made by `python -m tests.explorer.regenerate`; not to be edited. -->"


def shortest(found: Found) -> dict[str, tuple[str, Path]]:
    """Give the shortest path to each reason, of all cases: (name of the case, path) by the reason's name."""
    paths: dict[str, tuple[str, Path]] = {}
    for reason in (*ContinueReason, *TerminalReason):
        made = [(case.name, path) for case, one in found if (path := paths_to(one, reason)) is not None]
        if made:
            paths[reason.value] = min(made, key=lambda item: len(item[1].names))
    return paths


def shortest_rows(found: Found) -> dict[str, tuple[str, Path]]:
    """Give the shortest path to each declared row, of all cases: (name of the case, path) by the row's name."""
    paths: dict[str, tuple[str, Path]] = {}
    for row in TABLE.rows:
        lengths = [(length, place) for place, (_, one) in enumerate(found) if (length := length_to(one, row.name))]
        if lengths:
            case, one = found[min(lengths)[1]]
            path = paths_to_row(one, row.name)
            assert path is not None
            paths[row.name] = (case.name, path)
    return paths


def explored_page(found: Found) -> str:
    """Write what was visited, in Markdown.

    Args:
        found: cases of a matrix, each with what was found.

    Returns:
        The page, ended by a newline.
    """
    rows, reasons = shortest_rows(found), shortest(found)
    states, pairs = sum(one.states for _, one in found), sum(one.pairs for _, one in found)
    valuations = len(frozenset().union(*(one.valuations for _, one in found)))
    endings = len({name for _, one in found for name in one.reasons})
    lines = [
        _MADE,
        "",
        "# The machine, explored",
        "",
        f"`fsm-agent explore` visits {states:,} states and {pairs:,} pairs of state and event in {len(found)} cases. No law is "
        f"broken, from each state an end can be reached and under fair answers is reached. {len(rows)} of {len(TABLE.rows)} "
        f"declared rows and {endings} endings (reason and cause) are taken. `step`, the `transitions` machine and the "
        f"committed graph agree on every pair; the machine was fired for each of {valuations:,} triples of phase, trigger and "
        "answers of the guards, and in each of them the guards are a partition.",
        "",
        "![coverage](../../diagrams/coverage.svg)",
        "",
        "## Cases",
        "",
        "Calls are the most model calls between two exempt ones that were seen; B is the bound that the ranking gives for the "
        "configuration, and what is allowed is the smaller of B and `max_model_calls`.",
        "",
        "| case | what it turns wide open | states | pairs | longest path | calls | allowed | B |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    lines += [_case(case, one) for case, one in found]
    lines += [
        "",
        "## The shortest path to each reason",
        "",
        "Events by their abstract names: the number is the place of the answered effect among those in flight.",
        "",
        "| reason | case | events |",
        "| --- | --- | --- |",
    ]
    lines += [f"| `{name}` | {case} | {_names(path.names)} |" for name, (case, path) in reasons.items()]
    lines += ["", "## The shortest path to each declared row", "", "| row | case | events |", "| --- | --- | --- |"]
    lines += [f"| `{name}` | {case} | {_names(path.names)} |" for name, (case, path) in rows.items()]
    return "\n".join([*lines, ""])


def _names(names: Iterable[str]) -> str:
    return " ".join(f"`{name}`" for name in names)


def budget_of(case: Case) -> int | None:
    """Give the largest token budget with which a run of the case may start, None if it has none."""
    return TOKEN_BUDGET if {Start.BUDGET, Start.AGENT} & set(case.bounds.starts) else None


def _case(case: Case, one: Explored) -> str:
    budget = budget_of(case)
    return (
        f"| {case.name} | {case.text} | {one.states:,} | {one.pairs:,} | {one.depth} | {one.longest_call_run} "
        f"| {calls_bound(case.config, budget):,} | {bound(case.config, budget):,} |"
    )
