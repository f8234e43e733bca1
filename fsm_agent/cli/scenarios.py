"""The list of scenarios, by what they show."""

from __future__ import annotations

import sys

from ..core.phases import SUCCESS, ContinueReason, TerminalReason
from ..scenario import Scenario, catalog, load
from .console import Paint, coloured, table


def groups(scenarios: tuple[Scenario, ...]) -> list[tuple[str, list[tuple[str, Scenario]]]]:
    """Group scenarios: one for each of the 7 continue reasons, all that show a terminal reason, and the others.

    Returns:
        Titles, each with (what it shows, scenario).
    """
    continues = [(reason.value, _best(reason, scenarios)) for reason in ContinueReason]
    shown = {scenario.name for _, scenario in continues if scenario is not None}
    terminals = [
        (f"{scenario.expect.reason.value} / {scenario.expect.cause.value}", scenario)
        for reason in TerminalReason
        for scenario in scenarios
        if scenario.expect.reason is reason and scenario.name not in shown and _is_terminal(scenario)
    ]
    shown |= {scenario.name for _, scenario in terminals}
    others = [
        (f"{scenario.expect.reason.value} / {scenario.expect.cause.value}", scenario)
        for scenario in scenarios
        if scenario.name not in shown
    ]
    return [
        ("The 7 ways in which the loop goes on", [(word, found) for word, found in continues if found is not None]),
        ("The 10 ways in which it ends", terminals),
        ("Recovery paths, and what else it does", others),
    ]


def _is_terminal(scenario: Scenario) -> bool:
    """Ends that failed, and the plainest of those that did not."""
    return scenario.expect.cause not in SUCCESS or scenario.name == "hello"


def _best(reason: ContinueReason, scenarios: tuple[Scenario, ...]) -> Scenario | None:
    """Choose the successful scenario that goes on by this reason and is named most like it."""
    words = set(reason.value.split("_"))
    fitting = [one for one in scenarios if reason in (one.expect.continues or ()) and one.expect.cause in SUCCESS]
    return max(fitting, key=lambda one: (len(words & set(one.name.split("-"))), -len(one.name)), default=None)


def list_text() -> str:
    """Give the whole list as text."""
    scenarios = tuple(load(name) for name in catalog())
    paint = Paint(coloured(sys.stdout))
    parts = []
    for title, members in groups(scenarios):
        rows = [(scenario.name, what, scenario.title) for what, scenario in members]
        parts.append(paint(title, bold=True) + "\n\n" + table(("scenario", "shows", "what happens"), rows, whole=(0,)))
    return "\n".join(parts)
