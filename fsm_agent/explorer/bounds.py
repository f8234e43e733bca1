"""What the environment may do in an exploration: alphabets and small numbers."""

from __future__ import annotations

from enum import StrEnum

from attrs import frozen

from ..core.failures import ErrorKind


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


@frozen
class Bounds:
    """How far the environment goes.

    Attributes:
        blocks: blocks a reply.
        tools: client calls a reply.
        pieces: blocks that are no client calls.
        kinds: traits of client calls.
        forms: how client calls come.
        stops: stop reasons.
        errors: kinds of failures of a model call.
        long_waits: failures may ask for a wait above the ceiling.
        outcomes: how tools end: ``ok``, ``error``, ``failed``, ``stop``.
        result_tokens: tokens of a tool's result.
        usage: token counts that a complete reply reports; 0 is unknown.
        cleared: tokens that clearing edits of the API took from the request of a complete reply, besides none.
        compactions: ``small``, ``little`` (valid, without progress), ``refused``, ``failed``.
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
    pieces: tuple[Piece, ...] = (Piece.TEXT, Piece.BLANK, Piece.THINKING)
    kinds: tuple[str, ...] = ("read",)
    forms: tuple[Form, ...] = (Form.WHOLE,)
    stops: tuple[str | None, ...] = ALL_STOPS
    errors: tuple[ErrorKind, ...] = tuple(ErrorKind)
    long_waits: bool = True
    outcomes: tuple[str, ...] = ("ok", "error", "failed", "stop")
    result_tokens: int = 9
    usage: tuple[int, ...] = (20_000,)
    cleared: tuple[int, ...] = ()
    compactions: tuple[str, ...] = ("small", "little", "refused", "failed")
    starts: tuple[Start, ...] = (Start.PLAIN,)
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
