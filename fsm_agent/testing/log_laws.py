"""I14, I15, I16 on the side of the log: what is written reads back equal, and folds back into the run that wrote it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from ..core.config import LoopConfig
from ..core.events import Event
from ..core.state import LoopState, Step
from ..laws import Edge, Law, edge_law, run_law, state_law
from ..log.codec import (
    decode_config,
    decode_effect,
    decode_event,
    decode_state,
    encode_config,
    encode_effect,
    encode_event,
    encode_state,
)
from ..log.digest import state_digest
from ..log.errors import CodecError
from ..log.files import SyncPolicy
from ..log.journal import Journal
from ..log.reader import read_log
from ..log.replay import replay
from .resuming import faults_of_prefixes


@edge_law("I14", costly=True, quiet=True)
def an_event_reads_back(edge: Edge) -> str:
    """The text of an event gives an equal event, and that one the same text."""
    text = encode_event(edge.event)
    try:
        again = decode_event(text)
    except CodecError as error:
        return f"{text[:200]}: {error}"
    return "" if again == edge.event and encode_event(again) == text else f"reads back otherwise: {text[:200]}"


@edge_law("I14", costly=True)
def effects_read_back(edge: Edge) -> str:
    """So do the effects of a step."""
    for effect in edge.made.effects:
        text = encode_effect(effect)
        try:
            again = decode_effect(text)
        except CodecError as error:
            return f"{text[:200]}: {error}"
        if again != effect or encode_effect(again) != text:
            return f"reads back otherwise: {text[:200]}"
    return ""


@state_law("I14", costly=True)
def a_state_reads_back(state: LoopState, config: LoopConfig) -> str:
    """So does a whole state, and its digest with it."""
    again = decode_state(encode_state(state))
    if again != state:
        return "the state reads back otherwise"
    return "" if state_digest(again) == state_digest(state) else "its digest is another one"


@run_law("I14")
def a_log_reads_back(edges: tuple[Edge, ...], config: LoopConfig) -> str:
    """A log gives back the configuration, the state before, and each event with its rows."""
    if decode_config(encode_config(config)) != config:
        return "the configuration reads back otherwise"
    if not edges:
        return ""
    with tempfile.TemporaryDirectory() as folder:
        log = read_log(_written(Path(folder), edges, config))
        if log.header.config != config or log.header.state != edges[0].before:
            return "the header reads back otherwise"
        told = [(record.event, record.taken, record.rejected) for record in log.records()]
    for number, (edge, found) in enumerate(zip(edges, told, strict=True), 1):
        if found != (edge.event, edge.made.taken, edge.made.rejected):
            return f"record {number} reads back otherwise"
    return ""


@run_law("I15")
def a_replay_equals_the_run(edges: tuple[Edge, ...], config: LoopConfig) -> str:
    """A log folds back into the run, without a difference, to an equal state."""
    if not edges:
        return ""
    with tempfile.TemporaryDirectory() as folder:
        found = replay(_written(Path(folder), edges, config), each=None)
    if found.divergence is not None:
        return str(found.divergence)
    return "" if found.state == edges[-1].made.state else "the state behind it is another one"


@run_law("I16")
def every_prefix_of_its_log_resumes(edges: tuple[Edge, ...], config: LoopConfig) -> str:
    """A resume behind each record of a run's log comes to an end or to a wait, with a valid history."""
    if not edges:
        return ""
    with tempfile.TemporaryDirectory() as folder:
        return faults_of_prefixes(_written(Path(folder), edges, config))


LOG_LAWS: tuple[Law, ...] = (
    an_event_reads_back,
    effects_read_back,
    a_state_reads_back,
    a_log_reads_back,
    a_replay_equals_the_run,
    every_prefix_of_its_log_resumes,
)
"""The laws of the log; ``judge_run`` judges a run by them, ``explore`` a sample of states and edges by the first three."""


def _written(folder: Path, edges: tuple[Edge, ...], config: LoopConfig) -> Path:
    path = folder / "run.jsonl"
    steps: list[tuple[Event, Step]] = [(edge.event, edge.made) for edge in edges]
    journal = Journal.create(path, config, edges[0].before, "session", "run", policy=SyncPolicy.NEVER)
    try:
        for event, made in steps:
            journal.append(event, made, sync=False)
        journal.close(steps[-1][1].state)
    finally:
        journal.release()
    return path
