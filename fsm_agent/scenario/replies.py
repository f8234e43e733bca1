"""Read the model's and the summariser's part of a scenario: replies, their blocks, failures."""

from __future__ import annotations

from typing import Any

from ..core.blocks import dumps
from ..core.failures import ErrorKind
from .answers import Ending, Failing, Item, OtherItem, Reply, Settle, SummarySpec, SummaryWord, TextItem, ThinkingItem, ToolItem
from .reading import Fields, fail, need_choice, need_list, need_mapping, need_text


def read_failing(value: Any, place: str) -> Failing:
    """Read ``fails``: the word of an error kind, or a mapping with ``kind`` and details."""
    if isinstance(value, str):
        return Failing(kind=need_choice(value, ErrorKind, place))
    fields = Fields(value, place)
    failing = Failing(
        kind=fields.choice("kind", ErrorKind),
        message=fields.text("message", ""),
        retry_after_ms=fields.whole("retry_after_ms", None),
        over_tokens=fields.whole("over_tokens", 0),
        media_path=fields.text("media_path", ""),
    )
    fields.done()
    return failing


def encode(value: Any, place: str) -> str:
    """Encode decoded YAML as strict JSON text."""
    try:
        return dumps(value)
    except (TypeError, ValueError) as error:
        raise fail(place, f"cannot be written as JSON: {error}") from None


def read_other(value: Any, place: str) -> OtherItem:
    """Read a block that is sent as it is."""
    block = need_mapping(value, place)
    need_text(block.get("type"), f"{place}.type")
    return OtherItem(json=encode(dict(block), place))


def _read_tool(fields: Fields) -> ToolItem:
    if "input" in fields and "raw" in fields:
        raise fail(fields.place, "give 'input' or 'raw', not both")
    raw = fields.text("raw", None)
    if raw is None:
        raw = encode(dict(need_mapping(fields.take("input", {}), fields.at("input"))), fields.at("input"))
    return ToolItem(name=fields.text("tool"), raw=raw, id=fields.text("id", None), open=fields.flag("open"))


def read_item(value: Any, place: str) -> Item:
    """Read one block or settle point of a reply."""
    if isinstance(value, str):
        if value in ("settle", "started"):
            return Settle(finish=value == "settle")
        raise fail(place, f"a lone word must be 'settle' or 'started', not {value!r}; write 'text: ...' for a text block")
    fields = Fields(value, place)
    words = [word for word in ("text", "thinking", "tool", "block") if word in fields]
    if len(words) != 1:
        for word in ("text", "thinking", "tool", "block"):
            fields.take(word, None)
        if not words:
            fields.done()
        raise fail(place, "must be one of: text, thinking, tool, block, or one of the words settle and started")
    item: Item
    if words == ["text"]:
        item = TextItem(text=fields.text("text"), open=fields.flag("open"))
    elif words == ["thinking"]:
        item = ThinkingItem(text=fields.text("thinking"), open=fields.flag("open"))
    elif words == ["tool"]:
        item = _read_tool(fields)
    else:
        item = read_other(fields.take("block"), fields.at("block"))
    fields.done()
    return item


def _check_items(items: tuple[Item, ...], place: str) -> None:
    last = len(items) - 1
    for index, item in enumerate(items):
        if isinstance(item, Settle) and (index == last or isinstance(items[index + 1], Settle)):
            # A call is delivered only once the stream has gone on, so a settle point needs a block behind it.
            raise fail(f"{place}.blocks[{index}]", "settle and started must be followed by a block (it may be 'open: true')")
        if not isinstance(item, (OtherItem, Settle)) and item.open and index != last:
            raise fail(f"{place}.blocks[{index}]", "only the last block can be open")


def read_reply(value: Any, place: str) -> tuple[Reply, int]:
    """Read one reply; gives it with the number of times that it is sent."""
    if isinstance(value, str):
        return Reply(items=(TextItem(value),)), 1
    fields = Fields(value, place)
    items = tuple(read_item(item, where) for item, where in fields.each("blocks"))
    _check_items(items, place)
    failure = read_failing(fields.take("fails"), fields.at("fails")) if "fails" in fields else None
    hangs = fields.flag("hangs")
    if failure is not None and hangs:
        raise fail(place, "give 'fails' or 'hangs', not both")
    if failure is not None and failure.retry_after_ms is not None and "blocks" in fields:
        raise fail(fields.at("fails"), "retry_after_ms is a header, which an error inside a stream lacks; leave out 'blocks'")
    if (failure is not None or hangs) and "stop_reason" in fields:
        raise fail(place, "a reply that fails or hangs has no stop_reason")
    calls = any(isinstance(item, ToolItem) for item in items)
    usage = Fields(fields.take("usage", {}), fields.at("usage"))
    reply = Reply(
        items=items,
        ending=Ending.FAILS if failure is not None else Ending.HANGS if hangs else Ending.COMPLETE,
        stop_reason=fields.text("stop_reason", "tool_use" if calls else "end_turn"),
        streamed="blocks" in fields,
        failure=failure,
        input_tokens=usage.whole("input", 100),
        output_tokens=usage.whole("output", 20),
        pace_ms=fields.whole("pace_ms", 0),
        stop_details=_details(fields),
        cleared_tokens=fields.whole("cleared_tokens", 0),
    )
    usage.done()
    times = int(fields.whole("times", 1, 1))
    fields.done()
    return reply, times


def _details(fields: Fields) -> str:
    value = fields.take("stop_details", None)
    return "" if value is None else encode(dict(need_mapping(value, fields.at("stop_details"))), fields.at("stop_details"))


def read_replies(value: Any, place: str) -> tuple[Reply, ...]:
    """Read the list of replies; one with ``times`` stands for so many."""
    replies: list[Reply] = []
    for item, where in need_list(value, place):
        reply, times = read_reply(item, where)
        replies.extend([reply] * times)
    return tuple(replies)


def read_summary(value: Any, place: str, usual_ms: int = 0) -> tuple[SummarySpec, int]:
    """Read one answer of the summariser; gives it with the number of times that it is sent."""
    if isinstance(value, str):
        plain = value in ("empty", "hang", "refused")
        word = SummaryWord(value) if plain else SummaryWord.SUMMARY
        return SummarySpec(word=word, text="" if plain else value, duration_ms=usual_ms), 1
    fields = Fields(value, place)
    words = [word for word in SummaryWord if word.value in fields]
    if len(words) != 1:
        raise fail(place, "must be one of: " + ", ".join(SummaryWord))
    word = words[0]
    failure = None
    text = ""
    if word is SummaryWord.FAILS:
        failure = read_failing(fields.take("fails"), fields.at("fails"))
    elif word in (SummaryWord.SUMMARY, SummaryWord.CUT):
        text = fields.text(word.value)
    else:
        fields.flag(word.value)
    spec = SummarySpec(
        word=word,
        text=text,
        chars=fields.whole("chars", 0),
        fits=fields.whole("fits", 0),
        failure=failure,
        duration_ms=fields.whole("duration_ms", usual_ms),
    )
    times = int(fields.whole("times", 1, 1))
    fields.done()
    return spec, times


def read_summaries(value: Any, place: str, usual_ms: int = 0) -> tuple[SummarySpec, ...]:
    """Read the answers of the summariser in order; ``usual_ms`` is how long one takes that does not say."""
    specs: list[SummarySpec] = []
    for item, where in need_list(value, place):
        spec, times = read_summary(item, where, usual_ms)
        specs.extend([spec] * times)
    return tuple(specs)
