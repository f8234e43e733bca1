"""What the context layers remember between passes."""

from __future__ import annotations

from attrs import frozen

from ..blocks import Block
from ..wire import WireMessage


@frozen
class TokenBase:
    """The newest real usage: everything up to and with ``message_id`` was ``tokens`` tokens for ``model``."""

    model: str
    message_id: str
    tokens: int


@frozen
class Replacement:
    """A remembered decision: the result of this call is shown as ``block`` from now on."""

    tool_use_id: str
    block: Block
    freed: int


@frozen
class Span:
    """A span of old messages and its summary (spec 02, layer 4).

    Attributes:
        id: names it.
        first: id of its first message.
        last: id of its last message.
        tokens: estimate of what it replaces.
        summary: the summary, None while it is being made.
        committed: the view shows the summary in its place.
    """

    id: str
    first: str
    last: str
    tokens: int
    summary: Block | None = None
    committed: bool = False


@frozen
class Sent:
    """The wire messages already sent for the current working list, and how many working messages they cover.

    Attributes:
        wires: encoded messages.
        covers: working messages that they stand for, from the front.
        anchor: id of the last working message covered, to notice a cut.
    """

    wires: tuple[WireMessage, ...] = ()
    covers: int = 0
    anchor: str = ""


@frozen
class Tally:
    """Incremental facts about the first ``covers`` messages of the view, so that a pass costs what is new.

    Attributes:
        covers: messages counted.
        anchor: id of the last message counted, to notice a cut.
        tokens: sum of their estimates.
        clearable: (tool_use_id, tokens) of results that microcompact may clear, oldest first, not yet cleared.
    """

    covers: int = 0
    anchor: str = ""
    tokens: int = 0
    clearable: tuple[tuple[str, int], ...] = ()


@frozen
class ContextState:
    """Memory of the layers.

    Attributes:
        base: the newest real usage, None before the first.
        freed: estimates removed by the layers since the request of that usage, in tokens.
        replacements: decisions of the result budget, by call, in order.
        spans: the collapse store.
        sent: wire messages already sent.
        tally: incremental counts.
        deferred: tokens expected from clearing edits whose boundary waits for the response, 0 if none.
        drop_thinking: thinking older than the newest cut is left out of requests.
        task_remaining: remaining of the API's task budget, None before the first compaction.
        media_dropped: ids of messages whose media was refused and is replaced by words.
    """

    base: TokenBase | None = None
    freed: int = 0
    replacements: tuple[Replacement, ...] = ()
    spans: tuple[Span, ...] = ()
    sent: Sent = Sent()
    tally: Tally = Tally()
    deferred: int = 0
    drop_thinking: bool = False
    task_remaining: int | None = None
    media_dropped: tuple[str, ...] = ()
