"""A scenario as the script of the loopback server (spec 04, testing kit)."""

from __future__ import annotations

import json
from typing import Any, assert_never

from ..core.failures import ErrorKind
from ..runtime.compact_text import ASK_SPAN, SUMMARY_SYSTEM
from ..scenario.answering import filled
from ..scenario.answers import (
    Ending,
    Failing,
    Item,
    OtherItem,
    Settle,
    SummarySpec,
    SummaryWord,
    TextItem,
    ThinkingItem,
    ToolItem,
)
from ..scenario.answers import Reply as Scripted
from ..scenario.faults import look_of, words_of
from ..scenario.format import Scenario
from ..scenario.playing import call_id, edits_of
from . import frames
from .replies import (
    BareEof,
    Blocks,
    Cut,
    Empty,
    HttpError,
    Insert,
    Late,
    NoAnswer,
    Part,
    Reply,
    ScriptExhausted,
    Stall,
    StreamError,
    compacts,
    says,
)
from .sizes import prompt_tokens

SETTLE_SECONDS = 0.25
"""How long a stream rests at a settle point: tools of scenarios take a few hundredths of a second."""
PIECE = 12
"""Characters of one piece of paced text."""
_ASK_SPAN = ASK_SPAN.partition("{")[0]
_BAD_FRAME = b'event: content_block_delta\ndata: {"type": "content_block_delta", "index": \n\n'


class ScenarioScript:
    """Answers calls of the model with the scenario's replies, and calls of the summariser with its summaries.

    Calls are numbered by kind, so that a summary that is asked for while the model streams moves nothing. The real
    summariser asks again after an unusable answer or a transient failure: the same transcript gets the same answer.

    Args:
        scenario: what to answer.
        repeat: begin anew after the last reply, for servers that stay up.
        settle_seconds: how long a stream rests at a settle point.
    """

    def __init__(self, scenario: Scenario, *, repeat: bool = False, settle_seconds: float = SETTLE_SECONDS) -> None:
        self._scenario = scenario
        self._repeat = repeat
        self._settle = settle_seconds
        self._calls = 0
        self._compactions: dict[str, int] = {}
        self._collapses: dict[str, int] = {}

    def reply(self, call: int, body: dict[str, Any]) -> Reply:
        """Give the reply to one accepted request.

        Raises:
            ScriptExhausted: if the scenario has none left.
        """
        if SUMMARY_SYSTEM in _words(body.get("system")):
            if _ASK_SPAN in _words(body["messages"][-1].get("content")):
                return self._summary(self._scenario.collapses, self._collapses, body, "collapse replies")
            return self._summary(self._scenario.compactor, self._compactions, body, "compactor replies")
        if "compaction" in body:
            return self._summary(self._scenario.compactor, self._compactions, body, "compactor replies", by_api=True)
        number = self._calls
        self._calls += 1
        replies = self._scenario.replies
        if replies and self._repeat:
            return served(replies[number % len(replies)], number, self._settle)
        if number >= len(replies):
            raise ScriptExhausted(f"scenario {self._scenario.name} has {len(replies)} replies, and this is call {number + 1}")
        return served(replies[number], number, self._settle)

    def _summary(
        self, specs: tuple[SummarySpec, ...], seen: dict[str, int], body: dict[str, Any], what: str, *, by_api: bool = False
    ) -> Reply:
        asked = json.dumps(body["messages"])
        if asked not in seen and len(seen) < len(specs) and 0 < specs[len(seen)].fits < prompt_tokens(body):
            return _too_long(prompt_tokens(body), specs[len(seen)].fits)
        number = seen.setdefault(asked, len(seen))
        if specs and self._repeat:
            return served_summary(specs[number % len(specs)], by_api=by_api)
        if number >= len(specs):
            raise ScriptExhausted(f"scenario {self._scenario.name} has {len(specs)} {what}, and this is number {number + 1}")
        return served_summary(specs[number], by_api=by_api)


def _too_long(tokens: int, most: int) -> Reply:
    return HttpError(400, message=f"prompt is too long: {tokens} tokens > {most} maximum")


def server_script(scenario: Scenario, *, repeat: bool = False) -> ScenarioScript:
    """Make the script of a server from a scenario."""
    return ScenarioScript(scenario, repeat=repeat)


def _words(content: Any) -> str:
    """Give the text of a system prompt or of a message's content."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "\n".join(str(block.get("text", "")) for block in content if isinstance(block, dict))


def served(reply: Scripted, call: int, settle_seconds: float = SETTLE_SECONDS) -> Reply:
    """Turn one reply of a scenario into what the server sends.

    Args:
        reply: the scenario's reply.
        call: number of the model call, from 0, for the ids of tool calls.
        settle_seconds: how long the stream rests at a settle point.

    Returns:
        The server's reply.
    """
    if not reply.streamed:
        return NoAnswer(seconds=None) if reply.failure is None else _refused(reply.failure)
    blocks = _blocks(reply, call)
    made = frames.make(blocks, frames.Asked(model="any"), frames.Ids())
    body = len(made.frames) - 2  # without message_delta and message_stop
    result = _ended(reply, blocks, body)
    starts = [place for place, frame in enumerate(made.frames) if frame.name == "content_block_start"]
    index = 0
    for item in reply.items:
        if isinstance(item, Settle):
            # The next block has begun, which is what delivers a call before it.
            result = Stall(of=result, after_frames=starts[index] + 1, seconds=settle_seconds)
        else:
            index += 1
    return result


def _blocks(reply: Scripted, call: int) -> Blocks:
    items = [item for item in reply.items if not isinstance(item, Settle)]
    parts: list[Part | Insert] = [_part(item, reply, call, index) for index, item in enumerate(items)]
    edits = json.loads(edits_of(reply)) if reply.cleared_tokens else None
    return Blocks(
        blocks=tuple(parts),
        stop_reason=reply.stop_reason if reply.ending is Ending.COMPLETE else "end_turn",
        stop_details=json.loads(reply.stop_details) if reply.stop_details else None,
        usage={"input_tokens": reply.input_tokens, "output_tokens": reply.output_tokens},
        applied_edits=None if edits is None else tuple(edits),
    )


def _part(item: Item, reply: Scripted, call: int, index: int) -> Part:
    pace = reply.pace_ms / 1000
    match item:
        case TextItem(text=text, open=is_open):
            return Part({"type": "text", "text": text}, chunks=_chunks(text, pace), pace=pace, closed=not is_open)
        case ThinkingItem(text=text, open=is_open):
            return Part({"type": "thinking", "thinking": text}, chunks=_chunks(text, pace), pace=pace, closed=not is_open)
        case ToolItem(name=name, raw=raw, open=is_open):
            block = {"type": "tool_use", "id": call_id(item, call, index), "name": name}
            return Part(block, raw=raw, chunks=_chunks(raw, pace), pace=pace, closed=not is_open)
        case OtherItem(json=text):
            return Part(json.loads(text))
        case Settle():
            raise AssertionError("a settle point is no block")
        case _:
            assert_never(item)


def _chunks(text: str, pace: float) -> int:
    return max(1, len(text) // PIECE) if pace else 1


def _refused(failing: Failing) -> Reply:
    """Answer without a stream: a status of the API, or a connection that ends."""
    look = look_of(failing)
    if look.status:
        message = words_of(failing)
        return HttpError(look.status, type=look.type, message=message, retry_after_ms=failing.retry_after_ms)
    match failing.kind:
        case ErrorKind.EMPTY_STREAM:
            return Empty()
        case ErrorKind.STALLED:
            return NoAnswer(seconds=None)
        case ErrorKind.NO_MESSAGE_STOP:
            return BareEof(of=Blocks(()), after_frames=1)
        case ErrorKind.MALFORMED_STREAM:
            return BareEof(of=Blocks((Insert(_BAD_FRAME),)), after_frames=2)
        case ErrorKind.FALLBACK_REQUESTED:
            return HttpError(500, message=words_of(failing), should_retry=False)
        case _:
            return NoAnswer(reset=True)


def _ended(reply: Scripted, blocks: Blocks, body: int) -> Reply:
    """Let a stream end as its reply says, behind the ``body`` frames of its blocks."""
    if reply.ending is Ending.COMPLETE:
        return blocks
    if reply.failure is None:
        return Stall(of=blocks, after_frames=body)
    match reply.failure.kind:
        case ErrorKind.EMPTY_STREAM:
            return Empty()
        case ErrorKind.STALLED:
            return Stall(of=blocks, after_frames=body)
        case ErrorKind.NO_MESSAGE_STOP:
            return BareEof(of=blocks, after_frames=body)
        case ErrorKind.MALFORMED_STREAM:
            bad = Blocks(blocks=(*blocks.blocks, Insert(_BAD_FRAME)), usage=blocks.usage)
            return BareEof(of=bad, after_frames=body + 1)
        case ErrorKind.CONNECTION_LOST | ErrorKind.ENGINE_ERROR | ErrorKind.FALLBACK_REQUESTED:
            return Cut(of=blocks, after_frames=body)
        case _:
            look = look_of(reply.failure)
            return StreamError(of=blocks, after_frames=body, type=look.type, message=words_of(reply.failure))


def served_summary(spec: SummarySpec, *, by_api: bool = False) -> Reply:
    """Turn one answer of the summariser into what the server sends; ``by_api`` for a compaction by the API itself."""
    answer: Reply
    match spec.word:
        case SummaryWord.SUMMARY:
            words = filled(spec.text, spec.chars)
            answer = compacts(words) if by_api else says(words)
        case SummaryWord.CUT:
            answer = says(filled(spec.text, spec.chars), stop_reason="max_tokens")
        case SummaryWord.EMPTY:
            answer = compacts(None) if by_api else Blocks((), stop_reason="end_turn")
        case SummaryWord.REFUSED:
            answer = Blocks((), stop_reason="refusal")
        case SummaryWord.HANG:
            return NoAnswer(seconds=None)
        case SummaryWord.FAILS:
            assert spec.failure is not None
            answer = _refused(spec.failure)
        case _:
            assert_never(spec.word)
    return Late(of=answer, seconds=spec.duration_ms / 1000) if spec.duration_ms else answer
