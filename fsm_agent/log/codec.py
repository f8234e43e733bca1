"""Values of the contract as canonical JSON text, and back (law I14: each round trip gives an equal value).

The text is compact, keys are in the order of the class's fields, and equal values have equal texts. A content block's
own JSON is a string in it, so its bytes come back as they were.
"""

from __future__ import annotations

import json
import re
import typing
from collections.abc import Callable
from typing import Any

from ..core.config import LoopConfig
from ..core.control import Control
from ..core.effects import Effect
from ..core.events import Event
from ..core.outputs import Output
from ..core.state import LoopState
from .decode import Decoder, Decoders
from .encode import Encoder, Encoders
from .errors import CodecError

EVENTS: tuple[type[Any], ...] = typing.get_args(Event)
EFFECTS: tuple[type[Any], ...] = typing.get_args(Effect)
OUTPUTS: tuple[type[Any], ...] = typing.get_args(Output)

SPARSE = Encoders()
FULL = Encoders(full=True)
SNAPSHOT = Encoders(instead={LoopConfig: lambda config: FULL.record(LoopConfig)(config)})
"""For headers. A configuration is written whole, so that later defaults do not change an old run; of a state only what
was said, so that the inner records of the core stay free to lose a field that a run does not begin with."""
STRICT = Decoders()
LENIENT = Decoders(lenient=True)

_SURROGATE = re.compile("[\ud800-\udfff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def exact(text: str) -> str:
    """Make JSON text encodable as UTF-8: a lone surrogate, which has no bytes, is written as its escape.

    Raises:
        CodecError: for two surrogates that JSON would read as one character.
    """
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        if _PAIR.search(text):
            raise CodecError("a text holds a character in two halves; join them with clean_text first") from None
        return _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text)
    return text


def encode_with(encoder: Callable[[], Encoder], value: Any) -> str:
    """Encode ``value`` by the encoder that the function gives.

    Raises:
        CodecError: if the value, or something in it, is not of the class that its place asks for.
    """
    try:
        return exact(encoder()(value))
    except CodecError:
        raise
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise CodecError(f"{type(value).__name__} has no text: {type(error).__name__} {error}") from error


def decode_with(decoder: Decoder, text: str | bytes) -> Any:
    """Parse ``text`` and decode it.

    Raises:
        CodecError: if it is no JSON, or not of the kind asked for.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CodecError(f"not JSON: {error}") from error
    return decode_value(decoder, value)


def decode_value(decoder: Decoder, value: Any) -> Any:
    """Decode parsed JSON.

    Raises:
        CodecError: if it is not of the kind asked for, or its class refuses it.
    """
    try:
        return decoder(value)
    except CodecError:
        raise
    except ValueError as error:
        raise CodecError(str(error)) from error


def encode_event(event: Event) -> str:
    """Give the canonical text of an event; fields with their default are left out.

    Raises:
        CodecError: if it is no event.
    """
    return encode_with(lambda: SPARSE.choice(EVENTS)[type(event)], event)


def decode_event(text: str | bytes) -> Event:
    """Read an event.

    Raises:
        CodecError: if the text is no event; it names the field.
    """
    return decode_with(STRICT.choice(EVENTS), text)  # type: ignore[no-any-return]


def encode_effect(effect: Effect) -> str:
    """Give the whole text of an effect, requests and messages included (a log holds its digest instead)."""
    return encode_with(lambda: SPARSE.choice(EFFECTS)[type(effect)], effect)


def decode_effect(text: str | bytes) -> Effect:
    """Read an effect."""
    return decode_with(STRICT.choice(EFFECTS), text)  # type: ignore[no-any-return]


def encode_output(output: Output) -> str:
    """Give the canonical text of an output."""
    return encode_with(lambda: SPARSE.choice(OUTPUTS)[type(output)], output)


def decode_output(text: str | bytes) -> Output:
    """Read an output."""
    return decode_with(STRICT.choice(OUTPUTS), text)  # type: ignore[no-any-return]


def encode_control(control: Control) -> str:
    """Give the canonical text of the deciding half of a state; fields with their default are left out."""
    return encode_with(lambda: SPARSE.record(Control), control)


def decode_control(text: str | bytes) -> Control:
    """Read the deciding half of a state."""
    return decode_with(STRICT.record(Control), text)  # type: ignore[no-any-return]


def encode_state(state: LoopState) -> str:
    """Give the whole text of a state; fields with their default are left out."""
    return encode_with(lambda: SPARSE.record(LoopState), state)


def decode_state(text: str | bytes) -> LoopState:
    """Read a state."""
    return decode_with(STRICT.record(LoopState), text)  # type: ignore[no-any-return]


def encode_config(config: LoopConfig) -> str:
    """Give the whole text of a configuration: every field is written, so that later defaults do not change it."""
    return encode_with(lambda: FULL.record(LoopConfig), config)


def decode_config(text: str | bytes) -> LoopConfig:
    """Read a configuration.

    Raises:
        CodecError: also if the values do not hold together.
    """
    return decode_with(STRICT.record(LoopConfig), text)  # type: ignore[no-any-return]
