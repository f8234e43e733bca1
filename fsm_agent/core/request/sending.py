"""What was sent, brought up to date: only what is new is normalised and encoded (spec 02, append-only history)."""

from __future__ import annotations

import json

from ..config import LoopConfig
from ..context.api_block import holds_user_context
from ..context.store import Sent
from ..evolving import evolve
from ..memo import by_identity_and
from ..messages import UNSENT_KINDS, Message
from ..models import ModelInfo
from ..wire import CHAIN_START, CHUNK, WireMessage
from .encode import chunked, wire_of
from .head import betas
from .normalise import Rules, is_plain, normalise, opening
from .pairing import open_server_calls
from .prompt import USER_CONTEXT_ID, user_context, user_context_key


def bring_up_to_date(
    sent: Sent,
    view: tuple[Message, ...],
    config: LoopConfig,
    info: ModelInfo,
    *,
    keeps: bool,
    front: tuple[Message, ...] = (),
) -> Sent:
    """Encode what a view holds beyond what was sent.

    Args:
        sent: what was sent before.
        view: all messages to send; the user context is put in front here.
        config: settings.
        info: the model that is called.
        keeps: thinking may be sent.
        front: an older view that is known to be the front of ``view``; where it is what was sent, nothing is compared.

    Returns:
        What is sent now. Messages sent before keep their bytes up to the first one whose source changed.
    """
    values = betas(config, info)
    key = _key(config, info.name, keeps)
    kept = _kept(sent, view, key, front)
    new = view[len(kept.sources) :]
    if not new:
        return kept
    if kept.wires and kept.wires[-1].role != "system" and is_plain(new, kept.calls):
        return _encoded(kept, view, new, new)
    rules = Rules(
        model=info.name,
        thinking=keeps,
        system_messages=info.system_messages,
        betas=values,
        used=kept.calls,
        first=not kept.wires,
        pending=open_server_calls(kept.sources),
    )
    meta = user_context(config)
    made = _extend(kept, view, rules, meta)
    size = len(kept.wires)
    if 0 < size < len(made.wires) and kept.wires[-1].role == "system" and made.wires[size].role == "user":
        # A system message was last when it was sent, and is followed by the user now, which the API refuses (A2).
        made = _extend(Sent(key=key), view, evolve(rules, used=(), first=True), meta)
    return made


@by_identity_and
def _key(config: LoopConfig, model: str, keeps: bool) -> str:
    """Name the parameters that the encoding depends on."""
    info = config.info(model)
    return f"{model} {keeps} {info.system_messages} {user_context_key(config)} {','.join(betas(config, info))}"


def manual_fits(wires: tuple[WireMessage, ...]) -> bool:
    """Tell whether manual thinking may be on: a turn whose calls are being answered must have begun with it."""
    index = len(wires) - 1
    answers = False
    while index >= 0 and wires[index].role != "assistant":
        answers = answers or any(block["type"] == "tool_result" for block in json.loads(wires[index].body)["content"])
        index -= 1
    if index < 0 or not answers:
        return True
    while index > 0 and wires[index - 1].role == "assistant":
        index -= 1
    return json.loads(wires[index].body)["content"][0]["type"] in ("thinking", "redacted_thinking")


def _kept(sent: Sent, view: tuple[Message, ...], key: str, front: tuple[Message, ...]) -> Sent:
    """Keep what was sent as far as its sources still stand at the front; after a cut the rest is made anew."""
    if sent.key != key:
        return Sent(key=key)
    if not sent.wires or view is sent.sources:
        return sent
    count = len(sent.sources)
    if front is sent.sources or view[:count] == sent.sources:
        kept, end = len(sent.wires), count
    else:
        common = 0
        for old, new in zip(sent.sources, view, strict=False):
            if old is not new and old != new:
                break
            common += 1
        kept = 0
        while kept < len(sent.ends) and sent.ends[kept] <= common:
            kept += 1
        while kept and sent.wires[kept - 1].calls:
            kept -= 1  # calls and their results are paired together, so they are made anew together
        end = sent.ends[kept - 1] if kept else 0
    if kept and sent.wires[kept - 1].role == "assistant" and not _goes_on(view, end):
        # A paused reply that the user overtakes: whether its server calls may stay is decided anew.
        while kept and sent.wires[kept - 1].role == "assistant":
            kept -= 1
    return sent if kept == len(sent.wires) else _cut(sent, kept, key)


def _goes_on(view: tuple[Message, ...], index: int) -> bool:
    """Tell whether the assistant speaks next."""
    for item in view[index:]:
        if item.kind not in UNSENT_KINDS and item.blocks:
            return item.role == "assistant"
    return True


def _cut(sent: Sent, kept: int, key: str) -> Sent:
    if kept == 0:
        return Sent(key=key)
    wires = sent.wires[:kept]
    calls = frozenset(call for wire in wires for call in wire.calls)
    return Sent(
        wires=wires,
        ends=sent.ends[:kept],
        sources=sent.sources[: sent.ends[kept - 1]],
        key=key,
        calls=(calls,) if calls else (),
        thinking=any(wire.thinking for wire in wires),
        chunks=sent.chunks[: kept // CHUNK],
    )


def _extend(sent: Sent, view: tuple[Message, ...], rules: Rules, meta: Message | None) -> Sent:
    """Normalise and encode what follows."""
    start = len(sent.sources)
    new = view[start:]
    if not new:
        return sent
    shown = _shown(new, rules, meta)
    if not shown and not sent.wires:
        return Sent(key=sent.key)
    return _encoded(sent, view, new, shown)


def _encoded(sent: Sent, view: tuple[Message, ...], new: tuple[Message, ...], shown: tuple[Message, ...]) -> Sent:
    """Add the bytes of ``shown``, which is what normalisation made of the new messages."""
    more: list[WireMessage] = []
    chain = sent.wires[-1].chain if sent.wires else CHAIN_START
    for item in shown:
        wire = wire_of(item, chain)
        chain = wire.chain
        more.append(wire)
    wires = sent.wires + tuple(more)
    return Sent(
        wires=wires,
        ends=sent.ends + _ends(new, shown, len(sent.sources)),
        sources=view,
        key=sent.key,
        calls=_with_calls(sent.calls, frozenset([call for wire in more for call in wire.calls])),
        thinking=sent.thinking or True in [wire.thinking for wire in more],
        chunks=chunked(wires, sent.chunks),
    )


def _with_calls(calls: tuple[frozenset[str], ...], more: frozenset[str]) -> tuple[frozenset[str], ...]:
    """Add ids; sets of like size are joined, so there are few of them and each id is copied few times."""
    if not more:
        return calls
    while calls and len(calls[-1]) <= 2 * len(more):
        more |= calls[-1]
        calls = calls[:-1]
    return (*calls, more)


def _shown(new: tuple[Message, ...], rules: Rules, meta: Message | None) -> tuple[Message, ...]:
    """Normalise new messages; the very first ones with the user context in front, and so that the user begins."""
    if not rules.first:
        return normalise(new, rules)
    shown = normalise(_with_context(new, meta), rules)
    if meta is not None and shown == (meta,):
        return ()  # nothing but the user context: there is nothing to say
    first = opening(shown[0] if shown else None)
    return shown if first is None else (first, *shown)


def _with_context(new: tuple[Message, ...], meta: Message | None) -> tuple[Message, ...]:
    """Put the user context in front; behind the API's compaction block, which must be first."""
    if meta is None or any(map(holds_user_context, new)):
        return new
    for index, item in enumerate(new):
        if item.kind in UNSENT_KINDS or not item.blocks:
            continue
        if item.role == "assistant" and item.blocks[0].type == "compaction":
            return (*new[: index + 1], meta, *new[index + 1 :])
        break
    return (meta, *new)


def _ends(new: tuple[Message, ...], shown: tuple[Message, ...], start: int) -> tuple[int, ...]:
    """Tell how many sources each message stands for, with those before it.

    A message stands for its own source and all that follow it up to that of the next message. Where normalisation moved
    or invented something, all of them depend on all sources.
    """
    stop = start + len(new)
    if shown is new and len({item.id for item in new}) == len(new):
        return tuple(range(start + 1, stop + 1))
    order = {item.id: start + index for index, item in enumerate(new)}
    places: list[int] = []
    for item in shown:
        place = order.get(item.id, -1)
        if item.id == USER_CONTEXT_ID:
            place = places[-1] + 1 if places else start
        places.append(place)
    regular = len(order) == len(new) and all(place >= 0 for place in places) and places == sorted(places)
    if not regular:
        return (stop,) * len(shown)
    return (*places[1:], stop) if places else ()
