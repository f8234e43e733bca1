"""The law of the abstraction: ``step`` takes states of one value alike (spec 01, section 1). Held by sample.

The search expands the first state that it finds of each value. Another one that comes along is kept until the first is
expanded, if that is still to be done; if it was done before, the digest of what it did is enough.
"""

from __future__ import annotations

from collections.abc import Callable

from ..core.config import LoopConfig
from ..core.phases import TERMINAL_SET
from ..core.state import LoopState
from ..core.step import Lookup, step
from .environment import Environment, NextRun, after_run

Result = tuple[str, tuple[str, ...], bytes | None]
"""Of one event: its name, the rows taken, the key of the value that it leads to; None if nothing happened."""
LATE = 32
"""A value that was expanded before is compared so many times less often: each comparison expands a state once more."""


class Twins:
    """Other states of known values, some of which are compared with the first of theirs."""

    def __init__(
        self,
        config: LoopConfig,
        environment: Environment,
        lookup: Lookup,
        key: Callable[[LoopState, int], bytes],
        sample: int,
    ) -> None:
        """Prepare the comparison.

        Args:
            config: the configuration.
            environment: what may happen at a state.
            lookup: the table.
            key: gives the value of a state of a run.
            sample: one in so many is compared.
        """
        self._config = config
        self._environment = environment
        self._lookup = lookup
        self._key = key
        self._sample = sample
        self._waiting: dict[bytes, list[LoopState]] = {}
        self._digests: dict[bytes, int] = {}
        self._again = 0
        self.checked = 0

    def meet(self, key: bytes, state: LoopState, first: LoopState | None, run: int) -> str:
        """Meet a state of a known value.

        Args:
            key: its value.
            state: the state.
            first: the first state of that value, if it was found in the same level and is here.
            run: number of the run.

        Returns:
            In what the two differ; empty if they do not, or are not compared now.
        """
        if state.control.phase in TERMINAL_SET:
            return ""
        self._again += 1
        if self._again % self._sample:
            return ""
        if key not in self._digests:  # the first is still to be expanded
            if first is None or first.data is not state.data:
                self._waiting.setdefault(key, []).append(state)
            return ""
        if self._again % (self._sample * LATE):
            return ""
        self.checked += 1
        results = self._results(state, run)
        return "" if hash(tuple(results)) == self._digests[key] else "a later state of a known value takes other steps"

    def expanded(self, key: bytes, results: list[Result], run: int) -> tuple[str, int]:
        """Hear what came of the first state of a value.

        Returns:
            In what another state of the value that waited differs, empty if in nothing; and the place of the event, or -1.
        """
        self._digests[key] = hash(tuple(results))
        for twin in self._waiting.pop(key, ()):
            self.checked += 1
            words, place = _compared(results, self._results(twin, run))
            if words:
                return words, place
        return "", -1

    def _results(self, state: LoopState, run: int) -> list[Result]:
        found: list[Result] = []
        for name, event in self._environment.all(state, run):
            if isinstance(event, NextRun):
                found.append((name, (), self._key(after_run(state, self._config), run + 1)))
                continue
            taken = step(state, event, self._config, self._lookup)
            quiet = taken.state is state and not taken.effects
            found.append((name, taken.taken, None if quiet else self._key(taken.state, run)))
        return found


def _compared(results: list[Result], other: list[Result]) -> tuple[str, int]:
    if other == results:
        return "", -1
    if [name for name, _, _ in other] != [name for name, _, _ in results]:
        different = {name for name, _, _ in results} ^ {name for name, _, _ in other}
        return f"offers differ: {sorted(different)}", -1
    place = next(place for place, (one, two) in enumerate(zip(results, other, strict=True)) if one != two)
    return f"{results[place][0]}: {results[place][1]} and {other[place][1]}", place
