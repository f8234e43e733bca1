"""The codec: every value of the contract has one text and comes back equal (law I14)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fsm_agent.core.blocks import read_block, text_block
from fsm_agent.core.config import LoopConfig
from fsm_agent.core.control import Control
from fsm_agent.core.events import EVENT_KINDS, BlockCompleted, ModelSwitched, RunStarted, StreamStarted, ToolTraits, ToolUse
from fsm_agent.core.state import LoopState, initial
from fsm_agent.log import codec
from fsm_agent.log.errors import CodecError
from fsm_agent.log.shapes import fields_of, tag_of

from .strategies import values

QUICK = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("cls", codec.EVENTS, ids=tag_of)
@QUICK
@given(data=st.data())
def test_every_event_comes_back_equal(cls: type[Any], data: st.DataObject) -> None:
    """Whatever an event holds, its text is UTF-8 on one line and reads back as an equal event with the same text."""
    event = data.draw(values(cls))
    text = codec.encode_event(event)
    assert "\n" not in text
    assert codec.decode_event(text.encode("utf-8")) == event
    assert codec.encode_event(codec.decode_event(text)) == text


@pytest.mark.parametrize("cls", codec.EFFECTS, ids=tag_of)
@QUICK
@given(data=st.data())
def test_every_effect_comes_back_equal(cls: type[Any], data: st.DataObject) -> None:
    """Whatever an effect holds, requests with their bytes included, it reads back as an equal effect."""
    effect = data.draw(values(cls))
    text = codec.encode_effect(effect)
    assert codec.decode_effect(text) == effect


@pytest.mark.parametrize("cls", codec.OUTPUTS, ids=tag_of)
@QUICK
@given(data=st.data())
def test_every_output_comes_back_equal(cls: type[Any], data: st.DataObject) -> None:
    """Whatever an output holds, it reads back as an equal output."""
    output = data.draw(values(cls))
    assert codec.decode_output(codec.encode_output(output)) == output


@QUICK
@given(state=values(LoopState))
def test_every_state_comes_back_equal(state: LoopState) -> None:
    """A state comes back equal with its data, its request's bytes and its control."""
    assert codec.decode_state(codec.encode_state(state)) == state
    assert codec.decode_control(codec.encode_control(state.control)) == state.control


@QUICK
@given(config=values(LoopConfig))
def test_every_config_comes_back_equal(config: LoopConfig) -> None:
    """A configuration comes back equal."""
    assert codec.decode_config(codec.encode_config(config)) == config


def test_tags_are_the_kinds_of_events() -> None:
    """An event's tag is its kind, and follows the rule of all other tags too."""
    assert {cls: tag_of(cls) for cls in codec.EVENTS} == {cls: kind.value for cls, kind in EVENT_KINDS.items()}


def test_block_text_keeps_its_bytes() -> None:
    """A block's own JSON, odd spacing and escapes included, comes back byte for byte."""
    block = read_block({"type": "text", "text": 'é\u2028\\ "x"'})
    odd = block.json.replace(":", " : ")
    event = BlockCompleted(id="r/call-1", index=0, block=text_block("x").__class__(type="text", json=odd, tokens=1))
    back = codec.decode_event(codec.encode_event(event))
    assert isinstance(back, BlockCompleted)
    assert back.block.json == odd


def test_defaults_are_left_out_of_events_and_written_in_snapshots() -> None:
    """Texts of events and states grow with what they say; a config snapshot names every field."""
    assert codec.encode_event(StreamStarted(id="r/call-1")) == '{"is":"stream_started","id":"r/call-1"}'
    assert "max_turns" not in codec.encode_state(initial(LoopConfig(model="m")))
    config = json.loads(codec.encode_config(LoopConfig(model="m")))
    assert list(config) == [field.name for field in fields_of(LoopConfig)]


def test_none_is_written_where_the_default_is_something_else() -> None:
    """``None`` in a field whose default is a number is not mistaken for the default."""
    use = ToolUse(id="t", name="Read", raw="{}", input_json="{}", traits=ToolTraits(max_result_chars=None))
    event = BlockCompleted(id="c", index=0, block=text_block("x"), tool=use)
    assert codec.decode_event(codec.encode_event(event)) == event


def test_missing_fields_with_defaults_are_filled() -> None:
    """A text written before a field existed reads back with the field's default."""
    assert codec.decode_event('{"is":"model_switched","model":"m"}') == ModelSwitched(model="m")
    assert codec.decode_config('{"model":"m"}') == LoopConfig(model="m")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("3", "'is'"),
        ("{}", "'is'"),
        ('{"is":"no_such_event"}', "no_such_event"),
        ('{"is":["timer_fired"]}', "'is'"),
        ('{"is":"timer_fired"}', "'id'"),
        ('{"is":"timer_fired","id":1}', "id"),
        ('{"is":"timer_fired","id":null}', "id"),
        ('{"is":"timer_fired","id":"a","more":1}', "'more'"),
        ('{"is":"stream_started","id":"a","model":true}', "model"),
        ('{"is":"tool_finished","id":"a","outcome":"maybe","result":{"type":"t","json":"{}","tokens":1}}', "outcome"),
        ('{"is":"tool_finished","id":"a","outcome":"ok","result":{"type":"t","json":"{}"}}', "'tokens'"),
        ('{"is":"tool_finished","id":"a","outcome":"ok","result":{"type":"t","json":"{}","tokens":true}}', "tokens"),
        ('{"is":"stop_hooks_finished","id":"a","blocking":"x"}', "blocking"),
        ('{"is":"stop_hooks_finished","id":"a","blocking":[1]}', "blocking"),
    ],
)
def test_bad_text_is_refused_and_the_field_is_named(text: str, named: str) -> None:
    """A text that is no event gives one error that names what is wrong."""
    with pytest.raises(CodecError) as caught:
        codec.decode_event(text)
    assert named in str(caught.value)


def test_a_config_that_cannot_hold_is_refused() -> None:
    """A configuration whose values do not hold together is a codec error with the class's own words."""
    with pytest.raises(CodecError, match="max_attempts"):
        codec.decode_config('{"model":"m","max_attempts":0}')


@pytest.mark.parametrize(
    "value", [3, None, "timer_fired", StreamStarted(id=3), ModelSwitched(model=None), RunStarted("r", (), spent=10**5000)]
)  # type: ignore[arg-type]
def test_what_is_no_event_has_no_text(value: Any) -> None:
    """A value that is no event, or holds something of another type, is refused instead of being written wrongly."""
    with pytest.raises(CodecError):
        codec.encode_event(value)


def test_a_halved_character_is_refused() -> None:
    """Two surrogates that JSON would join are refused, since they would not come back as they were."""
    with pytest.raises(CodecError, match="clean_text"):
        codec.encode_event(ModelSwitched(model="\ud83d\ude00"))


def test_a_lenient_reader_passes_over_new_fields() -> None:
    """What a newer minor version added is passed over, deep inside too; what is missing is still an error."""
    decode = codec.LENIENT.choice(codec.EVENTS)
    text = '{"is":"tool_started","id":"a","more":{"x":1}}'
    assert codec.decode_with(decode, text) == codec.decode_event('{"is":"tool_started","id":"a"}')
    with pytest.raises(CodecError, match="'id'"):
        codec.decode_with(decode, '{"is":"tool_started","more":1}')


def test_equal_states_have_equal_texts() -> None:
    """The text of a state depends on its value alone."""
    config = LoopConfig(model="m")
    assert codec.encode_state(initial(config)) == codec.encode_state(initial(config))
    assert codec.encode_control(initial(config).control) == codec.encode_control(initial(config).control)
    assert isinstance(codec.decode_control(codec.encode_control(initial(config).control)), Control)
