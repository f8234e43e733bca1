"""From raw stream events to model items: the one place where a stream is folded (spec 03, api-facts A4). Pure.

Nothing is decided by class or by a list of known words: what is not understood is kept as it came and handed on
as :class:`~fsm_agent.core.outputs.RawStreamEvent`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from attrs import evolve

from ..core.blocks import Block, clean_text
from ..core.events import BlockCompleted, StreamFailed, StreamStarted, ToolTraits, ToolUse
from ..core.failures import ErrorKind, ModelFailure
from ..core.outputs import RawStreamEvent, TextDelta, ThinkingDelta
from .block_fold import KNOWN_DELTAS, BadDelta, OpenBlock
from .error_table import classify_body, failure
from .ports import ModelItem
from .reply_end import ReplyEnd
from .sse import SseEvent
from .strict_json import StrictInput, parse_value
from .usage_reader import Counts, Price

RAW_INPUT_CHARS = 20_000
"""Characters of a call's raw input that go into its event."""

_EVENTS = frozenset(
    {"message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop"}
)

Traits = Callable[[str, str | None], ToolTraits]


def no_traits(name: str, input_json: str | None) -> ToolTraits:
    """Say of every tool that it is unknown."""
    return ToolTraits(known=False)


def free(model: str, counts: Counts) -> int:
    """Price every token at nothing."""
    return 0


class StreamFold:
    """Folds the events of one attempt.

    Feed it each event, then :meth:`end` at the end of the stream, or :meth:`cut` when it broke. After the item
    that ends the attempt (``StreamCompleted`` or ``StreamFailed``) it is ``done`` and gives nothing more.

    Args:
        call: id of the ``CallModel``.
        traits: what a tool says of a call, by name and canonical input.
        price: cost of tokens.
        raw_events: hand every event on as it came, not only those that are not understood.
        request_id: the API's id of the request, for failures.
        model: the model that was asked, for usage until the reply names its own.
    """

    def __init__(
        self,
        call: str,
        traits: Traits = no_traits,
        price: Price = free,
        *,
        raw_events: bool = False,
        request_id: str = "",
        model: str = "",
    ) -> None:
        self.done = False
        self.beats = 0
        """Events other than pings so far: what a watchdog looks at."""
        self._call = call
        self._traits = traits
        self._price = price
        self._raw_events = raw_events
        self.request_id = request_id
        self._model = model
        self._message_id: str | None = None
        self._blocks: dict[int, OpenBlock] = {}
        self._queue: deque[OpenBlock] = deque()
        self._count = 0
        self._stopped = False
        self._end = ReplyEnd()
        self._half: dict[int, str] = {}

    @property
    def usage(self) -> Mapping[str, Any]:
        """The raw usage so far: the last value of each field."""
        return self._end.usage

    # Feeding

    def feed(self, event: SseEvent) -> list[ModelItem]:
        """Take one event and give the items that it completes; never raises for what the server sent."""
        if self.done or not (event.data or event.name):
            return []
        if event.name == "ping":
            return []
        self.beats += 1
        if event.data.strip() == "[DONE]":
            return self.end()
        value = _decode(event.data)
        if not isinstance(value, Mapping):
            if event.name == "error":
                return self.cut(classify_body(event.data, request_id=self.request_id))
            if not event.data and event.name not in _EVENTS:
                return []
            return self._malformed(f"the data of an event is no JSON object: {event.data[:80]!r}")
        word = value.get("type")
        kind = word if isinstance(word, str) and word else event.name
        if kind == "ping":
            self.beats -= 1
            return []
        try:
            items = self._take(kind, value)
        except BadDelta as error:
            return self._malformed(str(error))
        if self._raw_events or kind not in _EVENTS | {"error"} or _unknown_delta(kind, value):
            items.insert(0, RawStreamEvent(call=self._call, event=clean_text(event.data)))
        return items

    def end(self) -> list[ModelItem]:
        """The stream ended cleanly; without a stop reason that is a failure."""
        if self._message_id is None:
            return self.cut(failure(ErrorKind.EMPTY_STREAM, "the stream ended without a message", status=200))
        return self.cut(failure(ErrorKind.NO_MESSAGE_STOP, "the stream ended before a stop reason came", status=200))

    def cut(self, problem: ModelFailure) -> list[ModelItem]:
        """The stream broke; once a stop reason has come, the reply counts as complete all the same."""
        if self.done:
            return []
        if self._end.stop_reason is not None:
            return self._complete()
        return self.fail(problem)

    def fail(self, problem: ModelFailure) -> list[ModelItem]:
        """End the attempt as failed, whatever has come; the usage so far is kept."""
        self.done = True
        used = self._end.used(self._model, self._price)
        return [StreamFailed(id=self._call, failure=self._named(problem), usage=used)]

    # Single events

    def _take(self, kind: str, value: Mapping[str, Any]) -> list[ModelItem]:
        if kind == "message_start":
            return self._start(value)
        if kind == "error":
            return self.cut(classify_body(value, request_id=self.request_id))
        if kind not in _EVENTS:
            return []
        if self._message_id is None:
            raise BadDelta(f"{kind} came before message_start")
        match kind:
            case "content_block_start":
                return self._open(value)
            case "content_block_delta":
                return self._delta(value)
            case "content_block_stop":
                return self._close(value)
            case "message_delta":
                return self._message_delta(value)
            case _:
                return self._complete()

    def _start(self, value: Mapping[str, Any]) -> list[ModelItem]:
        message = value.get("message")
        if not isinstance(message, Mapping):
            raise BadDelta("message_start without a message")
        identity = _text(message.get("id"))
        if self._message_id is not None:
            if identity and identity == self._message_id and not self._count:
                return []  # A gateway said it twice; nothing has come in between.
            raise BadDelta("a second message_start came: two replies in one stream")
        self._message_id = identity
        self._model = _text(message.get("model")) or self._model
        items: list[ModelItem] = [StreamStarted(id=self._call, message_id=identity, model=self._model)]
        content = message.get("content")
        for block in content if isinstance(content, list) else []:
            if not isinstance(block, Mapping):
                raise BadDelta("message_start holds a block that is no object")
            self._add(self._count, OpenBlock(self._count, block, closed=True))
        self._end.read(message)
        items += self._deliver()
        return items

    def _open(self, value: Mapping[str, Any]) -> list[ModelItem]:
        block = value.get("content_block")
        index = _index(value)
        if not isinstance(block, Mapping):
            raise BadDelta("content_block_start without a block")
        if index in self._blocks:
            raise BadDelta(f"block {index} was started twice")
        opened = OpenBlock(self._count, block)
        self._add(index, opened)
        items: list[ModelItem] = self._deliver()
        for key, make in (("text", TextDelta), ("thinking", ThinkingDelta)):
            words = block.get(key)
            if opened.type == key and isinstance(words, str) and words:
                items.append(make(call=self._call, index=opened.position, text=clean_text(words)))
        return items

    def _add(self, index: int, block: OpenBlock) -> None:
        self._blocks[index] = block
        self._queue.append(block)
        self._count += 1

    def _delta(self, value: Mapping[str, Any]) -> list[ModelItem]:
        index = _index(value)
        block = self._blocks.get(index)
        delta = value.get("delta")
        if block is None or block.closed:
            raise BadDelta(f"a delta came for block {index}, which is not open")
        if not isinstance(delta, Mapping):
            raise BadDelta("content_block_delta without a delta")
        text = self._whole(block.position, block.add(delta))
        if not text:
            return []
        make = TextDelta if delta.get("type") == "text_delta" else ThinkingDelta
        return [make(call=self._call, index=block.position, text=text)]

    def _whole(self, position: int, text: str) -> str:
        """Hold back the first half of a character that two deltas share."""
        text = self._half.pop(position, "") + text
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._half[position] = text[-1]
            text = text[:-1]
        return clean_text(text)

    def _close(self, value: Mapping[str, Any]) -> list[ModelItem]:
        index = _index(value)
        block = self._blocks.get(index)
        if block is None:
            raise BadDelta(f"block {index} was stopped but never started")
        block.closed = True
        return self._deliver()

    def _message_delta(self, value: Mapping[str, Any]) -> list[ModelItem]:
        delta = value.get("delta")
        if isinstance(delta, Mapping):
            self._end.read(delta)
        self._end.read(value)
        if self._end.stop_reason is None:
            return []
        self._stopped = True
        return self._deliver()

    # Delivering

    def _deliver(self) -> list[ModelItem]:
        """Give what is complete, in the order of the reply.

        A call waits until the stream has gone on: a block that proves to be the last of a cut reply must not have
        started (spec 01, section 11).
        """
        items: list[ModelItem] = []
        while self._queue:
            block = self._queue[0]
            if not self._stopped and not (block.closed and (block.type != "tool_use" or len(self._queue) > 1)):
                break
            self._queue.popleft()
            items.append(self._completed(block))
        return items

    def _completed(self, block: OpenBlock) -> BlockCompleted:
        done, raw, parsed = block.finish()
        block.closed, closed = True, block.closed
        self._end.track(block.type, done.id, block.value)
        tool = None if parsed is None else self._tool(done, raw, parsed, closed=closed)
        last = tool is not None and self._stopped and not self._queue
        return BlockCompleted(id=self._call, index=block.position, block=done, tool=tool, last=last, closed=closed)

    def _tool(self, block: Block, raw: str, parsed: StrictInput, *, closed: bool) -> ToolUse:
        problem = parsed.problem or ("" if closed else "the stream ended inside it")
        return ToolUse(
            id=block.id,
            name=block.name,
            raw=raw[:RAW_INPUT_CHARS],
            input_json=parsed.json if closed else None,
            problem=problem,
            traits=self._ask(block.name, parsed.json if closed else None),
        )

    def _ask(self, name: str, input_json: str | None) -> ToolTraits:
        try:
            return self._traits(name, input_json)
        except Exception:  # a predicate that raises counts as unsafe and not read-only
            return ToolTraits()

    def _complete(self) -> list[ModelItem]:
        self._stopped = True
        items: list[ModelItem] = self._deliver()
        self.done = True
        items.append(self._end.completed(self._call, self._model, self._price))
        return items

    def _malformed(self, words: str) -> list[ModelItem]:
        return self.cut(failure(ErrorKind.MALFORMED_STREAM, words, status=200))

    def _named(self, problem: ModelFailure) -> ModelFailure:
        return problem if problem.request_id or not self.request_id else evolve(problem, request_id=self.request_id)


def _decode(data: str) -> object:
    try:
        return parse_value(data)
    except ValueError:
        return None


def _unknown_delta(kind: str, value: Mapping[str, Any]) -> bool:
    delta = value.get("delta")
    return kind == "content_block_delta" and isinstance(delta, Mapping) and delta.get("type") not in KNOWN_DELTAS


def _index(value: Mapping[str, Any]) -> int:
    index = value.get("index")
    if isinstance(index, bool) or not isinstance(index, int):
        raise BadDelta("an event of a block without an index")
    return index


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
