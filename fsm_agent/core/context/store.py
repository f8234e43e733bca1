"""What the context layers and the request building remember between passes."""

from __future__ import annotations

from attrs import field

from ..blocks import Block
from ..frozen import frozen
from ..messages import Message
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
    """What was sent for the working list, so that only what is new is normalised and encoded.

    Attributes:
        wires: encoded messages, in order.
        ends: of each wire message, how many source messages it and those before it stand for.
        sources: the messages of the view that were encoded; compared to notice a cut.
        key: the parameters that the encoding depended on (model, betas, thinking, user context); another key makes all
            anew.
        calls: ids of all tool calls in ``wires``, in sets of falling size, so that adding one is cheap.
        thinking: some of them hold thinking.
        chunks: bodies of ``wires`` joined once, :data:`fsm_agent.core.wire.CHUNK` at a time.
    """

    wires: tuple[WireMessage, ...] = field(default=(), repr=False)
    ends: tuple[int, ...] = field(default=(), repr=False)
    sources: tuple[Message, ...] = field(default=(), repr=False)
    key: str = ""
    calls: tuple[frozenset[str], ...] = field(default=(), repr=False)
    thinking: bool = False
    chunks: tuple[bytes, ...] = field(default=(), repr=False)


@frozen
class Tally:
    """Incremental facts about the view of the last pass, so that a pass costs what is new.

    Attributes:
        view: the messages that were counted; compared to notice a cut.
        tokens: sum of their estimates.
        clearable: (tool_use_id, tokens freed) of results that microcompact may clear, oldest first.
        clearable_tokens: their sum.
        request: index of the newest real user request, -1 if there is none.
        media: images and documents.
        media_bytes: their encoded size.
        key: the settings that the counts depend on; other settings make all anew.
        front: a view of an earlier pass that is known to be the front of ``view``.
    """

    view: tuple[Message, ...] = field(default=(), repr=False)
    tokens: int = 0
    clearable: tuple[tuple[str, int], ...] = ()
    clearable_tokens: int = 0
    request: int = -1
    media: int = 0
    media_bytes: int = 0
    key: str = ""
    front: tuple[Message, ...] = field(default=(), repr=False)


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
        drop_thinking: the next pass removes all thinking from the view (after a compaction on a model that binds
            thinking, or when the API objected to thinking).
        thinking_cut: thinking was removed behind a cut, so requests ask the API to drop what no longer fits.
        task_remaining: remaining of the API's task budget, None before the first compaction.
        task_start: tokens of the context when ``task_remaining`` was set.
        open_server_calls: a reply was kept whose server calls had no result yet; the next passes settle them.
        cleared: tokens that clearing edits took from the last request; the API takes them anew from each one.
    """

    base: TokenBase | None = None
    freed: int = 0
    replacements: tuple[Replacement, ...] = ()
    spans: tuple[Span, ...] = ()
    sent: Sent = Sent()
    tally: Tally = Tally()
    deferred: int = 0
    drop_thinking: bool = False
    thinking_cut: bool = False
    task_remaining: int | None = None
    task_start: int = 0
    open_server_calls: bool = False
    cleared: int = 0
