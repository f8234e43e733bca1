"""The quick constructor of frozen records makes what that of attrs makes."""

from __future__ import annotations

import copy
import pickle

import attrs
import pytest

from fsm_agent.core.blocks import Block
from fsm_agent.core.config import ConfigError, LoopConfig
from fsm_agent.core.control import Control, Flight
from fsm_agent.core.effects import EffectKind
from fsm_agent.core.evolving import evolve
from fsm_agent.core.state import initial
from fsm_agent.core.wire import Request

CONTROL = initial(LoopConfig(model="m")).control


def test_a_record_is_frozen() -> None:
    """No field can be set or deleted, and none can be added."""
    for name in (*(field.name for field in attrs.fields(Control)), "other"):
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            setattr(CONTROL, name, None)
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            delattr(CONTROL, name)


def test_a_record_is_of_its_class() -> None:
    """The class of a record is the one that was called; equality, hash and text are those of attrs."""
    flight = Flight("r/tool-1", EffectKind.TOOL)
    assert type(flight) is Flight
    assert flight == Flight(id="r/tool-1", kind=EffectKind.TOOL, call="")
    assert hash(flight) == hash(Flight("r/tool-1", EffectKind.TOOL)) != hash(Flight("r/tool-2", EffectKind.TOOL))
    assert repr(flight) == "Flight(id='r/tool-1', kind=<EffectKind.TOOL: 'tool'>, call='')"
    assert not hasattr(flight, "__dict__")
    match flight:
        case Flight(identity, kind):
            assert (identity, kind) == ("r/tool-1", EffectKind.TOOL)


def test_fields_keep_their_options() -> None:
    """What is not compared is not compared, and what is not shown is not shown."""
    one, other = Request("m", 1, b"{}", (), chunks=(b"x",)), Request("m", 1, b"{}", ())
    assert one == other
    assert "chunks" not in repr(one)


def test_a_wrong_call_is_an_error() -> None:
    """A missing or unknown field is a TypeError, and a record that checks itself refuses what it did before."""
    with pytest.raises(TypeError):
        Flight("r/tool-1")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Flight(identity="r/tool-1")  # type: ignore[call-arg]
    with pytest.raises(ConfigError):
        LoopConfig(model="m", max_model_calls=0)
    with pytest.raises(TypeError, match="no field 'other'"):
        evolve(CONTROL, other=1)


def test_copies_are_equal() -> None:
    """A record can be copied, pickled and evolved."""
    block = Block("text", "{}", 3)
    for value in (CONTROL, block, LoopConfig(model="m")):
        for made in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value)), attrs.evolve(value)):
            assert made == value
            assert type(made) is type(value)
    assert evolve(block, tokens=4) == attrs.evolve(block, tokens=4) == Block("text", "{}", 4)
