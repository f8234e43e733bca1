"""What the reducer does over the catalogue, pinned step by step to its version.

Run it from the root of the repository: ``python -m tests.log.pin_behaviour``. It refuses to pin another behaviour under
the version that has one already.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from attrs import frozen

from fsm_agent.core.behaviour import REDUCER
from fsm_agent.log.codec import EVENTS, FULL, SPARSE, encode_config, encode_state
from fsm_agent.log.digest import StateDigests, effects_digest
from fsm_agent.scenario import catalog, load
from fsm_agent.scenario.drive import drive
from fsm_agent.scenario.format import Way
from fsm_agent.scenario.playing import first_state

PLACE = Path(__file__).parent / "behaviour.json"
ADVICE = (
    "raise REDUCER in fsm_agent/core/behaviour.py by one, then run python -m tests.log.pin_behaviour: "
    "logs that were written before would not replay, and must be told apart"
)


@frozen
class Story:
    """A run in short digests: what it began with, and each event with what the reducer made of it."""

    head: str
    steps: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        """The line of the file."""
        return " ".join((self.head, *(event + made for event, made in self.steps)))


def story_of(text: str) -> Story:
    """Read a line of the file."""
    head, *steps = text.split()
    return Story(head, tuple((step[:6], step[6:]) for step in steps))


def _short(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:6]


def told(name: str) -> Story:
    """Drive a scenario of the catalogue."""
    scenario = load(name)
    steps = []
    states = StateDigests()
    for event, made in drive(scenario).steps:
        refused = "" if made.rejected is None else FULL.record(type(made.rejected))(made.rejected)
        words = (*made.taken, refused, effects_digest(made.effects), states.of(made.state))
        steps.append((_short(SPARSE.choice(EVENTS)[type(event)](event)), _short("\n".join(words))))
    begin = first_state(scenario)
    return Story(_short(encode_config(scenario.config) + encode_state(begin)), tuple(steps))


def present() -> dict[str, Story]:
    """Drive every scenario that the bare reducer can play."""
    return {name: told(name) for name in catalog() if Way.REDUCER in load(name).ways}


def pinned() -> tuple[int, dict[str, Story]]:
    """Give the version that was pinned, and what it did."""
    value = json.loads(PLACE.read_text(encoding="utf-8"))
    return value["reducer"], {name: story_of(text) for name, text in value["runs"].items()}


def changed(before: Mapping[str, Story], now: Mapping[str, Story]) -> dict[str, int]:
    """Give the scenarios in which the reducer gives something else for the same events, with the first such step."""
    found: dict[str, int] = {}
    for name, old in before.items():
        new = now.get(name)
        if new is None or new.head != old.head:
            continue
        for place, (was, now_is) in enumerate(zip(old.steps, new.steps, strict=False), 1):
            if was[0] != now_is[0]:
                break  # the world of the scenario is another one from here on
            if was[1] != now_is[1]:
                found[name] = place
                break
    return found


def main() -> None:
    """Pin the present behaviour."""
    now = present()
    if PLACE.exists():
        version, before = pinned()
        if version == REDUCER and (differs := changed(before, now)):
            sys.exit(f"the reducer does something else in {differs}: {ADVICE}")
    runs = {name: story.text for name, story in now.items()}
    PLACE.write_text(json.dumps({"reducer": REDUCER, "runs": runs}, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
