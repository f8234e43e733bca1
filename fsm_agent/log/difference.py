"""What differs first between a record and the step that a replay made of its event, named as a path."""

from __future__ import annotations

from itertools import zip_longest

from attrs import frozen

from ..core.effects import Effect
from ..core.state import LoopState, Rejection, Step
from .codec import SPARSE
from .digest import StateDigests, effect_text, effects_digest, sketch, sketch_fields
from .format import End, Record
from .shapes import tag_of

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


def difference(record: Record, made: Step) -> Divergence:
    """Name the first difference between a record and a step that does not agree with it."""

    def at(field: str, expected: str, got: str) -> Divergence:
        return Divergence(record.seq, field, expected, got, tag_of(type(record.event)))

    if made.rejected != record.rejected:
        return at("rejected", _refusal(record.rejected), _refusal(made.rejected))
    if made.taken != record.taken:
        return at("taken", " ".join(record.taken) or NOTHING, " ".join(made.taken) or NOTHING)
    digest = effects_digest(made.effects)
    if digest != record.effects:
        for place, (expected, got) in enumerate(zip_longest(record.sketch, sketch(made.effects))):
            if expected != got:
                effect = made.effects[place] if got is not None else None
                return at(*_effect_difference(f"effects[{place}]", expected, got, effect))
        return at("effects", record.effects or NOTHING, digest or NOTHING)
    return at("state", record.state, StateDigests().of(made.state))


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


def end_difference(end: End, state: LoopState, states: StateDigests) -> Divergence | None:
    """Name what differs between the closing record and the state that a replay ended in; None if nothing does."""
    if state.terminal != end.terminal:
        got = NOTHING if state.terminal is None else SPARSE.record(type(state.terminal))(state.terminal)
        return Divergence(end.seq, "terminal", SPARSE.record(type(end.terminal))(end.terminal), got, "end")
    digest = states.of(state)
    return None if digest == end.state else Divergence(end.seq, "state", end.state, digest, "end")


def _refusal(rejected: Rejection | None) -> str:
    return NOTHING if rejected is None else SPARSE.record(Rejection)(rejected)


def _short(text: str) -> str:
    return text if len(text) <= 200 else text[:197] + "..."
