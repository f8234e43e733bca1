"""The explored graph: predecessors for paths, successors for liveness."""

from __future__ import annotations

from array import array
from collections import deque

from attrs import Factory, define


@define
class Graph:
    """Abstract states by number.

    Attributes:
        parents: the state from which it was found first, -1 for the first state.
        ordinals: the event, by its place among those offered there.
        terminal: 1 for terminal states, 2 for those in which no run has begun.
        successors: numbers times two, plus one if an answer of the world leads there without the user or a crash.
        first_rows: where each row was taken first: (state, ordinal of the event).
        first_reasons: the same for each terminal reason and cause.
    """

    parents: array[int]
    ordinals: array[int]
    terminal: array[int]
    successors: list[array[int]]
    first_rows: dict[str, tuple[int, int]] = Factory(dict)
    first_reasons: dict[str, tuple[int, int]] = Factory(dict)

    def ordinals_to(self, number: int) -> tuple[int, ...]:
        """Give the shortest path to a state, as ordinals of events."""
        found: list[int] = []
        while self.parents[number] >= 0:
            found.append(self.ordinals[number])
            number = self.parents[number]
        return tuple(reversed(found))

    def depth_of(self, number: int) -> int:
        """Give the length of the shortest path to a state."""
        return len(self.ordinals_to(number))


def liveness(graph: Graph) -> list[tuple[str, int, str]]:
    """Judge that runs end.

    A terminal state is reachable from every state. Without the user, and with every effect answered in some order, each
    way ends in a terminal state: no state of a run is without an answer to wait for, and no answers lead in a circle.

    Returns:
        (law, state, what is wrong) for each that is broken.
    """
    return [*_reachable(graph), *_answered(graph), *_circles(graph)]


def _reachable(graph: Graph) -> list[tuple[str, int, str]]:
    count = len(graph.parents)
    before: list[list[int]] = [[] for _ in range(count)]
    for number, links in enumerate(graph.successors):
        for link in links:
            before[link >> 1].append(number)
    good = bytearray(count)
    waiting = deque(number for number in range(count) if graph.terminal[number] == 1)
    for number in waiting:
        good[number] = 1
    while waiting:
        for number in before[waiting.popleft()]:
            if not good[number]:
                good[number] = 1
                waiting.append(number)
    bad = good.find(0)
    return [("a_terminal_is_reachable", bad, "no path leads from here to an end")] if bad >= 0 else []


def _answered(graph: Graph) -> list[tuple[str, int, str]]:
    for number, links in enumerate(graph.successors):
        if number and not graph.terminal[number] and not any(link & 1 for link in links):
            return [("something_is_awaited", number, "no answer changes anything here")]
    return []


def _circles(graph: Graph) -> list[tuple[str, int, str]]:
    count = len(graph.parents)
    inward = [0] * count
    for links in graph.successors:
        for link in links:
            if link & 1:
                inward[link >> 1] += 1
    ready = deque(number for number in range(count) if not inward[number])
    left = count
    while ready:
        number = ready.popleft()
        left -= 1
        for link in graph.successors[number]:
            if link & 1:
                target = link >> 1
                inward[target] -= 1
                if not inward[target]:
                    ready.append(target)
    if not left:
        return []
    bad = next(number for number in range(count) if inward[number])
    return [("answers_lead_to_an_end", bad, f"answers lead in a circle ({left} states are on or behind it)")]
