"""Writes the fixtures of the present format. A fixture of a released version is never written again: see ``test_fixtures``.

Run it from the root of the repository: ``python -m tests.log.make_fixtures [SCENARIO ...]``. Each named scenario adds the
log of a real run, which from then on must replay for ever under the table that wrote it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from attrs import evolve

from fsm_agent.core.config import LoopConfig
from fsm_agent.core.control import Control
from fsm_agent.core.messages import Message
from fsm_agent.core.outputs import Terminal
from fsm_agent.core.state import Data, LoopState, Rejection, Step, initial
from fsm_agent.log import codec
from fsm_agent.log.format import MAJOR, Parent
from fsm_agent.log.journal import Journal

if __package__ == "tests.log":
    from .samples import sample
else:
    from samples import sample  # type: ignore[import-not-found, no-redef]

PLACE = Path(__file__).parent / f"v{MAJOR}"


def write_every_kind(path: Path) -> None:
    """A log that holds every kind of event twice, bare and full, every kind of effect, a history and an end."""
    path.unlink(missing_ok=True)
    config = sample(LoopConfig, full=True)
    state = initial(config, (sample(Message, full=True),))
    parent = Parent("other.log", 3, "c" * 64)
    journal = Journal.create(path, config, state, "session", "run", parent=parent, caller="run/tool-1", table="t" * 64)
    effects = tuple(sample(cls, full=True) for cls in codec.EFFECTS)
    rejected = sample(Rejection, full=True)
    for cls in codec.EVENTS:
        journal.append(sample(cls, full=False), Step(state), sync=False)
        journal.append(sample(cls, full=True), Step(state, effects, ("row", "auto"), rejected), sync=False)
    journal.close(evolve(state, data=evolve(state.data, terminal=sample(Terminal, full=True))))


def write_defaults(path: Path) -> None:
    """What the fields that a text leaves out meant when it was written."""
    said = {}
    for cls in codec.EVENTS:
        event = sample(cls, full=False)
        said[codec.encode_event(event)] = json.loads(codec.FULL.tagged(cls)(event))
    state = LoopState(sample(Control, full=False), sample(Data, full=False))
    said[codec.encode_state(state)] = json.loads(codec.FULL.record(LoopState)(state))
    path.write_text(json.dumps(said, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def write_run(path: Path, name: str) -> None:
    """The log of one scenario."""
    from fsm_agent.scenario.drive import drive
    from fsm_agent.scenario.loading import load

    path.unlink(missing_ok=True)
    scenario = load(name)
    driven = drive(scenario)
    journal = Journal.create(path, scenario.config, initial(scenario.config), "session", "run")
    for event, made in driven.steps:
        journal.append(event, made, sync=False)
    journal.close(driven.state)


def main(names: list[str]) -> None:
    """Write all fixtures."""
    PLACE.mkdir(exist_ok=True)
    write_every_kind(PLACE / "every-kind.log")
    write_defaults(PLACE / "defaults.json")
    for name in names:
        write_run(PLACE / f"run-{name}.log", name)


if __name__ == "__main__":
    main(sys.argv[1:])
