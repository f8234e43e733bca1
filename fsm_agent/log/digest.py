"""Digests that a replay compares: of a step's effects, of a state, of the transition table. All are SHA-256 in hex."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from typing import Any
from zlib import crc32

from ..core.blocks import Block
from ..core.effects import CallModel, Effect, Emit
from ..core.messages import Message
from ..core.outputs import Terminal
from ..core.state import LoopState
from ..core.table import Table
from ..core.usage import ModelUsage
from ..core.wire import CHAIN_START, Request
from .codec import EFFECTS, OUTPUTS, SPARSE, encode_control
from .encode import Encoder, Encoders
from .errors import CodecError
from .recent import Recent
from .shapes import fields_of, tag_of

STATE_EVERY = 64
"""Records between two state digests."""

_MANY = 64
"""Messages that are remembered."""
_digests: Recent[str] = Recent(_MANY)
_texts: Recent[str] = Recent(16)
"""A block is shown, and then it is part of a message; a message is shown, and then it is part of a state."""


def _hash(text: str) -> str:
    try:
        return sha256(text.encode()).hexdigest()
    except UnicodeEncodeError:  # a lone surrogate has no UTF-8; digests must exist for every text all the same
        return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


_plain_block = SPARSE.record(Block)


def _block(block: Block) -> str:
    return _texts.get(block) or _texts.put(block, _plain_block(block))


_plain_message = SPARSE.record(Message)
_one_message = Encoders(instead={Block: _block}).record(Message)


def message_digest(message: Message) -> str:
    """Give the digest of one message; of the last ones it is remembered."""
    return _digests.get(message) or _digests.put(message, _hash(_one_message(message)))


def _message(message: Message) -> str:
    return f'"{message_digest(message)}"'


def _request(request: Request) -> str:
    return f'"{request.digest}"'


_BRIEF = Encoders(instead={Message: _message, Request: _request, Block: _block})
"""Messages and requests enter by their own digests: what was hashed once is not hashed again."""


@cache
def _ways() -> dict[type[Any], Encoder]:
    return _BRIEF.choice(EFFECTS)


def _brief(effects: tuple[Effect, ...]) -> str:
    ways = _ways()
    try:
        return "\n".join([ways[effect.__class__](effect) for effect in effects])
    except _WITHOUT as error:
        raise _no_digest(error) from error


_WITHOUT = (TypeError, KeyError, AttributeError, UnicodeError)
"""What goes wrong with a value that has no text."""


def _no_digest(error: Exception) -> CodecError:
    return CodecError(f"the effects have no digest: {type(error).__name__} {error}")


def effects_digest(effects: tuple[Effect, ...]) -> str:
    """Give the digest of a step's effects, in order; empty if there are none.

    The cost depends on the effects of this step, not on the length of the history.

    Raises:
        CodecError: if one of them is no effect.
    """
    if not effects:
        return ""
    return _hash(_brief(effects))


def sketch(effects: tuple[Effect, ...]) -> tuple[str, ...]:
    """Give one line for each effect: its kind, and a CRC-32 of each field, so that a replay can name the one that differs.

    A shown output is sketched by its own fields, under ``emit.<kind>``, a request by its parts; a field left out is ``-``.
    """
    try:
        return tuple([_sketch_one(effect) for effect in effects])
    except _WITHOUT as error:
        raise _no_digest(error) from error


def _sketch_one(effect: Effect) -> str:
    match effect:
        case Emit():
            name, marks = f"emit.{tag_of(type(effect.output))}", _marks(OUTPUTS, effect.output)
        case CallModel():
            name, marks = tag_of(CallModel), [f"{crc32(part):08x}" for part in _call_parts(effect)]
        case _:
            name, marks = tag_of(type(effect)), _marks(EFFECTS, effect)
    return " ".join([name, *marks])


def _marks(known: tuple[type[Any], ...], value: Any) -> list[str]:
    if type(value) not in known:
        raise TypeError(f"{type(value).__name__} is not expected here")
    pieces = _BRIEF.pieces(type(value))(value)
    return [f"{crc32(piece.encode('utf-8', 'surrogatepass')):08x}" if piece else "-" for piece in pieces]


_CALL_FIELDS = ("id", *[f"request.{name}" for name in ("model", "max_tokens", "head", "messages", "betas", "marks")])
"""The marks of a call: what the digest of its request covers, part by part."""


def _call_parts(effect: CallModel) -> tuple[bytes, ...]:
    request = effect.request
    chain = request.messages[-1].chain if request.messages else CHAIN_START
    texts = (effect.id, request.model, str(request.max_tokens), chain, ",".join(request.betas), str(request.marks))
    call, model, limit, chained, betas, marks = [text.encode("utf-8", "surrogatepass") for text in texts]
    return call, model, limit, request.head, chained, betas, marks


def effect_text(effect: Effect) -> str:
    """Give the text of an effect as its digest sees it: messages and requests by their digests."""
    return _brief((effect,))


def sketch_fields(kind: str) -> tuple[str, ...]:
    """Name the fields behind the marks of a sketch line of ``kind``, in order; empty for an unknown kind."""
    if kind == tag_of(CallModel):
        return _CALL_FIELDS
    for cls in EFFECTS:
        if tag_of(cls) == kind:
            return tuple(field.name for field in fields_of(cls))
    for cls in OUTPUTS:
        if f"emit.{tag_of(cls)}" == kind:
            return tuple(f"output.{field.name}" for field in fields_of(cls))
    return ()


class StateDigests:
    """Digests of the successive states of one run; messages that stay in front are not chained again."""

    def __init__(self) -> None:
        """Start with an empty chain."""
        self._messages: tuple[Message, ...] = ()
        self._chain = ""

    def of(self, state: LoopState) -> str:
        """Give the digest of ``state``: its control, messages, usage and terminal."""
        tail = [encode_control(state.control), self._chained(state.messages)]
        tail += [SPARSE.record(ModelUsage)(usage) for usage in (*state.data.usage, *state.data.session_usage)]
        if state.terminal is not None:
            tail.append(SPARSE.record(Terminal)(state.terminal))
        return _hash("\n".join(tail))

    def _chained(self, messages: tuple[Message, ...]) -> str:
        same = len(self._messages)
        if messages[:same] != self._messages:
            # The history was cut. That makes it short, so nothing is remembered of the places before its end.
            same, self._chain = 0, ""
        chain, late = self._chain, len(messages) - _MANY
        for place, message in enumerate(messages[same:], same):
            # To remember each of many would make room for the last ones only.
            digest = message_digest(message) if place >= late else _hash(_plain_message(message))
            chain = _hash(chain + digest)
        self._messages, self._chain = messages, chain
        return chain


def state_digest(state: LoopState) -> str:
    """Give the digest of one state."""
    return StateDigests().of(state)


def table_text(table: Table) -> str:
    """Give the canonical text of a table: everything that decides a step or shows in one, no explanations."""
    lines: list[str] = []
    for row in table.rows:
        guard = "" if row.guard is None else " ".join((row.guard.name, *row.guard.earlier))
        reason = "" if row.reason is None else row.reason.value
        causes = " ".join(cause.value for cause in row.causes)
        words = (row.name, row.source, row.event, guard, row.target, row.move.name, row.kind, reason, causes)
        lines.append("\t".join(("row", *words)))
    lines += ["\t".join(("entry", entry.phase, entry.move.name)) for entry in table.entries]
    lines += ["\t".join(("ignore", cell.name, cell.source, cell.event)) for cell in table.ignores]
    # The words of a refusal are part of a step, those of an ignore are not.
    lines += ["\t".join(("reject", cell.name, cell.source, cell.event, cell.because)) for cell in table.rejects]
    return "\n".join(lines) + "\n"


def table_digest(table: Table | None = None) -> str:
    """Give the digest of a transition table, by default the one that ``step`` uses."""
    return _hash(table_text(_declared() if table is None else table))


def _declared() -> Table:
    # Only who writes or replays a log needs the rows; the codec alone stays light.
    from ..core.rows import TABLE

    return TABLE
