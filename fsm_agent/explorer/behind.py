"""What lies in the data of a state and will decide once ``preparing`` or ``deciding`` has looked at it.

How the view will be counted, what a compaction would find, the blocks of a reply in flight; and where layers rewrite old
places, what they will find there: which spans have summaries and where they stand, how large each message is, which results
can be cleared; and which messages hold thinking. Only what the configuration lets decide is told apart.
"""

from __future__ import annotations

import json
from typing import Any
from zlib import crc32

from ..core.blocks import dumps
from ..core.config import LoopConfig, Microcompact
from ..core.context.microcompact import mode
from ..core.context.store import Tally
from ..core.context.tally import CLEARED_TOKENS, extend
from ..core.control import Control
from ..core.effects import EffectKind
from ..core.memo import by_identity
from ..core.messages import REAL_REQUESTS, UNSENT_KINDS, Message, MessageKind
from ..core.models import ModelInfo
from ..core.phases import TERMINAL_SET, Cause, Phase
from ..core.state import CallData, Data, LoopState

Value = tuple[Any, ...]
"""Nested tuples of whole numbers."""

QUANTUM = 5_000
"""Tokens in one step of a count that later passes will move: coarse enough to hide the small texts around the sizes."""
SLACK = 1_000
"""Tokens by which small texts may bring a count below its step."""

CAUSE_NUMBERS = {cause: number for number, cause in enumerate(Cause)}
_LETTER = {
    "text": 1,
    "thinking": 2,
    "redacted_thinking": 2,
    "tool_use": 3,
    "server_tool_use": 4,
}


def step_of(tokens: int) -> int:
    """Give the step of a token count."""
    return (tokens + SLACK) // QUANTUM


def model_number(name: str, config: LoopConfig) -> int:
    """Give the place of a model among those of the configuration; -1 for none."""
    if name == config.model:
        return 0
    if name in config.fallback_models:
        return 1 + config.fallback_models.index(name)
    if not name:
        return -1
    return next((-2 - place for place, info in enumerate(config.models) if info.name == name), -99)


@by_identity
def models(config: LoopConfig) -> tuple[ModelInfo, ...]:
    """Give what is known of every model that a run may come to."""
    names = dict.fromkeys((config.model, *config.fallback_models, *(info.name for info in config.models)))
    return tuple(config.info(name) for name in names)


@by_identity
def clears(config: LoopConfig) -> bool:
    """Tell whether old results may be cleared in the view, with any model of the configuration."""
    return any(mode(config, info) is Microcompact.LOCAL for info in models(config))


@by_identity
def rewrites(config: LoopConfig) -> bool:
    """Tell whether layers rewrite old places of the view, so that what stands there still decides."""
    return config.context.snip or config.context.collapse or clears(config)


@by_identity
def thinks(config: LoopConfig) -> bool:
    """Tell whether a request may hold thinking, with any model of the configuration."""
    return any(info.thinking for info in models(config))


def behind(state: LoopState, config: LoopConfig, *, loops: bool = False) -> Value:
    """Give the part of an abstract value that comes from the data; ``loops``: rounds may repeat, so results decide."""
    control, data = state.control, state.data
    iteration, inbox = data.iteration, data.inbox
    if control.phase in TERMINAL_SET:
        terminal = data.terminal
        return (
            () if terminal is None else (CAUSE_NUMBERS[terminal.cause], terminal.error is not None),
            len(inbox.prefetched) > 0,
        )
    view = iteration.view or data.messages
    blocks = 0
    if control.phase is Phase.CALLING_MODEL:
        for position, block in enumerate(iteration.blocks):
            letter = _LETTER.get(block.type, 5)
            blocks = blocks * 32 + letter + 8 * block.blank + 16 * (position in iteration.unclosed)
        for call in iteration.calls:  # an id of an earlier round may come twice in this one
            blocks = blocks * 2 + (f"\n{call.use.id}\n" in data.call_ids)
    return (
        blocks,
        iteration.reply is not None,
        iteration.request is not None,
        _counted(view, data, control, config),
        shape(view),
        (len(inbox.attachments), len(inbox.prefetched), len(inbox.notices)),
        _large([item.tokens for _, item in inbox.commands]),
        data.context.open_server_calls,
        data.call_ids != "\n",
        _results(iteration.calls, config),
        tuple([_answer(call) for call in iteration.calls]) if loops else (),
        _places(view, data, config) if rewrites(config) else (),
        _spans(view, control, data) if config.context.collapse or data.context.spans else (),
        _thoughts(view, data) if thinks(config) else 0,
    )


def _counted(view: tuple[Message, ...], data: Data, control: Control, config: LoopConfig) -> Value:
    """Give how the next pass will count: the newest usage if it will be found, what follows it, and the whole view."""
    base = data.context.base
    known: Value = ()
    if base is not None:
        index, after = len(view), 0
        reply = data.iteration.reply
        if reply is None or reply.id != base.message_id:
            after = reply.tokens if reply is not None else 0
            for index in range(len(view) - 1, -2, -1):
                if index < 0 or view[index].id == base.message_id:
                    break
                after += view[index].tokens
        if index >= 0:
            known = (model_number(base.model, config), step_of(base.tokens - data.context.freed), step_of(after))
            if rewrites(config):
                known = (*known, index)
    tally = data.context.tally
    tokens = tally.tokens if tally.view is view else sum([item.tokens for item in view])
    return (*known, step_of(tokens))


def _large(sizes: list[int]) -> Value:
    """Give the sizes of what is not in the view yet, commands and results; empty while none is large."""
    steps = [step_of(size) for size in sizes]
    return tuple(steps) if any(steps) else ()


def _results(calls: tuple[CallData, ...], config: LoopConfig) -> Value:
    """Give the sizes of the results of the round in hand; where old ones are cleared, also which can be: each counts."""
    sizes = [0 if call.result is None else call.result.tokens for call in calls]
    if clears(config) and any(size > CLEARED_TOKENS for size in sizes):
        return tuple([step_of(size) * 2 + (size > CLEARED_TOKENS) for size in sizes])
    return _large(sizes)


def _answer(call: CallData) -> int:
    """Give what a call was answered as a number, whatever its id."""
    if call.result is None:
        return -1
    return crc32((call.digest or dumps(json.loads(call.result.json).get("content"))).encode())


def _places(view: tuple[Message, ...], data: Data, config: LoopConfig) -> Value:
    """Give what each message of the view is to a layer that may drop it or clear it: its size, its marks, its results."""
    context = data.context
    clearable: dict[str, int] = {}
    if clears(config):
        tally = context.tally if context.tally.view is view else extend(Tally(), view, config)
        clearable = dict(tally.clearable)
    found: list[int | Value] = []
    for item in view:
        value = step_of(item.tokens) * 2 + (item.kind is MessageKind.BOUNDARY)
        freed = [clearable[block.id] for block in item.results if block.id in clearable] if clearable else []
        found.append((value, len(freed), step_of(sum(freed))) if freed else value)
    return tuple(found)


def _spans(view: tuple[Message, ...], control: Control, data: Data) -> Value:
    """Give each span of the collapse store: how far it is, where it stands, what its summary is worth; and who is awaited."""
    spans = data.context.spans
    flight = [item.call for item in control.flight if item.kind is EffectKind.COLLAPSE]
    if not spans and not flight:
        return ()
    index = {item.id: place for place, item in enumerate(view)}
    shown = {item.span: place for place, item in enumerate(view) if item.span}
    found = []
    for span in spans:
        worth = span.tokens - (span.summary.tokens if span.summary is not None else 0)
        found.append(
            (
                (span.summary is not None) + 2 * span.committed,
                index.get(span.first, -1),
                index.get(span.last, -1),
                shown.get(span.id, -1),
                step_of(worth),
            )
        )
    names = [span.id for span in spans]
    return (tuple(found), tuple([names.index(name) if name in names else -1 for name in flight]))


def _thoughts(view: tuple[Message, ...], data: Data) -> int:
    """Give which messages hold thinking, the kept reply included, as a number; and whether it is to be taken out."""
    reply = data.iteration.reply
    value = 2 + data.context.drop_thinking
    for item in view if reply is None else (*view, reply):
        value = value * 2 + any(block.is_thinking for block in item.blocks)
    return value


def shape(view: tuple[Message, ...]) -> int:
    """Give the shape of a view as a number: who speaks in which order, where the newest request stands."""
    letters: list[int] = []
    newest = -1
    for item in view:
        kind = item.kind
        if kind in UNSENT_KINDS:
            continue
        if kind is MessageKind.ASSISTANT:
            letter = 2
        elif kind is MessageKind.TOOL_RESULTS:
            letter = 3
        elif kind is MessageKind.SUMMARY:
            letter = 4
        elif kind in REAL_REQUESTS:
            newest = len(letters)
            letter = 5
        else:
            letter = 6
        if item.tokens >= QUANTUM:
            letter += 8
        letters.append(letter)
    value = 1 + newest
    for letter in letters:
        value = value * 16 + letter
    return value
