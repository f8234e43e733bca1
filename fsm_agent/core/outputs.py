"""What the consumer of a run sees: a closed list (spec 03). Values are never changed after they were emitted."""

from __future__ import annotations

from enum import StrEnum

from attrs import field

from .blocks import Block
from .failures import ModelFailure
from .frozen import frozen
from .messages import Message
from .phases import Cause, TerminalReason
from .usage import ModelUsage


class Ending(StrEnum):
    """What became of a call's reply."""

    KEPT = "kept"
    DISCARDED = "discarded"


@frozen
class InitOutput:
    """A session announces itself; ``details`` is JSON text with the fields of the init line (api-facts B4)."""

    session_id: str
    details: str = "{}"


@frozen
class RequestStart:
    """A model call was issued."""

    call: str
    model: str


@frozen
class TextDelta:
    """A piece of text as it streams. Dropped by the consumer at ``call_end(discarded)``."""

    call: str
    index: int
    text: str


@frozen
class ThinkingDelta:
    """A piece of thinking as it streams."""

    call: str
    index: int
    text: str


@frozen
class RawStreamEvent:
    """A raw event of the API as JSON text, for consumers that asked for partial messages."""

    call: str
    event: str


@frozen
class BlockOutput:
    """A block was completed. ``id`` is what a tombstone names."""

    id: str
    call: str
    index: int
    message_id: str
    block: Block


@frozen
class AssistantOutput:
    """A reply was kept, as it stands in the history."""

    message: Message


@frozen
class UserOutput:
    """A message of the user's side entered the history (results, injected commands, hook errors)."""

    message: Message


@frozen
class ToolProgress:
    """A tool says how far it is."""

    tool_use_id: str
    text: str


@frozen
class ToolResult:
    """A result, in the order of the calls. ``id`` is what a tombstone names."""

    id: str
    tool_use_id: str
    name: str
    block: Block


@frozen
class ToolUseSummary:
    """A round of tools in a few words."""

    text: str


@frozen
class Boundary:
    """A context layer cut the history.

    Attributes:
        kind: ``compact``, ``snip``, ``microcompact``, ``collapse``.
        trigger: ``auto``, ``manual``, ``forced``, ``reactive``, or the layer's own word.
        before: tokens before.
        after: tokens after; -1 if only the API knows.
        detail: a short text for people.
    """

    kind: str
    trigger: str
    before: int
    after: int
    detail: str = ""


@frozen
class Retrying:
    """Another attempt follows.

    Attributes:
        attempt: the attempt that failed, from 1.
        max_attempts: how many there may be.
        delay_ms: milliseconds to wait.
        failure: what went wrong.
    """

    attempt: int
    max_attempts: int
    delay_ms: int
    failure: ModelFailure


@frozen
class Notice:
    """Something that the user should know; ``level`` is ``info`` or ``warning``."""

    text: str
    level: str = "info"


@frozen
class Tombstone:
    """What was emitted under these ids is not part of the conversation."""

    ids: tuple[str, ...]


@frozen
class CallEnd:
    """A call's reply was kept or discarded as a whole (a kept one may have tombstones)."""

    call: str
    ending: Ending


@frozen
class ErrorOutput:
    """An error that no recovery mended."""

    failure: ModelFailure


@frozen
class RejectedOutput:
    """An input that the machine refused, with its reason."""

    event: str
    phase: str
    because: str


@frozen
class Terminal:
    """How a run ended: once, and nothing follows.

    Attributes:
        reason: one of ten.
        cause: the finer word.
        error: what went wrong, if anything; a withheld error that an abort overtook too.
        detail: words for people.
        turn_count: rounds, from 1.
        usage: of the run, by model.
        undelivered: ids of commands still queued.
    """

    reason: TerminalReason
    cause: Cause
    error: ModelFailure | None = None
    detail: str = ""
    turn_count: int = 0
    usage: tuple[ModelUsage, ...] = ()
    undelivered: tuple[str, ...] = ()


@frozen
class TerminalOutput:
    """The last output of a run."""

    terminal: Terminal


@frozen
class ResultOutput:
    """The result of a submitted prompt; ``value`` is JSON text of the result object (spec 05)."""

    value: str
    terminal: Terminal | None = field(default=None)


Output = (
    InitOutput
    | RequestStart
    | TextDelta
    | ThinkingDelta
    | RawStreamEvent
    | BlockOutput
    | AssistantOutput
    | UserOutput
    | ToolProgress
    | ToolResult
    | ToolUseSummary
    | Boundary
    | Retrying
    | Notice
    | Tombstone
    | CallEnd
    | ErrorOutput
    | RejectedOutput
    | TerminalOutput
    | ResultOutput
)
