"""Replay: fold the reducer over a log and compare, record by record, what it gives with what was recorded (law I15)."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import zip_longest

from attrs import frozen

from ..core.config import LoopConfig
from ..core.effects import Effect
from ..core.events import Event
from ..core.state import LoopState, Rejection, Step
from .codec import SPARSE
from .digest import StateDigests, effect_text, effects_digest, sketch, sketch_fields, table_digest
from .errors import LogError, TableChanged
from .format import End, Header, Record
from .reader import LogFile, Tail, read_log
from .shapes import tag_of

Reducer = Callable[[LoopState, Event, LoopConfig], Step]
NOTHING = "nothing"


@frozen
class Divergence:
    """The first difference between a log and its replay.

    Attributes:
        seq: sequence number of the record.
        field: what differs: ``taken``, ``rejected``, ``effects[i]`` or one field of an effect, ``state``, ``terminal``.
        expected: what the log says; of a field of an effect it knows the checksum only.
        got: what the replay gave.
        event: kind of the record's event, ``end`` for the closing record.
    """

    seq: int
    field: str
    expected: str
    got: str
    event: str

    def __str__(self) -> str:
        """Say it in one line."""
        return f"record {self.seq} ({self.event}): {self.field}: expected {self.expected}, got {self.got}"


@frozen
class Replayed:
    """What a replay found.

    Attributes:
        header: the log's header.
        state: the state behind the last record that agreed.
        steps: records folded that agreed.
        divergence: the first difference, None if there is none.
        tail: how the log ends; None if the replay stopped before its end.
    """

    header: Header
    state: LoopState
    steps: int
    divergence: Divergence | None
    tail: Tail | None


def replay(
    path: str | os.PathLike[str],
    until: int | None = None,
    *,
    config: LoopConfig | None = None,
    check_table: bool = True,
    reducer: Reducer | None = None,
    each: Callable[[Record, Step], None] | None = None,
) -> Replayed:
    """Replay a log without tools, network or key.

    Args:
        path: the log.
        until: stop behind this record; 0 gives the initial state. By default the whole log is replayed.
        config: take this configuration in place of the recorded one.
        check_table: refuse a log that was written under another transition table.
        reducer: fold this function, by default ``step``.
        each: called with each record that agreed and its step.

    Returns:
        The state reached and the first difference, if there is one.

    Raises:
        TableChanged: if the table is another one.
        LogUnreadable, LogDamaged: if the log cannot be read that far.
        LogError: if the log has no record ``until``.
        OSError: if the file cannot be read.
    """
    log = read_log(path)
    if check_table and log.header.table != (current := table_digest()):
        raise TableChanged(path, log.header.table, current)
    if until is not None and until < 0:
        raise LogError(f"{path}: there is no record {until}; records are counted from 1, 0 is the state before them")
    found = _fold(log, until, log.header.config if config is None else config, reducer or _step(), each)
    if until is not None and found.divergence is None and found.steps < until:
        raise LogError(f"{path}: there is no record {until}; the last one is {found.steps}")
    return found


def _step() -> Reducer:
    # Late, so that reading logs does not load the table.
    from ..core.step import step

    return step


def _fold(
    log: LogFile, until: int | None, config: LoopConfig, reducer: Reducer, each: Callable[[Record, Step], None] | None
) -> Replayed:
    state, steps = log.header.state, 0
    states = StateDigests()
    if until == 0:
        return Replayed(log.header, state, 0, None, None)
    for record in log.records():
        result = reducer(state, record.event, config)
        if (
            result.taken != record.taken
            or effects_digest(result.effects) != record.effects
            or result.rejected != record.rejected
            or (record.state and states.of(result.state) != record.state)
        ):
            return Replayed(log.header, state, steps, _difference(record, result), None)
        state = result.state
        steps += 1
        if each is not None:
            each(record, result)
        if steps == until:
            return Replayed(log.header, state, steps, None, None)
    tail = log.tail
    divergence = None if tail.end is None else _end_difference(tail.end, state, states)
    return Replayed(log.header, state, steps, divergence, tail)


def _difference(record: Record, result: Step) -> Divergence:
    def at(field: str, expected: str, got: str) -> Divergence:
        return Divergence(record.seq, field, expected, got, tag_of(type(record.event)))

    if result.rejected != record.rejected:
        return at("rejected", _refusal(record.rejected), _refusal(result.rejected))
    if result.taken != record.taken:
        return at("taken", " ".join(record.taken) or NOTHING, " ".join(result.taken) or NOTHING)
    digest = effects_digest(result.effects)
    if digest != record.effects:
        for place, (expected, got) in enumerate(zip_longest(record.sketch, sketch(result.effects))):
            if expected != got:
                effect = result.effects[place] if got is not None else None
                return at(*_effect_difference(f"effects[{place}]", expected, got, effect))
        return at("effects", record.effects or NOTHING, digest or NOTHING)
    return at("state", record.state, StateDigests().of(result.state))


def _effect_difference(place: str, expected: str | None, got: str | None, effect: Effect | None) -> tuple[str, str, str]:
    """Give field, expected and got of one effect, from the two lines of its sketch."""
    if expected is None or got is None or effect is None:
        return place, expected.split()[0] if expected else NOTHING, _short(effect_text(effect)) if effect else NOTHING
    kind, *marks = expected.split()
    now, *others = got.split()
    if kind != now:
        return place, kind, _short(effect_text(effect))
    for name, mark, other in zip_longest(sketch_fields(kind), marks, others, fillvalue="-"):
        if mark != other:
            wanted = "its default" if mark == "-" else f"a value with checksum {mark}"
            value: object = effect
            for word in name.split("."):
                value = getattr(value, word, None)
            return f"{place}.{kind}.{name.removeprefix('output.')}", wanted, _short(repr(value))
    return place, kind, _short(effect_text(effect))


def _end_difference(end: End, state: LoopState, states: StateDigests) -> Divergence | None:
    if state.terminal != end.terminal:
        got = NOTHING if state.terminal is None else SPARSE.record(type(state.terminal))(state.terminal)
        return Divergence(end.seq, "terminal", SPARSE.record(type(end.terminal))(end.terminal), got, "end")
    digest = states.of(state)
    return None if digest == end.state else Divergence(end.seq, "state", end.state, digest, "end")


def _refusal(rejected: Rejection | None) -> str:
    return NOTHING if rejected is None else SPARSE.record(Rejection)(rejected)


def _short(text: str) -> str:
    return text if len(text) <= 200 else text[:197] + "..."
