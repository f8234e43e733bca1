"""Whole states, packed: from one of them a replay starts anew behind a gap (spec 04).

A state holds the same messages many times over (in its working list, its view, its counts, what was sent), so each message
is written once, and its places refer to it. What is joined from other parts is left out, and joined again; what was sent
of a message as it stands is encoded again.
"""

from __future__ import annotations

import json
import threading
import zlib
from typing import Any

from attrs import evolve
from jiter import from_json

from ..core.context.store import Sent
from ..core.messages import Message
from ..core.request.encode import chunked, wire_of
from ..core.state import LoopState
from ..core.wire import WireMessage
from .codec import decode_value, exact
from .decode import Decoders
from .encode import Encoders
from .errors import CodecError, StateTooLarge
from .fields import WRONG
from .framing import is_digest

_SHARED = (Message, WireMessage)
LARGEST_TEXT = 256_000_000
"""Bytes of a state's text: many times what the largest request holds."""
SMALL_TEXT = 4_000_000
"""Bytes of text that may have been packed into any size."""
MOST_PACKED = 32
"""How many times its packed form a longer text may be, so that a small file cannot fill the memory."""


class _Table:
    """The shared values of the state that is being packed or unpacked, one list for each class."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.clear()

    def clear(self) -> None:
        self.sources: dict[int, Message] = {}
        self.places: dict[int, int] = {}
        self.texts: list[list[str]] = [[] for _ in _SHARED]
        self.values: list[list[Any]] = [[] for _ in _SHARED]

    def put(self, kind: int, value: Any) -> str:
        place = self.places.get(id(value))
        if place is None:
            source = self.sources.get(id(value))
            text = _PLAIN.record(_SHARED[kind])(value) if source is None else self._sent(value, source)
            place = self.places[id(value)] = len(self.texts[kind])
            self.texts[kind].append(text)
        return str(place)

    def _sent(self, wire: WireMessage, source: Message) -> str:
        return f'{{"message":{self.put(_SHARED.index(Message), source)},"chain":"{wire.chain}"}}'

    def get(self, kind: int, place: Any) -> Any:
        values = self.values[kind]
        if place.__class__ is not int or not 0 <= place < len(values):
            raise CodecError(f"there is no shared {_SHARED[kind].__name__} {place!r}")
        return values[place]

    def get_all(self, kind: int, places: Any) -> tuple[Any, ...]:
        values = self.values[kind]
        if places.__class__ is not list:
            raise CodecError(f"expected a list of places, not {places!r:.80}")
        if places and set(map(type, places)) == {int} and min(places) >= 0 and max(places) < len(values):
            return tuple(map(values.__getitem__, places))
        return tuple([self.get(kind, place) for place in places])


_TABLE = _Table()
_PLAIN = Encoders()
_PACK = Encoders(instead={cls: lambda value, kind=kind: _TABLE.put(kind, value) for kind, cls in enumerate(_SHARED)})  # type: ignore[misc]
_WHOLE = Decoders(lenient=True)
_UNPACK = Decoders(
    lenient=True,
    instead={cls: lambda place, kind=kind: _TABLE.get(kind, place) for kind, cls in enumerate(_SHARED)},  # type: ignore[misc]
    many={cls: lambda places, kind=kind: _TABLE.get_all(kind, places) for kind, cls in enumerate(_SHARED)},  # type: ignore[misc]
)


def pack(state: LoopState) -> bytes:
    """Pack a state.

    Raises:
        StateTooLarge: if it is larger than is stored.
        CodecError: if it holds a value that has no text.
    """
    with _TABLE.lock:
        try:
            _TABLE.sources = _sources(state.data.context.sent)
            state_text = _PACK.record(LoopState)(_without_chunks(state))
            shared = ",".join("[" + ",".join(texts) + "]" for texts in _TABLE.texts)
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            raise CodecError(f"the state has no text: {type(error).__name__} {error}") from error
        finally:
            _TABLE.clear()
    text = exact(f'{{"shared":[{shared}],"state":{state_text}}}').encode("utf-8")
    packed = zlib.compress(text, 3)
    if len(text) > _most_text(packed):
        raise StateTooLarge(f"a state of {len(text):,} bytes is not stored")
    return packed


def unpack(data: bytes) -> LoopState:
    """Unpack a state; fields that this version does not know are passed over, so compare its digest.

    Raises:
        StateTooLarge: if it is larger than any state that is stored.
        CodecError: if it cannot be unpacked.
    """
    try:
        value = _parsed(_text_of(data))
        said, sent = value["shared"]
        messages = list(map(_WHOLE.record(Message), said))
        shared = [messages, [_wire(item, messages) for item in sent]]
        with _TABLE.lock:
            try:
                _TABLE.values = shared
                state: LoopState = decode_value(_UNPACK.record(LoopState), value["state"])
            finally:
                _TABLE.clear()
        sent = state.data.context.sent
        context = evolve(state.data.context, sent=evolve(sent, chunks=chunked(sent.wires, ())))
        return evolve(state, data=evolve(state.data, context=context))
    except StateTooLarge:
        raise
    except (*WRONG, zlib.error, IndexError) as error:
        raise CodecError(f"no packed state: {error}") from error


def _sources(sent: Sent) -> dict[int, Message]:
    """Give the messages that were sent as they stand, by the identity of what was sent of them."""
    sources: dict[int, Message] = {}
    for wire, end in zip(sent.wires, sent.ends, strict=False):
        for source in sent.sources[end - 1 : end] if end > 0 else ():
            if wire.chain and wire_of(source, "", wire.chain) == wire:
                sources[id(wire)] = source
    return sources


def _wire(value: dict[str, Any], messages: list[Message]) -> WireMessage:
    place = value.get("message")
    if place is None:
        made: WireMessage = _WHOLE.record(WireMessage)(value)
        return made
    chain = value["chain"]
    if place.__class__ is not int or not 0 <= place < len(messages) or not is_digest(chain):
        raise CodecError(f"what was sent is of no message: {value!r:.80}")
    return wire_of(messages[place], "", chain)


def _parsed(text: bytes) -> Any:
    try:
        return from_json(text)
    except ValueError:  # it takes no halves of characters, which a state may hold
        return json.loads(text)


def _most_text(packed: bytes) -> int:
    return min(LARGEST_TEXT, max(SMALL_TEXT, MOST_PACKED * len(packed)))


def _text_of(packed: bytes) -> bytes:
    most, unpacking = _most_text(packed), zlib.decompressobj()
    text = unpacking.decompress(packed, most + 1)
    if len(text) > most:
        raise StateTooLarge(f"what is stored as a state unpacks to more than {most:,} bytes, which none does")
    if not unpacking.eof:
        raise CodecError("no packed state: it is cut off")
    return text


def _without_chunks(state: LoopState) -> LoopState:
    data = state.data
    context = evolve(data.context, sent=evolve(data.context.sent, chunks=()))
    iteration = data.iteration
    if iteration.request is not None:
        iteration = evolve(iteration, request=evolve(iteration.request, chunks=()))
    return evolve(state, data=evolve(data, context=context, iteration=iteration))
