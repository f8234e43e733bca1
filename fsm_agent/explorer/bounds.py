"""What the environment may do in an exploration: alphabets and small numbers."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TypeVar

from attrs import field, fields, frozen

from ..core.config import ConfigError
from ..core.failures import ErrorKind
from .words import need_word, unknown

E = TypeVar("E", bound=StrEnum)


class Piece(StrEnum):
    """Blocks of a reply besides client calls."""

    TEXT = "text"
    BLANK = "blank"
    THINKING = "thinking"
    SERVER = "server"
    """A call that the API runs itself, without its result."""
    OPEN = "open"
    """Text that the stream never closed."""


class Form(StrEnum):
    """How a client call comes."""

    WHOLE = "whole"
    MALFORMED = "malformed"
    DUPLICATE = "duplicate"
    """With the id of the call before it in the reply."""
    OLD = "old"
    """With the id of a call of an earlier round."""
    LAST = "last"
    """Delivered by ``message_delta``: nothing follows it."""


class Start(StrEnum):
    """How a run starts."""

    PLAIN = "plain"
    BUDGET = "budget"
    """With a token budget."""
    ROOM = "room"
    """As a run that makes room (source ``compact``)."""
    AGENT = "agent"
    """As a sub-agent, with a token budget that it must not follow."""
    SPENT = "spent"
    """With all the money spent before."""
    HUGE = "huge"
    """With a prompt over the hard limit."""
    EMPTY = "empty"
    """Without a message."""


ALL_STOPS: tuple[str | None, ...] = (
    "end_turn",
    "stop_sequence",
    "tool_use",
    "max_tokens",
    "refusal",
    "model_context_window_exceeded",
    "pause_turn",
    "compaction",
    "never_heard_of",
    None,
)
KINDS: tuple[str, ...] = ("read", "safe", "write", "shell", "unknown")
"""Traits of a call: read-only and safe; safe; unsafe; unsafe and cancelling its siblings; a tool that does not exist."""
OUTCOMES: tuple[str, ...] = ("ok", "error", "failed", "stop")
COMPACTIONS: tuple[str, ...] = ("small", "little", "refused", "media", "failed")
_CLOSED: dict[str, tuple[str | None, ...]] = {
    "kinds": KINDS,
    "stops": ALL_STOPS,
    "outcomes": OUTCOMES,
    "compactions": COMPACTIONS,
}
_LEAST = {"runs": 1}
"""The least value of a number; 0 for all others."""


def _several(name: str, given: object) -> tuple[object, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ConfigError(f"{name} are several values; write ({given!r},)")
    return tuple(given)


def _members(kind: type[E], name: str, given: Iterable[E | str]) -> tuple[E, ...]:
    """Give members of a closed list, which may be given as their words."""
    words = _several(name, given)
    try:
        return tuple(need_word(kind, word, f"word for {name}") for word in words)
    except ValueError as problem:
        raise ConfigError(str(problem)) from None


def _pieces(given: Iterable[Piece | str]) -> tuple[Piece, ...]:
    return _members(Piece, "pieces", given)


def _forms(given: Iterable[Form | str]) -> tuple[Form, ...]:
    return _members(Form, "forms", given)


def _errors(given: Iterable[ErrorKind | str]) -> tuple[ErrorKind, ...]:
    return _members(ErrorKind, "errors", given)


def _starts(given: Iterable[Start | str]) -> tuple[Start, ...]:
    return _members(Start, "starts", given)


@frozen
class Bounds:
    """How far the environment goes.

    Attributes:
        blocks: blocks a reply.
        tools: client calls a reply.
        pieces: blocks that are no client calls.
        kinds: traits of client calls: ``read``, ``safe``, ``write``, ``shell``, ``unknown``.
        forms: how client calls come.
        stops: stop reasons.
        errors: kinds of failures of a model call.
        long_waits: failures may ask for a wait above the ceiling.
        outcomes: how tools end: ``ok``, ``error``, ``failed``, ``stop``.
        result_tokens: tokens of a tool's result.
        usage: token counts that a complete reply reports; 0 is unknown.
        cleared: tokens that clearing edits of the API took from the request of a complete reply, besides none.
        compactions: ``small``, ``little`` (valid, without progress), ``refused``, ``media`` (nothing to sum up), ``failed``.
        starts: how the run starts.
        old_rounds: finished exchanges before the run, of 30,000 tokens each.
        commands: commands in the queue at once.
        huge_commands: a command may be over the hard limit.
        requests: the user may ask for a compaction.
        switches: the user may switch the model.
        crashes: effects may be lost at any point.
        strangers: stale answers and answers that nobody asked for.
        same_inputs: calls of a kind are equal, so that rounds repeat; else each is new.
        runs: runs of the session, one after the other.
        depth: length of the longest path; 0 for no limit.
        states: stop after this many states; 0 for no limit.
    """

    blocks: int = 2
    tools: int = 2
    pieces: tuple[Piece, ...] = field(default=(Piece.TEXT, Piece.BLANK, Piece.THINKING), converter=_pieces)
    kinds: tuple[str, ...] = ("read",)
    forms: tuple[Form, ...] = field(default=(Form.WHOLE,), converter=_forms)
    stops: tuple[str | None, ...] = ALL_STOPS
    errors: tuple[ErrorKind, ...] = field(default=tuple(ErrorKind), converter=_errors)
    long_waits: bool = True
    outcomes: tuple[str, ...] = OUTCOMES
    result_tokens: int = 9
    usage: tuple[int, ...] = (20_000,)
    cleared: tuple[int, ...] = ()
    compactions: tuple[str, ...] = ("small", "little", "refused", "failed")
    starts: tuple[Start, ...] = field(default=(Start.PLAIN,), converter=_starts)
    old_rounds: int = 0
    commands: int = 1
    huge_commands: bool = False
    requests: bool = True
    switches: bool = True
    crashes: bool = True
    strangers: bool = True
    same_inputs: bool = False
    runs: int = 1
    depth: int = 0
    states: int = 0

    def __attrs_post_init__(self) -> None:
        for one in fields(Bounds):
            value, least = getattr(self, one.name), _LEAST.get(one.name, 0)
            if isinstance(one.default, bool):
                if not isinstance(value, bool):
                    raise ConfigError(f"{one.name} is true or false, not {value!r}")
            elif isinstance(one.default, int):
                _need_whole(one.name, value, least)
            elif one.name in _CLOSED:
                for word in _several(one.name, value):
                    if word not in _CLOSED[one.name]:
                        raise ConfigError(unknown(f"word for {one.name}", word, _CLOSED[one.name]))
        for name in ("usage", "cleared"):
            for number in _several(name, getattr(self, name)):
                _need_whole(name, number, 0)
        for name in ("usage", "starts"):
            if not getattr(self, name):
                raise ConfigError(f"{name} is empty; there must be at least one")


def _need_whole(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{name} is a whole number of at least {least}, not {value!r}")
