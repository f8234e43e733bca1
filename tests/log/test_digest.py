"""Digests: they notice every difference, cost what is new, and outlive fields that a later version adds."""

from __future__ import annotations

from hashlib import sha256

import pytest
from attrs import evolve
from build import looks_inside
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fsm_agent.core.blocks import text_block
from fsm_agent.core.config import LoopConfig
from fsm_agent.core.effects import Cancel, Compact, Effect, Emit, RunTool, StartTimer
from fsm_agent.core.events import EventKind, ToolTraits
from fsm_agent.core.messages import Message, MessageKind, message
from fsm_agent.core.outputs import Notice
from fsm_agent.core.phases import CompactKind, Phase
from fsm_agent.core.state import initial
from fsm_agent.core.table import Ignore, Move, Reject, Row, RowKind, Table
from fsm_agent.log import digest as digests
from fsm_agent.log.codec import EFFECTS
from fsm_agent.log.digest import (
    StateDigests,
    effect_text,
    effects_digest,
    message_digest,
    sketch,
    sketch_fields,
    state_digest,
    table_digest,
)
from fsm_agent.log.errors import CodecError

from .strategies import values

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
ANY_EFFECT = st.one_of([values(cls) for cls in EFFECTS])


def say(name: str, text: str = "x") -> Message:
    return message(name, "user", MessageKind.PROMPT, (text_block(text),))


@QUICK
@given(one=ANY_EFFECT, other=ANY_EFFECT)
def test_digest_and_sketch_differ_where_effects_do(one: Effect, other: Effect) -> None:
    """Two effects have one digest and one sketch exactly if their texts agree; a list's digest depends on its order."""
    same = effect_text(one) == effect_text(other)
    assert (effects_digest((one,)) == effects_digest((other,))) is same
    assert (sketch((one,)) == sketch((other,))) is same
    assert (effects_digest((one, other)) == effects_digest((other, one))) is same


@QUICK
@given(effect=ANY_EFFECT)
def test_a_sketch_has_a_mark_for_each_field(effect: Effect) -> None:
    """The marks of a sketch line stand for the fields that ``sketch_fields`` names."""
    kind, *marks = sketch((effect,))[0].split(" ")
    assert len(marks) == len(sketch_fields(kind))


def test_no_effects_have_no_digest() -> None:
    """A step without effects has an empty digest, and an unknown kind no fields."""
    assert (effects_digest(()), sketch(()), sketch_fields("teleport")) == ("", (), ())


def test_each_field_is_marked_alone() -> None:
    """A change of one field changes its own mark only; a default has none."""
    tool = RunTool("r/tool-1", "t1", "Read", "{}", ToolTraits())
    before, after = (line.split() for line in sketch((tool, evolve(tool, input_json='{"a":1}'))))
    assert [old == new for old, new in zip(before, after, strict=True)] == [True, True, True, True, False, True]
    assert sketch((Emit(Notice("hi")),))[0].split()[::2] == ["emit.notice", "-"]


@pytest.mark.parametrize("wrong", [3, LoopConfig(model="m"), Emit(3), StartTimer("r", "soon")])  # type: ignore[arg-type]
def test_what_is_no_effect_has_no_digest(wrong: Effect) -> None:
    """A value that is no effect is refused instead of being digested as something."""
    for make in (effects_digest, sketch):
        with pytest.raises(CodecError):
            make((wrong,))


@looks_inside
def test_a_message_is_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compaction of a long history hashes each message once, however often it is asked for."""
    history = tuple(say(f"m{number}") for number in range(50))
    hashed = 0
    real = digests._hash

    def count(text: str) -> str:
        nonlocal hashed
        hashed += 1
        return real(text)

    monkeypatch.setattr(digests, "_hash", count)
    effect = Compact("r/compact-1", CompactKind.AUTO, history, (), "m", 100)
    effects_digest((effect,))
    assert hashed == 51
    effects_digest((evolve(effect, target=90),))
    assert hashed == 52


def test_equal_messages_have_equal_digests_and_few_are_remembered() -> None:
    """The memory of digests goes by object, never mixes two up, and holds the last messages only."""
    one, other = say("m", "same"), say("m", "same")
    assert message_digest(one) == message_digest(other) == message_digest(one) != message_digest(say("m", "else"))
    for number in range(1_000):
        message_digest(say(f"m{number}"))
    assert len(digests._digests) <= 2 * 64
    assert message_digest(one) == message_digest(other)


def test_state_digests_do_not_depend_on_what_was_digested_before() -> None:
    """The chained digests of growing, cut and replaced histories equal those made from nothing."""
    base = initial(LoopConfig(model="m"))
    histories = [
        (),
        (say("a"),),
        (say("a"), say("b"), say("c")),
        (say("a"), say("x"), say("c")),
        (say("s"),),
        (),
    ]
    states = StateDigests()
    found = []
    for history in histories:
        state = evolve(base, data=evolve(base.data, messages=history))
        found.append(states.of(state))
        assert found[-1] == state_digest(state)
    assert len(set(found)) == 5


def test_a_state_digest_sees_control_and_usage() -> None:
    """What decides, what was used and how the run ended all enter the digest."""
    base = initial(LoopConfig(model="m"))
    other = evolve(base, control=evolve(base.control, flight=()), data=base.data)
    assert state_digest(other) == state_digest(base)
    assert state_digest(evolve(base, control=evolve(base.control, phase=Phase.BACKING_OFF))) != state_digest(base)


def _table(because: str = "no", text: str = "t", target: Phase = Phase.COMPLETED) -> Table:
    move = Move("stop", lambda state, event, config: (state, ()))
    row = Row("end", Phase.READY, EventKind.TIMER_FIRED, None, target, move, RowKind.INTERNAL, text)
    return Table(
        (row,),
        (Ignore("late", Phase.READY, EventKind.TOOL_STARTED, text),),
        (Reject("early", Phase.READY, EventKind.TOOL_FINISHED, because),),
    )


def test_the_table_digest_sees_what_a_step_shows() -> None:
    """A retargeted row and the words of a refusal change the digest, explanations do not."""
    assert table_digest(_table()) == table_digest(_table(text="better words"))
    assert (
        len({table_digest(_table()), table_digest(_table(because="never")), table_digest(_table(target=Phase.MAX_TURNS))}) == 3
    )


def test_digests_are_pinned() -> None:
    """The digest of given effects is part of the format: it is SHA-256 over this text, line by line."""
    text = '{"is":"cancel","id":"r/timer-1"}\n{"is":"emit","output":{"is":"notice","text":"hi","level":"warning"}}'
    assert effects_digest((Cancel("r/timer-1"), Emit(Notice("hi", "warning")))) == sha256(text.encode()).hexdigest()
