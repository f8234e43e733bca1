"""Building a request: only what is new is normalised and encoded; what was sent keeps its bytes (spec 02)."""

from __future__ import annotations

import json

from attrs import evolve, frozen

from ..config import LoopConfig
from ..context.store import ContextState, Sent
from ..context.usage import count_view
from ..messages import UNSENT_KINDS, Message
from ..models import ModelInfo
from ..wire import CHAIN_START, Request, Unsendable, WireMessage
from .encode import wire_of
from .head import betas, head_of, keeps_thinking, manual_only, max_tokens
from .normalise import Rules, normalise, opening
from .prompt import USER_CONTEXT_ID, user_context

__all__ = ["Built", "build", "max_tokens"]

_SECOND_MARK = 18
"""New blocks from which a second cache mark is put at the old tail; the API looks back 20 blocks from a mark."""


@frozen
class Built:
    """A request, and the memory of what it sends."""

    request: Request
    context: ContextState


def build(
    view: tuple[Message, ...],
    context: ContextState,
    config: LoopConfig,
    model: str,
    max_output_override: int | None = None,
    run_prefix: str = "",
    *,
    allow_prefill: bool = False,
) -> Built | Unsendable:
    """Make the request of a view.

    Args:
        view: the messages, as the pipeline left them.
        context: the memory of the layers.
        config: settings.
        model: the model that is called.
        max_output_override: an escalated output limit in tokens.
        run_prefix: unique prefix for ids; requests need none, so it is accepted and not used.
        allow_prefill: the last message may be the assistant's (a paused reply goes back as it is).

    Returns:
        The request with the context that remembers it, or what makes it impossible. Never raises for any messages.
    """
    info = config.info(model)
    sources = _sources(view, config)
    wanted = keeps_thinking(config, info) and not context.drop_thinking
    sent = _send(context.sent, sources, config, info, keeps=wanted)
    possible = not wanted or not manual_only(config, info) or _manual_fits(sent.wires)
    if not possible:
        sent = _send(context.sent, sources, config, info, keeps=False)
    fault = _fault(sent, view, allow_prefill)
    if fault is not None:
        return fault
    _, estimate = count_view(view, context, config, model)
    limit = max_tokens(config, model, max_output_override, estimate)
    head = head_of(config, model, context, limit, thinking=sent.thinking if possible else None)
    request = Request(
        model=model,
        max_tokens=limit,
        head=head.json,
        messages=sent.wires,
        betas=head.betas,
        marks=_marks(sent.wires, len(context.sent.wires)) if config.prompt_caching else (),
        estimate=estimate,
    )
    return Built(request=request, context=evolve(context, sent=sent))


def _send(sent: Sent, sources: tuple[Message, ...], config: LoopConfig, info: ModelInfo, *, keeps: bool) -> Sent:
    """Bring what was sent up to date with the sources.

    Args:
        sent: what was sent before.
        sources: all messages to send.
        config: settings.
        info: the model that is called.
        keeps: thinking may be sent.
    """
    values = betas(config, info)
    kept = _kept(sent, sources, f"{info.name} {keeps} {info.system_messages} {','.join(values)}")
    rules = Rules(
        model=info.name,
        thinking=keeps,
        system_messages=info.system_messages,
        betas=values,
        used=kept.calls,
        first=not kept.wires,
    )
    made = _extend(kept, sources, rules)
    if _breaks_system(made):
        made = _extend(Sent(key=kept.key), sources, evolve(rules, used=(), first=True))
    return made


def _manual_fits(wires: tuple[WireMessage, ...]) -> bool:
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


def _sources(view: tuple[Message, ...], config: LoopConfig) -> tuple[Message, ...]:
    """Put the user context in front; behind the API's compaction block, which must be first."""
    meta = user_context(config)
    if meta is None:
        return view
    for index, item in enumerate(view):
        if item.kind in UNSENT_KINDS or not item.blocks:
            continue
        if item.role == "assistant" and item.blocks[0].type == "compaction":
            return (*view[: index + 1], meta, *view[index + 1 :])
        break
    return (meta, *view)


def _kept(sent: Sent, sources: tuple[Message, ...], key: str) -> Sent:
    """Keep what was sent as far as its sources still stand at the front; after a cut the rest is made anew."""
    if sent.key != key:
        return Sent(key=key)
    count = len(sent.sources)
    if sources[:count] == sent.sources:
        return sent
    common = 0
    for old, new in zip(sent.sources, sources, strict=False):
        if old is not new and old != new:
            break
        common += 1
    kept = 0
    while kept < len(sent.ends) and sent.ends[kept] <= common:
        kept += 1
    while kept and sent.wires[kept - 1].calls:
        kept -= 1  # calls and their results are paired together, so they are made anew together
    if kept == 0:
        return Sent(key=key)
    wires = sent.wires[:kept]
    calls = tuple(call for wire in wires for call in wire.calls)
    end = sent.ends[kept - 1]
    return Sent(
        wires=wires,
        ends=sent.ends[:kept],
        sources=sent.sources[:end],
        key=key,
        calls=calls,
        thinking=any(wire.thinking for wire in wires),
    )


def _breaks_system(sent: Sent) -> bool:
    """Tell whether a system message that was last when it was sent is now followed by the user (api-facts A2)."""
    for before, after in zip(sent.wires[-8:], sent.wires[-7:], strict=False):
        if before.role == "system" and after.role == "user":
            return True
    return False


def _extend(sent: Sent, sources: tuple[Message, ...], rules: Rules) -> Sent:
    """Normalise and encode what follows."""
    start = len(sent.sources)
    new = sources[start:]
    if not new:
        return sent
    shown = normalise(new, rules)
    if not sent.wires and len(shown) == 1 and shown[0] in new and shown[0].id == USER_CONTEXT_ID:
        # Nothing but the user context: there is nothing to say.
        return Sent(key=sent.key)
    if not sent.wires:
        front = opening(shown[0] if shown else None)
        if front is not None:
            shown = (front, *shown)
    more: list[WireMessage] = []
    chain = sent.wires[-1].chain if sent.wires else CHAIN_START
    for item in shown:
        wire = wire_of(item, chain)
        chain = wire.chain
        more.append(wire)
    return Sent(
        wires=sent.wires + tuple(more),
        ends=sent.ends + _ends(new, shown, start),
        sources=sources,
        key=sent.key,
        calls=sent.calls + tuple(call for wire in more for call in wire.calls),
        thinking=sent.thinking or any(wire.thinking for wire in more),
    )


def _ends(new: tuple[Message, ...], shown: tuple[Message, ...], start: int) -> tuple[int, ...]:
    """Tell how many sources each message stands for, with those before it.

    A message stands for its own source and all that follow it up to that of the next message. Where normalisation moved
    or invented something, all of them depend on all sources.
    """
    stop = start + len(new)
    order = {item.id: start + index for index, item in enumerate(new)}
    places = [order.get(item.id, -1) for item in shown]
    regular = len(order) == len(new) and all(place >= 0 for place in places) and places == sorted(places)
    if not regular:
        return (stop,) * len(shown)
    return (*places[1:], stop) if places else ()


def _fault(sent: Sent, view: tuple[Message, ...], allow_prefill: bool) -> Unsendable | None:
    last = view[-1].id if view else ""
    if not sent.wires:
        return Unsendable(message_id=last, rule="no message has content that could be sent")
    if sent.wires[-1].role == "assistant" and not allow_prefill:
        return Unsendable(message_id=last, rule="the last message must be from the user")
    return None


def _marks(wires: tuple[WireMessage, ...], before: int) -> tuple[tuple[int, int], ...]:
    """Place cache marks: on the tail, and on the old tail where so much is new that the look-back would miss it."""
    tail = _mark_at(wires, len(wires) - 1)
    marks = [tail] if tail is not None else []
    if 0 < before < len(wires) and sum(wire.blocks for wire in wires[before:]) >= _SECOND_MARK:
        old = _mark_at(wires, before - 1)
        if old is not None and old not in marks:
            marks.insert(0, old)
    return tuple(marks)


def _mark_at(wires: tuple[WireMessage, ...], index: int) -> tuple[int, int] | None:
    while index >= 0:
        offsets = wires[index].offsets
        for block in range(len(offsets) - 1, -1, -1):
            if offsets[block]:
                return index, block
        index -= 1
    return None
