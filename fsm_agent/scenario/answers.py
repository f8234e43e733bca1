"""What the model and the summariser answer in a scenario, as frozen values."""

from __future__ import annotations

from enum import StrEnum

from attrs import frozen

from ..core.failures import ErrorKind


@frozen
class Failing:
    """How a model call fails.

    Attributes:
        kind: the closed kind.
        message: words of the API; empty for the usual words of the kind.
        retry_after_ms: wait that the server asks for, or None.
        over_tokens: tokens by which the prompt is over, 0 if the API does not say.
        media_path: ``messages.N.content.M`` of the refused medium, or empty.
    """

    kind: ErrorKind
    message: str = ""
    retry_after_ms: int | None = None
    over_tokens: int = 0
    media_path: str = ""


@frozen
class TextItem:
    """A text block; ``open`` when the stream never closes it."""

    text: str
    open: bool = False


@frozen
class ThinkingItem:
    """A thinking block with a signature; ``open`` when the stream never closes it."""

    text: str
    open: bool = False


@frozen
class ToolItem:
    """A call.

    Attributes:
        name: the tool.
        raw: input text as it is streamed, well-formed or not.
        id: the call's id; None for a fresh one. An empty or odd id is sent as it is.
        open: the stream never closes it.
    """

    name: str
    raw: str
    id: str | None = None
    open: bool = False


@frozen
class OtherItem:
    """Any other block, as JSON text, sent as it is."""

    json: str


@frozen
class Settle:
    """Time for what runs beside the stream before the next block.

    Attributes:
        finish: tools and background work finish in it; else tools only start.
    """

    finish: bool = True


Item = TextItem | ThinkingItem | ToolItem | OtherItem | Settle


class Ending(StrEnum):
    """How a reply ends: with a stop reason, by a failure, or never."""

    COMPLETE = "complete"
    FAILS = "fails"
    HANGS = "hangs"


@frozen
class Reply:
    """One answer of the model to one call.

    Attributes:
        items: blocks and settle points in order.
        ending: how it ends.
        stop_reason: the API's word, or None; only for a complete reply.
        streamed: the stream began before the failure: an event in the stream, not an HTTP status.
        failure: why it fails, None for another ending.
        input_tokens: uncached prompt tokens.
        output_tokens: tokens of the reply.
        pace_ms: pause between two pieces of text.
        stop_details: JSON text, or empty.
        cleared_tokens: tokens that clearing edits of the API removed, 0 if none.
    """

    items: tuple[Item, ...] = ()
    ending: Ending = Ending.COMPLETE
    stop_reason: str | None = "end_turn"
    streamed: bool = True
    failure: Failing | None = None
    input_tokens: int = 100
    output_tokens: int = 20
    pace_ms: int = 0
    stop_details: str = ""
    cleared_tokens: int = 0


class SummaryWord(StrEnum):
    """What the summariser does."""

    SUMMARY = "summary"
    FAILS = "fails"
    EMPTY = "empty"
    CUT = "cut"
    REFUSED = "refused"
    HANG = "hang"


@frozen
class SummarySpec:
    """One answer of the summariser.

    Attributes:
        word: what it does.
        text: the summary.
        chars: filler to reach this length, 0 for none.
        fits: tokens that its input may have where it has one (over HTTP), 0 for no limit of its own; a larger input is
            refused as too long, and the same answer waits for a smaller one.
        failure: how it fails, None if it does not.
        duration_ms: how long it takes.
    """

    word: SummaryWord
    text: str = ""
    chars: int = 0
    fits: int = 0
    failure: Failing | None = None
    duration_ms: int = 0
